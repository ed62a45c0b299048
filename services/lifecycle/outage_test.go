package lifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
)

// nothingAppended demands that nobody tried to write into a log that is away: there is no backlog.
func (r *rig) nothingAppended() {
	r.t.Helper()
	if len(r.unstored) > 0 {
		r.t.Errorf("appends while the log was away: %v", r.unstored)
	}
}

func TestNodesThatBootWhileTheLogIsAwayRegisterAndInitialize(t *testing.T) {
	r := newRig(t)
	r.noKubelet = true
	name := r.plan()
	r.run("launched", func() bool { c := r.led.Claim(name); return c != nil && c.Instance != nil })
	before := len(r.records)
	r.logAway, r.noKubelet = true, false
	r.run("initialized", r.registered(name))
	r.wait(time.Minute)
	n := r.kube.nodes["node-i-0001"]
	if n.Labels[karpv1.NodeRegisteredLabelKey] != "true" || n.Labels[karpv1.NodeInitializedLabelKey] != "true" {
		t.Errorf("labels %v", n.Labels)
	}
	if len(r.records) != before {
		t.Fatalf("records %v", r.kinds()[before:])
	}
	r.nothingAppended()
	r.logAway = false
	r.run("node ready", r.ready(name))
	r.run("recorded", func() bool { return r.led.Claim(name).State == ledger.ClaimInitializedState })
	if diff := cmp.Diff([]string{"ClaimRegistered", "ClaimInitialized"}, r.kinds()[before:]); diff != "" {
		t.Errorf("records after the outage (-want +got):\n%s", diff)
	}
}

func TestWhatIsDrainedIsTerminatedAndFinalizedWhileTheLogIsAway(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("node ready", r.ready(name))
	r.noDrain = true
	r.kube.deleteClaim(name)
	r.wait(5 * time.Second)
	r.noDrain = false
	r.terminator()
	if d := r.led.Drain("node-i-0001"); d == nil || d.Drained == 0 || r.ec2.running() != 1 {
		t.Fatalf("drain %+v, instances %v", d, r.ec2.describe())
	}
	before := len(r.records)
	r.logAway = true
	r.run("all gone", func() bool { return r.ec2.running() == 0 && len(r.kube.claims) == 0 && len(r.kube.nodes) == 0 })
	r.nothingAppended()
	r.logAway = false
	r.run("claim closed", r.closed(name))
	var kinds []string
	for _, rec := range r.records[before:] {
		if rec.Service == ledger.ServiceLifecycle {
			kinds = append(kinds, ledger.Kind(rec.Kind).String())
		}
	}
	if diff := cmp.Diff([]string{"InstanceTerminated", "ClaimClosed"}, kinds); diff != "" {
		t.Errorf("records after the outage (-want +got):\n%s", diff)
	}
}

func TestWhileTheLogIsAwayNothingIsDecidedOrCreated(t *testing.T) {
	r := newRig(t)
	ready := r.plan()
	r.run("node ready", r.ready(ready))
	planned := r.plan()
	o := r.kube.claims[ready].DeepCopy()
	o.Spec.ExpireAfter = karpv1.NewDuration(time.Second)
	r.kube.put(&r.kube.claims, o)
	r.logAway = true
	r.wait(5 * time.Minute)
	if len(r.kube.claims) != 1 || len(r.ec2.instances) != 1 || r.kube.claims[ready].DeletionTimestamp != nil {
		t.Errorf("claims %v, instances %v", r.kube.describe(), r.ec2.describe())
	}
	r.nothingAppended()
	r.logAway = false
	r.run("the expired one closed, the planned one ready", func() bool { return r.closed(ready)() && r.ready(planned)() })
}
