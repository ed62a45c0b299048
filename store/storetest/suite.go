// Package storetest is the conformance suite of store.Log and store.Elector.
//
// Guarantees: an implementation that passes keeps the promises of package store, including under faults of
// the storage as far as the Harness can cause them.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"millwright/store"
)

// Harness is one fresh log and what the suite may do to it.
type Harness struct {
	Cluster string
	Log     store.Log
	// Open returns another client of the same log, as another process would have.
	Open    func() store.Log
	Elector func() store.Elector
	// Expire lets the lease of a leadership run out as if its process had died.
	Expire func(store.Leadership)
	// Compact deletes the records up to and including through.
	Compact func(ctx context.Context, through store.Head) error
	Tamper  Tamper
	// Disturb breaks connections for a moment; nil if there are none.
	Disturb func()
}

// Tamper changes stored records behind the log's back.
type Tamper interface {
	// Change alters a field of a record and leaves its hash.
	Change(seq uint64)
	// Reseal alters a field and the hash to match it.
	Reseal(seq uint64)
	// Garble replaces the record by bytes that no record has.
	Garble(seq uint64)
	Remove(seq uint64)
	Swap(a, b uint64)
}

// Run runs the suite; each test gets a fresh Harness.
func Run(t *testing.T, fresh func(t *testing.T) Harness) {
	for _, group := range []map[string]func(*testing.T, Harness){
		appendTests, fenceTests, readTests, watchTests, blobTests, omitTests, verifyTests, contentionTests, electionTests, switchTests, retireTests, cursorTests,
	} {
		for name, test := range group {
			t.Run(name, func(t *testing.T) { test(t, fresh(t)) })
		}
	}
}

// patience bounds what must happen eventually; nothing asserts that it happens fast.
const patience = 30 * time.Second

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// start is later than any clock, so that the genesis does not raise the times of drafts.
var start = time.Date(2050, 3, 1, 12, 0, 0, 0, time.UTC)

// draft with every field set, different for each n.
func draft(n int) store.Draft {
	u := uint64(n)
	return store.Draft{
		Time: start.Add(time.Duration(n) * time.Second), Service: "provisioner", Mode: "active", Kind: uint16(10 + n%7),
		Ignorable: n%2 == 1, Subjects: []string{fmt.Sprintf("pod/default/p%d", n), "pool/default"}, Causation: u,
		PlannerVersion: 3, Position: store.Position{Incarnation: "obs-1", Sequence: 100 + u, Digest: 1<<63 + u},
		LedgerSeq: u, Now: start.Add(time.Duration(n)*time.Second + 7), OptionsSeq: 2,
		Payload: fmt.Appendf(nil, `{"n":%d}`, n), Explanation: fmt.Appendf(nil, `{"why":%d}`, n),
		Advances: []string{fmt.Sprintf("claim/c%d", n)},
	}
}

func mustAppend(t *testing.T, l store.Log, d store.Draft) store.Record {
	t.Helper()
	r, err := l.Append(bounded(t), d)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return r
}

// fill appends n drafts and returns all records, the genesis first.
func fill(t *testing.T, l store.Log, n int) []store.Record {
	t.Helper()
	for i := range n {
		mustAppend(t, l, draft(i))
	}
	return mustRead(t, l, 1, n+1)
}

func mustRead(t *testing.T, l store.Log, from uint64, want int) []store.Record {
	t.Helper()
	out, err := l.Read(bounded(t), from, want+1)
	if err != nil {
		t.Fatalf("read from %d: %v", from, err)
	}
	if len(out) != want {
		t.Fatalf("read %d records from %d, want %d", len(out), from, want)
	}
	return out
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

func diff(want, got any) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty())
}

func sequences(records []store.Record) []uint64 {
	var out []uint64
	for _, r := range records {
		out = append(out, r.Seq)
	}
	return out
}
