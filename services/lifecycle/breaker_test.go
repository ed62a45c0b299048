package lifecycle

import (
	"testing"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/services/internal/service"
	"millwright/services/lifecycle/garbage"
)

const month = 31 * 24 * time.Hour

// expiringClaims has n claims ready that expire after so long.
func expiringClaims(r *rig, n int, expireAfter time.Duration) {
	for _, name := range r.readyClaims(n) {
		o := r.kube.claims[name].DeepCopy()
		o.Spec.ExpireAfter = karpv1.NewDuration(expireAfter)
		r.kube.put(&r.kube.claims, o)
	}
}

// One clock that is wrong, or one record written by such a clock, ends nothing: everything here stays healthy
// for another 720 hours.
func TestOneClockEndsNothing(t *testing.T) {
	for name, wrong := range map[string]func(r *rig){
		"the clock is a month ahead of the heartbeats": func(r *rig) { r.noHeartbeats = true; r.now = r.now.Add(month) },
		"the heartbeats are a month ahead of the clock": func(r *rig) {
			r.noHeartbeats = true
			r.now = r.now.Add(month)
			r.noHeartbeats = false
			_ = r.Snapshot(service.ForEffects, func(*planner.Snapshot) error { return nil })
			r.noHeartbeats = true
			r.now = r.now.Add(-month)
		},
		"a record is a month ahead": func(r *rig) {
			now := r.now
			r.now = now.Add(month)
			r.other(ledger.ServiceProvisioner, ledger.KindModeChanged, &ledger.ModeChanged{Service: ledger.ServiceProvisioner, Mode: ledger.ModeActive})
			r.now = now
		},
		"no heartbeat has come yet": func(r *rig) { r.noHeartbeats = true; r.restart(); r.now = r.now.Add(month) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			expiringClaims(r, 8, 720*time.Hour)
			wrong(r)
			late := r.plan() // its timeouts run by the same clocks
			r.wait(90 * time.Second)
			if n := r.count(ledger.KindClaimDoomed); n != 0 || r.led.Claim(late) == nil {
				t.Errorf("%d claims are doomed: %v", n, r.kinds())
			}
		})
	}
}

// Should all clocks agree on a wrong time, a few nodes go each minute, and people are told.
func TestTimeAloneIsPaced(t *testing.T) {
	r := newRig(t)
	expiringClaims(r, 20, 720*time.Hour)
	r.noDrain = true // what is doomed takes its time
	r.now = r.now.Add(month)
	doomed := func() int { return r.count(ledger.KindClaimDoomed) }
	r.wait(30 * time.Second)
	if doomed() != garbage.Floor || r.count(ledger.KindAlarmRaised) != 1 {
		t.Fatalf("%d doomed at once, %d alarms", doomed(), r.count(ledger.KindAlarmRaised))
	}
	r.restart() // a new leader goes on where the last one was
	r.wait(25 * time.Second)
	if doomed() != garbage.Floor {
		t.Fatalf("%d doomed within a minute", doomed())
	}
	r.wait(40 * time.Second)
	if doomed() != 2*garbage.Floor {
		t.Fatalf("%d doomed within two minutes", doomed())
	}
	r.noDrain = false
	r.run("all have gone", func() bool { return len(r.kube.claims) == 0 })
	if n := r.count(ledger.KindAlarmRaised); n > 2 {
		t.Errorf("%d alarms by two leaders", n)
	}
}

// Dooms for other reasons are not held up: what was deleted, was withdrawn or has no capacity has a fact
// behind it.
func TestOnlyTimeIsPaced(t *testing.T) {
	for _, reason := range []string{claim.ReasonExpired, claim.ReasonLaunchTimeout, claim.ReasonRegistrationTimeout, claim.ReasonNodeGone} {
		if !claim.Timed(reason) {
			t.Errorf("%s is not paced", reason)
		}
	}
	for _, reason := range []string{claim.ReasonInsufficientCapacity, claim.ReasonWithdrawn, claim.ReasonNodePoolDeleted, claim.ReasonScaledDown} {
		if claim.Timed(reason) {
			t.Errorf("%s is paced", reason)
		}
	}
}
