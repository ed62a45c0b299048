package planner

import "time"

// Latest returns the latest of some times; zero if there is none.
func Latest(times ...time.Time) (latest time.Time) {
	for _, t := range times {
		if t.After(latest) {
			latest = t
		}
	}
	return latest
}
