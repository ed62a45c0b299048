package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
)

// sign signs the head of the log. A checkpoint without a signature is better than none.
func (k *Keeper) sign(ctx context.Context) *ledger.SignedHead {
	if k.cfg.Signer == nil {
		return nil
	}
	head, err := k.cfg.Log.Head(ctx)
	var signed *ledger.SignedHead
	if err == nil {
		signed, err = k.cfg.Signer.Sign(ctx, head, k.cfg.Host.Now())
	}
	if err != nil {
		k.metrics.unsigned.Inc()
		k.cfg.Logger.Error().Err(err).Msg("head of the log not signed")
		return nil
	}
	return signed
}

// checkpointTimeout bounds the writing of one checkpoint.
const checkpointTimeout = time.Minute

// checkpoint writes a checkpoint of the Ledger if enough records were added since the last one; it reports
// whether it did.
func (k *Keeper) checkpoint(ctx context.Context, every uint64) (bool, error) {
	due := false
	err := k.cfg.Host.Ledger(func(l *ledger.Ledger) error {
		due = l.Seq() >= l.Aggregate(ledger.CheckpointAggregate)+every
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("checkpoint ledger: %w", err)
	}
	if !due {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkpointTimeout)
	defer cancel()
	if err := k.retire(ctx); err != nil {
		return false, err
	}
	var p ledger.LedgerCheckpoint
	var blob []byte
	err = k.cfg.Host.Ledger(func(l *ledger.Ledger) (err error) {
		p, blob, err = audit.CheckpointOf(l)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("checkpoint ledger: %w", err)
	}
	if p.Blob, err = k.cfg.Log.PutBlob(ctx, blob); err != nil {
		return false, fmt.Errorf("checkpoint ledger at %d: %w", p.Seq, err)
	}
	p.Signed = k.sign(ctx)
	err = k.cfg.Host.Note(ctx, ledger.KindLedgerCheckpoint, &p, ledger.CheckpointAggregate, p.Previous)
	if errors.Is(err, store.ErrConflict) {
		return false, nil // another leader wrote one
	}
	if err != nil {
		return false, fmt.Errorf("checkpoint ledger at %d: %w", p.Seq, err)
	}
	k.metrics.checkpoints.Inc()
	k.metrics.checkpointBytes.Set(float64(len(blob)))
	k.cfg.Logger.Info().Uint64("revision", p.Seq).Int("bytes", len(blob)).Msg("ledger checkpoint written")
	return true, nil
}
