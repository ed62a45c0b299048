package disrupt

import (
	"millwright/planner"
	"millwright/planner/disrupt/internal/turn"
)

// inTurn are the nodes that a pass asks about, in the order given; next is where the next pass goes on. The
// others are said to be left for it.
func inTurn(p *pass, nodes []*planner.StateNode, after string) (list []*planner.StateNode, next string) {
	p.report.Searched.Candidates += len(nodes)
	in, next := turn.Of(namesOf(nodes), after, p.trials.questionsAllowed(len(nodes)))
	for _, n := range nodes {
		if in == nil || in[n.Name] {
			list = append(list, n)
		} else {
			p.blockFirst(n, Blocked{Cause: CauseLeft})
		}
	}
	p.report.Searched.Left += len(nodes) - len(list)
	return list, next
}
