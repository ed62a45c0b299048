package fold

import (
	"context"
	"errors"
	"fmt"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
)

// foldLog folds the log from the Ledger's position until ctx ends.
func (s *State) foldLog(ctx context.Context) error {
	return s.retry(ctx, "fold log", func(ctx context.Context) error {
		if err := s.readHead(ctx); err != nil {
			return err
		}
		err := s.Log.Watch(ctx, s.ledgerSeq()+1, s.foldRecord)
		if errors.Is(err, store.ErrCompacted) { // this process was away for so long that the next records are archived
			return errors.Join(err, s.restoreLedger(ctx))
		}
		return err
	})
}

// restoreLedger replaces the Ledger by its newest checkpoint, if that is ahead of it. Without one, the log
// has to be folded from the Ledger's position.
func (s *State) restoreLedger(ctx context.Context) error {
	l, err := audit.NewestLedger(ctx, s.Log, 0, func(err error) {
		s.logger.Warn().Err(err).Msg("checkpoint refused")
	})
	switch {
	case errors.Is(err, audit.ErrNoCheckpoint):
		return nil
	case err != nil:
		return fmt.Errorf("restore ledger: %w", err)
	case l.LogID() != s.Log.ID():
		return fmt.Errorf("restore ledger: checkpoint of log %s in log %s: %w", l.LogID(), s.Log.ID(), store.ErrCorrupt)
	}
	if s.ledger.replace(l, func(now *ledger.Ledger) bool { return l.Seq() > now.Seq() }) {
		s.logger.Info().Uint64("revision", l.Seq()).Msg("ledger restored from checkpoint")
		s.folded.advance(l.Seq())
		s.signals.Broadcast()
	}
	return nil
}

// readHead remembers where the log ended at the start, and reports ErrCorrupt if it ends before what is
// folded.
func (s *State) readHead(ctx context.Context) error {
	folded := s.ledgerSeq()
	head, err := s.Log.Head(ctx)
	if err != nil {
		return fmt.Errorf("read head of log: %w", err)
	}
	if head.Seq < folded {
		return fmt.Errorf("the log ends at record %d, and up to record %d is folded: it was restored from a backup: %w", head.Seq, folded, store.ErrCorrupt)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.headRead {
		s.head, s.headRead = head.Seq, true
	}
	return nil
}

func (s *State) ledgerSeq() uint64 {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	return s.ledger.folded.Seq()
}

// foldRecord folds the record if it is the next one; earlier ones have been folded already.
func (s *State) foldRecord(rec store.Record) error {
	if err := s.apply(rec); err != nil {
		return err
	}
	s.folded.advance(rec.Seq)
	s.signals.Broadcast()
	return nil
}

func (s *State) apply(rec store.Record) error {
	next := s.ledgerSeq() + 1
	switch {
	case rec.Seq < next:
		return nil
	case rec.Seq > next:
		return fmt.Errorf("fold record %d: the next is %d", rec.Seq, next)
	}
	entry, err := audit.Decode(rec)
	if err == nil { // another goroutine may have folded it by now; then it changes nothing
		err = s.ledger.fold(func(l *ledger.Ledger) error { return l.Apply(entry) })
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errUndecodable, err)
	}
	if c, ok := entry.Payload.(*ledger.ControlChanged); ok && entry.Mode != ledger.ModeShadow {
		s.control.setOrder(*c, rec.Seq)
	}
	s.metrics.logLag.Set(max(0, s.clock().Sub(rec.Time).Seconds()))
	return nil
}

// FoldOwn folds a record this process appended, once the Ledger has the ones before it: as soon as they were
// handed in too, or when the watch delivers them.
func (s *State) FoldOwn(rec store.Record) {
	s.early.keep(rec)
	for {
		next, ok := s.early.take(s.ledgerSeq())
		if !ok || s.foldRecord(next) != nil { // an error here recurs in the watch, and is handled there
			return
		}
	}
}
