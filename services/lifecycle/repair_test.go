package lifecycle

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/claim"
	"millwright/planner/ledger"
)

// ail gives the claim's Node a condition.
func (r *rig) ail(name string, kind corev1.NodeConditionType, status corev1.ConditionStatus) {
	for key, n := range r.kube.nodes {
		if n.Spec.ProviderID != r.led.Claim(name).Instance.ProviderID {
			continue
		}
		n = n.DeepCopy()
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status, Reason: "Broken", LastTransitionTime: metav1.NewTime(r.now)})
		r.kube.nodes[key] = n
		r.kube.put(&r.kube.nodes, n)
	}
}

// A node is replaced once its condition has lasted for as long as is tolerated, at once and with what it ran
// on in the record; without the feature gate nothing happens.
func TestNodeRepair(t *testing.T) {
	for gate, want := range map[bool]int{true: 1, false: 0} {
		r := newRig(t)
		o := planner.DefaultOptions()
		o.NodeRepair = gate
		r.other(ledger.ServiceLifecycle, ledger.KindOptionsSet, &ledger.OptionsSet{Options: planner.EncodeOptions(o)})
		name, instance := r.initialized()
		r.ail(name, "AcceleratedHardwareReady", corev1.ConditionFalse)
		r.minutes(9)
		if n := len(r.doomsOf(name)); n != 0 {
			t.Fatalf("%d dooms before the toleration has passed", n)
		}
		r.minutes(2)
		dooms := r.doomsOf(name)
		if len(dooms) != want {
			t.Fatalf("gate %t: %d dooms", gate, len(dooms))
		}
		if want == 0 {
			continue
		}
		d := dooms[0]
		if d.Reason != claim.ReasonUnhealthy || d.Deadline.IsZero() || d.Failed == nil || d.Failed.InstanceID != instance || d.Failed.Cause != "AcceleratedHardwareReady" ||
			d.Failed.InstanceType == "" || !strings.Contains(d.Message, "AcceleratedHardwareReady is False (Broken)") {
			t.Errorf("doom %+v, failed %+v", d, d.Failed)
		}
		r.run("claim closed", r.closed(name))
	}
}

// A Node that is replaced loses its pods at once, however long they may take, and its NodeClaim says so. The
// rules: lifecycle §10.
func TestNodeRepairEndsTheWaitForPods(t *testing.T) {
	for what, c := range map[string]struct {
		grace         time.Duration
		deletedBefore bool
	}{
		"without a grace period": {}, "with one": {grace: time.Hour},
		"of a claim that is going": {deletedBefore: true}, "and has a grace period": {grace: 2 * time.Hour, deletedBefore: true},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			o := planner.DefaultOptions()
			o.NodeRepair = true
			r.other(ledger.ServiceLifecycle, ledger.KindOptionsSet, &ledger.OptionsSet{Options: planner.EncodeOptions(o)})
			name, _ := r.initialized()
			r.noDrain = true
			if c.grace > 0 {
				claim := r.kube.claims[name].DeepCopy()
				claim.Spec.TerminationGracePeriod = &metav1.Duration{Duration: c.grace}
				r.kube.put(&r.kube.claims, claim)
			}
			if c.deletedBefore {
				r.kube.deleteClaim(name)
				r.minutes(1)
			}
			r.ail(name, "StorageReady", corev1.ConditionFalse)
			r.minutes(35)
			dooms := r.doomsOf(name)
			if len(dooms) != 1 || dooms[0].Reason != claim.ReasonUnhealthy {
				t.Fatalf("dooms %+v", dooms)
			}
			left := r.kube.claims[name]
			if got, want := left.Annotations[karpv1.TerminationTimestampAnnotationKey], dooms[0].Deadline.Format(time.RFC3339); got != want || left.DeletionTimestamp.IsZero() {
				t.Errorf("deadline %q, want %q; deleted at %s", got, want, left.DeletionTimestamp)
			}
		})
	}
}

// While more than a fifth of the NodePool's nodes are unhealthy, none is replaced, and people are told.
func TestNodeRepairIsHeldWhileManyAreUnhealthy(t *testing.T) {
	r := newRig(t)
	o := planner.DefaultOptions()
	o.NodeRepair = true
	r.other(ledger.ServiceLifecycle, ledger.KindOptionsSet, &ledger.OptionsSet{Options: planner.EncodeOptions(o)})
	first, _ := r.initialized()
	second, _ := r.initialized()
	for _, name := range []string{first, second} {
		r.ail(name, "StorageReady", corev1.ConditionFalse)
	}
	r.minutes(35)
	if n := len(r.doomsOf(first)) + len(r.doomsOf(second)); n != 0 || !r.hasEvent("NodeRepairBlocked") {
		t.Fatalf("%d dooms, told: %t", n, r.hasEvent("NodeRepairBlocked"))
	}
}

// A scheduled event ends the claim an hour before it begins, by its deadline; one that is taken back ends
// nothing.
func TestAScheduledEventEndsTheClaimInTime(t *testing.T) {
	r := newRig(t)
	name, instance := r.initialized()
	begins := r.now.Add(2 * time.Hour)
	send := func(op events.Op, object any) {
		r.observe(r.messages+1, events.Observation{Kind: events.KindInterruption, Op: op, Name: events.InterruptionName(instance, events.EventStatus), Object: object})
	}
	event := &events.Interruption{MessageKind: events.EventStatus, InstanceID: instance, At: r.now, ReceivedAt: r.now, NotBefore: begins, Deadline: begins, Detail: "instance-retirement"}
	send(events.OpUpsert, event)
	r.minutes(30)
	send(events.OpDelete, nil)
	r.minutes(45)
	if n := len(r.doomsOf(name)); n != 0 {
		t.Fatalf("%d dooms by an event that was taken back", n)
	}
	send(events.OpUpsert, event)
	r.run("claim closed", r.closed(name))
	if dooms := r.doomsOf(name); len(dooms) != 1 || dooms[0].Reason != events.EventStatus || !dooms[0].Deadline.Equal(begins) {
		t.Errorf("dooms %+v", dooms)
	}
}

func (r *rig) minutes(n int) {
	for range n {
		r.wait(time.Minute)
	}
}
