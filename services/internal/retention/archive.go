package retention

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"millwright/planner/ledger"
	"millwright/store/archive"
	"millwright/store/audit"
)

// archive moves what is old, or everything up to the newest checkpoint if eager, out of the live log. It
// reports whether it moved anything.
func (k *Keeper) archive(ctx context.Context, eager, now bool) (bool, error) {
	if k.archiver == nil || !eager && !now && !k.since(k.archived, archiveEvery) {
		return false, nil
	}
	k.archived = k.cfg.Host.Now()
	through, err := k.target(ctx, eager)
	if err != nil || through == 0 {
		return false, err
	}
	n, err := k.archiver.Archive(ctx, through)
	k.metrics.archived.Add(float64(n))
	if err != nil {
		switch {
		case errors.Is(err, archive.ErrForked):
			err = errors.Join(err, k.raiseAlarm(ctx, "ArchiveForked", err.Error()+"; nothing is deleted: docs/operations.md says how to go on"))
		case errors.Is(err, archive.ErrIncomplete):
			err = errors.Join(err, k.raiseAlarm(ctx, "ArchiveIncomplete", err.Error()))
		}
		return n > 0, err
	}
	delete(k.raised, "ArchiveForked")
	delete(k.raised, "ArchiveIncomplete")
	k.cfg.Logger.Info().Uint64("revision", through).Uint64("records", n).Bool("eager", eager).Msg("records archived")
	return n > 0, nil
}

// target is the record up to which the log is to be archived, 0 for none. It is that of a checkpoint, so the
// Ledger can be restored without the records before it.
func (k *Keeper) target(ctx context.Context, eager bool) (uint64, error) {
	base, err := k.cfg.Database.Base(ctx)
	if err != nil {
		return 0, err
	}
	head, err := k.cfg.Log.Head(ctx)
	if err != nil {
		return 0, err
	}
	var through uint64
	err = audit.EachCheckpoint(ctx, k.cfg.Log, func(c audit.Checkpoint) bool {
		if eager || k.since(c.Time, k.cfg.Policy.Age) || head.Seq-c.Seq >= k.cfg.Policy.Records {
			through = c.Seq
		}
		return through == 0 && c.Seq > base.Seq
	})
	if err != nil || through <= base.Seq {
		return 0, err
	}
	l, err := audit.NewestLedger(ctx, k.cfg.Log, 0, func(err error) { k.cfg.Logger.Warn().Err(err).Msg("checkpoint refused") })
	if err != nil {
		return 0, fmt.Errorf("archive up to record %d: %w", through, err)
	}
	if l.Seq() < through {
		return 0, fmt.Errorf("archive up to record %d: the newest usable checkpoint is of record %d", through, l.Seq())
	}
	return through, nil
}

// noteSegment records a segment in the log before its records leave the live log.
func (k *Keeper) noteSegment(ctx context.Context, s archive.Summary) error {
	k.metrics.segments.Inc()
	return k.cfg.Host.Note(ctx, ledger.KindSegmentArchived, &ledger.SegmentArchived{
		First: s.First, Last: s.Last, Hash: hex.EncodeToString(s.Hash[:]), File: s.Name(), SHA256: s.SHA256, Bytes: s.Bytes,
	}, "", 0)
}
