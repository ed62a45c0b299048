package claims

import (
	"fmt"
	"testing"
	"time"

	"millwright/services/lifecycle/launch"
)

// Claims that ask for the same wait for each other: while there are enough to come that fill the request,
// a pause between them does not end the wait; a second does, or that nobody else comes.
func TestAFleetWaitsForThoseThatFillIt(t *testing.T) {
	start := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		waiting, coming int
		after           time.Duration
		want            []int
	}{
		"nobody else comes":                     {3, 0, 0, []int{3}},
		"a few come, a moment ago":              {3, 5, 50 * time.Millisecond, nil},
		"a few come, and pause":                 {3, 5, 150 * time.Millisecond, []int{3}},
		"enough come, and pause":                {3, 40, 150 * time.Millisecond, nil},
		"enough come, and pause for too long":   {3, 40, time.Second, []int{3}},
		"two requests are full, others come":    {83, 40, 150 * time.Millisecond, []int{40, 40}},
		"two requests are full, no others come": {83, 0, 150 * time.Millisecond, []int{40, 40, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGathering()
			for i := range c.waiting {
				g.add(builtLaunch{name: fmt.Sprint("claim-", i), pool: "default", launch: launch.Built{Key: "same"}, since: start})
			}
			due, wake := g.groups(start.Add(c.after), map[string]int{"default": c.coming})
			var sizes []int
			for _, names := range due {
				sizes = append(sizes, len(names))
			}
			if fmt.Sprint(sizes) != fmt.Sprint(c.want) {
				t.Errorf("launched %v, want %v", sizes, c.want)
			}
			launched := 0
			for _, n := range sizes {
				launched += n
			}
			if wake.IsZero() == (launched < c.waiting) {
				t.Errorf("%d of %d are launched, looks again at %v", launched, c.waiting, wake)
			}
		})
	}
}

// What could not be looked at a moment ago is not sent before its time, and holds up nobody else.
func TestWhatCouldNotBeLookedAtWaitsAMoment(t *testing.T) {
	start := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	g := newGathering()
	g.add(builtLaunch{name: "a", pool: "default", launch: launch.Built{Key: "same"}, since: start, notBefore: start.Add(50 * time.Millisecond)})
	g.add(builtLaunch{name: "b", pool: "default", launch: launch.Built{Key: "other"}, since: start})
	if due, wake := g.groups(start, nil); fmt.Sprint(due) != "[[b]]" || !wake.Equal(start.Add(50*time.Millisecond)) {
		t.Errorf("launched %v, looks again at %v", due, wake)
	}
	g.take([]string{"b"}, start)
	if due, _ := g.groups(start.Add(50*time.Millisecond), nil); fmt.Sprint(due) != "[[a]]" {
		t.Errorf("launched %v", due)
	}
}

// What a clock said that was ahead holds up no launch after it is put right.
func TestLaunchesDoNotWaitForAClockThatWasAhead(t *testing.T) {
	start := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	ahead := start.Add(24 * time.Hour)
	g := newGathering()
	g.add(builtLaunch{name: "a", pool: "default", launch: launch.Built{Key: "same"}, since: ahead, notBefore: ahead.Add(time.Second)})
	g.take([]string{"b"}, ahead)
	g.apart(ahead.Add(apartFor))
	if due, wake := g.groups(start, nil); len(due) != 0 || !wake.IsZero() || g.has("a", start) || g.has("b", start) {
		t.Errorf("due %v, looks again at %s; what was built and is not sent must be built anew", due, wake)
	}
	for _, name := range []string{"a", "c"} {
		g.add(builtLaunch{name: name, pool: "default", launch: launch.Built{Key: "same"}, since: start.Add(-2 * gatherFor)})
	}
	if due, _ := g.groups(start, nil); fmt.Sprint(due) != "[[a c]]" && fmt.Sprint(due) != "[[a] [c]]" || g.isApart(start) {
		t.Errorf("launched %v", due)
	}
}
