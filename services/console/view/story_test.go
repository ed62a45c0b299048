package view_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/services/console/consoletest"
	"millwright/services/console/index"
	"millwright/services/console/view"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/recording"
)

// recorded is the log of an end-to-end test.
type recorded struct {
	store.Log
	from *recording.Recording
	head uint64
	id   string
}

func (r *recorded) ID() string { return r.id }

func (r *recorded) Read(ctx context.Context, from uint64, limit int) ([]store.Record, error) {
	return r.from.Read(ctx, from, limit)
}

func (r *recorded) Head(context.Context) (store.Head, error) { return store.Head{Seq: r.head}, nil }

func (r *recorded) Watch(ctx context.Context, _ uint64, _ func(store.Record) error) error {
	<-ctx.Done()
	return ctx.Err()
}

// opened returns a log with all its entries.
func opened(t *testing.T, file string) (*recorded, []ledger.Entry) {
	t.Helper()
	from, err := recording.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	log := &recorded{from: from}
	var entries []ledger.Entry
	for {
		list, err := from.Read(t.Context(), log.head+1, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		for _, rec := range list {
			e, err := audit.Decode(rec)
			if err != nil {
				t.Fatal(err)
			}
			if g, ok := e.Payload.(*ledger.Genesis); ok {
				log.id = g.LogID
			}
			entries, log.head = append(entries, e), rec.Seq
		}
	}
	return log, entries
}

// filled is an index that has read the whole log.
func filled(t *testing.T, log *recorded, rows int) *index.Index {
	t.Helper()
	x := index.New(log.id, rows)
	consoletest.Fill(t, x, log, log.head)
	return x
}

func nothing() (*world.World, *ledger.Ledger, error) { return world.New(), ledger.New(""), nil }

// The story that is found by the index is the one that is found by reading everything, of every object that
// any record of real histories mentions.
func TestStoriesAreThoseOfTheWholeLog(t *testing.T) {
	files, err := filepath.Glob("../../../store/audit/testdata/v20/*.rec")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			log, entries := opened(t, file)
			v := view.New(view.Config{Log: log, Index: filled(t, log, 0), Versions: nothing, Now: time.Now})
			subjects := map[string]bool{}
			for _, e := range entries {
				for _, s := range audit.Mentions(e, log.id) {
					subjects[s] = true
				}
			}
			for s := range subjects {
				want := audit.Why(entries, s)
				if len(want) > view.StoryRecordsMax {
					continue
				}
				got, err := v.Why(t.Context(), s)
				if err != nil {
					t.Fatalf("%s: %v", s, err)
				}
				if d := cmp.Diff(want, got.Lines); d != "" {
					t.Fatalf("%s (-all records +index)\n%s", s, d)
				}
			}
			if len(subjects) < 5 {
				t.Errorf("%d subjects", len(subjects))
			}
		})
	}
}

func TestADecisionSaysWhatCameOfIt(t *testing.T) {
	log, entries := opened(t, "../../../store/audit/testdata/v20/TestDeletingByHand.rec")
	v := view.New(view.Config{Log: log, Index: filled(t, log, 0), Versions: nothing, Now: time.Now})
	i := slices.IndexFunc(entries, func(e ledger.Entry) bool {
		p, ok := e.Payload.(*ledger.ProvisioningPlanned)
		return ok && len(p.Claims) > 0
	})
	d, err := v.Decision(t.Context(), entries[i].Seq)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, r := range d.After {
		kinds[r.Kind] = true
	}
	if !kinds["Launched"] || !kinds["ClaimInitialized"] || len(d.Details) == 0 || len(d.Payload) == 0 || d.Step != audit.StepDecided {
		t.Errorf("after it %v; details %v", kinds, d.Details)
	}
	if _, err := v.Decision(t.Context(), log.head+1); err == nil {
		t.Error("there is a record after the last")
	}
}

// An index that begins late says from where on it knows, and does not fail for what it lacks.
func TestAnIndexThatBeginsLateSaysSo(t *testing.T) {
	log, entries := opened(t, "../../../store/audit/testdata/v20/TestDeletingByHand.rec")
	const rows = 10
	v := view.New(view.Config{Log: log, Index: filled(t, log, rows), Versions: nothing, Now: time.Now})
	last := entries[len(entries)-1]
	for _, s := range audit.Mentions(last, log.id) {
		x, err := v.Why(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if x.From != log.head-rows+1 {
			t.Errorf("%s is told from record %d of %d", s, x.From, log.head)
		}
	}
	if _, err := v.Why(t.Context(), "claim/nobody"); err == nil || fmt.Sprint(err) != "not found: the log has nothing about claim/nobody since record "+fmt.Sprint(log.head-rows+1) {
		t.Errorf("%v", err)
	}
}

func TestSubjects(t *testing.T) {
	for want, of := range map[string][2]string{
		"pod/default/web": {"pods", "web"}, "pod/a/web": {"po", "a/web"}, "claim/x": {"NodeClaim", "x"}, "pool/p": {"nodepool", "p"}, "instance/i-1": {"instance", "aws:///us-west-2a/i-1"}, "instance/i-2": {"instance", "i-2"}, "": {"secret", "x"},
	} {
		if got := view.Subject(of[0], of[1]); got != want {
			t.Errorf("%v: %q, want %q", of, got, want)
		}
	}
}
