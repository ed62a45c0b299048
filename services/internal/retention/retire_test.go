package retention_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/parts"
	wire "millwright/proto/checkpoint"
	"millwright/services/internal/retention"
	"millwright/store"
	"millwright/store/archive"
	"millwright/store/audit"
)

// turnOver records the end of nodes first to first+n-1, each with a claim and a command of its own.
func (d database) turnOver(t *testing.T, first, n int) {
	t.Helper()
	ctx := bounded(t)
	var g errgroup.Group
	g.SetLimit(64)
	for i := first; i < first+n; i++ {
		g.Go(func() error {
			_, err := d.log.Append(ctx, ended(t, i))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

func ended(t *testing.T, i int) store.Draft {
	t.Helper()
	claim := fmt.Sprintf("general-%06d", i)
	draft, err := audit.OutcomeDraft(audit.Outcome{Kind: ledger.KindClaimClosed, Payload: &ledger.ClaimClosed{Claim: claim},
		Advances: []string{ledger.ClaimAggregate(claim), ledger.CommandAggregate(strconv.Itoa(i)), nodeOf(i), ledger.PoolAggregate("general")}})
	if err != nil {
		t.Fatal(err)
	}
	draft.Service, draft.Mode = ledger.ServiceLifecycle, string(ledger.ModeActive)
	return draft
}

func nodeOf(i int) string { return ledger.NodeAggregate(fmt.Sprintf("ip-10-0-%d-%d", i/256, i%256)) }

// streams returns where etcd has the aggregates.
func (d database) streams(t *testing.T) map[string]uint64 {
	t.Helper()
	const prefix = "/millwright/test/stream/"
	resp, err := d.client.Get(bounded(t), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]uint64{}
	for _, kv := range resp.Kvs {
		if at[strings.TrimPrefix(string(kv.Key), prefix)], err = strconv.ParseUint(string(kv.Value), 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return at
}

// aggregates returns where the Ledger has them, and the size of its checkpoint.
func (r *rig) aggregates() (at map[string]uint64, bytes int) {
	r.t.Helper()
	r.awaitFold()
	at = map[string]uint64{}
	err := r.host.Ledger(func(l *ledger.Ledger) error {
		data, err := l.Checkpoint()
		bytes = len(data)
		if err != nil {
			return err
		}
		held, err := parts.NewReader(strings.NewReader(string(data)), string(data[:9]))
		for part := (&wire.LedgerPart{}); err == nil; err = held.Next(part) {
			for _, a := range part.Aggregates {
				at[a.Name] = a.Seq
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return at, bytes
}

// TestTurnoverLeavesNothingForEver ends 10,000 nodes, as a large fleet does in a day. What log and Ledger
// keep of them is as much after the last as after the first thousands, unless a service does not know the
// record by which it is forgotten.
func TestTurnoverLeavesNothingForEver(t *testing.T) {
	const step, steps = 500, 20
	older := store.Leader{Service: ledger.ServiceTerminator, Identity: "terminator-0",
		Info: map[string]string{store.InfoKinds: strings.Replace(string(ledger.KnownKinds()), "1-12,", "1-8,10-12,", 1)}}
	for name, c := range map[string]struct {
		others  []store.Leader
		bounded bool
	}{
		"every service knows of it":    {nil, true},
		"one service does not know it": {[]store.Leader{older}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := openDatabase(t, 256<<20)
			r := lead(t, d.log, d.elector, c.others...)
			k := d.keeper(r, d.dir, retention.Policy{Every: 400, Records: 1000})
			keys, bytes := 0, 0
			for n := 0; n < step*steps; n += step {
				d.turnOver(t, n, step)
				r.keep(k)
				at, size := r.aggregates()
				if s := cmp.Diff(at, d.streams(t)); s != "" {
					t.Fatalf("after %d nodes ledger and etcd differ (-ledger +etcd):\n%s", n+step, s)
				}
				keys, bytes = max(keys, len(at)), max(bytes, size)
			}
			if c.bounded != (keys < 10*step) || c.bounded != (bytes < 300<<10) {
				t.Errorf("%d aggregates, checkpoint of %d bytes", keys, bytes)
			}
			if n := len(checkpointsOf(t, archive.Join(d.log, d.dir))); n != steps {
				t.Errorf("%d checkpoints", n)
			}
			joined := archive.Join(d.log, d.dir)
			if got, want := started(t, d.log), foldedPages(t, joined); got != want {
				t.Error("checkpoint and tail are not the fold of archive and log")
			}
			t.Logf("at most %d aggregates, checkpoints of at most %d bytes", keys, bytes)
		})
	}
}

// mortal is a host that dies at an append.
type mortal struct {
	retention.Host
	// left is how many more records it retires; then it dies, after the append or before.
	left  int
	after bool
}

var errDied = errors.New("died")

func (m *mortal) Retire(ctx context.Context, d store.Draft) error {
	if m.left--; m.left < 0 {
		if m.after {
			_ = m.Host.Retire(ctx, d)
		}
		return errDied
	}
	return m.Host.Retire(ctx, d)
}

func TestWhoeverDiesWhileRetiringLeavesLedgerAndLogTheSame(t *testing.T) {
	for _, after := range []bool{false, true} {
		for left := range 3 {
			t.Run(fmt.Sprintf("%d records, after the append %v", left, after), func(t *testing.T) {
				d := openDatabase(t, 256<<20)
				r := lead(t, d.log, d.elector)
				d.turnOver(t, 0, 50)
				r.keep(d.keeper(r, nil, retention.Policy{Every: 50}))
				d.turnOver(t, 50, 1300)
				r.keep(d.keeper(r, nil, retention.Policy{Every: 100}))
				d.turnOver(t, 1350, 200)
				r.awaitFold()
				dying := retention.New(retention.Config{Host: &mortal{Host: r.host, left: left, after: after}, Log: d.log, Database: d.log,
					Policy: retention.Policy{Every: 100}, Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
				if err := dying.Round(bounded(t)); !errors.Is(err, errDied) {
					t.Fatalf("did not die: %v", err)
				}
				for range 2 {
					at, _ := r.aggregates()
					if s := cmp.Diff(at, d.streams(t)); s != "" {
						t.Fatalf("ledger and etcd differ (-ledger +etcd):\n%s", s)
					}
					r.keep(d.keeper(r, nil, retention.Policy{Every: 100}))
				}
				if at, _ := r.aggregates(); len(at) > 2*1000 {
					t.Errorf("%d aggregates are left", len(at))
				}
			})
		}
	}
}

// TestANodeNameThatComesBack: who saw the name new before its first use can not use it after its last.
func TestANodeNameThatComesBack(t *testing.T) {
	d := openDatabase(t, 256<<20)
	r := lead(t, d.log, d.elector)
	expects := func() (m map[string]uint64) {
		r.awaitFold()
		_ = r.host.Ledger(func(l *ledger.Ledger) error { m = audit.Expectations(planner.Expect(l, nodeOf(7))); return nil })
		return m
	}
	use := func(expects map[string]uint64) error {
		draft := ended(t, 7)
		draft.Expects = expects
		_, err := d.log.Append(bounded(t), draft)
		return err
	}
	unseen := expects()
	d.turnOver(t, 0, 400)
	known := expects()
	r.keep(d.keeper(r, nil, retention.Policy{Every: 10}))
	d.turnOver(t, 400, 100)
	r.keep(d.keeper(r, nil, retention.Policy{Every: 10}))
	if at := d.streams(t); at[nodeOf(7)] != 0 || at[nodeOf(450)] == 0 {
		t.Fatalf("node 7 stands at %d, node 450 at %d", at[nodeOf(7)], at[nodeOf(450)])
	}
	for name, stale := range map[string]map[string]uint64{"before its first use": unseen, "before it was retired": known} {
		if err := use(stale); !errors.Is(err, store.ErrConflict) {
			t.Errorf("planned %s: %v", name, err)
		}
	}
	if err := use(expects()); err != nil {
		t.Errorf("planned now: %v", err)
	}
	if err := use(expects()); err != nil {
		t.Errorf("planned after that: %v", err)
	}
}
