package watcher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millwright/events"
	"millwright/planner/world"
	"millwright/services/internal/clock"
)

// Bounds of how many checkpoints are kept.
const (
	checkpointsNewest = 3
	// checkpointsOlder are spread over the rest of what the stream retains, so that replay of any part of it
	// has one to start from.
	checkpointsOlder = 8
)

// checkpointTick is how often it is looked whether a checkpoint is due.
const checkpointTick = time.Second

// checkpoints writes and prunes.
type checkpoints struct {
	w      *Watcher
	source WorldSource
	last   events.Position
	at     time.Time
	// superseded holds, for each catalogue blob that is not in force, the last sequence of the stream when
	// that was first seen: no later message names it.
	superseded map[string]uint64
}

func newCheckpoints(w *Watcher) *checkpoints {
	return &checkpoints{w: w, source: w.world, superseded: map[string]uint64{}}
}

func (c *checkpoints) run(ctx context.Context) error {
	for {
		if err := clock.Sleep(ctx, checkpointTick); err != nil {
			return err
		}
		if !c.due() {
			continue
		}
		err := c.write(ctx)
		c.w.metrics.checkpoints.WithLabelValues(outcome(err)).Inc()
		if err != nil && ctx.Err() == nil {
			c.w.cfg.Logger.Warn().Err(err).Msg("checkpoint not written")
		}
	}
}

func outcome(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// due after each first resync of an incarnation, and then by messages or time, and once the stream no longer
// goes on from the last one, purged by a person or by its bound of bytes: nobody could start from that.
func (c *checkpoints) due() bool {
	now, synced := c.source.Position()
	switch {
	case !synced || now.Sequence == 0:
		return false
	case world.IsIncomplete(c.source.Version()): // of the epoch before, of a later version's watcher
		return false
	case now.Incarnation != c.last.Incarnation:
		return true
	case now.Sequence <= c.last.Sequence:
		return false
	case c.w.first.Load() > c.last.Sequence+1:
		return c.w.first.Load() <= now.Sequence+1
	}
	return now.Sequence-c.last.Sequence >= c.w.cfg.CheckpointMessages || c.w.cfg.Clock().Sub(c.at).Abs() >= c.w.cfg.CheckpointEvery
}

// write stores the World under its position. What fails is tried again at the next tick it is due.
func (c *checkpoints) write(ctx context.Context) error {
	version := c.source.Version()
	at := version.Position()
	name, stored, err := events.WriteCheckpoint(ctx, c.w.cfg.Stream.Blobs(), at, version.WriteCheckpoint)
	if errors.Is(err, events.ErrNoSpace) {
		return errors.Join(err, c.makeRoom(ctx))
	}
	if err != nil {
		return err
	}
	c.last, c.at = at, c.w.cfg.Clock()
	c.w.metrics.checkpointBytes.Set(float64(stored))
	c.w.cfg.Logger.Info().Str("checkpoint", name).Int64("bytes", stored).Msg("world checkpoint written")
	state, err := c.w.cfg.Stream.State(ctx)
	if err != nil {
		return fmt.Errorf("state of the stream: %w", err)
	}
	if err := c.prune(ctx, state); err != nil {
		return fmt.Errorf("prune checkpoints: %w", err)
	}
	return errors.Join(c.collectCatalogs(ctx, state), c.collectOrphans(ctx))
}

// makeRoom deletes the oldest checkpoint but one: what is left must be enough to start from. The next tick
// tries again.
func (c *checkpoints) makeRoom(ctx context.Context) error {
	if err := c.collectOrphans(ctx); err != nil {
		c.w.cfg.Logger.Warn().Err(err).Msg("left parts of blobs not collected")
	}
	all, err := events.Checkpoints(ctx, c.w.cfg.Stream.Blobs())
	if err != nil || len(all) < 2 {
		return err
	}
	c.w.cfg.Logger.Warn().Str("checkpoint", all[0].Name).Msg("oldest checkpoint deleted: the bucket is full")
	return c.w.cfg.Stream.Blobs().Delete(ctx, all[0].Name)
}

func (c *checkpoints) prune(ctx context.Context, state events.StreamState) error {
	blobs := c.w.cfg.Stream.Blobs()
	all, err := events.Checkpoints(ctx, blobs)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, kept := range kept(all, state) {
		keep[kept.Name] = true
	}
	for _, p := range all {
		if keep[p.Name] {
			continue
		}
		if err := blobs.Delete(ctx, p.Name); err != nil {
			return err
		}
	}
	return nil
}

// kept returns the checkpoints worth keeping: the newest of the stream in force, some older ones from which
// it still goes on, and the newest of one incarnation before.
func kept(all []events.Checkpoint, state events.StreamState) []events.Checkpoint {
	byIncarnation := map[string][]events.Checkpoint{}
	for _, p := range all {
		byIncarnation[p.Incarnation] = append(byIncarnation[p.Incarnation], p)
	}
	current := byIncarnation[state.Incarnation]
	delete(byIncarnation, state.Incarnation)
	newest := current[max(0, len(current)-checkpointsNewest):]
	older := slices.DeleteFunc(slices.Clone(current[:len(current)-len(newest)]), func(p events.Checkpoint) bool {
		return p.Sequence+1 < state.First
	})
	keep := append(spread(older, newest), newest...)
	if before := previousIncarnation(byIncarnation); before != "" {
		list := byIncarnation[before]
		keep = append(keep, list[max(0, len(list)-checkpointsNewest):]...)
	}
	return keep
}

// spread drops from older, which is in the order of sequences, the one whose neighbours are closest to each
// other until few enough are left. The oldest stays.
func spread(older, newest []events.Checkpoint) []events.Checkpoint {
	for len(older) > checkpointsOlder {
		all := append(slices.Clone(older), newest...)
		drop := 1
		for i := 2; i < len(older) && i+1 < len(all); i++ {
			if all[i+1].Sequence-all[i-1].Sequence < all[drop+1].Sequence-all[drop-1].Sequence {
				drop = i
			}
		}
		older = slices.Delete(older, drop, drop+1)
	}
	return older
}

// previousIncarnation is the one whose name is last when a longer number counts as higher; "" if there is
// none.
func previousIncarnation(by map[string][]events.Checkpoint) string {
	names := slices.Collect(maps.Keys(by))
	if len(names) == 0 {
		return ""
	}
	return slices.MaxFunc(names, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
}

// collectCatalogs deletes the catalogues that no retained message names. Checkpoints hold their catalogues
// whole.
func (c *checkpoints) collectCatalogs(ctx context.Context, state events.StreamState) error {
	inForce := c.w.memory.catalogs()
	if len(inForce) == 0 {
		return nil // nothing was polled yet: what is in force is unknown
	}
	blobs := c.w.cfg.Stream.Blobs()
	names, err := blobs.List(ctx, events.CatalogBlob(""))
	if err != nil {
		return err
	}
	maps.DeleteFunc(c.superseded, func(name string, _ uint64) bool { return !slices.Contains(names, name) })
	for _, name := range names {
		if inForce[name] {
			delete(c.superseded, name)
			continue
		}
		if _, ok := c.superseded[name]; !ok {
			c.superseded[name] = state.Last
		}
		if state.First > c.superseded[name] {
			if err := blobs.Delete(ctx, name); err != nil {
				return err
			}
			delete(c.superseded, name)
		}
	}
	return nil
}

// collectOrphans deletes what writers that crashed left in the store.
func (c *checkpoints) collectOrphans(ctx context.Context) error {
	blobs, ok := c.w.cfg.Stream.Blobs().(events.OrphanCollector)
	if !ok {
		return nil
	}
	n, err := blobs.CollectOrphans(ctx)
	if n > 0 {
		c.w.cfg.Logger.Info().Int("blobs", n).Msg("left parts of blobs deleted")
	}
	return err
}
