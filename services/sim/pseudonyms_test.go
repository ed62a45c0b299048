package sim

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"slices"
	"testing"

	"millwright/events"
	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/services/sim/stage"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/pseudonyms"
	"millwright/store/audit/recording"
)

var renamed = flag.Uint64("renamed", 12, "how many histories to replay with pseudonyms, beside three that came out otherwise once")

// Decisions of all kinds come out with pseudonyms as they did, those after a checkpoint too.
func TestHistoriesReplayWithPseudonyms(t *testing.T) {
	planned, late, kinds := 0, 0, map[ledger.Kind]int{}
	seeds := []uint64{13, 29, 81} // refusals older than the bundle, and a time of day in a text
	for n := uint64(1); n <= *renamed; n++ {
		seeds = append(seeds, n)
	}
	if *seed > 0 {
		seeds = []uint64{*seed}
	}
	for _, n := range seeds {
		r := Run(config(n))
		hold(t, r)
		whole := contentsOf(t, r)
		planned += replaysAlike(t, n, whole)
		for _, rec := range whole.Records {
			if e, err := audit.Decode(rec); err == nil && audit.Replayable(e) {
				kinds[e.Kind]++
			}
		}
		late += replaysAlike(t, n, lateIn(t, whole))
	}
	t.Logf("%d decisions, %d after checkpoints: %v", planned, late, kinds)
}

// replaysAlike demands that a bundle with pseudonyms replays as the one without, and returns how many
// decisions that are.
func replaysAlike(t *testing.T, seed uint64, c *recording.Contents) int {
	t.Helper()
	b := c.Bundle()
	within := audit.Range{From: c.Manifest.From, To: c.Manifest.To}
	there, err := audit.Replay(t.Context(), b, b, within)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	out, _, err := pseudonyms.Rename(t.Context(), c)
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
		return 0
	}
	b = out.Bundle()
	here, err := audit.Replay(t.Context(), b, b, within)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if here.Counts() != there.Counts() || len(here.Divergences) != len(there.Divergences) || here.Checkpoints != there.Checkpoints {
		t.Errorf("seed %d from record %d: %s and %d checkpoints, with pseudonyms %s and %d, %d divergences: %v", seed, c.Manifest.First, there.Counts(),
			there.Checkpoints, here.Counts(), here.Checkpoints, len(here.Divergences), out.Manifest.Pseudonyms.Withheld)
	}
	return here.Replayed()
}

func contentsOf(t *testing.T, r Result) *recording.Contents {
	t.Helper()
	var file bytes.Buffer
	_, err := recording.WriteBundle(t.Context(), &file, r.Log, r.Stream, recording.BundleRequest{From: 1, To: r.Head.Seq, LogID: r.Log.ID(), Now: stage.Start})
	if err != nil {
		t.Fatal(err)
	}
	b, err := recording.ReadBundle(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	c, err := b.Contents()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// lateIn is the second half of a history, after a checkpoint of its Ledger and one of the World.
func lateIn(t *testing.T, whole *recording.Contents) *recording.Contents {
	t.Helper()
	half := len(whole.Records) / 2
	l := ledger.New("")
	for _, rec := range whole.Records[:half] {
		e, err := audit.Decode(rec)
		if err == nil {
			err = l.Apply(e)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p, blob, err := audit.CheckpointOf(l.Version())
	if err != nil {
		t.Fatal(err)
	}
	p.Blob = "blob"
	draft, err := audit.OutcomeDraft(audit.Outcome{Kind: ledger.KindLedgerCheckpoint, Payload: &p, Advances: []string{ledger.CheckpointAggregate}})
	if err != nil {
		t.Fatal(err)
	}
	last := store.Record{Seq: uint64(len(whole.Records)) + 1, Draft: draft}
	part := *whole
	part.Records, part.LogBlobs = append(slices.Clone(whole.Records[half:]), last), map[string][]byte{p.Blob: blob}
	m := &part.Manifest
	m.First, m.From, m.Checkpoint, m.Last = p.Seq+1, p.Seq+1, last.Seq, last.Seq
	fromWorld(t, &part)
	return &part
}

// fromWorld lets a bundle begin with a checkpoint of the World at its first decision.
func fromWorld(t *testing.T, part *recording.Contents) {
	t.Helper()
	w := world.New()
	w.SetIncarnation(part.Manifest.Stream.Incarnation)
	at := uint64(0)
	for _, rec := range part.Records {
		e, err := audit.Decode(rec)
		if err == nil && audit.IsDecision(e) && e.LedgerSeq+1 >= part.Manifest.First && e.Position.Incarnation == part.Manifest.Stream.Incarnation {
			at = e.Position.Sequence
			break
		}
	}
	blobs := part.Bundle().Blobs()
	for i, m := range part.Messages {
		if m.Sequence > at {
			part.Messages = part.Messages[i:]
			break
		}
		o, err := events.Decode(m.Data)
		if err != nil {
			continue
		}
		if err := events.ResolveCatalog(context.Background(), blobs, &o, w.HoldsCatalog); err != nil && !errors.Is(err, events.ErrNotFound) {
			t.Fatal(err)
		}
		w.Apply(m.Sequence, o)
	}
	data, err := w.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	name := events.CheckpointName(part.Manifest.Stream.Incarnation, w.Position().Sequence)
	with := map[string][]byte{name: data}
	for k, v := range part.StreamBlobs {
		with[k] = v
	}
	part.StreamBlobs, part.Manifest.World, part.Manifest.Stream.First = with, name, w.Position().Sequence+1
}
