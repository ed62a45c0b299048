package weeks

import (
	"context"
	"fmt"
	"time"

	"millwright/events"
	"millwright/events/membus"
	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/memlog"
)

// Tape is the log and the stream of a week under Millwright's planners, as its services would have written
// them: every decision can be planned again on its Snapshot.
type Tape struct {
	Log    *memlog.Log
	Stream *membus.Stream
	// Messages and Bytes of the stream; Decisions that were taken on a Snapshot.
	Messages, Bytes, Decisions int

	now func() time.Time
}

// Record plays a week and keeps it. The watcher's heartbeat comes each second. An error says that the context
// ended.
func Record(ctx context.Context, s *Script, p Settings) (*Tape, Result, error) {
	t := &Tape{Stream: membus.NewBus().Connect(membus.QueueMax)}
	c := newCluster(s)
	t.now = c.time
	log, err := memlog.Open(memlog.Config{Cluster: "weeks", LogID: logID, Clock: c.time})
	t.must("open the log", err)
	t.Log = log
	m := newTaped(c, p, t)
	c.plane = m
	var beat func()
	beat = func() {
		m.beat()
		c.after(time.Second, beat)
	}
	c.after(time.Second, beat)
	if err := c.run(ctx); err != nil {
		return nil, c.result, err
	}
	return t, c.result, nil
}

func (t *Tape) must(what string, err error) {
	if err != nil {
		panic(fmt.Sprintf("weeks: %s: %v", what, err))
	}
}

// begin folds what the log begins with.
func (t *Tape) begin(m *millwright) {
	state, err := t.Stream.State(context.Background())
	t.must("ask for the stream's state", err)
	m.world.SetIncarnation(state.Incarnation)
	records, err := t.Log.Read(context.Background(), 1, 1)
	t.must("read the log", err)
	for _, rec := range records {
		t.must("fold the log", m.ledger.Apply(t.decoded(rec)))
	}
}

func (t *Tape) decoded(rec store.Record) ledger.Entry {
	e, err := audit.Decode(rec)
	t.must("decode a record", err)
	return e
}

func (t *Tape) catalogue(ref *events.CatalogRef) *events.CatalogRef {
	stored, err := events.StoreCatalog(context.Background(), t.Stream.Blobs(), ref.Catalog)
	t.must("store the catalogue", err)
	return stored
}

// observe publishes an observation, and returns what a consumer reads.
func (t *Tape) observe(o events.Observation) events.Observation {
	ctx := context.Background()
	data, err := events.Encode(o)
	t.must("encode an observation", err)
	t.must("publish", t.Stream.Publish(ctx, data))
	t.must("publish", t.Stream.Flush(ctx))
	t.Messages, t.Bytes = t.Messages+1, t.Bytes+len(data)
	read, err := events.Decode(data)
	t.must("decode an observation", err)
	t.must("resolve a catalogue", events.ResolveCatalog(ctx, t.Stream.Blobs(), &read, nil))
	return read
}

// record appends an entry, as a decision if it is one, and returns what a reader finds.
func (t *Tape) record(e ledger.Entry, d *decision) ledger.Entry {
	draft, err := audit.OutcomeDraft(audit.Outcome{Kind: e.Kind, Payload: e.Payload, Advances: e.Advances})
	draft.Service = ledger.ServiceLifecycle
	if d != nil {
		draft, err = audit.DecisionDraft(d.basis, *d.decision)
		draft.Expects = nil // nobody else appends
		draft.Service = ledger.ServiceDisruptor
		if e.Kind == ledger.KindProvisioningPlanned || e.Kind == ledger.KindProvisioningWidened || e.Kind == ledger.KindClaimWithdrawn {
			draft.Service = ledger.ServiceProvisioner
		}
		t.Decisions++
	}
	t.must("encode a record", err)
	draft.Time, draft.Mode = e.Time, string(e.Mode)
	rec, err := t.Log.Append(context.Background(), draft)
	t.must("append", err)
	return t.decoded(rec)
}
