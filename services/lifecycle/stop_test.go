package lifecycle

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"millwright/planner/condition"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
)

func (r *rig) stop(level ledger.Stop) {
	r.t.Helper()
	r.other(ledger.ServiceOperator, ledger.KindControlChanged, &ledger.ControlChanged{Stop: level, By: "test", Why: "trial"})
}

func (r *rig) registered(name string) func() bool {
	return func() bool {
		o := r.kube.claims[name]
		return o != nil && condition.IsTrue(o.Status.Conditions, karpv1.ConditionTypeInitialized)
	}
}

func TestAStopOfAllCreatesNothing(t *testing.T) {
	r := newRig(t)
	r.stop(ledger.StopAll)
	name := r.plan()
	r.wait(time.Minute)
	if len(r.kube.claims) != 0 || len(r.ec2.instances) != 0 {
		t.Fatalf("made in spite of the stop: %v %v", r.kube.describe(), r.ec2.describe())
	}
	r.stop(ledger.StopNone)
	r.run("node ready", r.ready(name))
}

func TestAStopOfAllBetweenRecordAndCallLeavesTheAttemptOpen(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.recorded = map[ledger.Kind]func(){ledger.KindLaunchRequested: func() { r.stop(ledger.StopAll) }}
	r.run("an attempt is open", func() bool { c := r.led.Claim(name); return c != nil && c.Open != nil })
	r.wait(time.Minute)
	if c := r.led.Claim(name); c.Open == nil || len(r.ec2.instances) != 0 {
		t.Fatalf("claim %+v, instances %v", c, r.ec2.describe())
	}
	r.recorded = nil
	r.stop(ledger.StopNone)
	r.run("node ready", r.ready(name))
	if n := r.count(ledger.KindLaunchRequested); n != 1 {
		t.Errorf("%d attempts, want the same one to be sent", n)
	}
}

func TestRegistrationGoesOnDuringAStopOfAll(t *testing.T) {
	r := newRig(t)
	r.noKubelet = true
	name := r.plan()
	r.run("launched", func() bool { c := r.led.Claim(name); return c != nil && c.Instance != nil })
	r.stop(ledger.StopAll)
	r.now = r.now.Add(20 * time.Minute) // its registration timeout has passed; what is stopped dooms nothing
	r.noKubelet = false
	r.run("initialized", r.registered(name))
	if r.led.Claim(name).Doomed != nil {
		t.Error("the claim was doomed")
	}
}

func TestAStopOfAllTerminatesNothing(t *testing.T) {
	cases := map[string]func(r *rig, name string){
		"a claim that a person deletes": func(r *rig, name string) { r.kube.deleteClaim(name) },
		"a claim that is drained":       func(r *rig, name string) { r.kube.deleteClaim(name); r.terminator() },
		"a Node that a person deletes":  func(r *rig, _ string) { r.kube.deleteNode("node-i-0001") },
		"a claim that expires": func(r *rig, name string) {
			o := r.kube.claims[name].DeepCopy()
			o.Spec.ExpireAfter = karpv1.NewDuration(time.Second)
			r.kube.put(&r.kube.claims, o)
		},
		"an instance without claim": func(r *rig, name string) {
			delete(r.kube.claims, name)
			delete(r.kube.nodes, "node-i-0001")
			r.other(ledger.ServiceLifecycle, ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: name, UID: r.led.Claim(name).UID})
		},
	}
	for what, end := range cases {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			name := r.plan()
			r.run("node ready", r.ready(name))
			r.stop(ledger.StopAll)
			end(r, name)
			r.wait(3 * time.Minute)
			if r.ec2.running() != 1 {
				t.Fatalf("terminated in spite of the stop: %v", r.ec2.describe())
			}
			r.stop(ledger.StopNone)
			r.run("all gone", func() bool { return r.ec2.running() == 0 && len(r.kube.claims) == 0 && len(r.kube.nodes) == 0 })
		})
	}
}

func TestAStopOfVoluntaryDisruptionLeavesTheRestAlone(t *testing.T) {
	r := newRig(t)
	r.stop(ledger.StopVoluntary)
	name := r.plan()
	r.run("node ready", r.ready(name))
	r.kube.deleteClaim(name)
	r.run("claim closed", r.closed(name))
}

func TestFinalizersGoDuringAStopOfAll(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("node ready", r.ready(name))
	r.kube.deleteClaim(name)
	r.run("asked to terminate", func() bool {
		return slices.ContainsFunc(r.trail, func(a string) bool { return strings.HasPrefix(a, "terminate") })
	})
	r.stop(ledger.StopAll)
	r.run("claim closed", r.closed(name))
}

func TestTheGuardRefusesRightBeforeTheCall(t *testing.T) {
	r := newRig(t)
	r.stop(ledger.StopAll)
	kube, ec2 := r.svc.deps.Kube, r.svc.deps.EC2
	ctx := context.Background()
	calls := map[string]func() error{
		"create nodeclaim": func() error { _, err := kube.CreateNodeClaim(ctx, &karpv1.NodeClaim{}); return err },
		"delete nodeclaim": func() error { return kube.DeleteNodeClaim(ctx, "x", "y") },
		"create fleet":     func() error { _, err := ec2.CreateFleet(ctx, nil); return err },
		"terminate":        func() error { return ec2.TerminateInstances(ctx, []string{"i"}) },
	}
	for what, call := range calls {
		if err := call(); err == nil || !strings.Contains(err.Error(), "stopped by an operator") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if len(r.trail) != 0 {
		t.Errorf("calls %v", r.trail)
	}
}
