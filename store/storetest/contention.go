package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"millwright/store"
)

var contentionTests = map[string]func(*testing.T, Harness){
	"a moved head is the client's business, not the caller's": func(t *testing.T, h Harness) {
		clients := []store.Log{h.Log, h.Open(), h.Open()}
		for i := range 60 {
			if r := mustAppend(t, clients[i%3], draft(i)); r.Seq != uint64(i+2) {
				t.Fatalf("append %d became record %d", i, r.Seq)
			}
		}
		if _, err := h.Log.Verify(bounded(t)); err != nil {
			t.Fatal(err)
		}
	},
	"five writers at once: every record is stored once": func(t *testing.T, h Harness) {
		const writers, each = 5, 80
		clients := []store.Log{h.Log}
		for len(clients) < writers {
			clients = append(clients, h.Open())
		}
		race(t, writers*each, func(i int) error {
			_, err := clients[i%writers].Append(bounded(t), store.Draft{Payload: fmt.Appendf(nil, "%d", i)})
			return err
		}, nil)
		seen := map[string]int{}
		for _, r := range mustRead(t, h.Log, 2, writers*each) {
			seen[string(r.Payload)]++
		}
		if len(seen) != writers*each {
			t.Fatalf("%d different records of %d", len(seen), writers*each)
		}
		if seq, err := h.Log.Verify(bounded(t)); err != nil || seq != writers*each+1 {
			t.Fatalf("verified to %d, %v", seq, err)
		}
	},
	"counters behind aggregates lose no update":      testCounters,
	"any history agrees with a model of the promise": testModel,
}

// testCounters: each worker adds to shared counters the optimistic way. The log must let no update be lost.
func testCounters(t *testing.T, h Harness) {
	const workers, each = 8, 15
	clients := []store.Log{h.Log, h.Open(), h.Open()}
	race(t, workers, func(i int) error {
		for n := range each {
			if err := increment(bounded(t), clients[i%len(clients)], fmt.Sprintf("counter/%d", n%3)); err != nil {
				return err
			}
		}
		return nil
	}, nil)
	stored := map[string]int{}
	last := map[string]uint64{}
	for _, r := range mustRead(t, h.Log, 2, workers*each) {
		name := r.Advances[0]
		if string(r.Payload) != fmt.Sprint(last[name]) {
			t.Fatalf("record %d was written upon %s of %s, which stood at %d", r.Seq, r.Payload, name, last[name])
		}
		last[name] = r.Seq
		stored[name]++
	}
	if want := map[string]int{"counter/0": 40, "counter/1": 40, "counter/2": 40}; !maps.Equal(stored, want) {
		t.Fatalf("counted %v", stored)
	}
}

func increment(ctx context.Context, l store.Log, name string) error {
	for {
		at, err := l.Aggregate(ctx, name)
		if err != nil {
			return err
		}
		_, err = l.Append(ctx, store.Draft{
			Payload: fmt.Append(nil, at), Expects: map[string]uint64{name: at}, Advances: []string{name},
		})
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// testModel draws histories of appends by several clients and predicts every answer.
func testModel(t *testing.T, h Harness) {
	clients := []store.Log{h.Log, h.Open(), h.Open()}
	aggregates := map[string]uint64{}
	last := h.head(t)
	rapid.Check(t, func(rt *rapid.T) {
		for range rapid.IntRange(1, 12).Draw(rt, "appends") {
			d := drawDraft(rt, aggregates, last)
			_, err := clients[rapid.IntRange(0, 2).Draw(rt, "client")].Append(bounded(t), d)
			if want := admits(aggregates, d); !errors.Is(err, want) || (want == nil && err != nil) {
				rt.Fatalf("append of %v upon %v: got %v, want %v", d, aggregates, err, want)
			}
			if err != nil {
				continue
			}
			last++
			for _, a := range d.Advances {
				aggregates[a] = last
			}
			for _, a := range d.Retires {
				delete(aggregates, a)
			}
		}
		if head := h.head(t); head != last {
			rt.Fatalf("head %d, want %d", head, last)
		}
	})
	if seq, err := h.Log.Verify(bounded(t)); err != nil || seq != last {
		t.Fatalf("verified to %d of %d, %v", seq, last, err)
	}
}

func (h Harness) head(t *testing.T) uint64 {
	t.Helper()
	head, err := h.Log.Head(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	return head.Seq
}

func admits(aggregates map[string]uint64, d store.Draft) error {
	for name, want := range d.Expects {
		if aggregates[name] != want {
			return store.ErrConflict
		}
	}
	return nil
}

var modelNames = []string{"pool/a", "pool/b", "node/x", "claim/y", "command/z"}

// drawDraft mostly expects what is true, else any sequence up to the next.
func drawDraft(rt *rapid.T, aggregates map[string]uint64, last uint64) store.Draft {
	d := store.Draft{Expects: map[string]uint64{}}
	for _, name := range drawNames(rt, "expects") {
		d.Expects[name] = aggregates[name]
		if rapid.IntRange(0, 4).Draw(rt, "stale") == 0 {
			d.Expects[name] = rapid.Uint64Range(0, last+1).Draw(rt, "sequence")
		}
	}
	d.Advances = drawNames(rt, "advances")
	for _, name := range drawNames(rt, "retires") {
		if d.Expects[name] > 0 && !slices.Contains(d.Advances, name) {
			d.Retires = append(d.Retires, name)
		}
	}
	d.Payload = rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(rt, "payload")
	return d
}

func drawNames(rt *rapid.T, label string) []string {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom(modelNames), 0, 3, rapid.ID[string]).Draw(rt, label)
	slices.Sort(names)
	return names
}
