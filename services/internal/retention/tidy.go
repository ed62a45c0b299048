package retention

import (
	"context"
	"fmt"
)

// Parts of the quota: the file is defragmented from defragmentFrom on, if it would shrink by defragmentGain.
const (
	defragmentFrom = 0.5
	defragmentGain = 0.2
)

// tidy discards history, collects blobs and shrinks the file, where that is due.
func (k *Keeper) tidy(ctx context.Context, eager, moved bool) error {
	if err := k.forget(ctx, eager); err != nil {
		return err
	}
	if moved || k.since(k.collected, collectEvery) {
		k.collected = k.cfg.Host.Now()
		n, err := k.collector.collect(ctx, k.cfg.Host.Now())
		k.metrics.blobs.Add(float64(n))
		if err != nil {
			return fmt.Errorf("collect blobs: %w", err)
		}
	}
	u := k.usage(ctx)
	file, free := float64(u.FileBytes), float64(u.FileBytes-u.UsedBytes)
	if quota := float64(u.QuotaBytes); quota == 0 || file < defragmentFrom*quota || free < defragmentGain*quota {
		return nil
	}
	if err := k.cfg.Database.Defragment(ctx); err != nil {
		return err
	}
	k.metrics.defragmentations.Inc()
	k.cfg.Logger.Info().Int64("file_bytes", u.FileBytes).Int64("used_bytes", u.UsedBytes).Msg("database defragmented")
	return nil
}

// forget discards the history of keys up to the revision of the last time, or all of it if eager.
func (k *Keeper) forget(ctx context.Context, eager bool) error {
	if !eager && !k.since(k.forgotten, forgetEvery) {
		return nil
	}
	now, err := k.cfg.Database.Revision(ctx)
	if err != nil {
		return err
	}
	up := k.revision
	if eager {
		up = now
	}
	if up > 0 {
		if err := k.cfg.Database.Forget(ctx, up); err != nil {
			return err
		}
	}
	k.revision, k.forgotten = now, k.cfg.Host.Now()
	return nil
}
