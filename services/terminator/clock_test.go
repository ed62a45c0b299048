package terminator

import (
	"fmt"
	"testing"
	"time"
)

// Nodes that were forced while the clock was a month ahead do not count against the others once it is put
// right.
func TestDeadlinesAreNotPacedByAClockThatWasAhead(t *testing.T) {
	b, now := newBreaker(), time.Unix(1000, 0)
	b.now = now.Add(30 * 24 * time.Hour)
	for i := range forcedFloor {
		b.allows(fmt.Sprint("early", i))
	}
	if b.allows("late") {
		t.Error("too many are forced at once")
	}
	if b.now = now; !b.allows("late") {
		t.Error("none is forced any more")
	}
	b.forget(map[string]bool{})
	if len(b.began) != 1 {
		t.Errorf("%d nodes are remembered", len(b.began))
	}
}
