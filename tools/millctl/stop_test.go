package main

import (
	"context"
	"testing"
	"time"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/orders"
	"millwright/store/memlog"
)

// contested is a log on which another operator is faster once.
type contested struct {
	store.Log
	rival *ledger.ControlChanged
}

func (c *contested) Append(ctx context.Context, d store.Draft) (store.Record, error) {
	if r := c.rival; r != nil {
		c.rival = nil
		if _, _, err := orders.SetStop(ctx, c.Log, *r, time.Now()); err != nil {
			return store.Record{}, err
		}
	}
	return c.Log.Append(ctx, d)
}

func TestStopAndResume(t *testing.T) {
	log := memlog.New("test")
	set := func(l store.Log, level ledger.Stop, why string) (ledger.ControlChanged, store.Record) {
		t.Helper()
		before, rec, err := orders.SetStop(t.Context(), l, ledger.ControlChanged{Stop: level, By: "ann", Why: why}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return before, rec
	}
	if _, rec := set(log, ledger.StopNone, ""); rec.Seq != 0 {
		t.Errorf("resuming what is not stopped recorded %d", rec.Seq)
	}
	set(log, ledger.StopVoluntary, "release")
	before, rec := set(&contested{Log: log, rival: &ledger.ControlChanged{Stop: ledger.StopAll, By: "bob", Why: "fire"}}, ledger.StopVoluntary, "again")
	if before.By != "bob" || before.Stop != ledger.StopAll || rec.Seq != 4 {
		t.Errorf("before %+v, record %d: the other operator was overlooked", before, rec.Seq)
	}
	e, err := audit.Decode(rec)
	if err != nil {
		t.Fatal(err)
	}
	if c := e.Payload.(*ledger.ControlChanged); *c != (ledger.ControlChanged{Stop: ledger.StopVoluntary, By: "ann", Why: "again"}) || e.Service != ledger.ServiceOperator {
		t.Errorf("recorded %+v by %s", c, e.Service)
	}
	if c, err := orders.StopInForce(t.Context(), log); err != nil || c.Why != "again" {
		t.Errorf("switch %+v, %v", c, err)
	}
	if before, rec := set(log, ledger.StopNone, "done"); before.Stop != ledger.StopVoluntary || rec.Seq != 5 {
		t.Errorf("resumed from %+v with record %d", before, rec.Seq)
	}
}
