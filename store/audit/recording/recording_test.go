package recording_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"millwright/events"
	"millwright/events/membus"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/planner/provision"
	"millwright/planner/world"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/recording"
	"millwright/store/memlog"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site is a log and a stream in which one plan was made.
func site(t *testing.T) (*memlog.Log, *membus.Stream) { return siteOn(t, membus.NewBus()) }

func siteOn(t *testing.T, bus *membus.Bus) (*memlog.Log, *membus.Stream) {
	ctx := t.Context()
	log, err := memlog.Open(memlog.Config{Cluster: "test", LogID: plannertest.LogID})
	check(t, err)
	stream := bus.Connect(membus.QueueMax)
	w, l := world.New(), ledger.New(log.ID())
	state, err := stream.State(ctx)
	check(t, err)
	w.SetIncarnation(state.Incarnation)
	counter := uint64(0)
	send := func(o events.Observation) {
		counter++
		o.Epoch, o.Counter, o.ObservedAt = 1, counter, plannertest.Start
		if c, ok := o.Object.(*events.CatalogRef); ok {
			ref, err := events.StoreCatalog(ctx, stream.Blobs(), c.Catalog)
			check(t, err)
			o.Object = ref
		}
		data, err := events.Encode(o)
		check(t, err)
		check(t, stream.Publish(ctx, data))
		o, err = events.Decode(data)
		check(t, err)
		check(t, events.ResolveCatalog(ctx, stream.Blobs(), &o, w.HoldsCatalog))
		w.Apply(counter, o)
	}
	send(events.Observation{Op: events.OpResyncBegin})
	for _, o := range append(plannertest.WithCatalogue(), plannertest.Pool("general"), plannertest.Pod("a", plannertest.Unschedulable(), plannertest.Requests("cpu", "1"))) {
		send(plannertest.Observe(o))
	}
	send(events.Observation{Op: events.OpResyncEnd})
	send(events.Observation{Op: events.OpHeartbeat, Object: &events.Heartbeat{}})
	check(t, stream.Flush(ctx))
	fold := func() {
		records, err := log.Read(ctx, l.Seq()+1, 100)
		check(t, err)
		for _, rec := range records {
			e, err := audit.Decode(rec)
			check(t, err)
			check(t, l.Apply(e))
		}
	}
	fold()
	s := planner.NewSnapshot(w, l, plannertest.Start)
	d, _ := provision.Plan(s)
	if d == nil {
		t.Fatal("nothing is planned")
	}
	draft, err := audit.DecisionDraft(s.Basis(), *d)
	check(t, err)
	draft.Time, draft.Service, draft.Mode = plannertest.Start, "provisioner", "active"
	_, err = log.Append(ctx, draft)
	check(t, err)
	return log, stream
}

func TestASavedLogReplaysAsItDid(t *testing.T) {
	log, stream := site(t)
	there, err := audit.Replay(t.Context(), log, stream, audit.Range{})
	check(t, err)
	file := filepath.Join(t.TempDir(), "a.rec")
	check(t, recording.Save(t.Context(), file, log, stream))
	rec, err := recording.Open(file)
	check(t, err)
	here, err := audit.Replay(t.Context(), rec, rec, audit.Range{})
	check(t, err)
	if there.Planned != 1 || there.Counts() != here.Counts() || there.Summary() != here.Summary() || there.Head != here.Head {
		t.Errorf("there %s, %s\nhere  %s, %s", there.Counts(), there.Summary(), here.Counts(), here.Summary())
	}
}

func TestWhatIsLostIsSaid(t *testing.T) {
	log, stream := site(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "a.rec")
	check(t, recording.Save(t.Context(), file, log, stream))
	catalogues, _ := filepath.Glob(filepath.Join(dir, "*.zst"))
	if len(catalogues) != 1 {
		t.Fatalf("catalogues: %v", catalogues)
	}
	check(t, os.Remove(catalogues[0]))
	rec, err := recording.Open(file)
	check(t, err)
	r, err := audit.Replay(t.Context(), rec, rec, audit.Range{})
	check(t, err)
	if r.Planned != 0 || r.Skipped() != 1 {
		t.Errorf("without the catalogue: %s %v", r.Counts(), r.NotReplayable)
	}
	data, err := os.ReadFile(file)
	check(t, err)
	check(t, os.WriteFile(file, data[:len(data)/2], 0o600))
	if _, err := recording.Open(file); err == nil {
		t.Error("half a file is read")
	}
}

// A catalogue of which a disk that was full, or a process that was killed, has left a part is written anew.
func TestAPartOfACatalogueIsWrittenAnew(t *testing.T) {
	log, stream := site(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "a.rec")
	check(t, recording.Save(t.Context(), file, log, stream))
	catalogues, _ := filepath.Glob(filepath.Join(dir, "*.zst"))
	data, err := os.ReadFile(catalogues[0])
	check(t, err)
	for _, length := range []int{0, len(data) / 2} {
		check(t, os.WriteFile(catalogues[0], data[:length], 0o600))
		check(t, recording.Save(t.Context(), file, log, stream))
		rec, err := recording.Open(file)
		check(t, err)
		r, err := audit.Replay(t.Context(), rec, rec, audit.Range{})
		if err != nil || r.Planned != 1 {
			t.Errorf("of a catalogue of %d bytes %d were there: %s, %v", len(data), length, r.Counts(), err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// The corpus: logs of end-to-end tests, which `make corpus` records. Those of this version of the planners
// come out as they did; those of earlier versions can still be read.
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("../testdata/v*/*.rec")
	check(t, err)
	for _, file := range files {
		version, err := strconv.ParseUint(strings.TrimPrefix(filepath.Base(filepath.Dir(file)), "v"), 10, 32)
		check(t, err)
		t.Run(filepath.Join(filepath.Base(filepath.Dir(file)), filepath.Base(file)), func(t *testing.T) {
			rec, err := recording.Open(file)
			check(t, err)
			if uint32(version) != planner.Version {
				readable(t, rec)
				return
			}
			r, err := audit.Replay(t.Context(), rec, rec, audit.Range{})
			check(t, err)
			for _, d := range r.Divergences {
				t.Errorf("record %d: %s of %s came out otherwise: %s", d.Seq, d.Kind, d.Service, d.Detail)
			}
			for _, n := range r.NotReplayable {
				t.Errorf("records %d to %d: %d decisions could not be replayed: %s", n.From, n.To, n.Count, n.Reason)
			}
			if r.Planned == 0 {
				t.Error("nothing was planned again")
			}
			t.Log(r.Counts())
		})
	}
}

// readable demands that the log can be folded and the messages decoded.
func readable(t *testing.T, rec *recording.Recording) {
	l := ledger.New("")
	for {
		records, err := rec.Read(t.Context(), l.Seq()+1, 0)
		check(t, err)
		if len(records) == 0 {
			break
		}
		for _, r := range records {
			check(t, foldOne(l, r))
		}
	}
	check(t, rec.Consume(context.Background(), 1, func(m events.Message) error {
		_, err := events.Decode(m.Data)
		return err
	}))
	if l.Seq() == 0 || l.LastTime().After(time.Now()) {
		t.Errorf("folded up to record %d of %s", l.Seq(), l.LastTime())
	}
}

func foldOne(l *ledger.Ledger, r store.Record) error {
	e, err := audit.Decode(r)
	if err != nil {
		return err
	}
	return l.Apply(e)
}
