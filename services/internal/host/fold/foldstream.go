package fold

import (
	"context"
	"fmt"
	"strings"
	"time"

	"millwright/events"
	"millwright/planner/ledger"
	"millwright/planner/world"
)

// foldStream folds the stream until ctx ends.
func (s *State) foldStream(ctx context.Context) error {
	if s.stream == nil {
		<-ctx.Done()
		return nil
	}
	return s.retry(ctx, "fold stream", s.consume)
}

// consume continues from the World's position if the stream still holds the next message, otherwise from the
// newest checkpoint, otherwise from the first message that the stream retains.
func (s *State) consume(ctx context.Context) error {
	state, err := s.stream.State(ctx)
	if err != nil {
		return fmt.Errorf("read state of stream: %w", err)
	}
	if at, _ := s.Position(); s.distrusted || !continues(at, state) {
		if err := s.restore(ctx, state); err != nil {
			return err
		}
	}
	at, _ := s.Position()
	err = events.Fold(ctx, s.stream, max(at.Sequence+1, state.First, 1), events.Folder{Apply: s.observe, Held: s.holdsCatalog, Refused: s.refuse})
	return fmt.Errorf("consume stream %s: %w", state.Incarnation, err)
}

// continues reports that the stream continues from the position without a gap.
func continues(p events.Position, st events.StreamState) bool {
	return p.Incarnation == st.Incarnation && p.Sequence > 0 && p.Sequence <= st.Last && p.Sequence+1 >= st.First
}

// Position of the World, and whether a complete resync has been folded.
func (s *State) Position() (at events.Position, synced bool) {
	w := s.world.version()
	return w.Position(), w.Synced()
}

// Version returns the World as it is now, immutable.
func (s *State) Version() *world.World { return s.world.version() }

// Ledger returns the Ledger as it is now, immutable.
func (s *State) Ledger() *ledger.Ledger { return s.ledger.version() }

// Now is the clock of the process.
func (s *State) Now() time.Time { return s.clock() }

// Crowded: the log's database is so full that new records omit explanations.
func (s *State) Crowded() bool { return s.crowded.Load() }

// Torn reports that the World misses messages since its last complete resync.
func (s *State) Torn() bool { return s.world.version().Torn() }

// HighestPosition is the highest sequence of a stream incarnation that any folded record names.
func (s *State) HighestPosition(incarnation string) uint64 {
	return s.ledger.version().HighestPosition(incarnation)
}

// HasAdopted reports that an operator let this log take over objects that name another one.
func (s *State) HasAdopted(logID string) bool { return s.ledger.version().HasAdopted(logID) }

// restore replaces the World by the newest checkpoint from which the stream continues, or by an empty one.
func (s *State) restore(ctx context.Context, st events.StreamState) error {
	w, err := s.newestCheckpoint(ctx, st)
	if err != nil {
		return err
	}
	if w == nil {
		w = world.New()
	}
	w.SetIncarnation(st.Incarnation)
	from := w.Position().Sequence
	whole := w.Synced() && !w.Torn()
	s.world.replace(w, func(*world.World) bool { return true })
	s.noteWhole(whole)
	s.distrusted = false
	s.signals.Broadcast()
	s.logger.Info().Str("incarnation", st.Incarnation).Uint64("from", from).
		Uint64("first", st.First).Uint64("last", st.Last).Msg("folding stream")
	return nil
}

func (s *State) holdsCatalog(ref *events.CatalogRef) bool {
	return s.world.version().HoldsCatalog(ref)
}

// observe folds one observation.
func (s *State) observe(sequence uint64, o events.Observation) error {
	var drifted []string
	whole := false
	_ = s.world.fold(func(w *world.World) error {
		w.Apply(sequence, o)
		drifted, whole = w.Drifted(), w.Synced() && !w.Torn()
		return nil
	})
	s.noteWhole(whole)
	s.metrics.streamLag.Set(max(0, s.clock().Sub(o.ObservedAt).Seconds()))
	s.signals.Broadcast()
	if len(drifted) > 0 && s.clock().Sub(s.restarted) >= restartEvery {
		return s.distrust(drifted)
	}
	return nil
}

// noteWhole notes whether the World is whole, and since when it is not.
func (s *State) noteWhole(whole bool) {
	switch {
	case whole:
		s.unsynced.Store(0)
	case s.unsynced.Load() == 0:
		s.unsynced.Store(s.clock().UnixNano())
	}
}

// restartEvery bounds how often a World that differs from what was published is folded again.
const restartEvery = time.Minute

// distrust ends the fold, so that it starts again from a checkpoint: that helps if only this process is
// wrong. If all are, the watcher's own World is too, and it publishes everything again.
func (s *State) distrust(kinds []string) error {
	for _, kind := range kinds {
		s.metrics.drifts.WithLabelValues(kind).Inc()
	}
	s.distrusted, s.restarted = true, s.clock()
	return fmt.Errorf("the World is not what the watcher published: %s differ", strings.Join(kinds, ", "))
}

// Reasons for which a message cannot be folded.
const (
	reasonUndecodable = "undecodable"
	reasonBlobMissing = "blob_missing"
)

// refuse notes a message that cannot be decoded: the gap in the watcher's counter marks the World torn until
// the next resync. A catalogue whose blob is lost is folded without content, which the next heartbeat finds.
func (s *State) refuse(sequence uint64, err error) {
	reason := reasonUndecodable
	if events.BlobLost(err) {
		reason = reasonBlobMissing
	}
	s.metrics.refused.WithLabelValues(reason).Inc()
	s.logger.Warn().Err(err).Uint64("sequence", sequence).Str("reason", reason).Msg("observation refused")
}
