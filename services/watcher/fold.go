package watcher

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rs/zerolog"

	"millwright/events"
	"millwright/planner/world"
)

// WorldSource is a World that is folded from the stream.
type WorldSource interface {
	// Position of the World, and whether a complete resync has been folded.
	Position() (at events.Position, synced bool)
	// Version returns the World as it is now, immutable.
	Version() *world.World
	// Torn reports that messages are missing since the last complete resync: another one is needed.
	Torn() bool
}

// fold is the watcher's own World, for checkpoints only.
type fold struct {
	w *Watcher

	mu    sync.Mutex
	world *world.World
}

var _ WorldSource = (*fold)(nil)

func newFold(w *Watcher) *fold { return &fold{w: w, world: world.New()} }

// run folds until ctx ends, starting over from a checkpoint when the stream does not continue from its
// position.
func (f *fold) run(ctx context.Context) error {
	return f.w.retry(ctx, "fold the stream", func() (bool, error) {
		before, _ := f.Position()
		err := f.consume(ctx)
		after, _ := f.Position()
		return after.Sequence > before.Sequence, err
	})
}

func (f *fold) consume(ctx context.Context) error {
	state, err := f.w.cfg.Stream.State(ctx)
	if err != nil {
		return fmt.Errorf("state of the stream: %w", err)
	}
	at, _ := f.Position()
	if at.Incarnation != state.Incarnation || at.Sequence == 0 || at.Sequence > state.Last || at.Sequence+1 < state.First {
		if err := f.restore(ctx, state); err != nil {
			return err
		}
		at, _ = f.Position()
	}
	return events.Fold(ctx, f.w.cfg.Stream, max(at.Sequence+1, state.First), events.Folder{Apply: f.apply, Held: f.holdsCatalog, Refused: f.refused})
}

// restore takes the newest checkpoint from which the stream continues; without one it starts from nothing.
func (f *fold) restore(ctx context.Context, state events.StreamState) error {
	restored, _, err := events.LatestCheckpoint(ctx, f.w.cfg.Stream.Blobs(), state, state.Last, world.ReadCheckpoint, func(c events.Checkpoint, err error) {
		f.w.cfg.Logger.Warn().Err(err).Str("checkpoint", c.Name).Msg("checkpoint refused")
	})
	if errors.Is(err, events.ErrNotFound) {
		restored, err = world.New(), nil
	}
	if err != nil {
		return err
	}
	restored.SetIncarnation(state.Incarnation)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.world = restored
	return nil
}

func (f *fold) apply(sequence uint64, o events.Observation) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.world.Apply(sequence, o)
	f.w.metrics.folded.Set(float64(sequence))
	return nil
}

func (f *fold) holdsCatalog(ref *events.CatalogRef) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.world.HoldsCatalog(ref)
}

func (f *fold) refused(sequence uint64, err error) {
	f.w.metrics.refused.Inc()
	level := zerolog.WarnLevel
	if errors.Is(err, events.ErrUnknownKind) { // as many as there are objects of it
		level = zerolog.DebugLevel
	}
	f.w.cfg.Logger.WithLevel(level).Err(err).Uint64("sequence", sequence).Msg("observation refused")
}

// Position implements WorldSource.
func (f *fold) Position() (events.Position, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.world.Position(), f.world.Synced()
}

// Version implements WorldSource.
func (f *fold) Version() *world.World {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.world.Version()
}

// Torn implements WorldSource.
func (f *fold) Torn() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.world.Torn()
}
