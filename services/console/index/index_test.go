package index

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millwright/planner/ledger"
)

var began = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// withClaims is an Index of a record for each second: claim a, b, c, a, …
func withClaims(rowsMax, records int) *Index {
	x := New("log", rowsMax)
	for i := range records {
		claim := string(rune('a' + i%3))
		x.add(ledger.Entry{Seq: uint64(i + 1), Time: began.Add(time.Duration(i) * time.Second), Service: "lifecycle", Mode: ledger.ModeActive,
			Kind: ledger.KindClaimCreated, Payload: &ledger.ClaimCreated{Claim: claim}})
	}
	return x
}

func sequences(rows []Row) (list []uint64) {
	for _, r := range rows {
		list = append(list, r.Seq)
	}
	return list
}

func TestListsArePagesFromTheNewestOn(t *testing.T) {
	x := withClaims(0, 10)
	for about, c := range map[string]struct {
		filter Filter
		below  uint64
		limit  int
		want   []uint64
		more   bool
	}{
		"the first page":            {limit: 3, want: []uint64{10, 9, 8}, more: true},
		"the next page":             {below: 8, limit: 3, want: []uint64{7, 6, 5}, more: true},
		"the last page":             {below: 3, limit: 3, want: []uint64{2, 1}},
		"exactly all":               {limit: 10, want: []uint64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}},
		"of an object":              {filter: Filter{Object: "claim/b"}, limit: 2, want: []uint64{8, 5}, more: true},
		"of an object, next page":   {filter: Filter{Object: "claim/b"}, below: 5, limit: 2, want: []uint64{2}},
		"of an object that is not":  {filter: Filter{Object: "claim/x"}, limit: 2},
		"of a kind that is not":     {filter: Filter{Kinds: []string{"Launched"}}, limit: 2},
		"since a time":              {filter: Filter{Since: began.Add(8 * time.Second)}, limit: 5, want: []uint64{10, 9}},
		"decisions, of which none":  {filter: Filter{Decisions: true}, limit: 5},
		"from beyond the newest on": {below: 99, limit: 1, want: []uint64{10}, more: true},
	} {
		rows, more := x.List(c.filter, c.below, c.limit)
		if d := cmp.Diff(c.want, sequences(rows)); d != "" || more != c.more {
			t.Errorf("%s: more %t, want %t, %s", about, more, c.more, d)
		}
	}
}

func TestTheOldestLeaveFirst(t *testing.T) {
	x := withClaims(4, 10)
	first, last, _ := x.Extent()
	if first != 7 || last != 10 || len(x.rows) != 4 || x.count != 4 {
		t.Errorf("%d to %d, %d rows, %d postings", first, last, len(x.rows), x.count)
	}
	if seqs, cut := x.About([]string{"claim/a", "claim/b"}, 10); cut || cmp.Diff([]uint64{7, 8, 10}, seqs) != "" {
		t.Errorf("about a and b: %v", seqs)
	}
	if seqs, cut := x.About([]string{"claim/a", "claim/b"}, 2); !cut || cmp.Diff([]uint64{8, 10}, seqs) != "" {
		t.Errorf("the newest two about a and b: %v", seqs)
	}
	x = withClaims(1, 9) // c was last
	if _, held := x.by["claim/a"]; held || len(x.by) != 1 {
		t.Errorf("subjects %v", x.by)
	}
}

// A decision about very many pods does not push everything else out, and fills no memory with its row.
func TestARecordAboutThousandsOfPods(t *testing.T) {
	x := withClaims(0, 3)
	p := &ledger.ProvisioningPlanned{}
	for i := range 20_000 {
		p.Refused = append(p.Refused, ledger.Refused{Pods: []ledger.PodRef{{Namespace: "n", Name: fmt.Sprint("p-", i)}}})
	}
	x.add(ledger.Entry{Seq: 4, Time: began, Kind: ledger.KindProvisioningPlanned, Payload: p})
	rows, _ := x.List(Filter{Object: "pod/n/p-19999"}, 0, 10)
	if len(rows) != 1 || len(rows[0].Subjects) != subjectsMax || len(rows[0].Text) > textMax+len("…") {
		t.Errorf("%d rows", len(rows))
	}
	for i := range 30 {
		x.add(ledger.Entry{Seq: uint64(5 + i), Time: began, Kind: ledger.KindProvisioningPlanned, Payload: p})
	}
	if x.count > postingsMax {
		t.Errorf("%d postings", x.count)
	}
}

func TestTails(t *testing.T) {
	x := withClaims(0, 1)
	fast, err := x.Follow(Filter{Object: "claim/b"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	slow, _ := x.Follow(Filter{}, 0)
	for i := range tailBuffer + 1 {
		x.add(ledger.Entry{Seq: uint64(i + 2), Time: began, Kind: ledger.KindClaimCreated, Payload: &ledger.ClaimCreated{Claim: "a"}})
	}
	x.add(ledger.Entry{Seq: 1000, Time: began, Kind: ledger.KindClaimCreated, Payload: &ledger.ClaimCreated{Claim: "b"}})
	if r := <-fast.Rows; r.Seq != 1000 {
		t.Errorf("the tail of b begins with %d", r.Seq)
	}
	got := 0
	for range slow.Rows {
		got++
	}
	if got != tailBuffer {
		t.Errorf("a slow reader got %d rows before its end", got)
	}
	x.Leave(slow)
	x.Leave(fast)
	for range TailsMax {
		if _, err := x.Follow(Filter{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := x.Follow(Filter{}, 0); err != ErrTooManyTails {
		t.Errorf("one more: %v", err)
	}
}

// A record that comes again changes nothing, one after a gap begins anew, and one that nobody can describe is
// there by its kind.
func TestRecordsThatShouldNotCome(t *testing.T) {
	x := withClaims(0, 3)
	x.add(ledger.Entry{Seq: 2, Kind: ledger.KindClaimCreated, Payload: &ledger.ClaimCreated{Claim: "again"}})
	if first, last, _ := x.Extent(); first != 1 || last != 3 {
		t.Errorf("after a repeat: %d to %d", first, last)
	}
	x.add(ledger.Entry{Seq: 9, Kind: ledger.KindClaimCreated, Payload: (*ledger.ClaimCreated)(nil), Subjects: []string{"claim/z"}})
	rows, more := x.List(Filter{}, 0, 10)
	if first, last, _ := x.Extent(); first != 9 || last != 9 || more || len(rows) != 1 || rows[0].Text != "ClaimCreated: a record that this version cannot describe" {
		t.Errorf("after a gap: %d to %d, %+v", first, last, rows)
	}
	if rows, _ := x.List(Filter{Object: "claim/z"}, 0, 10); len(rows) != 1 {
		t.Errorf("by its subject: %+v", rows)
	}
}

func TestClip(t *testing.T) {
	if got := clip(strings.Repeat("é", 10), 5); got != "éé…" {
		t.Errorf("%q", got)
	}
}
