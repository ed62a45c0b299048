package world

import "millwright/planner/version"

// Fork returns a live World that begins as w is now and shares with it what neither of the two changes. What
// is folded into one of them the other does not see.
func Fork(w *World) *World {
	f := *w.Version()
	f.owner, f.latest = new(version.Owner), nil
	return &f
}
