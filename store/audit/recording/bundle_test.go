package recording_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

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
)

// whole is a recording as a log without checkpoints.
type whole struct{ *recording.Recording }

func (whole) Aggregate(context.Context, string) (uint64, error) { return 0, nil }
func (whole) GetBlob(context.Context, string) ([]byte, error)   { return nil, store.ErrNotFound }

func bundled(t *testing.T, log audit.CheckpointLog, stream audit.Stream, within audit.Range) (*recording.Bundle, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bundle")
	f, err := os.Create(file)
	check(t, err)
	_, err = recording.WriteBundle(t.Context(), f, log, stream, recording.BundleRequest{From: within.From, To: within.To, Now: plannertest.Start})
	check(t, err)
	check(t, f.Close())
	b, err := recording.OpenBundle(file)
	check(t, err)
	t.Cleanup(func() { b.Close() })
	return b, file
}

// A bundle of any part of a log replays as the log does.
func TestABundleReplaysAsItsLogDoes(t *testing.T) {
	for _, name := range []string{"TestPodsGetNodesAndEmptyNodesGo_in_five_processes", "TestNoCapacityAtAllThenSome"} {
		rec, err := recording.Open("../testdata/v20/" + name + ".rec")
		check(t, err)
		all, err := rec.Read(t.Context(), 1, 1<<20)
		check(t, err)
		n := uint64(len(all))
		for _, within := range []audit.Range{{From: 1, To: n}, {From: n / 3, To: 2 * n / 3}, {From: n / 2, To: n}, {From: n, To: n}} {
			b, _ := bundled(t, whole{rec}, rec, within)
			there, err := audit.Replay(t.Context(), rec, rec, within)
			check(t, err)
			here, err := audit.Replay(t.Context(), b, b, within)
			check(t, err)
			if d := cmp.Diff(there, here, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Records" || p.String() == "Head" }, cmp.Ignore())); d != "" {
				t.Errorf("%s %v: %s", name, within, d)
			}
			if within.From == 1 && here.Planned == 0 {
				t.Error("nothing was planned again")
			}
			st, err := rec.State(t.Context())
			check(t, err)
			if got := b.Manifest; within.To < n && (got.Last != within.To || got.Stream.Last >= st.Last) {
				t.Errorf("%s %v: it holds records up to %d and messages up to %d", name, within, got.Last, got.Stream.Last)
			}
		}
	}
}

// changing is a stream that something happens to once it has said how far it goes, or its first message is
// read.
type changing struct {
	audit.Stream
	afterState, afterMessage func()
}

func (c *changing) State(ctx context.Context) (events.StreamState, error) {
	st, err := c.Stream.State(ctx)
	once(&c.afterState)
	return st, err
}

func (c *changing) Consume(ctx context.Context, from uint64, fn func(events.Message) error) error {
	return c.Stream.Consume(ctx, from, func(m events.Message) error {
		once(&c.afterMessage)
		return fn(m)
	})
}

func once(do *func()) {
	if f := *do; f != nil {
		*do = nil
		f()
	}
}

// A stream that is renewed or loses messages while a bundle is written ends it with an error that says so; it
// neither waits for ever for messages that are gone nor takes those of another incarnation.
func TestTheStreamChangesWhileABundleIsWritten(t *testing.T) {
	for about, c := range map[string]struct {
		reading bool
		happens func(*membus.Bus)
		want    string
	}{
		"renewed before it is read":    {false, renew, events.ErrRenewed.Error()},
		"renewed while it is read":     {true, renew, events.ErrRenewed.Error()},
		"its oldest messages are gone": {false, func(bus *membus.Bus) { bus.Discard(3) }, events.ErrCompacted.Error()},
		"its newest messages are gone": {false, func(bus *membus.Bus) { bus.Lose(2) }, "nothing came for 30s"},
		"it does not answer":           {true, func(bus *membus.Bus) { bus.Fail() }, "nothing came for 30s"},
	} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bus := membus.NewBus()
				log, stream := siteOn(t, bus)
				wrapped := &changing{Stream: stream}
				at := &wrapped.afterState
				if c.reading {
					at = &wrapped.afterMessage
				}
				*at = func() { c.happens(bus) }
				_, err := recording.WriteBundle(t.Context(), io.Discard, log, wrapped, recording.BundleRequest{From: 1, To: 2, Now: plannertest.Start})
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "write bundle: read stream membus_1") {
					t.Error(err)
				}
			})
		})
	}
}

func renew(bus *membus.Bus) { _, _ = bus.Connect(1).Renew(context.Background()) }

// full is a disk that has room for so many bytes.
type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	n := min(len(p), f.left)
	f.left -= n
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

// However early the disk is full, it is said.
func TestTheDiskFillsWhileABundleIsWritten(t *testing.T) {
	log, stream := site(t)
	request := recording.BundleRequest{From: 1, To: 2, Now: plannertest.Start}
	var out bytes.Buffer
	_, err := recording.WriteBundle(t.Context(), &out, log, stream, request)
	check(t, err)
	for room := 0; room < out.Len(); room += out.Len()/40 + 1 {
		if _, err := recording.WriteBundle(t.Context(), &full{room}, log, stream, request); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("with room for %d of %d bytes: %v", room, out.Len(), err)
		}
	}
}

// Late in the life of a log, whose beginning is archived, a bundle begins with checkpoints and holds little.
func TestABundleBeginsWithCheckpoints(t *testing.T) {
	log, stream := site(t)
	l := ledger.New(log.ID())
	fold := func() {
		for {
			records, err := log.Read(t.Context(), l.Seq()+1, 0)
			check(t, err)
			if len(records) == 0 {
				return
			}
			for _, rec := range records {
				check(t, foldOne(l, rec))
			}
		}
	}
	fill := func(n int) {
		for range n {
			d, err := audit.OutcomeDraft(audit.Outcome{Kind: ledger.KindAlarmRaised, Payload: &ledger.AlarmRaised{Reason: "r", Message: "m"}})
			check(t, err)
			d.Time, d.Service, d.Mode = plannertest.Start, "lifecycle", "active"
			_, err = log.Append(t.Context(), d)
			check(t, err)
		}
	}
	fill(500)
	fold()
	checkpointed := l.Seq()
	p, blob, err := audit.CheckpointOf(l.Version())
	check(t, err)
	p.Blob, err = log.PutBlob(t.Context(), blob)
	check(t, err)
	d, err := audit.OutcomeDraft(audit.Outcome{Kind: ledger.KindLedgerCheckpoint, Payload: &p, Advances: []string{ledger.CheckpointAggregate}})
	check(t, err)
	d.Time, d.Service, d.Mode = plannertest.Start, "lifecycle", "active"
	_, err = log.Append(t.Context(), d)
	check(t, err)
	fill(audit.BeforeRange + 100)
	fold()
	w := present(t, stream)
	at := w.Position()
	_, _, err = events.WriteCheckpoint(t.Context(), stream.Blobs(), at, w.WriteCheckpoint)
	check(t, err)
	data, err := events.Encode(events.Observation{Epoch: 1, Counter: at.Sequence + 1, ObservedAt: plannertest.Start, Op: events.OpUpsert,
		Object: plannertest.Pod("b", plannertest.Unschedulable(), plannertest.Requests("cpu", "2")), Kind: events.KindPod})
	if err != nil { // as Observe makes it
		o := plannertest.Observe(plannertest.Pod("b", plannertest.Unschedulable(), plannertest.Requests("cpu", "2")))
		o.Epoch, o.Counter, o.ObservedAt = 1, at.Sequence+1, plannertest.Start
		data, err = events.Encode(o)
	}
	check(t, err)
	check(t, stream.Publish(t.Context(), data))
	check(t, stream.Flush(t.Context()))
	w = present(t, stream)
	s := planner.NewSnapshot(w, l, plannertest.Start)
	plan, _ := provision.Plan(s)
	if plan == nil {
		t.Fatal("nothing is planned")
	}
	draft, err := audit.DecisionDraft(s.Basis(), *plan)
	check(t, err)
	draft.Time, draft.Service, draft.Mode = plannertest.Start, "provisioner", "active"
	rec, err := log.Append(t.Context(), draft)
	check(t, err)

	within := audit.Range{From: rec.Seq, To: rec.Seq}
	b, file := bundled(t, log, stream, within)
	if m := b.Manifest; m.First != checkpointed+1 || m.Checkpoint == 0 || m.World == "" || m.Stream.First != at.Sequence+1 || len(m.Missing) > 0 {
		t.Errorf("%+v", m)
	}
	r, err := audit.Replay(t.Context(), b, b, within)
	check(t, err)
	if r.Planned != 1 || len(r.Divergences) > 0 || r.Skipped() > 0 {
		t.Errorf("%s, %s: %v %v", r.Counts(), r.Summary(), r.Divergences, r.NotReplayable)
	}
	damaged(t, file)
	// The same if what is before the checkpoint is archived, and the archive is not at hand.
	before, err := log.Read(t.Context(), checkpointed, 1)
	check(t, err)
	check(t, log.Compact(t.Context(), store.Head{Seq: checkpointed, Hash: before[0].Hash}))
	b, _ = bundled(t, log, stream, within)
	r, err = audit.Replay(t.Context(), b, b, within)
	check(t, err)
	if r.Planned != 1 || len(r.Divergences) > 0 || len(b.Manifest.Missing) > 0 {
		t.Errorf("of a log whose beginning is archived: %s, %s, missing %v", r.Counts(), r.Summary(), b.Manifest.Missing)
	}
}

func present(t *testing.T, stream audit.Stream) *world.World {
	t.Helper()
	st, err := stream.State(t.Context())
	check(t, err)
	w := world.New()
	w.SetIncarnation(st.Incarnation)
	err = stream.Consume(t.Context(), 1, func(m events.Message) error {
		o, err := events.Decode(m.Data)
		check(t, err)
		check(t, events.ResolveCatalog(t.Context(), stream.Blobs(), &o, w.HoldsCatalog))
		w.Apply(m.Sequence, o)
		if m.Sequence == st.Last {
			return context.Canceled
		}
		return nil
	})
	if err != nil && err != context.Canceled { //nolint:errorlint // it is our own
		t.Fatal(err)
	}
	return w
}

// damaged demands that a bundle of which any part is cut off or changed is not read, or not as something
// else.
func damaged(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	check(t, err)
	for at := 10; at < len(data); at += len(data)/60 + 1 {
		changed := bytes.Clone(data)
		changed[at] ^= 0x40
		for about, bad := range map[string][]byte{"changed": changed, "cut off": data[:at]} {
			check(t, os.WriteFile(file, bad, 0o600))
			b, err := recording.OpenBundle(file)
			if err != nil {
				if !strings.Contains(err.Error(), "bundle") {
					t.Errorf("%s at %d: %v", about, at, err)
				}
				continue
			}
			r, err := audit.Replay(t.Context(), b, b, audit.Range{From: b.Manifest.From, To: b.Manifest.To})
			if err == nil && len(r.Divergences) > 0 {
				t.Errorf("%s at %d: it diverges: %v", about, at, r.Divergences)
			}
			b.Close()
		}
	}
}
