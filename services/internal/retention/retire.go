package retention

import (
	"context"
	"errors"
	"fmt"

	"millwright/planner/ledger"
	"millwright/services/internal/service"
	"millwright/store"
	"millwright/store/audit"
)

// retireMin is how many dead aggregates are worth a record: a tenth of a MiB in etcd and in the memory of
// each service.
const retireMin = 1000

// retire makes log and Ledger forget the aggregates of claims, commands and nodes that no longer existed at
// the last checkpoint, so that the next one does not contain them. Record and keys change in one transaction,
// so a crash leaves nothing to make up for. What has moved in the meantime, or is not known to every service
// yet, waits for the next checkpoint.
func (k *Keeper) retire(ctx context.Context) error {
	var drafts []store.Draft
	err := k.cfg.Host.Ledger(func(l *ledger.Ledger) (err error) {
		drafts, err = audit.RetirementDrafts(l, l.Aggregate(ledger.CheckpointAggregate), retireMin)
		return err
	})
	if err != nil {
		return fmt.Errorf("retire aggregates: %w", err)
	}
	for _, d := range drafts {
		err := k.cfg.Host.Retire(ctx, d)
		if errors.Is(err, store.ErrConflict) || errors.Is(err, service.ErrHeldBack) {
			k.cfg.Logger.Info().Err(err).Msg("aggregates not retired before this checkpoint")
			return nil
		}
		if err != nil {
			return fmt.Errorf("retire aggregates: %w", err)
		}
		k.metrics.retired.Add(float64(len(d.Retires)))
	}
	return nil
}
