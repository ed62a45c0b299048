package disruptor_test

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"millwright/planner/ledger"
	"millwright/services/disruptor"
	"millwright/services/internal/host/hosttest"
)

// A node of 0.10 USD per hour, and 0.01 of its own, is to move one pod: at 0.001 USD for each, that waits for
// 33 s, as long as it goes on to be worth it.
func TestConsolidationWaitsUntilWaitingCostsAsMuch(t *testing.T) {
	filled(t, func(r *hosttest.Rig, _ *disruptor.Service, _ func(string) []string) {
		s := disruptor.New(r.Host, disruptor.Deps{Kube: r.Kube, Logger: zerolog.Nop(), Patience: 1000})
		r.Settle(s, 30*time.Second)
		if got := r.Entries(ledger.KindCommandStarted, ledger.KindCommandMovesStarted); len(got) != 0 {
			t.Fatalf("records %v after 30 s, want no command yet", r.Kinds())
		}
		for _, object := range []string{"Node/a", "NodeClaim/a-claim"} {
			wantEvent(t, r, object+" Unconsolidatable: Consolidation would save 0.106 USD per hour and evict 1 pod(s), and waits a while whether that lasts")
		}
		r.Settle(s, 10*time.Second)
		if got := r.Entries(ledger.KindCommandSucceeded); len(got) != 1 {
			t.Errorf("records %v after 40 s, want a command that succeeded", r.Kinds())
		}
	})
}
