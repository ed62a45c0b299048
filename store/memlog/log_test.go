package memlog

import (
	"context"
	"crypto/sha256"
	"slices"
	"testing"
	"time"

	"millwright/store"
	"millwright/store/record"
	"millwright/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		l := New("test")
		return storetest.Harness{
			Cluster: "test", Log: l,
			Open:    func() store.Log { return l },
			Elector: func() store.Elector { return NewElector(l) },
			Expire: func(x store.Leadership) {
				x.(*leadership).elector.Expire(x.(*leadership).leader.Service)
			},
			Compact: l.Compact,
			Tamper:  tamper{l},
		}
	})
}

type tamper struct{ *Log }

func (x tamper) record(seq uint64) *record.Stored {
	return &x.records[slices.IndexFunc(x.records, func(s record.Stored) bool { return s.Seq == seq })]
}

func (x tamper) Change(seq uint64) { x.record(seq).Service = "mallory" }
func (x tamper) Garble(seq uint64) { x.record(seq).Hash = [32]byte{1} }

func (x tamper) Reseal(seq uint64) {
	s := x.record(seq)
	s.Service = "mallory"
	s.Hash = sha256.Sum256(record.Canonical(*s))
}

func (x tamper) Remove(seq uint64) {
	x.records = slices.DeleteFunc(x.records, func(s record.Stored) bool { return s.Seq == seq })
}

func (x tamper) Swap(a, b uint64) {
	ra, rb := x.record(a), x.record(b)
	*ra, *rb = *rb, *ra
	ra.Seq, rb.Seq = a, b
}

func TestSameDraftsSameHashes(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	heads := map[store.Head]bool{}
	for range 3 {
		l, err := Open(Config{Cluster: "c", LogID: "00112233445566778899aabbccddeeff", Clock: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(context.Background(), store.Draft{Time: now, Payload: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		head, _ := l.Head(context.Background())
		heads[head] = true
	}
	if len(heads) != 1 {
		t.Fatalf("%d different heads", len(heads))
	}
}
