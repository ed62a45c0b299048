package view_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/services/console/consoletest"
	"millwright/services/console/history"
	"millwright/services/console/index"
	"millwright/services/console/past"
	"millwright/services/console/view"
	"millwright/store"
	"millwright/store/archive"
	"millwright/store/audit"
	"millwright/store/audit/subjects"
	"millwright/store/audit/subjects/subjectstest"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// long is a log of which most is archived.
type long struct {
	*subjectstest.Writer
	archive *archive.Archive
	joined  store.Log
}

// newLong writes a log of some records, of which only the last ones are not archived.
func newLong(t testing.TB, dir string, records, live int) *long {
	x := &long{Writer: subjectstest.New(t), archive: archive.Open(filepath.Join(dir, "archive"), plannertest.LogID)}
	t.Cleanup(func() { check(t, x.archive.Close()) })
	archiver := archive.NewArchiver(archive.Config{Cluster: "test", Live: x.Log, Archive: x.archive})
	for archived := uint64(0); int(x.Head()) < records; {
		x.Live()
		if head := x.Head(); int(head) >= records || head-archived > 120_000 {
			_, err := archiver.Archive(context.Background(), head-uint64(live))
			check(t, err)
			archived = head - uint64(live)
		}
	}
	x.joined = archive.Join(x.Log, x.archive)
	return x
}

// console is what answers from a log until the test ends, with an Index of few rows.
func (x *long) console(t testing.TB, dir string, rows int) *view.View {
	t.Helper()
	i := index.New(x.Log.ID(), rows)
	newest := history.New(x.Log.ID())
	p := past.New(dir, x.Log.ID(), time.Now)
	i.Also(func(e ledger.Entry) { newest.Add(e); p.Add(e) })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); p.Run(ctx, x.joined, zerolog.Nop()) }()
	t.Cleanup(func() { cancel(); <-ended })
	consoletest.Fill(t, i, x.joined, x.Head())
	select {
	case <-p.Reached():
	case <-time.After(10 * time.Minute):
		t.Fatalf("only the records up to %d are indexed", p.Progress())
	}
	return view.New(view.Config{Log: x.joined, Index: i, History: newest, Past: p, Versions: nothing, Now: x.Now})
}

// Of a log that is longer than the console's memory, and archived, every story is told as a whole, every list
// goes on to the first record, and the timeline and every permalink reach as far; also after a restart, for
// which nothing is read again.
func TestAnswersReachTheWholeLog(t *testing.T) {
	x := newLong(t, t.TempDir(), 20_000, 500)
	dir := t.TempDir()
	var all []ledger.Entry
	for from := uint64(1); from <= x.Head(); {
		page, err := x.joined.Read(t.Context(), from, 1000)
		check(t, err)
		for _, rec := range page {
			e, err := audit.Decode(rec)
			check(t, err)
			all = append(all, e)
		}
		from += uint64(len(page))
	}
	for _, about := range []string{"made", "found again"} {
		t.Run(about, func(t *testing.T) { x.compare(t, about, x.console(t, dir, 1000), all) })
	}
	read := &counting{Log: x.joined}
	x.joined = read
	t.Run("restarted", func(t *testing.T) { x.console(t, dir, 1000) })
	if n := read.records.Load(); n > 3000+subjects.ChunkSize { // the rows, and those that are in no file yet
		t.Errorf("after a restart %d records were read", n)
	}
}

// counting counts the records that are read.
type counting struct {
	store.Log
	records atomic.Int64
}

func (c *counting) Read(ctx context.Context, from uint64, limit int) ([]store.Record, error) {
	list, err := c.Log.Read(ctx, from, limit)
	c.records.Add(int64(len(list)))
	return list, err
}

func (x *long) compare(t *testing.T, about string, v *view.View, all []ledger.Entry) {
	t.Helper()
	if first, _ := v.Extent(); first != 1 {
		t.Errorf("%s: it tells from record %d on", about, first)
	}
	for _, l := range []subjectstest.Life{x.Lives[0], x.Lives[len(x.Lives)/2], x.Lives[len(x.Lives)-1]} {
		for _, subject := range []string{"claim/" + l.Claim, "node/" + l.Node, "instance/" + l.Instance, "pod/" + l.Pod, "command/" + l.Command} {
			story, err := v.Why(t.Context(), subject)
			check(t, err)
			if d := cmp.Diff(audit.WhyOf(all, x.Log.ID(), subject), story.Lines); d != "" || story.Cut || story.From != 1 {
				t.Errorf("%s: %s from %d: %s", about, subject, story.From, d)
			}
		}
		d, err := v.Decision(t.Context(), l.Records[0])
		check(t, err)
		if len(d.After) != len(l.Records)-1 {
			t.Errorf("%s: %d records came of record %d, not %d", about, len(d.After), d.Seq, len(l.Records)-1)
		}
	}
	for name, c := range map[string]struct {
		filter index.Filter
		wants  func(ledger.Entry) bool
	}{
		"all":       {index.Filter{}, func(ledger.Entry) bool { return true }},
		"a kind":    {index.Filter{Kinds: []string{"Launched"}}, func(e ledger.Entry) bool { return e.Kind == ledger.KindLaunched }},
		"decisions": {index.Filter{Decisions: true}, audit.IsDecision},
		"since":     {index.Filter{Since: all[5000].Time}, func(e ledger.Entry) bool { return !e.Time.Before(all[5000].Time) }},
		"until":     {index.Filter{Until: all[5000].Time}, func(e ledger.Entry) bool { return e.Time.Before(all[5000].Time) }},
		"a minute": {index.Filter{Kinds: []string{"Launched"}, Since: all[9000].Time, Until: all[9060].Time}, func(e ledger.Entry) bool {
			return e.Kind == ledger.KindLaunched && e.Seq >= all[9000].Seq && e.Seq < all[9060].Seq
		}},
		"about a claim": {index.Filter{Object: "claim/" + x.Lives[7].Claim}, func(e ledger.Entry) bool {
			return slices.Contains(audit.Mentions(e, x.Log.ID()), "claim/"+x.Lives[7].Claim)
		}},
		"a kind of claims": {index.Filter{Object: "claim/" + x.Lives[7].Claim, Kinds: []string{"Launched"}}, func(e ledger.Entry) bool { return e.Seq == x.Lives[7].Records[2] }},
	} {
		var got, want []uint64
		for below, more := uint64(0), true; more; below = got[len(got)-1] {
			var rows []index.Row
			var err error
			rows, more, err = v.Rows(t.Context(), c.filter, below, 400)
			check(t, err)
			for _, r := range rows {
				got = append(got, r.Seq)
			}
		}
		for _, e := range slices.Backward(all) {
			if c.wants(e) {
				want = append(want, e.Seq)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %s: %d rows, %d really", about, name, len(got), len(want))
		}
	}
	timeline, err := v.Timeline(t.Context(), time.Time{}, history.Filter{}, "")
	check(t, err)
	launched := 0
	for i := range timeline.Points {
		launched += timeline.Points[i].Launched
	}
	if launched != len(x.Lives) || timeline.First != 1 || timeline.Missed != 0 {
		t.Errorf("%s: the timeline has %d launches of %d, from record %d, %d missed", about, launched, len(x.Lives), timeline.First, timeline.Missed)
	}
	savings, err := v.Savings(time.Time{})
	check(t, err)
	if savings.Running != len(x.Lives) {
		t.Errorf("%s: %d commands, %d really", about, savings.Running, len(x.Lives))
	}
}

var records = flag.Int("records", 300_000, "records of BenchmarkConsoleWhy")

// BenchmarkConsoleWhy asks 2,000 questions about a log of -records, of which all but the newest 20,000 are
// archived and all but the newest 50,000 are not in memory. It prints the time of half and of 99 in 100.
func BenchmarkConsoleWhy(b *testing.B) {
	x := newLong(b, b.TempDir(), *records, 20_000)
	began := time.Now()
	v := x.console(b, b.TempDir(), 0)
	b.Logf("%d records: indexed in %s", x.Head(), time.Since(began).Round(time.Second))
	rng := rand.New(rand.NewPCG(5, 6))
	var took []time.Duration
	for i := range 2000 {
		n := rng.IntN(len(x.Lives))
		l := x.Lives[n]
		subject, want := []string{"node/" + l.Node, "instance/" + l.Instance, "claim/" + l.Claim, "pod/" + x.Refused[n]}[i%4], l.Records
		if i%4 == 3 {
			want = l.Records[:1]
		}
		began := time.Now()
		story, err := v.Why(context.Background(), subject)
		took = append(took, time.Since(began))
		check(b, err)
		var got []uint64
		for _, line := range story.Lines {
			got = append(got, line.Seq)
		}
		if !slices.Equal(got, want) {
			b.Fatalf("%s: records %v, and %v really", subject, got, want)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(0, "ns/op")
}
