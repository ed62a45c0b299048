package step

import (
	"io"
	"sync"
	"testing"
	"testing/synctest"

	"millwright/events"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/services/internal/host/fold"
	"millwright/services/internal/service"
)

// TestNothingWaitsForAPlan: while one service plans for as long as it likes, the others read, record, fold
// and write checkpoints, and its Snapshot stays what it was.
func TestNothingWaitsForAPlan(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.resync()
		r.node("before", nil)
		planning, _ := r.leading(ledger.ServiceDisruptor, ledger.ModeActive)
		other, _ := r.leading(ledger.ServiceLifecycle, ledger.ModeActive)

		begun, release := make(chan *planner.Snapshot), make(chan struct{})
		var group sync.WaitGroup
		defer group.Wait()
		defer close(release)
		group.Go(func() {
			if err := planning.Snapshot(service.ForDisruption, func(s *planner.Snapshot) error {
				begun <- s
				<-release
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
		snapshot := <-begun
		seq := snapshot.Ledger.Seq()

		// If the plan held a lock, the test would end here for lack of time.
		r.node("during", nil)
		rec, err := other.Outcome(r.t.Context(), service.Outcome{Kind: ledger.KindClaimClosed, Payload: &ledger.ClaimClosed{Claim: "c"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Ledger(func(l *ledger.Ledger) error {
			if l.Seq() < rec.Seq {
				t.Errorf("the Ledger is at %d, record %d was appended", l.Seq(), rec.Seq)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		if err := other.Snapshot(service.ForDisruption, func(s *planner.Snapshot) error {
			if s.World.Node("during") == nil {
				t.Error("what was folded during the plan is missing")
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		if w := r.state.Version(); w.WriteCheckpoint(io.Discard) != nil || w.Position().Sequence <= snapshot.World.Position().Sequence {
			t.Errorf("a checkpoint at %d", w.Position().Sequence)
		}
		if snapshot.World.Node("during") != nil || snapshot.Ledger.Seq() != seq || len(snapshot.World.Nodes()) != 1 {
			t.Errorf("the Snapshot has changed: %d nodes, record %d", len(snapshot.World.Nodes()), snapshot.Ledger.Seq())
		}
	})
}

// TestReadersBesideTheFold is for the race detector: versions are read by many while World and Ledger are
// folded.
func TestReadersBesideTheFold(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.resync()
		h, _ := r.leading(ledger.ServiceLifecycle, ledger.ModeActive)
		stop := make(chan struct{})
		var group sync.WaitGroup
		defer group.Wait()
		defer close(stop)
		for range 3 {
			group.Go(func() {
				for changed := wake(r.state); ; {
					select {
					case <-stop:
						return
					case <-changed:
					}
					_ = h.Snapshot(service.ForEffects, func(s *planner.Snapshot) error {
						readAll(s.World)
						s.StateNodes()
						return nil
					})
				}
			})
		}
		for i := range 50 {
			r.node("n"+string(rune('a'+i%7)), nil)
			if i%5 == 0 {
				r.publish(events.KindNode, events.OpDelete, "na", nil)
			}
			if _, err := h.Outcome(r.t.Context(), service.Outcome{Kind: ledger.KindDrainStarted, Payload: &ledger.DrainStarted{Node: "n"}}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
	})
}

func wake(s *fold.State) <-chan struct{} {
	changed, _ := s.Subscribe()
	return changed
}

func readAll(w *world.World) {
	for _, n := range w.Nodes() {
		w.PodsOn(n.Object.Name)
		w.NodeByProviderID(n.Object.Spec.ProviderID)
	}
	w.PendingPods()
	w.NodeClaims()
	w.NamedRecords("").Highest()
}
