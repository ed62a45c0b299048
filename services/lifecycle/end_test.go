package lifecycle

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/claim"
	"millwright/planner/ledger"
)

func TestDooms(t *testing.T) {
	cases := map[string]struct {
		before func(*rig)
		after  func(*rig, string)
		reason string
		event  string // of which the claim's end is told
	}{
		"node never joins": {before: func(r *rig) { r.noKubelet = true }, after: func(r *rig, _ string) { r.now = r.now.Add(15 * time.Minute) }, reason: claim.ReasonRegistrationTimeout},
		"EC2 refuses for five minutes": {before: func(r *rig) {
			for range 50 {
				r.ec2.refuse = append(r.ec2.refuse, apiError("UnauthorizedOperation"))
			}
		}, after: func(*rig, string) {}, reason: claim.ReasonLaunchTimeout},
		"NodeClass not ready": {before: func(r *rig) {
			nc := r.kube.classes["default"].DeepCopy()
			nc.Status.Conditions[0].Status = "False"
			r.kube.put(&r.kube.classes, nc)
		}, after: func(*rig, string) {}, reason: claim.ReasonNodeClassNotReady, event: "NodeClassNotReady"},
		"NodeClass missing": {before: func(r *rig) { delete(r.kube.classes, "default") }, after: func(r *rig, _ string) { r.now = r.now.Add(time.Minute) },
			reason: claim.ReasonInsufficientCapacity, event: "InsufficientCapacityError"},
		"instance terminated behind our back": {before: func(*rig) {}, after: func(r *rig, _ string) { r.ec2.instances["i-0001"].State = "terminated" }, reason: claim.ReasonGarbageCollected},
		"NodePool deleted, claims orphaned":   {before: func(*rig) {}, after: func(r *rig, _ string) { delete(r.kube.pools, "default") }, reason: claim.ReasonNodePoolDeleted},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c.before(r)
			claimName := r.plan()
			r.wait(5 * time.Second)
			c.after(r, claimName)
			r.run("claim closed", r.closed(claimName))
			var reasons []string
			for _, rec := range r.records {
				if ledger.Kind(rec.Kind) == ledger.KindClaimDoomed {
					reasons = append(reasons, replayDoom(t, rec.Payload))
				}
			}
			if diff := cmp.Diff([]string{c.reason}, reasons); diff != "" {
				t.Errorf("dooms (-want +got):\n%s", diff)
			}
			if c.event != "" && !r.hasEvent(c.event) {
				t.Errorf("no event %s in %v", c.event, r.events)
			}
			r.wait(time.Minute)
			if r.ec2.running() != 0 || len(r.kube.nodes) != 0 {
				t.Errorf("left over: %v %v", r.ec2.describe(), r.kube.describe())
			}
		})
	}
}

func TestExpiry(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("node ready", r.ready(name))
	o := r.kube.claims[name].DeepCopy()
	o.Spec.ExpireAfter = karpv1.NewDuration(time.Hour)
	r.kube.put(&r.kube.claims, o)
	r.wait(time.Minute)
	if r.led.Claim(name).Doomed != nil {
		t.Fatal("doomed early")
	}
	r.now = r.now.Add(time.Hour)
	r.run("claim closed", r.closed(name))
}

func TestKubectlDeleteNode(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("node ready", r.ready(name))
	r.kube.deleteNode("node-i-0001")
	r.run("claim closed", r.closed(name))
	if r.ec2.running() != 0 || len(r.kube.nodes) != 0 {
		t.Errorf("left over: %v %v", r.ec2.describe(), r.kube.describe())
	}
}

// A Node without our finalizer goes at once when it is deleted, and a kubelet that runs does not register it
// again.
func TestAClaimWhoseNodeVanishedIsReplaced(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("node ready", r.ready(name))
	r.wait(time.Minute)
	node := r.kube.nodes["node-i-0001"]
	vanish := func() {
		bare := node.DeepCopy()
		bare.Finalizers = nil
		r.kube.put(&r.kube.nodes, bare)
		r.kube.deleteNode(node.Name)
	}
	vanish()
	r.wait(4 * time.Minute)
	if r.led.Claim(name).Doomed != nil {
		t.Fatal("doomed before kubelet had time to register again")
	}
	r.kube.put(&r.kube.nodes, node.DeepCopy())
	r.wait(time.Minute)
	vanish()
	r.wait(4 * time.Minute)
	if r.led.Claim(name).Doomed != nil {
		t.Fatal("doomed although the Node was there meanwhile")
	}
	r.run("claim closed", r.closed(name))
	var reasons []string
	for _, rec := range r.records {
		if ledger.Kind(rec.Kind) == ledger.KindClaimDoomed {
			reasons = append(reasons, replayDoom(t, rec.Payload))
		}
	}
	if diff := cmp.Diff([]string{claim.ReasonNodeGone}, reasons); diff != "" || r.ec2.running() != 0 {
		t.Errorf("dooms (-want +got):\n%s%v", diff, r.ec2.describe())
	}
}

func TestNothingIsTerminatedBeforeTheDrain(t *testing.T) {
	r := newRig(t)
	r.noDrain = true
	name := r.plan()
	r.run("node ready", r.ready(name))
	r.kube.deleteClaim(name)
	r.wait(3 * time.Minute)
	if r.ec2.running() != 1 || r.kube.claims[name] == nil || r.kube.nodes["node-i-0001"] == nil {
		t.Fatalf("%v %v", r.ec2.describe(), r.kube.describe())
	}
	if r.kube.nodes["node-i-0001"].DeletionTimestamp.IsZero() {
		t.Error("the drain was not asked for")
	}
	r.noDrain = false
	r.run("claim closed", r.closed(name))
}

// Who removes Karpenter takes its finalizers off. Without one a Node would go at once, with its pods on it,
// also while a cache that is late still shows the finalizer.
func TestANodeWithoutFinalizerIsDrained(t *testing.T) {
	for _, behind := range []time.Duration{0, 30 * time.Second} {
		t.Run(behind.String(), func(t *testing.T) {
			r := newRig(t)
			r.noDrain = true
			name := r.readyClaims(1)[0]
			r.kube.lag(behind)
			r.wait(time.Minute)
			bare := r.kube.nodes["node-i-0001"].DeepCopy()
			bare.Finalizers = nil
			r.kube.put(&r.kube.nodes, bare)
			r.wait(time.Second)
			r.kube.deleteClaim(name)
			r.wait(3 * time.Minute)
			if n := r.kube.nodes["node-i-0001"]; r.ec2.running() != 1 || n == nil || n.DeletionTimestamp.IsZero() {
				t.Fatalf("not waited for the drain: %v %v", r.ec2.describe(), r.kube.describe())
			}
			r.noDrain = false
			r.run("claim closed", r.closed(name))
			if len(r.kube.nodes) != 0 {
				t.Errorf("left over: %v", r.kube.describe())
			}
		})
	}
}

// Without the taint a Node may have pods before it is registered; they are evicted as those of any other.
func TestANodeThatJoinsWithoutTheTaintWhileItsClaimGoesIsDrained(t *testing.T) {
	for name, taints := range map[string][]corev1.Taint{"without": nil, "with": {karpv1.UnregisteredTaint()}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.noDrain, r.noKubelet = true, true
			name := r.plan()
			r.run("launched", func() bool { return r.kube.claims[name] != nil && r.kube.claims[name].Status.ProviderID != "" })
			r.kube.put(&r.kube.nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-i-0001", UID: "bare"},
				Spec: corev1.NodeSpec{ProviderID: r.kube.claims[name].Status.ProviderID, Taints: taints}})
			r.kube.deleteClaim(name)
			r.wait(time.Minute)
			if waits := r.ec2.running() == 1; waits != (taints == nil) {
				t.Fatalf("waits for a drain: %t; %v %v", waits, r.ec2.describe(), r.kube.describe())
			}
			r.noDrain = false
			r.run("claim closed", r.closed(name))
		})
	}
}

func TestGracePeriodStamp(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("node ready", r.ready(name))
	o := r.kube.claims[name].DeepCopy()
	o.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour}
	r.kube.put(&r.kube.claims, o)
	r.noDrain = true
	r.kube.deleteClaim(name)
	deleted := r.kube.claims[name].DeletionTimestamp.Time
	r.wait(3 * time.Second)
	if got, want := r.kube.claims[name].Annotations[karpv1.TerminationTimestampAnnotationKey], deleted.Add(time.Hour).UTC().Format(time.RFC3339); got != want {
		t.Errorf("stamp = %q, want %q", got, want)
	}
	if !r.hasEvent("TerminationGracePeriodExpiring") {
		t.Error("no event")
	}
}

// A timestamp that says nothing is no deadline that somebody else has fixed.
func TestATerminationTimestampThatCannotBeReadIsReplaced(t *testing.T) {
	r := newRig(t)
	r.noDrain = true
	name := r.readyClaims(1)[0]
	o := r.kube.claims[name].DeepCopy()
	o.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour}
	o.Annotations[karpv1.TerminationTimestampAnnotationKey] = "tomorrow at noon"
	r.kube.put(&r.kube.claims, o)
	r.wait(time.Minute)
	if got := r.kube.claims[name].Annotations[karpv1.TerminationTimestampAnnotationKey]; got != "tomorrow at noon" {
		t.Fatalf("the annotation of a NodeClaim that stays is now %q", got)
	}
	r.kube.deleteClaim(name)
	deleted := r.kube.claims[name].DeletionTimestamp.Time
	r.wait(3 * time.Second)
	if got, want := r.kube.claims[name].Annotations[karpv1.TerminationTimestampAnnotationKey], deleted.Add(time.Hour).UTC().Format(time.RFC3339); got != want {
		t.Errorf("the annotation is %q, want %q", got, want)
	}
}

// replayDoom decides a recorded doom again and returns its reason.
func replayDoom(t *testing.T, payload []byte) string {
	t.Helper()
	var d ledger.ClaimDoomed
	if err := json.Unmarshal(payload, &d); err != nil {
		t.Fatal(err)
	}
	if _, err := claim.Replay(&d); err != nil {
		t.Errorf("replay: %v", err)
	}
	return d.Reason
}

// The drain of a node that had the name before, and whose end the terminator has not recorded, says nothing
// of the one that has it now.
func TestANodeIsNotDrainedBecauseOneOfItsNameWas(t *testing.T) {
	r := newRig(t)
	r.noDrain = true
	claimName := r.readyClaims(1)[0]
	node := r.led.Claim(claimName).Node
	r.other(ledger.ServiceTerminator, ledger.KindDrainStarted, &ledger.DrainStarted{Node: node, Claim: "default-before", ClaimUID: "uid-before"})
	r.other(ledger.ServiceTerminator, ledger.KindNodeDrained, &ledger.NodeDrained{Node: node, Claim: "default-before", VolumesDetached: true})
	r.kube.deleteClaim(claimName)
	r.wait(time.Minute)
	if r.ec2.running() != 1 {
		t.Fatalf("the instance was ended with its pods: %v", r.ec2.describe())
	}
	r.other(ledger.ServiceTerminator, ledger.KindDrainEnded, &ledger.DrainEnded{Node: node})
	r.noDrain = false
	r.run("claim closed", r.closed(claimName))
}
