package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"millwright/planner/ledger"
)

// BeforeRange is how many records before a range are read as well: its decisions were taken on Ledgers at
// most that far back.
const BeforeRange = 1000

// start returns the first record to read. It restores a checkpoint if the range begins late enough, and looks
// up none before that: the archive may hold thousands.
func (p *replayer) start(ctx context.Context, log Log, r Range) (uint64, error) {
	cl, ok := log.(CheckpointLog)
	if !ok || r.From <= BeforeRange {
		return 1, nil
	}
	first := uint64(1)
	err := EachCheckpoint(ctx, cl, func(c Checkpoint) bool {
		if c.Seq+BeforeRange > r.From {
			return true
		}
		l, err := restore(ctx, cl, c.LedgerCheckpoint)
		if err != nil {
			return ctx.Err() == nil
		}
		p.begin, first = l, c.Seq+1
		return false
	})
	return first, errors.Join(err, ctx.Err())
}

// startLate begins with the oldest checkpoint that can be restored, if the records before it are archived
// elsewhere.
func (p *replayer) startLate(ctx context.Context, log Log, compacted error) (uint64, error) {
	cl, ok := log.(CheckpointLog)
	if !ok {
		return 0, compacted
	}
	list, err := usable(ctx, cl)
	if err != nil {
		return 0, err
	}
	for _, c := range slices.Backward(list) {
		l, err := restore(ctx, cl, c.LedgerCheckpoint)
		if err != nil {
			continue
		}
		p.begin = l
		p.report.NotReplayable = []Span{{From: 1, To: c.Seq, Reason: "the records are archived, and the archive is not at hand"}}
		return c.Seq + 1, nil
	}
	return 0, fmt.Errorf("%w, and there is %w", compacted, ErrNoCheckpoint)
}

// usable are the checkpoints on record, newest first.
func usable(ctx context.Context, log CheckpointLog) (list []Checkpoint, err error) {
	err = EachCheckpoint(ctx, log, func(c Checkpoint) bool {
		list = append(list, c)
		return true
	})
	return list, err
}

// checkCheckpoints compares the recorded checkpoints of this version with the fold.
func (p *replayer) checkCheckpoints() error {
	recorded := map[uint64][]ledger.Entry{}
	for _, e := range p.entries {
		if c, ok := e.Payload.(*ledger.LedgerCheckpoint); ok && c.Version == ledger.StateVersion {
			recorded[c.Seq] = append(recorded[c.Seq], e)
		}
	}
	if len(recorded) == 0 {
		return nil
	}
	at, err := newLedgers(p.begin, p.entries, p.renamed.replaced())
	if err != nil {
		return err
	}
	l := at.current
	for _, e := range p.entries {
		if err := l.Apply(e); err != nil {
			return err
		}
		for _, r := range recorded[e.Seq] {
			p.report.Checkpoints++
			if c := r.Payload.(*ledger.LedgerCheckpoint); c.Digest != l.Digest() {
				p.note(diverges(r, c.Digest, l.Digest(), fmt.Sprintf("the checkpoint is not the fold of the records up to %d", e.Seq), again{}))
			}
		}
	}
	return nil
}
