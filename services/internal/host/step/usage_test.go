package step

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/services/internal/host/fold"
	"millwright/store"
)

func TestExplanationsStayOutFrom80Percent(t *testing.T) {
	inBubble(t, func(r *rig) {
		var used atomic.Int64
		r.restartWith(func(cfg *fold.StateConfig) {
			cfg.Usage = func(context.Context) (store.Usage, error) {
				return store.Usage{QuotaBytes: 100, FileBytes: used.Load(), UsedBytes: used.Load()}, nil
			}
		})
		h, ctx := r.leading(ledger.ServiceProvisioner, ledger.ModeActive)
		decide := func() store.Record {
			t.Helper()
			rec, err := h.Decide(ctx, planner.Basis{}, planner.Decision{Kind: ledger.KindProvisioningPlanned,
				Payload: &ledger.ProvisioningPlanned{}, Explanation: map[string]string{"why": "because"}})
			if err != nil {
				t.Fatal(err)
			}
			stored, err := r.log.Read(ctx, rec.Seq, 1)
			if err != nil {
				t.Fatal(err)
			}
			return stored[0]
		}
		for _, c := range []struct {
			used int64
			kept bool
		}{{0, true}, {79, true}, {80, false}, {76, false}, {74, true}, {79, true}, {99, false}} {
			used.Store(c.used)
			time.Sleep(11 * time.Second) // it is asked every ten
			synctest.Wait()
			if rec := decide(); (len(rec.Explanation) > 0) != c.kept {
				t.Errorf("at %d %%: explanation %q", c.used, rec.Explanation)
			}
		}
		if _, err := r.log.Verify(ctx); err != nil {
			t.Error(err)
		}
	})
}
