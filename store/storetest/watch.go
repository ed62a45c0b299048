package storetest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"millwright/store"
)

var watchTests = map[string]func(*testing.T, Harness){
	"a watch gives what is there and what comes, once and in order": func(t *testing.T, h Harness) {
		want := fill(t, h.Log, 300)
		w := watch(t, h.Open(), 1)
		w.await(t, 301)
		for i := range 50 {
			want = append(want, mustAppend(t, h.Log, draft(i)))
		}
		if s := diff(want, w.await(t, 351)); s != "" {
			t.Fatalf("(-appended +watched):\n%s", s)
		}
	},
	"a watch begins where it is told to, also in the future": func(t *testing.T, h Harness) {
		fill(t, h.Log, 5)
		middle, future := watch(t, h.Log, 4), watch(t, h.Log, 8)
		fillMore(t, h.Log, 5)
		if got := sequences(middle.await(t, 8)); got[0] != 4 || got[7] != 11 {
			t.Fatalf("from 4: %v", got)
		}
		if got := sequences(future.await(t, 4)); got[0] != 8 {
			t.Fatalf("from 8: %v", got)
		}
	},
	"a watch sees the writers of all clients in the one order": func(t *testing.T, h Harness) {
		watchers := []*watcher{watch(t, h.Log, 1), watch(t, h.Open(), 1), watch(t, h.Open(), 1)}
		clients := []store.Log{h.Log, h.Open(), h.Open()}
		race(t, 120, func(i int) error {
			_, err := clients[i%3].Append(bounded(t), draft(i))
			return err
		}, nil)
		want := mustRead(t, h.Log, 1, 121)
		for _, w := range watchers {
			if s := diff(want, w.await(t, 121)); s != "" {
				t.Fatalf("(-read +watched):\n%s", s)
			}
		}
	},
	"a watch resumes after disturbances without gap or repeat": func(t *testing.T, h Harness) {
		if h.Disturb == nil {
			h.Disturb = func() {}
		}
		w := watch(t, h.Open(), 1)
		for i := range 60 {
			mustAppend(t, h.Log, draft(i))
			if i%20 == 10 {
				h.Disturb()
			}
		}
		if got := w.await(t, 61); !consecutive(got, 1) {
			t.Fatalf("watched %v", sequences(got))
		}
	},
	"a watch outlives compaction behind it": func(t *testing.T, h Harness) {
		w := watch(t, h.Open(), 1)
		for round := range 5 {
			fillMore(t, h.Log, 20)
			w.await(t, 20*(round+1)+1) // it has seen what is deleted now
			if err := h.Compact(bounded(t), headAt(t, h.Log, uint64(20*(round+1)-5))); err != nil {
				t.Fatal(err)
			}
		}
		fillMore(t, h.Log, 3)
		if got := w.await(t, 104); !consecutive(got, 1) {
			t.Fatalf("watched %v", sequences(got))
		}
	},
	"long payloads are watched in full": func(t *testing.T, h Harness) {
		w := watch(t, h.Open(), 1)
		d := draft(1)
		d.Payload = make([]byte, 2<<20)
		want := mustAppend(t, h.Log, d)
		if got := w.await(t, 2)[1]; !bytes.Equal(got.Payload, want.Payload) || got.Hash != want.Hash {
			t.Fatalf("watched %d of %d bytes", len(got.Payload), len(want.Payload))
		}
	},
	"the error of the callback ends the watch": func(t *testing.T, h Harness) {
		fill(t, h.Log, 5)
		enough := errors.New("enough")
		var got []uint64
		err := h.Log.Watch(bounded(t), 1, func(r store.Record) error {
			if got = append(got, r.Seq); r.Seq == 3 {
				return enough
			}
			return nil
		})
		wantError(t, err, enough)
		if !slices.Equal(got, []uint64{1, 2, 3}) {
			t.Fatalf("watched %v", got)
		}
	},
	"the end of the context ends the watch": func(t *testing.T, h Harness) {
		ctx, cancel := context.WithCancel(bounded(t))
		err := h.Log.Watch(ctx, 1, func(store.Record) error { cancel(); return nil })
		wantError(t, err, context.Canceled)
	},
	"a watch stops at an unparsable record and says which": func(t *testing.T, h Harness) {
		fill(t, h.Log, 5)
		h.Tamper.Garble(4)
		var got []uint64
		err := h.Log.Watch(bounded(t), 1, func(r store.Record) error { got = append(got, r.Seq); return nil })
		wantFault(t, err, 4)
		if !slices.Equal(got, []uint64{1, 2, 3}) {
			t.Fatalf("watched %v", got)
		}
	},
}

func fillMore(t *testing.T, l store.Log, n int) {
	t.Helper()
	for i := range n {
		mustAppend(t, l, draft(i))
	}
}

func consecutive(records []store.Record, first uint64) bool {
	for i, r := range records {
		if r.Seq != first+uint64(i) {
			return false
		}
	}
	return true
}

// watcher collects what one Watch delivers.
type watcher struct {
	records chan store.Record
	got     []store.Record
}

func watch(t *testing.T, l store.Log, from uint64) *watcher {
	t.Helper()
	w := &watcher{records: make(chan store.Record, 10000)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = l.Watch(ctx, from, func(r store.Record) error { w.records <- r; return nil })
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return w
}

// await returns all records so far once there are n.
func (w *watcher) await(t *testing.T, n int) []store.Record {
	t.Helper()
	ctx := bounded(t)
	for len(w.got) < n {
		select {
		case r := <-w.records:
			w.got = append(w.got, r)
		case <-ctx.Done():
			t.Fatalf("watched %d records, want %d: %v", len(w.got), n, sequences(w.got))
		}
	}
	return slices.Clone(w.got)
}
