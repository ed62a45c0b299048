package lifecycle

import (
	"fmt"
	"slices"
	"testing"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/condition"
	"millwright/planner/ledger"
	"millwright/services/lifecycle/garbage"
)

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

// Whoever makes a NodeClaim of what kubectl printed of another one is told why it goes.
func TestACopyOfANodeClaimIsToldWhyItGoes(t *testing.T) {
	r := newRig(t)
	first := r.kube.claims[r.readyClaims(1)[0]]
	o := &karpv1.NodeClaim{ObjectMeta: *first.ObjectMeta.DeepCopy(), Spec: first.Spec}
	o.Name, o.UID, o.ResourceVersion = "copy", "", ""
	r.kube.put(&r.kube.claims, o)
	r.run("claim closed", r.closed("copy"))
	if !r.hasEvent("NodeClaimWithdrawn") || len(r.ec2.instances) != 1 {
		t.Errorf("events %v, instances %v", r.events, r.ec2.describe())
	}
}

// The rule: lifecycle §7. Budgets count a Node whose NodeClaim does not say that its instance is gone.
func TestANodeClaimOutlivesItsNode(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("node ready", r.ready(name))
	finalize := func(change func([]string) []string) {
		n := r.kube.nodes["node-i-0001"].DeepCopy()
		n.Finalizers = change(n.Finalizers)
		r.kube.put(&r.kube.nodes, n)
		r.kube.sweepNode(n)
	}
	finalize(func(f []string) []string { return append(f, "example.com/other") })
	r.kube.deleteNode("node-i-0001")
	r.wait(time.Minute)
	o := r.kube.claims[name]
	if o == nil || !condition.IsTrue(o.Status.Conditions, karpv1.ConditionTypeInstanceTerminating) || r.ec2.running() != 0 {
		t.Fatalf("while the Node is kept: %v %v", r.ec2.describe(), r.kube.describe())
	}
	if got := r.kube.nodes["node-i-0001"].Finalizers; !slices.Equal(got, []string{"example.com/other"}) {
		t.Errorf("the Node has finalizers %v", got)
	}
	finalize(func([]string) []string { return nil })
	r.run("claim closed", r.closed(name))
	if len(r.kube.claims) != 0 || len(r.kube.nodes) != 0 {
		t.Errorf("left over: %v", r.kube.describe())
	}
}

// The terminator says that the node is drained at the moment at which its instance is ended.
func TestInstanceTerminatingSurvivesAConflict(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("node ready", r.ready(name))
	raced := false
	r.kube.meanwhile = func(after *karpv1.NodeClaim) {
		if !raced && condition.IsTrue(after.Status.Conditions, karpv1.ConditionTypeInstanceTerminating) {
			raced = true
			r.kube.put(&r.kube.claims, r.kube.claims[name].DeepCopy())
		}
	}
	r.kube.deleteNode("node-i-0001")
	r.run("claim closed", r.closed(name))
	if !raced || !r.hasEvent(karpv1.ConditionTypeInstanceTerminating) {
		t.Errorf("raced: %v, told %v", raced, r.events)
	}
}

// The rules: lifecycle §1, §9.
func TestNodeClaimsOfAnotherProviderDoNotKeepTheScanFromOurs(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("node ready", r.ready(name))
	foreign := r.kube.claims[name].DeepCopy()
	foreign.Name, foreign.UID = "foreign", "foreign"
	foreign.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.azure.com", Kind: "AKSNodeClass", Name: "default"}
	foreign.Status.ProviderID = "azure:///subscriptions/s/virtualMachines/vm-1"
	r.kube.put(&r.kube.claims, foreign)
	broken := foreign.DeepCopy() // ours, with an id that somebody wrote by hand
	broken.Name, broken.UID, broken.Spec.NodeClassRef = "broken", "broken", r.kube.claims[name].Spec.NodeClassRef
	broken.Status.ProviderID = "aws:///zone-a/vm-1"
	r.kube.put(&r.kube.claims, broken)
	r.ec2.instances[r.led.Claim(name).Instance.InstanceID].State = "terminated"
	r.run("the claim without an instance is collected", r.closed(name))
	if r.kube.claims["foreign"] == nil || !r.kube.claims["foreign"].DeletionTimestamp.IsZero() {
		t.Error("the other provider's NodeClaim is deleted")
	}
}

// stray makes n instances of the cluster that belong to no NodeClaim.
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
