package watcher

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"millwright/events"
	"millwright/planner/world"
)

func TestACheckpointAndTheTailAreTheWholeFold(t *testing.T) {
	run(t, func(c *Config) { c.CheckpointEvery = time.Minute }, func(t *testing.T, r *rig) {
		r.pass(2 * time.Second)
		r.kube.put("d")
		r.pass(90 * time.Second)
		r.kube.remove("a")
		s := r.bus.Connect(1)
		state, _ := s.State(t.Context())
		restored, checkpoint, err := events.LatestCheckpoint(t.Context(), s.Blobs(), state, state.Last, world.ReadCheckpoint, nil)
		if err != nil {
			t.Fatal(err)
		}
		name, sequence := checkpoint.Name, checkpoint.Sequence
		if at := restored.Position(); at.Sequence != sequence || at.Incarnation != state.Incarnation || name != events.CheckpointName(at.Incarnation, at.Sequence) {
			t.Fatalf("%s is at %+v", name, at)
		}
		whole := world.New()
		whole.SetIncarnation(state.Incarnation)
		for i, o := range r.observations() {
			if whole.Apply(uint64(i+1), o); uint64(i+1) > sequence {
				restored.Apply(uint64(i+1), o)
			}
		}
		if whole.Position() != restored.Position() || countPods(whole) != countPods(restored) || countPods(whole) != 3 {
			t.Fatalf("whole %+v with %d pods, restored %+v with %d", whole.Position(), countPods(whole), restored.Position(), countPods(restored))
		}
	})
}

func TestARestartedWatcherGoesOnFromItsCheckpoint(t *testing.T) {
	run(t, nil, func(t *testing.T, r *rig) {
		r.pass(3 * time.Second)
		r.bus.Discard(4) // the first fold can no longer be repeated
		r.stop()
		r.start(nil)
		r.pass(5 * time.Second)
		if got := value(t, r.w.metrics.refused); got != 0 {
			t.Fatalf("%v refused", got)
		}
		s := r.bus.Connect(1)
		state, _ := s.State(t.Context())
		if w, _, err := events.LatestCheckpoint(t.Context(), s.Blobs(), state, state.Last, world.ReadCheckpoint, nil); err != nil || w.Torn() || countPods(w) != 3 {
			t.Fatalf("restored %v", err)
		}
	})
}

func TestCheckpointsAreWrittenByMessages(t *testing.T) {
	run(t, func(c *Config) { c.CheckpointMessages = 20 }, func(t *testing.T, r *rig) {
		for range 200 {
			r.kube.put("a")
			r.pass(100 * time.Millisecond)
		}
		r.pass(2 * time.Second)
		list, err := events.Checkpoints(t.Context(), r.w.Blobs())
		if err != nil {
			t.Fatal(err)
		}
		if len(list) < 8 || len(list) > checkpointsNewest+checkpointsOlder {
			t.Fatalf("%d checkpoints", len(list))
		}
	})
}

// Whoever purges the stream, or a stream that has reached its bound, leaves messages from which nobody can
// fold a World: a process that starts then must not have to wait for the next checkpoint that is due by time.
func TestAStreamThatIsPurgedGetsACheckpoint(t *testing.T) {
	run(t, func(c *Config) { c.CheckpointEvery = 24 * time.Hour }, func(t *testing.T, r *rig) {
		s := r.bus.Connect(1)
		for range 2 {
			r.pass(time.Minute)
			state, _ := s.State(t.Context())
			r.bus.Discard(state.Last + 1)
			r.pass(5 * time.Second)
			state, _ = s.State(t.Context())
			w, _, err := events.LatestCheckpoint(t.Context(), s.Blobs(), state, state.Last, world.ReadCheckpoint, nil)
			if err != nil || !w.Synced() || w.Torn() || countPods(w) != 3 {
				t.Fatalf("nothing to start from: %v", err)
			}
		}
		r.pass(time.Hour)
		if all, err := events.Checkpoints(t.Context(), s.Blobs()); err != nil || len(all) > 3 {
			t.Errorf("%d checkpoints: %v", len(all), err)
		}
	})
}

func numbers(list []events.Checkpoint) (all []string) {
	for _, p := range list {
		all = append(all, fmt.Sprintf("%s:%d", p.Incarnation, p.Sequence))
	}
	slices.Sort(all)
	return all
}

func points(incarnation string, sequences ...uint64) (all []events.Checkpoint) {
	for _, n := range sequences {
		all = append(all, events.Checkpoint{Incarnation: incarnation, Sequence: n})
	}
	return all
}

func TestWhichCheckpointsAreKept(t *testing.T) {
	state := events.StreamState{Incarnation: "s_3", First: 50, Last: 1000}
	cases := map[string]struct {
		all, want []events.Checkpoint
	}{
		"none":                                   {nil, nil},
		"the newest three, even below the first": {points("s_3", 1, 2, 3), points("s_3", 1, 2, 3)},
		"older ones from which the stream goes on":   {points("s_3", 10, 48, 49, 60, 100, 200, 300), points("s_3", 49, 60, 100, 200, 300)},
		"three of the incarnation before":            {slices.Concat(points("s_1", 9), points("s_2", 5, 6, 7, 8), points("s_3", 60)), slices.Concat(points("s_2", 6, 7, 8), points("s_3", 60))},
		"the incarnation before by number, not text": {slices.Concat(points("s_10", 9), points("s_9", 5)), points("s_10", 9)},
		"many older ones are thinned evenly": {
			points("s_3", 100, 110, 200, 210, 300, 310, 400, 410, 500, 510, 600, 610, 700, 710, 800, 900, 1000),
			points("s_3", 100, 200, 300, 400, 500, 600, 700, 710, 800, 900, 1000),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, want := numbers(kept(c.all, state)), numbers(c.want)
			if name == "many older ones are thinned evenly" {
				checkEven(t, kept(c.all, state))
				return
			}
			if !slices.Equal(got, want) {
				t.Fatalf("kept %v, want %v", got, want)
			}
		})
	}
}

// checkEven: as many as allowed, both ends there, and no hole larger than two of the steps there were.
func checkEven(t *testing.T, list []events.Checkpoint) {
	t.Helper()
	if len(list) != checkpointsNewest+checkpointsOlder || list[0].Sequence != 100 || list[len(list)-1].Sequence != 1000 {
		t.Fatalf("kept %v", numbers(list))
	}
	for i := 1; i < len(list); i++ {
		if list[i].Sequence-list[i-1].Sequence > 200 {
			t.Fatalf("hole in %v", numbers(list))
		}
	}
}

func TestCataloguesNobodyNamesAreDeleted(t *testing.T) {
	withAWS(t, func(t *testing.T, r *rig, aws *fakeAWS) {
		aws.synced.Store(true)
		old := storeCatalog(t, aws.emitter, 11)
		r.pass(2 * time.Second)
		current := storeCatalog(t, aws.emitter, 12)
		names := func() []string {
			got, err := r.w.Blobs().List(t.Context(), events.CatalogBlob(""))
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		r.pass(15 * time.Minute)
		if got := names(); len(got) != 2 {
			t.Fatalf("%v, while a retained message names both", got)
		}
		state, _ := r.bus.Connect(1).State(t.Context())
		r.bus.Discard(state.Last)
		r.pass(25 * time.Minute)
		if got := names(); len(got) != 1 || got[0] != events.CatalogBlob(current.Hash) {
			t.Fatalf("%v, want only that of generation 12; old was %s", got, old.Hash)
		}
	})
}

// leavings is a stream whose store holds what crashed writers left, until it is collected.
type leavings struct {
	events.Stream
	left *atomic.Int32
}

func (s leavings) Blobs() events.Blobs { return leftBlobs{s.Stream.Blobs(), s.left} }

type leftBlobs struct {
	events.Blobs
	left *atomic.Int32
}

func (b leftBlobs) CollectOrphans(context.Context) (int, error) { return int(b.left.Swap(0)), nil }

func TestWhatCrashedWritersLeftIsCollected(t *testing.T) {
	left := &atomic.Int32{}
	run(t, func(c *Config) {
		c.CheckpointMessages, c.Stream = 20, leavings{c.Stream, left}
	}, func(t *testing.T, r *rig) {
		for range 2 {
			left.Store(3)
			for range 40 {
				r.kube.put("a")
				r.pass(100 * time.Millisecond)
			}
			r.pass(2 * time.Second)
			if n := left.Load(); n != 0 {
				t.Fatalf("parts of %d blobs are left", n)
			}
		}
	})
}

// What is remembered of catalogues that somebody else deleted goes.
func TestDeletedCataloguesAreForgotten(t *testing.T) {
	withAWS(t, func(t *testing.T, r *rig, aws *fakeAWS) {
		aws.synced.Store(true)
		storeCatalog(t, aws.emitter, 1)
		r.pass(2 * time.Second)
		c := newCheckpoints(r.w)
		state, err := r.bus.Connect(1).State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before := storeCatalog(t, aws.emitter, 99)
		for i := range 200 {
			now := storeCatalog(t, aws.emitter, int64(100+i))
			if err := c.collectCatalogs(t.Context(), state); err != nil {
				t.Fatal(err)
			}
			if err := r.w.Blobs().Delete(t.Context(), events.CatalogBlob(before.Hash)); err != nil {
				t.Fatal(err)
			}
			before = now
		}
		if err := c.collectCatalogs(t.Context(), state); err != nil || len(c.superseded) > 2 {
			t.Errorf("%d catalogues are remembered, %v", len(c.superseded), err)
		}
	})
}

// source is a World that does not change.
type source struct{ *world.World }

func (s source) Position() (events.Position, bool) { return s.World.Position(), s.Synced() }

// A World of the epoch of a later version's watcher lacks what this version does not know. Readers of that
// version would start from it.
func TestNoCheckpointIsMadeOfAWorldThatIsIncomplete(t *testing.T) {
	run(t, nil, func(t *testing.T, r *rig) {
		w := world.New()
		w.SetIncarnation("stream")
		c := newCheckpoints(r.w)
		c.source = source{w}
		sequence := uint64(0)
		apply := func(epoch uint64, kind events.Kind, op events.Op) {
			sequence++
			w.Apply(sequence, events.Observation{Epoch: epoch, Counter: sequence, Kind: kind, Op: op, Name: "a"})
		}
		apply(1, events.KindNone, events.OpResyncBegin)
		apply(1, 200, events.OpUpsert)
		apply(1, events.KindNone, events.OpResyncEnd)
		if c.due() {
			t.Error("due although it lacks an object")
		}
		apply(2, events.KindNone, events.OpResyncBegin)
		apply(2, events.KindNone, events.OpResyncEnd)
		if !c.due() {
			t.Error("not due although it lacks nothing")
		}
	})
}
