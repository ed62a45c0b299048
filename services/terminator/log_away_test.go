package terminator_test

import (
	"errors"
	"testing"
	"time"

	"millwright/planner/ledger"
	"millwright/services/internal/host/hosttest"
	"millwright/services/terminator"
)

// At its quota etcd refuses to write and goes on answering, to leaders that keep their leases.
func TestAForcefulDrainGoesOnWhileTheLogIsAway(t *testing.T) {
	for name, away := range map[string]func(*hosttest.Rig, bool){"it does not answer": (*hosttest.Rig).LogAway, "it takes no records": (*hosttest.Rig).LogFull} {
		t.Run(name, func(t *testing.T) {
			run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
				r.Kube.Put(bound("a"))
				r.Kube.Fail["patch n"] = errors.New("api server away") // holds the drain before its first eviction
				r.Settle(s, 3*time.Second)
				delete(r.Kube.Fail, "patch n")
				before := len(r.Kinds())
				away(r, true)
				r.Settle(s, 30*time.Second)
				if r.Kube.GetPod("default/a") != nil || len(r.Kinds()) != before {
					t.Errorf("calls %q, records %v", r.Kube.Calls, r.Kinds())
				}
				away(r, false)
				r.Settle(s, 5*time.Second)
				if !drained(r) {
					t.Error("what was drained is not recorded afterwards")
				}
			})
		})
	}
}

func TestADrainOfACommandWaitsWhileTheLogIsAway(t *testing.T) {
	run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
		r.Kube.Put(bound("a"))
		byCommand(r)
		r.LogAway(true)
		r.Settle(s, 30*time.Second)
		if r.Kube.GetPod("default/a") == nil {
			t.Errorf("calls %q: whether it was stopped is not known", r.Kube.Calls)
		}
	})
}

// What a terminator evicts while the log is away is recorded by its successor if it dies before the log is
// back, with what it wrote into the NodeClaim.
func TestASuccessorRecordsWhatWasEvictedWhileTheLogWasAway(t *testing.T) {
	run(t, ledger.ModeActive, 0, func(r *hosttest.Rig, s *terminator.Service) {
		r.Kube.Put(bound("a"))
		r.Kube.Fail["patch n"] = errors.New("api server away") // holds the drain before its first eviction
		r.Settle(s, 3*time.Second)
		delete(r.Kube.Fail, "patch n")
		r.LogAway(true)
		r.Settle(s, 30*time.Second)
		if r.Kube.GetPod("default/a") != nil {
			t.Fatalf("calls %q", r.Kube.Calls)
		}
		r.LogAway(false)
		successor := newService(r)
		r.Settle(successor, 5*time.Second)
		r.Settle(successor, 5*time.Second)
		evicted := 0
		for _, e := range r.Entries(ledger.KindDrainTierStarted) {
			for _, ref := range e.Payload.(*ledger.DrainTierStarted).Evicted {
				if ref.Name == "a" && ref.Namespace == "default" && ref.UID != "" {
					evicted++
				}
			}
		}
		if evicted != 1 || !drained(r) {
			t.Errorf("recorded %d times, drained %v", evicted, drained(r))
		}
	})
}
