package retention_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/services/internal/host/fold"
	"millwright/services/internal/host/step"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/memlog"
)

// observedLog notes what is read, and has lost some blobs.
type observedLog struct {
	store.Log
	reads []uint64
	lost  map[string]bool
}

func (l *observedLog) Read(ctx context.Context, from uint64, limit int) ([]store.Record, error) {
	if limit > 1 { // one record is a checkpoint looked up
		l.reads = append(l.reads, from)
	}
	return l.Log.Read(ctx, from, limit)
}

func (l *observedLog) GetBlob(ctx context.Context, hash string) ([]byte, error) {
	if l.lost[hash] {
		return nil, fmt.Errorf("blob %s: %w", hash, store.ErrNotFound)
	}
	return l.Log.GetBlob(ctx, hash)
}

// folded returns the digest of the Ledger folded from the first record.
func folded(t *testing.T, log store.Log) string {
	t.Helper()
	records, err := log.Read(bounded(t), 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	l := ledger.New("")
	for _, rec := range records {
		e, err := audit.Decode(rec)
		if err == nil {
			err = l.Apply(e)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return l.Digest()
}

// started returns the digest of the Ledger of a process that starts now.
func started(t *testing.T, log store.Log) string {
	t.Helper()
	state := fold.NewState(fold.StateConfig{Log: log, Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
	if err := state.CatchUp(bounded(t)); err != nil {
		t.Fatal(err)
	}
	h := step.New(step.Config{Service: ledger.ServiceDisruptor, State: state, Options: planner.DefaultOptions(),
		Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
	var digest string
	_ = h.Ledger(func(l *ledger.Ledger) error { digest = l.Digest(); return nil })
	return digest
}

// checkpoints returns the checkpoints of the log, newest first.
func checkpoints(t *testing.T, log store.Log) (list []ledger.LedgerCheckpoint) {
	t.Helper()
	records, err := log.Read(bounded(t), 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range slices.Backward(records) {
		if e, err := audit.Decode(rec); err == nil && e.Kind == ledger.KindLedgerCheckpoint {
			list = append(list, *e.Payload.(*ledger.LedgerCheckpoint))
		}
	}
	return list
}

func TestStartIsCheckpointAndTail(t *testing.T) {
	log := memlog.New("test")
	r := lead(t, log, memlog.NewElector(log))
	k := r.keeper(50)
	for range 5 {
		r.live(40)
		r.keep(k)
	}
	r.keep(k) // nothing is due
	r.live(9)
	list := checkpoints(t, log)
	if len(list) != 5 {
		t.Fatalf("%d checkpoints", len(list))
	}
	want := folded(t, log)
	for name, c := range map[string]struct {
		lost []ledger.LedgerCheckpoint
		from uint64
	}{
		"from the newest":                        {nil, list[0].Seq + 1},
		"from the one before, if one is damaged": {list[:1], list[1].Seq + 1},
		"from zero, if all are gone":             {list, 1},
	} {
		t.Run(name, func(t *testing.T) {
			observed := &observedLog{Log: log, lost: map[string]bool{}}
			for _, p := range c.lost {
				observed.lost[p.Blob] = true
			}
			if got := started(t, observed); got != want {
				t.Errorf("ledger is not the fold from zero")
			}
			if observed.reads[0] != c.from {
				t.Errorf("read from %d on, want %d", observed.reads[0], c.from)
			}
		})
	}
	t.Run("without what it stands for", func(t *testing.T) {
		last, err := log.Read(bounded(t), list[0].Seq, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := log.Compact(bounded(t), store.Head{Seq: last[0].Seq, Hash: last[0].Hash}); err != nil {
			t.Fatal(err)
		}
		if got := started(t, log); got != want {
			t.Error("ledger is not the fold from zero")
		}
	})
}

func TestCheckpointOfAnotherVersionIsPassedOver(t *testing.T) {
	log := memlog.New("test")
	r := lead(t, log, memlog.NewElector(log))
	r.live(20)
	r.keep(r.keeper(10))
	p := checkpoints(t, log)[0]
	var previous uint64
	_ = r.host.Ledger(func(l *ledger.Ledger) error { previous = l.Aggregate(ledger.CheckpointAggregate); return nil })
	p.Version, p.Previous = ledger.StateVersion+1, previous
	if err := r.host.Note(bounded(t), ledger.KindLedgerCheckpoint, &p, ledger.CheckpointAggregate, previous); err != nil {
		t.Fatal(err)
	}
	observed := &observedLog{Log: log}
	if started(t, observed) != folded(t, log) || observed.reads[0] != p.Seq+1 {
		t.Errorf("read from %v, the readable checkpoint is of %d", observed.reads, p.Seq)
	}
}
