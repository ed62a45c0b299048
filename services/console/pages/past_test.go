package pages

import (
	"fmt"
	"testing"
	"time"

	"millwright/services/console/history"
	"millwright/store/audit/shadow"
)

// Curves and marks are where their times are, however long the span is.
func TestPicturesOfLongSpans(t *testing.T) {
	now := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	const want = "M250 120H500V6H1000"
	for _, whole := range []time.Duration{time.Hour, 720 * time.Hour, 8760 * time.Hour, 100 * 8760 * time.Hour} {
		from := now.Add(-whole)
		early, late := from.Add(whole/4), from.Add(whole/2)
		x := timelinePage{Timeline: &history.Timeline{Seconds: 60, Points: []history.Point{{At: early, Sums: history.Sums{Launched: 1}}, {At: late, Nodes: 1, Sums: history.Sums{Launched: 1}}}}}
		x.draw(from, now)
		marks := ""
		for _, m := range x.Lanes[2].Marks {
			marks += fmt.Sprint(m.X, " ")
		}
		if x.Nodes != want || marks != "250 500 " {
			t.Errorf("timeline of %s: %s, marks at %s", whole, x.Nodes, marks)
		}
		r := shadowPage{Report: &shadow.Report{From: from, To: now, Curve: []shadow.Point{{At: early}, {At: late, ActualNodes: 1}}}}
		r.draw()
		if r.Nodes.Actual != want {
			t.Errorf("shadow report of %s: %s", whole, r.Nodes.Actual)
		}
	}
}
