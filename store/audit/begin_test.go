package audit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/memlog"
)

// checkpointed is a log with checkpoints of its Ledger, of which it notes which are looked up.
type checkpointed struct {
	*memlog.Log
	checkpoints []uint64
	lookedUp    []uint64
}

func (c *checkpointed) Read(ctx context.Context, from uint64, limit int) ([]store.Record, error) {
	if limit == 1 {
		c.lookedUp = append(c.lookedUp, from)
	}
	return c.Log.Read(ctx, from, limit)
}

// newCheckpointed writes a number of checkpoints, each after as many records as a range begins early.
func newCheckpointed(t *testing.T, checkpoints int) *checkpointed {
	t.Helper()
	c := &checkpointed{Log: memlog.New("test")}
	l := ledger.New(c.ID())
	fold := func(rec store.Record, err error) {
		t.Helper()
		var e ledger.Entry
		if err == nil {
			e, err = audit.Decode(rec)
		}
		if err == nil {
			err = l.Apply(e)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add := func(o audit.Outcome) {
		t.Helper()
		d, err := audit.OutcomeDraft(o)
		if err != nil {
			t.Fatal(err)
		}
		d.Mode, d.Service, d.Time = string(ledger.ModeActive), ledger.ServiceLifecycle, time.Unix(1e9, 0)
		fold(c.Append(t.Context(), d))
	}
	genesis, err := c.Log.Read(t.Context(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	fold(genesis[0], nil)
	for range checkpoints {
		for range audit.BeforeRange {
			add(audit.Outcome{Kind: ledger.KindAlarmRaised, Payload: &ledger.AlarmRaised{Reason: "r", Message: "m"}})
		}
		p, blob, err := audit.CheckpointOf(l.Version())
		if err == nil {
			p.Blob, err = c.PutBlob(t.Context(), blob)
		}
		if err != nil {
			t.Fatal(err)
		}
		add(audit.Outcome{Kind: ledger.KindLedgerCheckpoint, Payload: &p, Advances: []string{ledger.CheckpointAggregate}})
		c.checkpoints = append(c.checkpoints, l.Seq())
	}
	return c
}

// Nothing before the checkpoint that a replay begins at is needed for it, however long the archive is.
func TestAReplayLooksUpNoCheckpointBeforeTheOneItBeginsAt(t *testing.T) {
	log := newCheckpointed(t, 5)
	head := log.checkpoints[4]
	report, err := audit.Replay(t.Context(), log, nil, audit.Range{From: head, To: head})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "records read", report.Records, int(head-log.checkpoints[3])+1)
	want(t, "looked up", fmt.Sprint(log.lookedUp), fmt.Sprint([]uint64{log.checkpoints[4], log.checkpoints[3]}))
}
