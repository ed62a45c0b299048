package lifecycle

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
	"millwright/services/lifecycle/claims"
)

// inherit puts a NodeClaim as another controller leaves it before it has recorded an instance.
func (r *rig) inherit(name string) {
	r.kube.put(&r.kube.claims, &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1, CreationTimestamp: metav1.NewTime(r.now.Add(-time.Hour)),
			Finalizers: []string{karpv1.TerminationFinalizer}, Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}},
		Spec: karpv1.NodeClaimSpec{NodeClassRef: &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"}},
	})
}

// launchElsewhere makes an instance with the tags another controller gives.
func (r *rig) launchElsewhere(id, claim string, age time.Duration) {
	r.ec2.instances[id] = &ec2.Instance{
		ID: id, State: "running", InstanceType: "m5.large", Zone: "eu-1a", CapacityType: "on-demand", LaunchTime: r.now.Add(-age),
		Tags: map[string]string{awsv1.TagNodePool: "default", awsv1.TagNodeClass: "default", awsv1.TagEKSClusterName: "test", awsv1.TagNodeClaim: claim},
	}
}

func TestAnInheritedClaimGetsTheInstanceItHas(t *testing.T) {
	r := newRig(t)
	r.inherit("theirs")
	r.launchElsewhere("i-later", "theirs", 10*time.Minute)
	r.launchElsewhere("i-first", "theirs", 50*time.Minute)
	r.run("node ready", r.ready("theirs"))
	if got := r.kube.claims["theirs"]; got.Status.ProviderID != "aws:///eu-1a/i-first" || got.Labels["node.kubernetes.io/instance-type"] != "m5.large" {
		t.Errorf("adopted %s, labels %v", got.Status.ProviderID, got.Labels)
	}
	if len(r.ec2.sent) != 0 || r.count(ledger.KindLaunchRequested) != 0 {
		t.Errorf("launched: %v", r.kinds())
	}
	r.run("the second instance is collected", func() bool { return r.ec2.instances["i-later"].State == "terminated" })
	if r.ec2.instances["i-first"].State != "running" {
		t.Error("the adopted instance was collected")
	}
}

func TestAnInheritedClaimWithoutInstanceIsDeletedNeverLaunched(t *testing.T) {
	r := newRig(t)
	r.inherit("theirs")
	began := r.now
	r.run("claim closed", func() bool { return len(r.kube.claims) == 0 && r.led.Claim("theirs") == nil })
	if r.now.Sub(began) < claims.SearchFor {
		t.Errorf("searched for %s only", r.now.Sub(began))
	}
	if len(r.ec2.sent) != 0 || r.count(ledger.KindClaimDoomed) != 1 {
		t.Errorf("records: %v", r.kinds())
	}
	for _, rec := range r.records {
		if ledger.Kind(rec.Kind) == ledger.KindClaimDoomed && replayDoom(t, rec.Payload) != "garbage_collected" {
			t.Errorf("doomed: %s", rec.Payload)
		}
	}
}

func TestAnInheritedClaimThatIsDeletedLeaksNoInstance(t *testing.T) {
	r := newRig(t)
	r.inherit("theirs")
	r.launchElsewhere("i-1", "theirs", time.Hour)
	r.kube.deleteClaim("theirs")
	r.run("claim closed", func() bool {
		if r.kube.claims["theirs"] == nil && r.ec2.running() != 0 {
			t.Fatal("finalized before its instance was ended")
		}
		return r.led.Claim("theirs") == nil && len(r.kube.claims) == 0
	})
	if r.count(ledger.KindOrphanFound) != 0 {
		t.Errorf("found as an orphan, not by its tag: %v", r.kinds())
	}
}

// The search goes on after a restart, and a claim is never launched although the flag that allowed the
// adoption is gone.
func TestAnInheritedClaimSurvivesRestarts(t *testing.T) {
	for _, f := range []fault{crashBefore, crashAfter, errorBefore, loseAnswer} {
		for at := 1; at <= 12; at++ {
			r := newRig(t)
			r.inherit("theirs")
			r.at, r.fault = at, f
			r.run("claim closed", func() bool { return len(r.kube.claims) == 0 && r.led.Claim("theirs") == nil && r.acts >= 3 })
			if len(r.ec2.sent) != 0 || len(r.ec2.instances) != 0 {
				t.Errorf("%s act %d: launched: %s", f, at, strings.Join(r.trail, ", "))
			}
		}
	}
}

// A step that saw what a scan has learned, but not yet that its breaker holds, would doom everything at once:
// both come together.
func TestTheBreakerComesWithTheFactsItHolds(t *testing.T) {
	r := newRig(t)
	for range 8 {
		r.plan()
	}
	r.run("all running", func() bool { return r.ec2.running() == 8 && r.count(ledger.KindClaimInitialized) == 8 })
	for _, i := range r.ec2.instances {
		i.State = "terminated"
	}
	raised, known := false, false
	r.recorded = map[ledger.Kind]func(){ledger.KindAlarmRaised: func() { // the scan has found out, and has yet to say so
		facts, _ := r.svc.found.Instance("i-0001", r.now)
		raised, known = true, facts.Gone()
	}}
	if err := r.svc.garbage.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !raised || known {
		t.Errorf("alarm: %v; the facts are known before the breaker is: %v", raised, known)
	}
	if facts, held := r.svc.found.Instance("i-0001", r.now); !facts.Gone() || !held {
		t.Errorf("after the scan: %+v, held: %v", facts, held)
	}
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
