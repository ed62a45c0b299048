package provisioner

import (
	"testing"
	"time"

	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/planner/provision"
)

// Rounds without new pods are paced by what the last one cost, and pods on nodes of a calm cluster are no
// reason for one.
func TestRoundsArePacedByTheirPrice(t *testing.T) {
	bound := func(c *plannertest.Cluster) {
		c.See(plannertest.Pod("a", plannertest.On("n"), plannertest.Requests("cpu", "2")))
	}
	for name, x := range map[string]struct {
		took   time.Duration
		waits  bool
		change func(c *plannertest.Cluster)
		want   time.Duration
	}{
		"nothing":                         {0, false, func(*plannertest.Cluster) {}, idleMax},
		"a pod on a node":                 {0, false, bound, idleMax},
		"a pod on a node while one waits": {0, true, bound, replanEvery},
		"a node":                          {0, false, func(c *plannertest.Cluster) { c.See(plannertest.Node("n")) }, replanEvery},
		"a node in a large cluster":       {60 * time.Millisecond, false, func(c *plannertest.Cluster) { c.See(plannertest.Node("n")) }, 3 * time.Second},
		"a record": {0, false, func(c *plannertest.Cluster) {
			c.Record(ledger.KindDrainStarted, &ledger.DrainStarted{Node: "n"})
		}, replanLedger},
		"a record in a large cluster": {60 * time.Millisecond, false, func(c *plannertest.Cluster) {
			c.Record(ledger.KindDrainStarted, &ledger.DrainStarted{Node: "n"})
		}, 300 * time.Millisecond},
		"a node in a cluster that is too large": {time.Minute, false, func(c *plannertest.Cluster) { c.See(plannertest.Node("n")) }, idleMax},
	} {
		c := plannertest.New(plannertest.Node("n"), plannertest.Pod("a", plannertest.On("n")))
		if x.waits {
			c.See(plannertest.Pod("w", plannertest.Unschedulable()))
		}
		snap := c.Snapshot()
		_, r := provision.Plan(snap)
		s := &Service{batch: batch{seen: seen{}}, last: round{at: snap.Now, took: x.took, looked: lookedAt(snap, r), seq: snap.Ledger.Seq()}}
		x.change(c)
		if got := s.due(c.Snapshot()); got != x.want {
			t.Errorf("%s: the next round is due in %s, want %s", name, got, x.want)
		}
	}
}

// A clock that was ahead, and is put right, holds up neither the next round nor a batch nor a hint.
func TestAClockThatIsSetBackHoldsNothingUp(t *testing.T) {
	c := plannertest.New()
	snap := c.Snapshot()
	_, r := provision.Plan(snap)
	s := &Service{batch: batch{seen: seen{}}, last: round{at: snap.Now.Add(time.Hour), looked: lookedAt(snap, r), seq: snap.Ledger.Seq()}}
	if got := s.due(snap); got != 0 {
		t.Errorf("after a round by a clock that was an hour ahead the next one is due in %s", got)
	}
	c.See(plannertest.Pod("w", plannertest.Unschedulable()))
	snap = c.Snapshot()
	b := batch{seen: seen{}}
	b.notePending(snap)
	earlier := snap.Now.Add(-time.Hour)
	if got := b.wait(earlier, snap.Options); got != 0 {
		t.Errorf("a batch that was opened by a clock that was an hour ahead closes in %s", got)
	}
	if waited := b.close(earlier); len(waited) != 1 || waited[0] != 0 {
		t.Errorf("its pod waited %s", waited)
	}
	if x := (&hint{node: "n", base: "1", at: snap.Now, times: 1}); !x.isDue("n", "2", earlier) {
		t.Error("a hint that the pod has lost is not due")
	}
	ps := passing{}
	problems := []provision.PoolProblem{{NodePool: "p", Reason: "NotReady"}}
	ps.noteProblems(problems, snap.Now)
	ps.noteProblems(problems, earlier)
	if ps.noteProblems(problems, earlier.Add(passingFor)) {
		t.Error("pods are not warned that a NodePool is not ready")
	}
}
