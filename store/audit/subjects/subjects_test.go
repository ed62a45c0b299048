package subjects_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
	"millwright/store/archive"
	"millwright/store/audit"
	"millwright/store/audit/subjects"
	"millwright/store/memlog"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// writer appends the lives of nodes to a log, of which it keeps what really happened.
type writer struct {
	t   testing.TB
	log *memlog.Log
	rng *rand.Rand
	now time.Time
	n   int
	// lives of claims that are over, refused are pods that were.
	lives   []life
	refused []string
}

// life of one node.
type life struct {
	claim, node, instance, pod, command string
	records                             []uint64
}

func newWriter(t testing.TB) *writer {
	w := &writer{t: t, rng: rand.New(rand.NewPCG(1, 2)), now: pt.Start}
	log, err := memlog.Open(memlog.Config{Cluster: "test", LogID: pt.LogID, Clock: func() time.Time { return w.now }})
	check(t, err)
	w.log = log
	return w
}

func (w *writer) append(decision bool, service string, kind ledger.Kind, payload any, subjects ...string) uint64 {
	w.now = w.now.Add(time.Second)
	d, err := audit.OutcomeDraft(audit.Outcome{Kind: kind, Payload: payload, Subjects: subjects})
	if decision {
		d, err = audit.DecisionDraft(planner.Basis{Now: w.now}, planner.Decision{Kind: kind, Payload: payload, Subjects: subjects})
		d.Position.Incarnation = "s"
	}
	check(w.t, err)
	d.Time, d.Service, d.Mode = w.now, service, string(ledger.ModeActive)
	rec, err := w.log.Append(context.Background(), d)
	check(w.t, err)
	return rec.Seq
}

// live appends the life of a node: planned for a pod, made, launched, joined, taken by a command, ended;
// and a pod that is refused beside it.
func (w *writer) live() {
	w.n++
	pod := ledger.PodRef{UID: types.UID(fmt.Sprint("u", w.n)), Namespace: "shop", Name: fmt.Sprintf("web-%06x", w.n)}
	refused := ledger.PodRef{UID: types.UID(fmt.Sprint("r", w.n)), Namespace: "shop", Name: fmt.Sprintf("giant-%06x", w.n)}
	l := life{node: fmt.Sprintf("ip-%06x", w.n), instance: fmt.Sprintf("i-%08x", w.n), pod: "shop/" + pod.Name}
	add := func(seq uint64) uint64 { l.records = append(l.records, seq); return seq }
	planned := add(w.append(true, "provisioner", ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{
		Claims:  []ledger.PlannedClaim{{NodePool: "p", InstanceTypes: []string{"m5.large"}, Pods: []ledger.PodRef{pod}}},
		Refused: []ledger.Refused{{Pods: []ledger.PodRef{refused}, Reasons: []ledger.Refusal{{Constraint: "resources", Message: "no instance type has enough resources"}}}}}))
	l.claim = ledger.ClaimName(pt.LogID, "p", planned, 0)
	w.refused = append(w.refused, "shop/"+refused.Name)
	uid := types.UID("claim-" + l.claim)
	add(w.append(false, "lifecycle", ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: l.claim, UID: uid}))
	add(w.append(false, "lifecycle", ledger.KindLaunched, &ledger.Launched{Claim: l.claim, UID: uid, InstanceID: l.instance, InstanceType: "m5.large", Zone: "a", CapacityType: "spot"}))
	add(w.append(false, "lifecycle", ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: l.claim, Node: l.node}))
	for range w.rng.IntN(4) {
		w.append(false, "lifecycle", ledger.KindAlarmRaised, &ledger.AlarmRaised{Reason: "r", Message: "m"})
	}
	started := add(w.append(true, "disruptor", ledger.KindCommandStarted, &ledger.CommandStarted{Reason: "Empty", Method: "emptiness", Candidates: []ledger.Candidate{{Node: l.node, Claim: l.claim, NodePool: "p"}}}))
	l.command = ledger.CommandID(pt.LogID, started)
	add(w.append(false, "lifecycle", ledger.KindInstanceTerminated, &ledger.InstanceTerminated{Claim: l.claim, InstanceID: l.instance}))
	add(w.append(false, "lifecycle", ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: l.claim, UID: uid, Reason: "empty"}))
	w.lives = append(w.lives, l)
}

func (w *writer) head() uint64 {
	h, err := w.log.Head(context.Background())
	check(w.t, err)
	return h.Seq
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
	w := newWriter(t)
	for w.head() < 2*subjects.ChunkSize+300 {
		w.live()
	}
	dir := t.TempDir()
	all := entries(t, w.log)
	compare := func(about string) {
		t.Helper()
		x, err := subjects.Open(dir, w.log)
		check(t, err)
		defer x.Close()
		check(t, x.Update(t.Context()))
		for _, l := range []life{w.lives[0], w.lives[len(w.lives)/3], w.lives[len(w.lives)/2], w.lives[len(w.lives)-1]} {
			for _, subject := range []string{"claim/" + l.claim, "node/" + l.node, "instance/" + l.instance, "pod/" + l.pod, "command/" + l.command} {
				got, _, cut, err := x.Story(t.Context(), subject)
				check(t, err)
				if d := cmp.Diff(audit.Why(all, subject), got); d != "" || cut || len(got) == 0 {
					t.Errorf("%s: %s: cut %t, %d lines: %s", about, subject, cut, len(got), d)
				}
			}
		}
		if got, _, _, err := x.Story(t.Context(), "node/nowhere"); err != nil || len(got) > 0 {
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

// What comes later is found too, without opening the index anew.
func TestTheIndexFollowsTheLog(t *testing.T) {
	w := newWriter(t)
	w.live()
	x, err := subjects.Open(t.TempDir(), w.log)
	check(t, err)
	defer x.Close()
	for range 3 {
		check(t, x.Update(t.Context()))
		last := w.lives[len(w.lives)-1]
		if lines, _, _, err := x.Story(t.Context(), "node/"+last.node); err != nil || len(lines) != len(last.records) {
			t.Errorf("at record %d: %v, %d lines of %d", w.head(), err, len(lines), len(last.records))
		}
		for end := w.head() + subjects.ChunkSize/2; w.head() < end; {
			w.live()
		}
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
	w := newWriter(b)
	d := archive.Open(filepath.Join(dir, "archive"), pt.LogID)
	defer d.Close()
	archiver := archive.NewArchiver(archive.Config{Cluster: "test", Live: w.log, Archive: d})
	for archived := uint64(0); int(w.head()) < *records; {
		w.live()
		if head := w.head(); head-archived > 120_000 {
			_, err := archiver.Archive(context.Background(), head-20_000)
			check(b, err)
			archived = head - 20_000
		}
	}
	joined := archive.Join(w.log, d)
	x, err := subjects.Open(filepath.Join(dir, "index"), joined)
	check(b, err)
	defer x.Close()
	began := time.Now()
	check(b, x.Update(context.Background()))
	b.Logf("%d records: index made in %s", w.head(), time.Since(began).Round(time.Second))
	x.Close()
	began = time.Now()
	again, err := subjects.Open(filepath.Join(dir, "index"), joined)
	check(b, err)
	defer again.Close()
	check(b, again.Update(context.Background()))
	b.Logf("opened in %s", time.Since(began).Round(time.Millisecond))
	took := ask(b, w, again)
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(0, "ns/op")
}

// ask compares each answer with what was done.
func ask(b *testing.B, w *writer, x *subjects.Index) (took []time.Duration) {
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 10_000 {
		n := rng.IntN(len(w.lives))
		l := w.lives[n]
		subject, want := []string{"node/" + l.node, "instance/" + l.instance, "claim/" + l.claim, "pod/" + w.refused[n]}[i%4], l.records
		if i%4 == 3 {
			want = l.records[:1]
		}
		began := time.Now()
		lines, _, _, err := x.Story(context.Background(), subject)
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
