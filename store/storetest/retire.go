package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"millwright/store"
)

var retireTests = map[string]func(*testing.T, Harness){
	"what is retired stands at 0 again, with its record": func(t *testing.T, h Harness) {
		other := h.Open()
		at := mustAppend(t, h.Log, store.Draft{Advances: []string{"node/a", "node/b"}}).Seq
		mustAppend(t, other, store.Draft{Expects: map[string]uint64{"node/a": at}}) // now the sequence of that one is known
		rec := mustAppend(t, h.Log, retirement(at, "node/a"))
		if rec.Retires != nil {
			t.Errorf("the record keeps what it retires: %v", rec.Retires)
		}
		for name, want := range map[string]uint64{"node/a": 0, "node/b": at} {
			if got, err := other.Aggregate(bounded(t), name); err != nil || got != want {
				t.Errorf("aggregate %s at %d, %v; want %d", name, got, err, want)
			}
		}
		for _, log := range []store.Log{h.Log, other} {
			_, err := log.Append(bounded(t), store.Draft{Expects: map[string]uint64{"node/a": at}})
			wantError(t, err, store.ErrConflict)
			mustAppend(t, log, store.Draft{Expects: map[string]uint64{"node/a": 0, "node/b": at}})
		}
		again := mustAppend(t, other, store.Draft{Expects: map[string]uint64{"node/a": 0}, Advances: []string{"node/a"}})
		_, err := h.Log.Append(bounded(t), retirement(at, "node/a"))
		wantError(t, err, store.ErrConflict)
		mustAppend(t, h.Log, retirement(again.Seq, "node/a"))
	},
	"nothing is retired where one has moved": func(t *testing.T, h Harness) {
		at := mustAppend(t, h.Log, store.Draft{Advances: []string{"node/a", "node/b"}}).Seq
		moved := mustAppend(t, h.Open(), store.Draft{Advances: []string{"node/b"}}).Seq
		_, err := h.Log.Append(bounded(t), retirement(at, "node/a", "node/b"))
		wantError(t, err, store.ErrConflict)
		for name, want := range map[string]uint64{"node/a": at, "node/b": moved} {
			if got, err := h.Log.Aggregate(bounded(t), name); err != nil || got != want {
				t.Errorf("aggregate %s at %d, %v; want %d", name, got, err, want)
			}
		}
	},
	"only what is expected where it stands is retired": func(t *testing.T, h Harness) {
		at := mustAppend(t, h.Log, store.Draft{Advances: []string{"node/a"}}).Seq
		for name, d := range map[string]store.Draft{
			"not expected":  {Retires: []string{"node/a"}},
			"expected at 0": {Retires: []string{"node/z"}, Expects: map[string]uint64{"node/z": 0}},
			"also advanced": {Retires: []string{"node/a"}, Expects: map[string]uint64{"node/a": at}, Advances: []string{"node/a"}},
		} {
			if _, err := h.Log.Append(bounded(t), d); err == nil {
				t.Errorf("%s: retired", name)
			}
		}
	},
	"a record may retire hundreds": func(t *testing.T, h Harness) {
		var names []string
		for i := range store.MaxAggregates - 1 {
			names = append(names, fmt.Sprintf("claim/%04d", i))
		}
		at := mustAppend(t, h.Log, store.Draft{Advances: names}).Seq
		d := retirement(at, names...)
		d.Advances = []string{"ledger/retired"}
		mustAppend(t, h.Open(), d)
		for _, name := range []string{names[0], names[500], names[len(names)-1]} {
			if got, err := h.Log.Aggregate(bounded(t), name); err != nil || got != 0 {
				t.Errorf("aggregate %s at %d, %v", name, got, err)
			}
		}
	},
	"writers and those who retire agree on what stands where": testRetireRace,
}

// retirement of aggregates that are all at one record.
func retirement(at uint64, names ...string) store.Draft {
	d := store.Draft{Expects: map[string]uint64{}, Retires: names, Payload: []byte("retired")}
	for _, name := range names {
		d.Expects[name] = at
	}
	return d
}

// testRetireRace: workers increment aggregates and retire them again and again. Read in order, each record
// was written on the state that the ones before left.
func testRetireRace(t *testing.T, h Harness) {
	const workers, each = 6, 25
	clients := []store.Log{h.Log, h.Open(), h.Open()}
	race(t, workers, func(i int) error {
		for n := range each {
			name, client := fmt.Sprintf("node/%d", n%3), clients[i%len(clients)]
			if err := increment(bounded(t), client, name); err != nil {
				return err
			}
			if n%4 != i%4 {
				continue
			}
			if err := retireOnce(bounded(t), client, name); err != nil {
				return err
			}
		}
		return nil
	}, nil)
	records, err := h.Log.Read(bounded(t), 2, 2*workers*each)
	if err != nil {
		t.Fatal(err)
	}
	at, retired := map[string]uint64{}, 0
	for _, r := range records {
		name, advances := "", len(r.Advances) == 1
		if advances {
			name = r.Advances[0]
		} else {
			name, retired = r.Subjects[0], retired+1
		}
		if string(r.Payload) != fmt.Sprint(at[name]) {
			t.Fatalf("record %d was written upon %s at %s, which stood at %d", r.Seq, name, r.Payload, at[name])
		}
		if at[name] = 0; advances {
			at[name] = r.Seq
		}
	}
	for name, want := range at {
		if got, err := h.Open().Aggregate(bounded(t), name); err != nil || got != want {
			t.Errorf("aggregate %s at %d, %v; want %d", name, got, err, want)
		}
	}
	if retired == 0 {
		t.Error("nothing was retired")
	}
}

// retireOnce retires an aggregate, or finds it retired.
func retireOnce(ctx context.Context, l store.Log, name string) error {
	for {
		at, err := l.Aggregate(ctx, name)
		if err != nil || at == 0 {
			return err
		}
		d := retirement(at, name)
		d.Payload, d.Subjects = fmt.Append(nil, at), []string{name}
		if _, err = l.Append(ctx, d); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}
