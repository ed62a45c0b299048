package provisioner

import (
	"time"

	"millwright/planner/provision"
)

// passingFor is how long a NodePool may be without readiness or instance types before pods are warned that
// they have no place: it takes that long to resolve a new NodeClass, and until then no refusal is final.
const passingFor = 15 * time.Second

// passing holds since when a NodePool has had a transient problem, by name. It is rebuilt at each look.
type passing map[string]time.Time

// noteProblems takes in the problems of a round, and reports that one of them may yet disappear soon.
func (p *passing) noteProblems(problems []provision.PoolProblem, now time.Time) (early bool) {
	next := passing{}
	for i := range problems {
		x := &problems[i]
		if !x.Passing() {
			continue
		}
		since, known := (*p)[x.NodePool]
		if !known || since.After(now) { // or the clock was set back
			since = now
		}
		next[x.NodePool] = since
		early = early || now.Sub(since) < passingFor
	}
	*p = next
	return early
}
