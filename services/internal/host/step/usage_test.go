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
		var assumed atomic.Bool
		r.restartWith(func(cfg *fold.StateConfig) {
			cfg.Usage = func(context.Context) (store.Usage, error) {
				return store.Usage{QuotaBytes: 100, Assumed: assumed.Load(), FileBytes: used.Load(), UsedBytes: used.Load()}, nil
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
			used    int64
			assumed bool // the quota
			kept    bool
		}{{used: 0, kept: true}, {used: 79, kept: true}, {used: 80}, {used: 76}, {used: 74, kept: true}, {used: 79, kept: true}, {used: 99},
			{used: 99, assumed: true, kept: true}, {used: 200, assumed: true, kept: true}} {
			used.Store(c.used)
			assumed.Store(c.assumed)
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
