package storetest

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"millwright/store"
)

var readTests = map[string]func(*testing.T, Harness){
	"reading takes what is asked for, in order": func(t *testing.T, h Harness) {
		fill(t, h.Log, 9)
		for _, c := range []struct {
			from  uint64
			limit int
			want  []uint64
		}{
			{0, 2, []uint64{1, 2}}, {1, 1, []uint64{1}}, {4, 3, []uint64{4, 5, 6}}, {9, 5, []uint64{9, 10}},
			{10, 1, []uint64{10}}, {11, 5, nil}, {99, 5, nil}, {8, 0, []uint64{8, 9, 10}},
		} {
			got, err := h.Log.Read(bounded(t), c.from, c.limit)
			if err != nil || !slices.Equal(sequences(got), c.want) {
				t.Fatalf("read %d from %d: %v, %v; want %v", c.limit, c.from, sequences(got), err, c.want)
			}
		}
	},
	"a log longer than any page is read as a whole": func(t *testing.T, h Harness) {
		const n = 700
		race(t, n, func(i int) error {
			_, err := h.Log.Append(bounded(t), draft(i))
			return err
		}, nil)
		for i, r := range mustRead(t, h.Log, 1, n+1) {
			if r.Seq != uint64(i+1) {
				t.Fatalf("record %d at place %d", r.Seq, i+1)
			}
		}
	},
	"an unparsable record is refused by its sequence, after those before it": func(t *testing.T, h Harness) {
		fill(t, h.Log, 6)
		h.Tamper.Garble(4)
		got, err := h.Log.Read(bounded(t), 2, 10)
		wantFault(t, err, 4)
		if !slices.Equal(sequences(got), []uint64{2, 3}) {
			t.Fatalf("read %v before the fault", sequences(got))
		}
		if got, err = h.Log.Read(bounded(t), 5, 10); err != nil || len(got) != 3 {
			t.Fatalf("beyond the fault: %v, %v", sequences(got), err)
		}
	},
	"a changed or missing record is refused by its sequence": func(t *testing.T, h Harness) {
		fill(t, h.Log, 6)
		h.Tamper.Change(3)
		_, err := h.Log.Read(bounded(t), 3, 1)
		wantFault(t, err, 3)
	},
	"a missing record is refused by its sequence": func(t *testing.T, h Harness) {
		fill(t, h.Log, 6)
		h.Tamper.Remove(5)
		_, err := h.Log.Read(bounded(t), 4, 10)
		wantFault(t, err, 5)
	},
	"nothing is deleted if the last record is not the one that was archived": func(t *testing.T, h Harness) {
		fill(t, h.Log, 10)
		other := headAt(t, h.Log, 6)
		other.Hash[0] ^= 1
		wantError(t, h.Compact(bounded(t), other), store.ErrCorrupt)
		mustRead(t, h.Open(), 1, 11)
	},
	"what was compacted says so, and the rest goes on": func(t *testing.T, h Harness) {
		fill(t, h.Log, 10)
		if err := h.Compact(bounded(t), headAt(t, h.Log, 6)); err != nil {
			t.Fatal(err)
		}
		got, err := h.Log.Read(bounded(t), 3, 5)
		wantError(t, err, store.ErrCompacted)
		if len(got) != 0 {
			t.Fatalf("read %v out of what was compacted", sequences(got))
		}
		if got := mustRead(t, h.Open(), 7, 5); got[0].Seq != 7 {
			t.Fatalf("read %v", sequences(got))
		}
		if got, err := h.Log.Read(bounded(t), 1, 1); err != nil || got[0].Seq != 1 {
			t.Fatalf("the genesis is gone: %v", err)
		}
		wantError(t, h.Log.Watch(bounded(t), 4, func(store.Record) error { return nil }), store.ErrCompacted)
		if seq, err := h.Log.Verify(bounded(t)); err != nil || seq != 11 {
			t.Fatalf("verify: %d, %v", seq, err)
		}
		if r := mustAppend(t, h.Log, draft(1)); r.Seq != 12 {
			t.Fatalf("appended as %d", r.Seq)
		}
		if err := h.Compact(bounded(t), store.Head{Seq: 40}); err == nil {
			t.Fatal("compacted beyond the head")
		}
	},
}

var blobTests = map[string]func(*testing.T, Harness){
	"blobs of any size come back": func(t *testing.T, h Harness) {
		noise := make([]byte, 5<<20+17)
		rand.NewChaCha8([32]byte{1}).Read(noise)
		for _, size := range []int{0, 1, 1 << 20, 1<<20 + 1, len(noise)} {
			name, err := h.Log.PutBlob(bounded(t), noise[:size])
			if err != nil {
				t.Fatalf("put %d bytes: %v", size, err)
			}
			if again, err := h.Open().PutBlob(bounded(t), noise[:size]); err != nil || again != name {
				t.Fatalf("put %d bytes again: %s, %v", size, again, err)
			}
			if got, err := h.Open().GetBlob(bounded(t), name); err != nil || !bytes.Equal(got, noise[:size]) {
				t.Fatalf("got %d of %d bytes, %v", len(got), size, err)
			}
		}
	},
	"a blob that is not there is not found": func(t *testing.T, h Harness) {
		_, err := h.Log.GetBlob(bounded(t), "00ff")
		wantError(t, err, store.ErrNotFound)
	},
	"a blob may not be endless": func(t *testing.T, h Harness) {
		_, err := h.Log.PutBlob(bounded(t), make([]byte, store.MaxBlobBytes+1))
		wantError(t, err, store.ErrTooLarge)
	},
}

var omitTests = map[string]func(*testing.T, Harness){
	"an explanation that is left out keeps its hash in the chain": func(t *testing.T, h Harness) {
		for _, size := range []int{10, store.MaxInlineExplanationBytes + 1} {
			d := draft(1)
			d.Explanation, d.OmitExplanation = bytes.Repeat([]byte("x"), size), true
			if r := mustAppend(t, h.Log, d); r.OmitExplanation || len(r.Explanation) > 0 {
				t.Fatal("the record is not as it is read")
			}
		}
		mustAppend(t, h.Log, draft(2))
		got := mustRead(t, h.Open(), 1, 4)
		if len(got[1].Explanation)+len(got[2].Explanation) > 0 || len(got[3].Explanation) == 0 {
			t.Fatalf("explanations of %d, %d and %d bytes", len(got[1].Explanation), len(got[2].Explanation), len(got[3].Explanation))
		}
		if seq, err := h.Log.Verify(bounded(t)); err != nil || seq != 4 {
			t.Fatalf("verified to %d, %v", seq, err)
		}
	},
}

// headAt is the place of a record.
func headAt(t *testing.T, l store.Log, seq uint64) store.Head {
	t.Helper()
	r, err := l.Read(bounded(t), seq, 1)
	if err != nil || len(r) != 1 {
		t.Fatalf("read record %d: %d records, %v", seq, len(r), err)
	}
	return store.Head{Seq: seq, Hash: r[0].Hash}
}
