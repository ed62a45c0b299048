package subjects_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
	"millwright/store"
	"millwright/store/archive"
	"millwright/store/audit"
	"millwright/store/audit/subjects"
	"millwright/store/audit/subjects/subjectstest"
	"millwright/store/memlog"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func entries(t testing.TB, log subjects.Log) (list []ledger.Entry) {
	for from := uint64(1); ; {
		page, err := log.Read(t.Context(), from, 1000)
		check(t, err)
		if len(page) == 0 {
			return list
		}
		for _, rec := range page {
			e, err := audit.Decode(rec)
			check(t, err)
			list = append(list, e)
			from = rec.Seq + 1
		}
	}
}

// Every story is the one that the whole log tells, whatever it is asked for by, and each time.
func TestStoriesAreThoseOfTheWholeLog(t *testing.T) {
	w := subjectstest.New(t)
	for w.Head() < 2*subjects.ChunkSize+300 {
		w.Live()
	}
	dir := t.TempDir()
	all := entries(t, w.Log)
	compare := func(about string) {
		t.Helper()
		x, err := subjects.Open(dir, pt.LogID)
		check(t, err)
		check(t, x.Update(t.Context(), w.Log))
		for _, l := range []subjectstest.Life{w.Lives[0], w.Lives[len(w.Lives)/3], w.Lives[len(w.Lives)/2], w.Lives[len(w.Lives)-1]} {
			for _, subject := range []string{"claim/" + l.Claim, "node/" + l.Node, "instance/" + l.Instance, "pod/" + l.Pod, "command/" + l.Command} {
				got, _, cut, err := x.Story(t.Context(), w.Log, subject)
				check(t, err)
				if d := cmp.Diff(audit.Why(all, subject), got); d != "" || cut || len(got) == 0 {
					t.Errorf("%s: %s: cut %t, %d lines: %s", about, subject, cut, len(got), d)
				}
			}
		}
		if got, _, _, err := x.Story(t.Context(), w.Log, "node/nowhere"); err != nil || len(got) > 0 {
			t.Errorf("%s: a node that never was: %v %v", about, got, err)
		}
	}
	compare("made")
	compare("made before")
	files, err := filepath.Glob(filepath.Join(dir, "subjects-*"))
	check(t, err)
	if len(files) != 2 {
		t.Fatalf("%d files", len(files))
	}
	good, err := os.ReadFile(files[0])
	check(t, err)
	for about, bad := range map[string][]byte{"empty": nil, "cut off": good[:len(good)-1], "changed at the end": flipped(good, len(good)-3), "changed in the middle": flipped(good, len(good)/3),
		"of another log": flipped(good, 10), "too long": append(slices.Clone(good), 0), "of other records": flipped(good, 41)} {
		check(t, os.WriteFile(files[0], bad, 0o600))
		compare(about)
		now, err := os.ReadFile(files[0])
		check(t, err)
		if !slices.Equal(now, good) {
			t.Errorf("%s: it was not made anew as it was", about)
		}
	}
	check(t, os.RemoveAll(dir))
	compare("deleted")
}

func flipped(b []byte, at int) []byte {
	c := slices.Clone(b)
	c[at] ^= 0x10
	return c
}

// counted counts the records that are read of a log.
type counted struct {
	*memlog.Log
	read int
}

func (c *counted) Read(ctx context.Context, from uint64, limit int) ([]store.Record, error) {
	list, err := c.Log.Read(ctx, from, limit)
	c.read += len(list)
	return list, err
}

// What comes later is found too, without opening the index anew, and each record is read once for it.
func TestTheIndexFollowsTheLog(t *testing.T) {
	w := subjectstest.New(t)
	w.Live()
	x, err := subjects.Open(t.TempDir(), pt.LogID)
	check(t, err)
	log := &counted{Log: w.Log}
	for range 3 {
		check(t, x.Update(t.Context(), log))
		if log.read != int(w.Head()) {
			t.Errorf("%d records were read, of %d", log.read, w.Head())
		}
		last := w.Lives[len(w.Lives)-1]
		if lines, _, _, err := x.Story(t.Context(), w.Log, "node/"+last.Node); err != nil || len(lines) != len(last.Records) {
			t.Errorf("at record %d: %v, %d lines of %d", w.Head(), err, len(lines), len(last.Records))
		}
		for end := w.Head() + subjects.ChunkSize/2; w.Head() < end; {
			w.Live()
		}
	}
}

// A file that is damaged while it is used is left out, and there again after a repair.
func TestAFileThatIsDamagedLater(t *testing.T) {
	w := subjectstest.New(t)
	for w.Head() < subjects.ChunkSize+10 {
		w.Live()
	}
	dir := t.TempDir()
	x, err := subjects.Open(dir, pt.LogID)
	check(t, err)
	check(t, x.Update(t.Context(), w.Log))
	first := [][]string{{"node/" + w.Lives[0].Node}}
	want, _ := x.Find(first, 0, 100)
	files, err := filepath.Glob(filepath.Join(dir, "subjects-*"))
	check(t, err)
	check(t, os.Truncate(files[0], 1000))
	if got, _ := x.Find(first, 0, 100); len(got) > 0 || len(want) == 0 {
		t.Errorf("%v in a damaged file, %v before", got, want)
	}
	if !x.Repair() || x.Next() != 1 {
		t.Errorf("it goes on with record %d", x.Next())
	}
	check(t, x.Update(t.Context(), w.Log))
	if got, _ := x.Find(first, 0, 100); !slices.Equal(got, want) || x.Repair() {
		t.Errorf("%v after the repair, %v before", got, want)
	}
}

// Records are found by kind, as decisions, and by several of these at once; newest first, a page at a time.
func TestRecordsAreFoundByWhatTheyHaveInCommon(t *testing.T) {
	w := subjectstest.New(t)
	for w.Head() < 2*subjects.ChunkSize+300 {
		w.Live()
	}
	x, err := subjects.Open(t.TempDir(), pt.LogID)
	check(t, err)
	check(t, x.Update(t.Context(), w.Log))
	all := entries(t, w.Log)
	launched := subjects.KindMark(ledger.KindLaunched.String())
	for about, c := range map[string]struct {
		groups [][]string
		is     func(ledger.Entry) bool
	}{
		"a kind":        {[][]string{{launched}}, func(e ledger.Entry) bool { return e.Kind == ledger.KindLaunched }},
		"either kind":   {[][]string{{launched, subjects.KindMark("ClaimClosed")}}, func(e ledger.Entry) bool { return e.Kind == ledger.KindLaunched || e.Kind == ledger.KindClaimClosed }},
		"decisions":     {[][]string{{subjects.DecisionMark()}}, audit.IsDecision},
		"of an object":  {[][]string{{"claim/" + w.Lives[3].Claim}, {launched}}, func(e ledger.Entry) bool { return e.Seq == w.Lives[3].Records[2] }},
		"what is never": {[][]string{{launched}, {subjects.DecisionMark()}}, func(ledger.Entry) bool { return false }},
	} {
		var want, got []uint64
		for _, e := range all {
			if c.is(e) {
				want = append(want, e.Seq)
			}
		}
		for below, more := uint64(0), true; more; below = got[0] {
			var page []uint64
			if page, more = x.Find(c.groups, below, 700); len(page) == 0 {
				break
			}
			got = append(page, got...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d records, %d really", about, len(got), len(want))
		}
	}
}

// Records that were pruned are left out, and those after them are found.
func TestALogWhoseBeginningIsGone(t *testing.T) {
	w := subjectstest.New(t)
	for w.Head() < 2*subjects.ChunkSize {
		w.Live()
	}
	through, err := w.Log.Read(t.Context(), subjects.ChunkSize+1000, 1)
	check(t, err)
	check(t, w.Log.Compact(t.Context(), store.Head{Seq: through[0].Seq, Hash: through[0].Hash}))
	x, err := subjects.Open(t.TempDir(), pt.LogID)
	check(t, err)
	check(t, x.Update(t.Context(), w.Log))
	last := w.Lives[len(w.Lives)-1]
	if lines, _, _, err := x.Story(t.Context(), w.Log, "node/"+last.Node); err != nil || len(lines) != len(last.Records) {
		t.Errorf("%v, %d lines of %d", err, len(lines), len(last.Records))
	}
	if first := x.First(); first <= subjects.ChunkSize || x.Next() != w.Head()+1 {
		t.Errorf("it knows of records %d to %d", first, x.Next())
	}
}

var (
	records = flag.Int("records", 200_000, "records of BenchmarkWhy")
	scratch = flag.String("scratch", "", "directory for the archive of BenchmarkWhy; default: a temporary one")
)

// BenchmarkWhy asks 10,000 questions about a log of -records, of which all but the newest 20,000 are
// archived: nodes, instances, pods that were placed and pods that were refused. Every answer is compared
// with what really happened. It prints the time of half and of 99 in 100.
func BenchmarkWhy(b *testing.B) {
	dir := *scratch
	if dir == "" {
		dir = b.TempDir()
	}
	w := subjectstest.New(b)
	d := archive.Open(filepath.Join(dir, "archive"), pt.LogID)
	defer d.Close()
	archiver := archive.NewArchiver(archive.Config{Cluster: "test", Live: w.Log, Archive: d})
	for archived := uint64(0); int(w.Head()) < *records; {
		w.Live()
		if head := w.Head(); head-archived > 120_000 {
			_, err := archiver.Archive(context.Background(), head-20_000)
			check(b, err)
			archived = head - 20_000
		}
	}
	joined := archive.Join(w.Log, d)
	x, err := subjects.Open(filepath.Join(dir, "index"), pt.LogID)
	check(b, err)
	began := time.Now()
	check(b, x.Update(context.Background(), joined))
	b.Logf("%d records: index made in %s", w.Head(), time.Since(began).Round(time.Second))
	began = time.Now()
	again, err := subjects.Open(filepath.Join(dir, "index"), pt.LogID)
	check(b, err)
	check(b, again.Update(context.Background(), joined))
	b.Logf("opened in %s", time.Since(began).Round(time.Millisecond))
	took := ask(b, w, joined, again)
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(0, "ns/op")
}

// ask compares each answer with what was done.
func ask(b *testing.B, w *subjectstest.Writer, log subjects.Log, x *subjects.Index) (took []time.Duration) {
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 10_000 {
		n := rng.IntN(len(w.Lives))
		l := w.Lives[n]
		subject, want := []string{"node/" + l.Node, "instance/" + l.Instance, "claim/" + l.Claim, "pod/" + w.Refused[n]}[i%4], l.Records
		if i%4 == 3 {
			want = l.Records[:1]
		}
		began := time.Now()
		lines, _, _, err := x.Story(context.Background(), log, subject)
		took = append(took, time.Since(began))
		check(b, err)
		var got []uint64
		for _, line := range lines {
			got = append(got, line.Seq)
		}
		if !slices.Equal(got, want) || i%4 == 3 && lines[0].Step != audit.StepRefused {
			b.Fatalf("%s: records %v, and %v really", subject, got, want)
		}
	}
	return took
}
