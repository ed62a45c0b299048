package view

import (
	"strings"
	"testing"
	"time"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/planner/world"
)

// Whoever asks while it is sought for another pod is told so at once, and takes no processor.
func TestWhatWouldLetAPodRunIsSoughtForOneAtATime(t *testing.T) {
	s := planner.NewSnapshot(world.New().Version(), ledger.New(plannertest.LogID).Version(), plannertest.Start)
	now := func() time.Time { return plannertest.Start }
	var c waits
	c.seeking.Lock()
	if lines := c.get(s, "default/a", now); len(lines) != 1 || !strings.Contains(lines[0], "ask again") {
		t.Errorf("%q", lines)
	}
	c.seeking.Unlock()
	if lines := c.get(s, "default/a", now); len(lines) != 0 {
		t.Errorf("a pod that does not wait: %q", lines)
	}
}
