package fold

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/memlog"
)

// Many effects that append at once hand in their records in no order; the Ledger has them all then, without
// waiting for the watch. What is handed in twice, or was folded already, changes nothing.
func TestOwnRecordsAreFoldedInWhateverOrderTheyAreHandedIn(t *testing.T) {
	log := memlog.New("test")
	for range 5 {
		draft, err := audit.OutcomeDraft(audit.Outcome{Kind: ledger.KindModeChanged, Payload: &ledger.ModeChanged{Service: "lifecycle", Mode: ledger.ModeActive}})
		if err != nil {
			t.Fatal(err)
		}
		draft.Time, draft.Service, draft.Mode = time.Now(), "lifecycle", string(ledger.ModeActive)
		if _, err := log.Append(context.Background(), draft); err != nil {
			t.Fatal(err)
		}
	}
	records, err := log.Read(context.Background(), 1, 100)
	if err != nil || len(records) != 6 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	s := NewState(StateConfig{Log: log, Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry()}) // does not run: no watch
	for i, want := range []struct {
		handedIn int
		folded   uint64
	}{{3, 0}, {2, 0}, {1, 3}, {1, 3}, {6, 3}, {4, 4}, {5, 6}} {
		s.FoldOwn(records[want.handedIn-1])
		if got := s.ledgerSeq(); got != want.folded {
			t.Errorf("%d: with record %d the ledger is at %d, want %d", i, want.handedIn, got, want.folded)
		}
	}
	if n := len(s.early.records); n != 0 {
		t.Errorf("%d records are kept after they were folded", n)
	}
	for i := range 2 * earlyMax {
		s.FoldOwn(store.Record{Seq: 20 + uint64(i)})
	}
	if n := len(s.early.records); n != earlyMax {
		t.Errorf("%d records wait", n)
	}
}

// A record that waits for too long is left to the watch: the log may have been restored from a backup, and
// go on with another one.
func TestOwnRecordsDoNotWaitForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e early
		e.keep(store.Record{Seq: 3})
		if _, ok := e.take(1); ok || len(e.records) != 1 {
			t.Errorf("record 3 is taken for record 2, or gone: %v", e.records)
		}
		time.Sleep(earlyFor)
		if _, ok := e.take(2); ok || len(e.records) != 0 {
			t.Errorf("it is taken after %s, or still there: %v", earlyFor, e.records)
		}
	})
}

// etcd is restored from a backup between the first look at the log and the watch, which then waits for
// records of another chain: nothing more is folded, and nothing decided.
func TestALogThatEndsBeforeWhatIsFoldedIsNotFollowed(t *testing.T) {
	ctx := t.Context()
	log := memlog.New("test")
	appendMode := func() {
		draft, err := audit.OutcomeDraft(audit.Outcome{Kind: ledger.KindModeChanged, Payload: &ledger.ModeChanged{Service: "lifecycle", Mode: ledger.ModeActive}})
		if err != nil {
			t.Fatal(err)
		}
		draft.Time, draft.Service, draft.Mode = time.Now(), "lifecycle", string(ledger.ModeActive)
		if _, err := log.Append(ctx, draft); err != nil {
			t.Fatal(err)
		}
	}
	appendMode()
	backup := log.Copy()
	appendMode()
	s := NewState(StateConfig{Log: log, Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
	if err := s.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	s.Log = backup
	ended, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- s.Run(ended) }()
	select {
	case <-s.broken:
	case <-time.After(10 * time.Second):
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := s.Failed(); !errors.Is(err, ErrStandDown) || !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("it goes on: %v", err)
	}
}
