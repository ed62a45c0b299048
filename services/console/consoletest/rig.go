package consoletest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/planner/world"
	"millwright/services/console/history"
	"millwright/services/console/index"
	"millwright/services/console/view"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/memlog"
)

// Rig is a log, and what the console makes of it. The World has a node a of NodePool p, and a pod that waits.
type Rig struct {
	T     *testing.T
	Log   *memlog.Log
	Index *index.Index
	View  *view.View
	Clock *Clock
	// Cluster makes the World; nobody reads its Ledger.
	Cluster *plannertest.Cluster
}

// New returns a Rig with an empty log, of which nothing is read before Read.
func New(t *testing.T, cluster string) *Rig {
	r := &Rig{T: t, Log: memlog.New("test"), Clock: &Clock{now: time.Now()}}
	c := plannertest.New(append(plannertest.WithCatalogue(), plannertest.Pool("p"),
		plannertest.Pod("waits", plannertest.Unschedulable(), plannertest.Requests("cpu", "3")))...)
	c.AddNode("a", "p")
	r.Cluster = c
	r.Index = index.New(r.Log.ID(), 0)
	past := history.New(r.Log.ID())
	r.Index.Also(past.Add)
	r.View = view.New(view.Config{Cluster: cluster, Log: r.Log, Index: r.Index, History: past, Now: r.Clock.Now, Versions: func() (*world.World, *ledger.Ledger, error) {
		l, err := audit.PresentLedger(t.Context(), r.Log)
		return c.World.Version(), l, err
	}})
	return r
}

// Propose appends a proposal to take a node away, which holds for an hour, and returns its id.
func (r *Rig) Propose(p ledger.CommandProposed) string {
	r.T.Helper()
	p.Expires = r.Clock.Now().Add(time.Hour)
	d, err := audit.DecisionDraft(planner.Basis{Now: r.Clock.Now()}, planner.Decision{Kind: ledger.KindCommandProposed, Payload: &p})
	if err != nil {
		r.T.Fatal(err)
	}
	d.Service = ledger.ServiceDisruptor
	return ledger.CommandID(r.Log.ID(), r.append(d).Seq)
}

// Outcome appends a record of something that was done.
func (r *Rig) Outcome(kind ledger.Kind, payload any) store.Record {
	r.T.Helper()
	d, err := audit.OutcomeDraft(audit.Outcome{Kind: kind, Payload: payload})
	if err != nil {
		r.T.Fatal(err)
	}
	return r.append(d)
}

func (r *Rig) append(d store.Draft) store.Record {
	r.T.Helper()
	d.Mode, d.Time = string(ledger.ModeActive), r.Clock.Now()
	rec, err := r.Log.Append(r.T.Context(), d)
	if err != nil {
		r.T.Fatal(err)
	}
	return rec
}

// Read has the Index follow the log until the test ends, and returns once it has all that is there.
func (r *Rig) Read() {
	r.T.Helper()
	head, err := r.Log.Head(r.T.Context())
	if err != nil {
		r.T.Fatal(err)
	}
	Fill(r.T, r.Index, r.Log, head.Seq)
}

// Fill has an Index follow a log until the test ends, and returns once it has a record.
func Fill(t testing.TB, x *index.Index, log store.Log, seq uint64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); x.Run(ctx, log, zerolog.Nop()) }()
	t.Cleanup(func() { cancel(); <-ended })
	for !reached(t, x, seq) { //nolint:revive // a tail that was too slow begins anew
	}
}

// reached waits for a record of the Index, and is false if so much came at once that the wait has to begin
// anew.
func reached(t testing.TB, x *index.Index, seq uint64) bool {
	t.Helper()
	tail, err := x.Follow(index.Filter{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Leave(tail)
	if _, last, _ := x.Extent(); last >= seq {
		return true
	}
	for row := range tail.Rows {
		if row.Seq >= seq {
			return true
		}
	}
	return false
}

// Clock is moved by tests only.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// ClockAt is one that shows a time.
func ClockAt(t time.Time) *Clock { return &Clock{now: t} }

// Now is the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
