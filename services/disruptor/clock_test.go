package disruptor

import (
	"testing"
	"time"

	"millwright/planner/plannertest"
)

// What was noted by a clock that was a month ahead holds nothing up once it is put right.
func TestNothingWaitsForAClockThatWasSetBack(t *testing.T) {
	snap := plannertest.New().Snapshot()
	ahead := snap.Now.Add(30 * 24 * time.Hour)
	if i := (idle{at: ahead, took: time.Second, seq: 1, revision: 1}); !i.due(snap, searchMax) {
		t.Error("no plan is made")
	}
	if i := (idle{at: ahead}); i.tooSoon(idle{at: snap.Now}) {
		t.Error("marks are not checked")
	}
	var m motion
	for second := range 3 {
		m.look(ahead.Add(time.Duration(second)*time.Second), 1000-100*second)
	}
	if m.look(snap.Now, 700) {
		t.Error("the cluster counts as in motion")
	}
}
