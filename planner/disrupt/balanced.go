package disrupt

import (
	"millwright/planner"
	"millwright/planner/disrupt/internal/policy"
)

// Score of a command for a Balanced NodePool (reference: disruption §5).
type Score = policy.Score

// ScoreLeast is the score, in thousandths, that a command must have.
const ScoreLeast = policy.ScoreLeast

// balance scores an outcome for each Balanced NodePool of its nodes and returns the nodes of those that
// reject it.
func (p *pass) balance(o *outcome) (rejected []*planner.StateNode, scores []Score) {
	savings := p.prices.Sum(o.nodes)
	for i := range o.claims {
		savings -= o.claims[i].Cheapest.MicroUSDPerHour
	}
	scores = policy.Scores(p.balances, o.nodes, savings, p.prices.Of)
	for _, s := range scores {
		if s.Thousandths >= ScoreLeast {
			continue
		}
		for _, n := range o.nodes {
			if n.NodePool == s.NodePool {
				rejected = append(rejected, n)
			}
		}
		p.report.Unapproved = append(p.report.Unapproved, s)
	}
	return rejected, scores
}
