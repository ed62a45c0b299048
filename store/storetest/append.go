package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"millwright/store"
)

var appendTests = map[string]func(*testing.T, Harness){
	"the genesis holds a log-id that every client sees": func(t *testing.T, h Harness) {
		if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(h.Log.ID()) {
			t.Fatalf("log-id %q", h.Log.ID())
		}
		if other := h.Open(); other.ID() != h.Log.ID() {
			t.Fatalf("second client sees log-id %s, first %s", other.ID(), h.Log.ID())
		}
		first := mustRead(t, h.Log, 1, 1)[0]
		var payload struct{ LogID, Cluster string }
		if err := json.Unmarshal(first.Payload, &payload); err != nil {
			t.Fatal(err)
		}
		if payload.LogID != h.Log.ID() || payload.Cluster != h.Cluster || first.Kind != store.KindGenesis || first.Seq != 1 {
			t.Fatalf("genesis %+v with payload %+v", first, payload)
		}
	},
	"a record comes back as it was appended": func(t *testing.T, h Harness) {
		for i := range 5 {
			d := draft(i)
			got := mustAppend(t, h.Log, d)
			want := store.Record{Seq: uint64(i + 2), Draft: d, PrevHash: got.PrevHash, Hash: got.Hash}
			if s := diff(want, got); s != "" {
				t.Fatalf("appended (-want +got):\n%s", s)
			}
			if s := diff(want, mustRead(t, h.Open(), got.Seq, 1)[0]); s != "" {
				t.Fatalf("read by another client (-want +got):\n%s", s)
			}
		}
	},
	"each record names the hash of the one before": func(t *testing.T, h Harness) {
		all := fill(t, h.Log, 6)
		for i := 1; i < len(all); i++ {
			if all[i].PrevHash != all[i-1].Hash {
				t.Fatalf("record %d does not follow record %d", all[i].Seq, all[i-1].Seq)
			}
		}
		head, err := h.Log.Head(bounded(t))
		if last := all[len(all)-1]; err != nil || head.Seq != last.Seq || head.Hash != last.Hash {
			t.Fatalf("head %v, %v; last record %d", head, err, last.Seq)
		}
	},
	"the smallest draft is stored": func(t *testing.T, h Harness) {
		r := mustAppend(t, h.Log, store.Draft{})
		got := mustRead(t, h.Log, r.Seq, 1)[0]
		if s := diff(r, got); s != "" || !got.Now.IsZero() {
			t.Fatalf("(-appended +read):\n%s", s)
		}
	},
	"time does not go back by a little": func(t *testing.T, h Harness) {
		late, early := draft(5), draft(1)
		mustAppend(t, h.Log, late)
		if got := mustAppend(t, h.Log, early); !got.Time.Equal(late.Time) {
			t.Fatalf("time %s after %s", got.Time, late.Time)
		}
	},
	"a record from the future moves no other": func(t *testing.T, h Harness) {
		late, early := draft(100), draft(1)
		mustAppend(t, h.Log, late)
		got := mustAppend(t, h.Log, early)
		if !got.Time.Equal(early.Time) {
			t.Fatalf("time %s after %s, want %s", got.Time, late.Time, early.Time)
		}
		if last, err := h.Log.Verify(bounded(t)); err != nil || last != got.Seq {
			t.Fatalf("verified up to %d of %d: %v", last, got.Seq, err)
		}
	},
	"times keep their instant whatever their zone": func(t *testing.T, h Harness) {
		d := draft(1)
		d.Time = d.Time.In(time.FixedZone("far", 7*3600))
		d.Now = time.Now().Add(time.Hour) // with a monotonic reading
		r := mustAppend(t, h.Log, d)
		if got := mustRead(t, h.Log, r.Seq, 1)[0]; !got.Time.Equal(d.Time) || !got.Now.Equal(d.Now) {
			t.Fatalf("read %s and %s, want %s and %s", got.Time, got.Now, d.Time, d.Now)
		}
	},
	"unknown kinds are handed over raw": func(t *testing.T, h Harness) {
		for _, kind := range []uint16{0, 999, 65535} {
			d := draft(1)
			d.Kind, d.Payload = kind, []byte{0xff, 0x00, 0x80}
			r := mustAppend(t, h.Log, d)
			if got := mustRead(t, h.Log, r.Seq, 1)[0]; got.Kind != kind || !bytes.Equal(got.Payload, d.Payload) {
				t.Fatalf("read kind %d with payload %x", got.Kind, got.Payload)
			}
		}
	},
	"a long payload and explanation become blobs unnoticed": func(t *testing.T, h Harness) {
		d := draft(1)
		d.Payload = bytes.Repeat([]byte("payload "), 400_000)
		d.Explanation = bytes.Repeat([]byte("because "), 20_000)
		r := mustAppend(t, h.Log, d)
		got := mustRead(t, h.Open(), r.Seq, 1)[0]
		if !bytes.Equal(got.Payload, d.Payload) || !bytes.Equal(got.Explanation, d.Explanation) || !bytes.Equal(r.Payload, d.Payload) {
			t.Fatalf("read %d and %d bytes", len(got.Payload), len(got.Explanation))
		}
	},
	"what cannot be stored is refused and nothing else": func(t *testing.T, h Harness) {
		long, many, text, when := draft(1), draft(1), draft(1), draft(1)
		long.Subjects = []string{strings.Repeat("x", store.MaxRecordBytes)}
		for i := range store.MaxAggregates {
			many.Advances = append(many.Advances, fmt.Sprintf("node/%d", i))
		}
		for _, d := range []store.Draft{long, many} {
			_, err := h.Log.Append(bounded(t), d)
			wantError(t, err, store.ErrTooLarge)
		}
		text.Subjects, when.Now = []string{"\xff"}, time.Date(1, 2, 3, 4, 5, 6, 7, time.UTC)
		for _, d := range []store.Draft{text, when, {Advances: []string{""}}, {Expects: map[string]uint64{"": 1}}} {
			if _, err := h.Log.Append(bounded(t), d); err == nil {
				t.Fatalf("stored %+v", d)
			}
		}
		mustRead(t, h.Log, 1, 1)
	},
	"an ended context stores nothing": func(t *testing.T, h Harness) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := h.Log.Append(ctx, draft(1))
		wantError(t, err, context.Canceled)
		mustRead(t, h.Log, 1, 1)
	},
	"aggregates are expected and advanced":           testAggregates,
	"a draft may name hundreds of aggregates":        testManyAggregates,
	"a conflict does not fail the others of a group": testGroupConflict,
	"two of a group that exclude each other: one is stored": func(t *testing.T, h Harness) {
		const n = 20
		stored, refused := race(t, n, func(i int) error {
			d := draft(i)
			d.Expects, d.Advances = map[string]uint64{"pool/only": 0}, []string{"pool/only"}
			_, err := h.Log.Append(bounded(t), d)
			return err
		}, store.ErrConflict)
		if stored != 1 || refused != n-1 {
			t.Fatalf("%d stored, %d refused", stored, refused)
		}
	},
	"the caller's slices are its own again": func(t *testing.T, h Harness) {
		d := draft(1)
		r := mustAppend(t, h.Log, d)
		d.Payload[0], d.Subjects[0], d.Advances[0] = 'X', "changed", "changed"
		want := draft(1)
		if got := mustRead(t, h.Log, r.Seq, 1)[0]; !bytes.Equal(got.Payload, want.Payload) || got.Subjects[0] != want.Subjects[0] {
			t.Fatalf("the stored record changed: %+v", got)
		}
	},
	"a closed log appends nothing": func(t *testing.T, h Harness) {
		l := h.Open()
		if l == h.Log {
			t.Log("one client only: closing it is what is tested")
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(bounded(t), draft(1)); err == nil {
			t.Fatal("appended to a closed log")
		}
	},
}

func testAggregates(t *testing.T, h Harness) {
	other := h.Open()
	first := mustAppend(t, h.Log, store.Draft{Expects: map[string]uint64{"pool/a": 0}, Advances: []string{"pool/a", "node/x"}})
	steps := []struct {
		name    string
		log     store.Log
		expects map[string]uint64
		want    error
	}{
		{"never advanced, but it was", h.Log, map[string]uint64{"pool/a": 0}, store.ErrConflict},
		{"a sequence of the future", h.Log, map[string]uint64{"pool/a": first.Seq + 5}, store.ErrConflict},
		{"by another client", other, map[string]uint64{"pool/a": first.Seq, "node/x": first.Seq, "pool/b": 0}, nil},
		{"expecting does not advance", other, map[string]uint64{"pool/a": first.Seq}, nil},
		{"one of two moved", h.Log, map[string]uint64{"pool/a": first.Seq, "node/x": 0}, store.ErrConflict},
	}
	for _, s := range steps {
		_, err := s.log.Append(bounded(t), store.Draft{Expects: s.expects})
		if !errors.Is(err, s.want) || (err != nil && s.want == nil) {
			t.Fatalf("%s: got %v, want %v", s.name, err, s.want)
		}
	}
	forced := mustAppend(t, other, store.Draft{Advances: []string{"pool/a"}})
	if _, err := h.Log.Append(bounded(t), store.Draft{Expects: map[string]uint64{"pool/a": forced.Seq}}); err != nil {
		t.Fatalf("a client that has not seen the last append refused it: %v", err)
	}
	for name, want := range map[string]uint64{"pool/a": forced.Seq, "node/x": first.Seq, "pool/b": 0} {
		if got, err := h.Log.Aggregate(bounded(t), name); err != nil || got != want {
			t.Fatalf("aggregate %s at %d, %v; want %d", name, got, err, want)
		}
	}
}

func testManyAggregates(t *testing.T, h Harness) {
	d := store.Draft{Expects: map[string]uint64{}}
	for i := range store.MaxAggregates / 2 {
		name := fmt.Sprintf("node/%04d", i)
		d.Expects[name] = 0
		d.Advances = append(d.Advances, name)
	}
	r := mustAppend(t, h.Log, d)
	for _, name := range []string{"node/0000", "node/0200", d.Advances[len(d.Advances)-1]} {
		if got, err := h.Open().Aggregate(bounded(t), name); err != nil || got != r.Seq {
			t.Fatalf("aggregate %s at %d, %v; want %d", name, got, err, r.Seq)
		}
	}
	_, err := h.Log.Append(bounded(t), d)
	wantError(t, err, store.ErrConflict)
}

func testGroupConflict(t *testing.T, h Harness) {
	mustAppend(t, h.Log, store.Draft{Advances: []string{"pool/moved"}})
	stored, refused := race(t, 60, func(i int) error {
		d := draft(i)
		if i%6 == 0 {
			d.Expects = map[string]uint64{"pool/moved": 0}
		}
		_, err := h.Log.Append(bounded(t), d)
		return err
	}, store.ErrConflict)
	if stored != 50 || refused != 10 {
		t.Fatalf("%d stored, %d refused; want 50 and 10", stored, refused)
	}
	mustRead(t, h.Log, 1, 52)
}

// race runs n calls at once and counts those without error and those with the expected one.
func race(t *testing.T, n int, call func(i int) error, expected error) (ok, failed int) {
	t.Helper()
	var wg sync.WaitGroup
	errs := make([]error, n)
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-begin
			errs[i] = call(i)
		})
	}
	close(begin)
	wg.Wait()
	for i, err := range errs {
		switch {
		case err == nil:
			ok++
		case errors.Is(err, expected):
			failed++
		default:
			t.Errorf("call %d: %v", i, err)
		}
	}
	return ok, failed
}
