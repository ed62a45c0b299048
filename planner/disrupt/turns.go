package disrupt

import (
	"slices"

	"millwright/planner"
)

// inTurn are the nodes that a pass asks about, in the order given; next is where the next pass goes on. The
// others are said to be left for it.
func inTurn(p *pass, nodes []*planner.StateNode, after string) (turn []*planner.StateNode, next string) {
	p.report.Searched.Candidates += len(nodes)
	in, next := turnOf(namesOf(nodes), after, p.trials.questionsAllowed(len(nodes)))
	for _, n := range nodes {
		if in == nil || in[n.Name] {
			turn = append(turn, n)
		} else {
			p.blockFirst(n, Blocked{Cause: CauseLeft})
		}
	}
	p.report.Searched.Left += len(nodes) - len(turn)
	return turn, next
}

// turnOf are so many of the names, which are sorted, from the first one after that at which the last pass
// stopped; nil for all of them. next is the last of them, "" if there was no need to stop.
//
// Of a to e, two each time: a b, next is b; c d, next is d; e a, next is a.
func turnOf(names []string, after string, most int) (in map[string]bool, next string) {
	if len(names) <= most {
		return nil, ""
	}
	at, found := slices.BinarySearch(names, after)
	if found {
		at++
	}
	in = map[string]bool{}
	for i := range most {
		next = names[(at+i)%len(names)]
		in[next] = true
	}
	return in, next
}
