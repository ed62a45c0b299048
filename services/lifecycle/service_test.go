package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millwright/planner/condition"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/catalog"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/planner/nodepool"
	"millwright/planner/resource"
	"millwright/services/lifecycle/garbage"
	"millwright/services/lifecycle/launch"
)

func (r *rig) ready(name string) func() bool {
	return func() bool {
		o := r.kube.claims[name]
		return o != nil && condition.IsTrue(o.Status.Conditions, karpv1.ConditionTypeReady) && o.Annotations[awsv1.TaggedAnnotationKey] == "true"
	}
}

// readyClaims plans n claims, and returns their names once all are ready.
func (r *rig) readyClaims(n int) (names []string) {
	r.t.Helper()
	for range n {
		names = append(names, r.plan())
	}
	r.run("all claims are ready", func() bool {
		return !slices.ContainsFunc(names, func(name string) bool { return !r.ready(name)() })
	})
	return names
}

func (r *rig) closed(name string) func() bool {
	return func() bool { return r.led.Claim(name) == nil && r.kube.claims[name] == nil }
}

func (r *rig) lifecycleKinds() []string {
	var kinds []string
	for _, rec := range r.records {
		if rec.Service == ledger.ServiceLifecycle {
			kinds = append(kinds, ledger.Kind(rec.Kind).String())
		}
	}
	return kinds
}

func TestAClaimsWholeLife(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("node ready", r.ready(name))
	o := r.kube.claims[name]
	if o.Status.NodeName != "node-i-0001" || o.Status.ImageID != "ami-1" || o.Status.Capacity.Cpu().MilliValue() != 2000 ||
		o.Status.Allocatable.Cpu().MilliValue() != 1930 || o.Labels[corev1.LabelInstanceTypeStable] != "c5.large" {
		t.Errorf("status = %+v\nlabels = %v", o.Status, o.Labels)
	}
	n := r.kube.nodes["node-i-0001"]
	if len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "team" || n.Labels[karpv1.NodeInitializedLabelKey] != "true" ||
		n.Labels[karpv1.NodePoolLabelKey] != "default" || n.Labels[corev1.LabelTopologyZone] != "eu-1a" {
		t.Errorf("node taints %v labels %v", n.Spec.Taints, n.Labels)
	}
	if tags := r.ec2.instances["i-0001"].Tags; tags["Name"] != "node-i-0001" {
		t.Errorf("tags = %v", tags)
	}
	r.kube.deleteClaim(name)
	r.run("claim closed", r.closed(name))
	want := []string{"ClaimCreated", "LaunchRequested", "Launched", "ClaimRegistered", "ClaimInitialized", "InstanceTerminated", "ClaimClosed"}
	if diff := cmp.Diff(want, r.lifecycleKinds()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if len(r.kube.nodes) != 0 || r.ec2.running() != 0 {
		t.Errorf("left over: %v %v", r.kube.describe(), r.ec2.describe())
	}
	for _, reason := range []string{"Launched", "Registered", "Initialized", "Ready", "InstanceTerminating", "Finalized"} {
		if !r.hasEvent(reason) {
			t.Errorf("no event %s", reason)
		}
	}
}

func TestAfterItsLifeNothingIsWritten(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("node ready", r.ready(name))
	r.wait(5 * time.Second)
	acts := r.acts
	r.wait(2 * time.Minute)
	if r.acts != acts {
		t.Errorf("a settled claim was written %d times: %v", r.acts-acts, r.trail[acts:])
	}
}

// TestExactlyOnceWhateverFails meets every append and every call of a claim's life with every fault.
func TestExactlyOnceWhateverFails(t *testing.T) {
	clean := newRig(t)
	name := clean.plan()
	clean.run("node ready", clean.ready(name))
	clean.kube.deleteClaim(name)
	clean.run("claim closed", clean.closed(name))
	t.Logf("%d acts: %v", clean.acts, clean.trail)
	for _, f := range []fault{crashBefore, crashAfter, errorBefore, loseAnswer} {
		for at := 1; at <= clean.acts; at++ {
			t.Run(fmt.Sprintf("%s act %d %s", f, at, strings.ReplaceAll(clean.trail[at-1], " ", "-")), func(t *testing.T) {
				r := newRig(t)
				r.at, r.fault = at, f
				name := r.plan()
				r.run("node ready", r.ready(name))
				if r.ec2.running() != 1 {
					t.Fatalf("%d instances run: %v", r.ec2.running(), r.ec2.describe())
				}
				r.kube.deleteClaim(name)
				r.run("claim closed", r.closed(name))
				r.wait(2 * time.Minute) // garbage collection has had its turn
				if n := len(r.ec2.instances); n != 1 {
					t.Errorf("%d instances were launched: %v", n, r.ec2.describe())
				}
				if r.count(ledger.KindOrphanFound) != 0 || r.ec2.running() != 0 || len(r.kube.nodes) != 0 {
					t.Errorf("left over or orphaned: %v %v %v", r.kinds(), r.ec2.describe(), r.kube.describe())
				}
			})
		}
	}
}

func TestEveryCrashWithReadLag(t *testing.T) {
	for at := 1; at <= 20; at++ {
		r := newRig(t)
		r.ec2.lag = 20 * time.Second
		r.at, r.fault = at, crashAfter
		name := r.plan()
		r.run("launched", func() bool { c := r.led.Claim(name); return c != nil && c.Instance != nil })
		r.kube.deleteClaim(name) // while EC2 does not show the instance yet
		r.run("claim closed", r.closed(name))
		r.wait(2 * time.Minute)
		if r.ec2.running() != 0 || len(r.ec2.instances) != 1 {
			t.Errorf("act %d: instance leaked: %v %v", at, r.ec2.describe(), r.kinds())
		}
	}
}

func TestInsufficientCapacity(t *testing.T) {
	r := newRig(t)
	r.ec2.exhausted["c5.large"], r.ec2.exhausted["m5.large"] = true, true
	name := r.plan()
	r.run("claim closed", r.closed(name))
	want := []string{"ClaimCreated", "LaunchRequested", "LaunchFailed", "ClaimDoomed", "ClaimClosed"}
	if diff := cmp.Diff(want, r.lifecycleKinds()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	key := ledger.OfferingKey{InstanceType: "c5.large", Zone: "eu-1a", CapacityType: "on-demand"}
	if !r.led.Unavailable(key, r.now) {
		t.Error("the offering is not marked")
	}
	if !r.hasEvent("InsufficientCapacityError") {
		t.Error("no event")
	}
	// Every doom replays from its own record.
	for _, rec := range r.records {
		if ledger.Kind(rec.Kind) == ledger.KindClaimDoomed {
			replayDoom(t, rec.Payload)
		}
	}
	// A second claim is not even sent: no offering is left.
	sent := len(r.ec2.sent)
	second := r.plan()
	r.run("second closed", r.closed(second))
	if len(r.ec2.sent) != sent {
		t.Error("sent although every offering is marked")
	}
}

func TestPartialFleetMarksWhatFailed(t *testing.T) {
	r := newRig(t)
	r.ec2.exhausted["c5.large"] = true
	name := r.plan()
	r.run("node ready", r.ready(name))
	if got := r.kube.claims[name].Labels[corev1.LabelInstanceTypeStable]; got != "m5.large" {
		t.Errorf("launched %s", got)
	}
	if !r.led.Unavailable(ledger.OfferingKey{InstanceType: "c5.large", Zone: "eu-1a", CapacityType: "on-demand"}, r.now) {
		t.Error("the offering that failed is not marked")
	}
}

// TestAFleetThatSaysLittle: where an answer names only the instance, EC2 is asked about it, also if it is not
// visible at once.
func TestAFleetThatSaysLittle(t *testing.T) {
	r := newRig(t)
	r.ec2.terse, r.ec2.lag = true, 5*time.Second
	name := r.plan()
	r.run("node ready", r.ready(name))
	c := r.kube.claims[name]
	if c.Labels[corev1.LabelInstanceTypeStable] != "c5.large" || c.Labels[corev1.LabelTopologyZone] != "eu-1a" || c.Status.ProviderID != "aws:///eu-1a/i-0001" || c.Status.ImageID != "ami-1" {
		t.Errorf("%v %s %s", c.Labels, c.Status.ProviderID, c.Status.ImageID)
	}
	if n := len(r.ec2.instances); n != 1 {
		t.Errorf("%d instances", n)
	}
}

func TestUnknownOutcomes(t *testing.T) {
	cases := map[string]struct {
		refuse   []error
		mismatch bool
		attempts int
	}{
		"two lost calls are resent with the same token":  {refuse: []error{lostFleet, lostFleet}, attempts: 1},
		"throttling closes the attempt, another follows": {refuse: []error{apiError("RequestLimitExceeded")}, attempts: 2},
		"throttling after a lost call proves nothing":    {refuse: []error{lostFleet, apiError("RequestLimitExceeded")}, attempts: 1},
		"a missing template is made again":               {refuse: []error{apiError("InvalidLaunchTemplateId.NotFound")}, attempts: 2},
		"nor does a template that is gone by then":       {refuse: []error{lostFleet, apiError("InvalidLaunchTemplateId.NotFound")}, attempts: 1},
		"a refusal after a lost call is checked by tag":  {refuse: []error{lostFleet, apiError("UnauthorizedOperation")}, attempts: 1},
		"so is a quota that is full by then":             {refuse: []error{lostFleet, apiError("VcpuLimitExceeded")}, attempts: 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.ec2.refuse = c.refuse
			claimName := r.plan()
			r.run("node ready", r.ready(claimName))
			if got := r.count(ledger.KindLaunchRequested); got != c.attempts {
				t.Errorf("%d attempts, want %d: %v", got, c.attempts, r.kinds())
			}
			if len(r.ec2.instances) != 1 {
				t.Errorf("instances: %v", r.ec2.describe())
			}
		})
	}
}

func TestMismatchFindsTheInstanceByTag(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.at, r.fault = actOf(t, r, "create fleet"), loseAnswer
	r.ec2.mismatch = false
	r.run("attempt open", func() bool { c := r.led.Claim(name); return c != nil && c.Open != nil && len(r.ec2.instances) == 1 })
	r.ec2.mismatch, r.ec2.lag = true, 15*time.Second // EC2 does not show it at once
	r.run("node ready", r.ready(name))
	if len(r.ec2.instances) != 1 || r.count(ledger.KindLaunchRequested) != 1 {
		t.Errorf("%v %v", r.ec2.describe(), r.kinds())
	}
}

// actOf is the number of the act of this name in a clean run up to ready.
func actOf(t *testing.T, like *rig, name string) int {
	t.Helper()
	clean := newRig(t)
	claimName := clean.plan()
	clean.run("node ready", clean.ready(claimName))
	for i, n := range clean.trail {
		if n == name {
			return i + 1 + like.acts
		}
	}
	t.Fatalf("no act %s in %v", name, clean.trail)
	return 0
}

// A NodeClaim launches at most one instance: one that ended before its launch was recorded ends the claim,
// and its pods get another.
func TestATerminatedInstanceInTheAnswerEndsTheClaim(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.at, r.fault = actOf(t, r, "create fleet"), loseAnswer
	r.run("attempt open", func() bool { c := r.led.Claim(name); return c != nil && c.Open != nil && len(r.ec2.instances) == 1 })
	r.ec2.instances["i-0001"].State = "terminated"
	r.run("claim closed", r.closed(name))
	if r.count(ledger.KindLaunchRequested) != 1 || len(r.ec2.instances) != 1 || r.count(ledger.KindLaunched) != 1 {
		t.Errorf("%v %v", r.kinds(), r.ec2.describe())
	}
}

func TestAnOldAttemptIsSearchedNotSent(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.at, r.fault = actOf(t, r, "create fleet"), crashAfter
	r.run("attempt open", func() bool { c := r.led.Claim(name); return c != nil && c.Open != nil && len(r.ec2.instances) == 1 })
	sent := r.ec2.sent[r.led.Claim(name).Open.Token]
	r.now = r.now.Add(13 * time.Hour)
	r.kube.deleteClaim(name)
	token := r.led.Claim(name).Open.Token
	r.run("claim closed", r.closed(name))
	if r.ec2.sent[token] != sent {
		t.Error("a token older than EC2's memory was sent again")
	}
	if r.ec2.running() != 0 || r.count(ledger.KindLaunched) != 1 {
		t.Errorf("%v %v", r.kinds(), r.ec2.describe())
	}
}

func TestDeletionWithAnOpenAttemptWaits(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	lost := make([]error, 5)
	for i := range lost {
		lost[i] = lostFleet
	}
	r.ec2.refuse = lost
	r.run("attempt open", func() bool { c := r.led.Claim(name); return c != nil && c.Open != nil })
	r.kube.deleteClaim(name)
	r.run("claim closed", func() bool {
		if c := r.led.Claim(name); c != nil && c.Open != nil && r.kube.claims[name] == nil {
			t.Fatal("finalized with an open attempt")
		}
		return r.closed(name)()
	})
	if r.ec2.running() != 0 {
		t.Errorf("leaked: %v", r.ec2.describe())
	}
}

func TestDooms(t *testing.T) {
	cases := map[string]struct {
		before func(*rig)
		after  func(*rig, string)
		reason string
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
		}, after: func(*rig, string) {}, reason: claim.ReasonNodeClassNotReady},
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

func TestStrippedFinalizersLeakNothing(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("node ready", r.ready(name))
	delete(r.kube.claims, name)
	r.run("claim closed", r.closed(name))
	if r.ec2.running() != 0 || len(r.kube.nodes) != 0 {
		t.Errorf("left over: %v %v", r.ec2.describe(), r.kube.describe())
	}
}

func (r *rig) stray(n int, age time.Duration) {
	for range n {
		id := fmt.Sprintf("i-9%03d", len(r.ec2.instances))
		i := r.ec2.start(requestFor(r)).Instances[0]
		in := r.ec2.instances[i.ID]
		delete(r.ec2.instances, i.ID)
		in.ID, in.LaunchTime, in.State = id, r.now.Add(-age), "running"
		r.ec2.booted[id] = true
		r.ec2.instances[id] = in
	}
}

func TestOrphans(t *testing.T) {
	t.Run("an instance nothing names is terminated", func(t *testing.T) {
		r := newRig(t)
		r.stray(2, time.Minute)
		r.run("orphans gone", func() bool { return r.ec2.running() == 0 })
		if r.count(ledger.KindOrphanFound) != 2 {
			t.Errorf("records: %v", r.kinds())
		}
	})
	t.Run("a young one is left alone", func(t *testing.T) {
		r := newRig(t)
		r.stray(1, 0)
		r.wait(20 * time.Second)
		if r.ec2.running() != 1 {
			t.Error("terminated")
		}
	})
	t.Run("a young one of a closed attempt goes at sight", func(t *testing.T) {
		r := newRig(t)
		r.stray(1, 0)
		for _, i := range r.ec2.instances {
			i.Tags[awsv1.TagLaunch] = ledger.LaunchTag(r.LogID(), "closed", 1)
		}
		began := r.now
		r.run("orphan gone", func() bool { return r.ec2.running() == 0 })
		if took := r.now.Sub(began); took >= garbage.OrphanAge {
			t.Errorf("it took %s", took)
		}
	})
	t.Run("many at once raise an alarm once", func(t *testing.T) {
		r := newRig(t)
		r.stray(6, time.Hour)
		r.wait(3 * time.Minute)
		if r.ec2.running() != 6 || r.count(ledger.KindAlarmRaised) != 1 || r.count(ledger.KindOrphanFound) != 0 {
			t.Errorf("%v %v", r.ec2.describe(), r.kinds())
		}
	})
}

func TestGarbageCollectionBreaker(t *testing.T) {
	r := newRig(t)
	names := r.readyClaims(8)
	for i := 1; i <= 6; i++ {
		r.ec2.instances[fmt.Sprintf("i-%04d", i)].State = "terminated"
	}
	r.wait(3 * time.Minute)
	if r.count(ledger.KindClaimDoomed) != 0 || r.count(ledger.KindAlarmRaised) != 1 {
		t.Fatalf("records: %v", r.kinds())
	}
	for _, n := range names { // a person takes one away: five are left, which is no fault any more
		if r.led.Claim(n).Instance.InstanceID == "i-0001" {
			r.kube.deleteClaim(n)
		}
	}
	r.run("the others are collected", func() bool { return len(r.kube.claims) == 2 })
}

func TestAdoption(t *testing.T) {
	r := newRig(t)
	ref := &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"}
	r.kube.put(&r.kube.claims, &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "by-hand", Generation: 1, CreationTimestamp: metav1.NewTime(r.now)}, Spec: karpv1.NodeClaimSpec{NodeClassRef: ref},
	})
	r.run("node ready", r.ready("by-hand"))
	if !strings.HasPrefix(strings.Join(r.lifecycleKinds(), " "), "ClaimAdopted LaunchRequested Launched") {
		t.Errorf("records: %v", r.lifecycleKinds())
	}
	if fin := r.kube.claims["by-hand"].Finalizers; len(fin) != 1 {
		t.Errorf("finalizers = %v", fin)
	}
	r.kube.put(&r.kube.claims, &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "foreign"}, Spec: karpv1.NodeClaimSpec{NodeClassRef: &karpv1.NodeClassReference{Group: "other", Kind: "Class", Name: "x"}},
	})
	r.wait(5 * time.Second)
	if r.led.Claim("foreign") != nil {
		t.Error("a claim of another provider was touched")
	}
}

func TestAdoptedNodeIsNotWrittenAgain(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("node ready", r.ready(name))
	// The same cluster under a new, empty log: taints that were taken away must not come back.
	n := r.kube.nodes["node-i-0001"].DeepCopy()
	n.Spec.Taints = nil
	r.kube.put(&r.kube.nodes, n)
	other := newRig(t)
	other.kube.claims, other.kube.nodes, other.ec2.instances = r.kube.claims, r.kube.nodes, r.ec2.instances
	other.kube.version, other.now = r.kube.version, r.now
	other.ec2.booted = r.ec2.booted
	other.run("adopted", func() bool {
		c := other.led.Claim(name)
		return c != nil && c.State == ledger.ClaimInitializedState
	})
	if got := other.kube.nodes["node-i-0001"].Spec.Taints; len(got) != 0 {
		t.Errorf("taints came back: %v", got)
	}
	if len(other.ec2.sent) != 0 {
		t.Error("launched again")
	}
}

func TestNameTaken(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.kube.put(&r.kube.claims, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}})
	r.run("withdrawn", func() bool { return r.count(ledger.KindClaimWithdrawn) == 1 })
	if len(r.ec2.sent) != 0 {
		t.Error("launched for another's object")
	}
}

func TestPlannedClaimOfADeletedPoolIsWithdrawn(t *testing.T) {
	r := newRig(t)
	delete(r.kube.pools, "default")
	name := r.plan()
	r.run("withdrawn", func() bool { return r.led.Claim(name) == nil })
	if len(r.kube.claims) != 0 || r.count(ledger.KindClaimWithdrawn) != 1 {
		t.Errorf("%v %v", r.kube.describe(), r.kinds())
	}
}

func TestTheCacheMayLag(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.kube.hidden[name] = true
	r.run("launched", func() bool { c := r.led.Claim(name); return c != nil && c.Instance != nil })
	r.wait(90 * time.Second) // the watch hangs: scans still see the object
	if c := r.led.Claim(name); c == nil || r.ec2.running() != 1 || !r.kube.nodes["node-i-0001"].DeletionTimestamp.IsZero() {
		t.Fatalf("closed a claim whose object exists: %v", r.kinds())
	}
	r.kube.hidden[name] = false
	r.run("node ready", r.ready(name))
	if len(r.ec2.instances) != 1 {
		t.Errorf("%v", r.ec2.describe())
	}
}

func TestShadowModeDecidesOnceAndDoesNothing(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("node ready", r.ready(name))
	o := r.kube.claims[name].DeepCopy()
	o.Spec.ExpireAfter = karpv1.NewDuration(time.Second)
	r.kube.put(&r.kube.claims, o)
	r.mode = ledger.ModeShadow
	r.restart()
	acts := r.acts
	r.wait(time.Minute)
	if got := r.acts - acts; got != 1 {
		t.Errorf("%d acts in shadow mode: %v", got, r.trail[acts:])
	}
	if r.led.Claim(name).Doomed != nil {
		t.Error("a shadow doom counts")
	}
}

func TestNodePoolStatus(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("node ready", r.ready(name))
	r.wait(3 * time.Second)
	p := r.kube.pools["default"]
	if p.Annotations[karpv1.NodePoolHashAnnotationKey] != nodepool.Hash(p) {
		t.Errorf("annotations = %v", p.Annotations)
	}
	want := resource.Vector{MilliCPU: 2000, Memory: 8 << 30, Pods: 29}
	got := resource.From(p.Status.Resources)
	got.Set("nodes", 0)
	if d := got.Sub(want); !d.IsZero() {
		t.Errorf("resources = %+v", p.Status.Resources)
	}
	if p.Status.Nodes == nil || *p.Status.Nodes != 1 || !condition.IsTrue(p.Status.Conditions, "Ready") {
		t.Errorf("status = %+v", p.Status)
	}
	version := p.ResourceVersion
	r.wait(time.Minute)
	if r.kube.pools["default"].ResourceVersion != version {
		t.Error("written without a change")
	}
	bad := r.kube.pools["default"].DeepCopy()
	bad.Spec.Template.Labels = map[string]string{"karpenter.sh/custom": "x"}
	bad.Generation = 2
	r.kube.put(&r.kube.pools, bad)
	delete(r.kube.classes, "default")
	r.wait(3 * time.Second)
	p = r.kube.pools["default"]
	if c := condition.Get(p.Status.Conditions, "ValidationSucceeded"); c.Status != "False" || !strings.Contains(c.Message, "karpenter.sh/custom") {
		t.Errorf("validation = %+v", c)
	}
	if c := condition.Get(p.Status.Conditions, "NodeClassReady"); c.Reason != "NodeClassNotFound" {
		t.Errorf("class = %+v", c)
	}
	if c := condition.Get(p.Status.Conditions, "Ready"); c.Status != "False" {
		t.Errorf("ready = %+v", c)
	}
}

// requestFor is a request as the fake launcher makes it, for instances that belong to nothing.
func requestFor(r *rig) *awsec2.CreateFleetInput {
	built, err := fakeLauncher{r}.Build(context.Background(), launch.Input{
		Claim: &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "lost"}}, Types: []*catalog.InstanceType{{Hardware: &catalog.Hardware{Name: "m5.large"}}},
		Token: "t", LaunchTag: "other/lost/1",
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return built.Request
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
