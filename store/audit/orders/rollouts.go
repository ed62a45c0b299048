package orders

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
)

// ResumeRollout records that a halted roll-out begins anew. ErrUnknown: the
// NodePool has none that halted.
func ResumeRollout(ctx context.Context, log store.Log, r ledger.RolloutResumed, now time.Time) (rec store.Record, err error) {
	for range triesMax {
		seen, err := log.Aggregate(ctx, ledger.PoolAggregate(r.NodePool)) // first: if it is resumed in between, it has moved
		if err != nil {
			return rec, fmt.Errorf("read where NodePool %s stands: %w", r.NodePool, err)
		}
		l, err := audit.PresentLedger(ctx, log)
		if err != nil {
			return rec, fmt.Errorf("fold the log: %w", err)
		}
		rollout, ok := l.Rollout(r.NodePool)
		if !ok || rollout.Halted == nil {
			return rec, refuse(ErrUnknown, "no roll-out of NodePool %s has halted: list them with `millctl rollouts`", r.NodePool)
		}
		r.Target = rollout.Target
		draft, err := audit.ResumeDraft(&r, seen)
		if err != nil {
			return rec, err
		}
		draft.Time = now
		rec, err = log.Append(ctx, draft)
		if !errors.Is(err, store.ErrConflict) {
			return rec, err
		}
	}
	return rec, fmt.Errorf("resume the roll-out of NodePool %s: %d times others were faster, try again: %w", r.NodePool, triesMax, store.ErrConflict)
}
