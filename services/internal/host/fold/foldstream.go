package fold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

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
	if errors.Is(err, events.ErrRenewed) {
		s.distrusted = true // even in the incarnation folded: what was folded may no longer be what it holds
	}
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
	now := s.clock()
	switch restarted := now.Sub(s.restarted).Abs(); {
	case len(drifted) > 0 && restarted >= restartEvery:
		s.metrics.countDrifts(drifted)
		return s.distrust(fmt.Errorf("the World is not what the watcher published: %s differ", strings.Join(drifted, ", ")))
	case saysWhole(o, now) && isOlder(s.unsynced.Load(), now, 2*restartEvery) && restarted >= 2*restartEvery:
		return s.distrust(errors.New("the World is not whole, and the watcher's is"))
	}
	return nil
}

// saysWhole reports a heartbeat of now, not of what is read again, with sums: the watcher's resync has ended,
// and its own World would be torn for moments only, until it begins another epoch.
func saysWhole(o events.Observation, now time.Time) bool {
	h, ok := o.Object.(*events.Heartbeat)
	return ok && len(h.Sums) > 0 && now.Sub(o.ObservedAt).Abs() < restartEvery
}

// isOlder reports that it is longer than d since a time in Unix nanoseconds; false if that is 0.
func isOlder(since int64, now time.Time, d time.Duration) bool {
	return since != 0 && now.Sub(time.Unix(0, since)).Abs() >= d
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

// restartEvery bounds how often a World that differs from what was published is folded again. One that misses
// messages is half as often, because the watcher repairs those that its own World misses.
const restartEvery = time.Minute

// distrust ends the fold, so that it starts again from a checkpoint: that helps if only this process is
// wrong. If all are, the watcher's own World is too, and it publishes everything again.
func (s *State) distrust(why error) error {
	s.distrusted, s.restarted = true, s.clock()
	return why
}

// Reasons for which a message cannot be folded.
const (
	reasonUndecodable = "undecodable"
	reasonBlobMissing = "blob_missing"
	reasonUnknownKind = "unknown_kind"
)

// refuse notes a message that cannot be decoded: the gap in the watcher's counter marks the World torn until
// the next resync. An object of a kind that only a later version's watcher knows is passed over. A catalogue
// whose blob is lost is folded without content, which the next heartbeat finds.
func (s *State) refuse(sequence uint64, err error) {
	reason, level := reasonUndecodable, zerolog.WarnLevel
	switch {
	case events.BlobLost(err):
		reason = reasonBlobMissing
	case errors.Is(err, events.ErrUnknownKind): // as many as there are objects of it
		reason, level = reasonUnknownKind, zerolog.DebugLevel
	}
	s.metrics.refused.WithLabelValues(reason).Inc()
	s.logger.WithLevel(level).Err(err).Uint64("sequence", sequence).Str("reason", reason).Msg("observation refused")
}
