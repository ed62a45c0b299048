package disrupt

import (
	"slices"
	"time"

	"millwright/planner"
	"millwright/planner/disrupt/internal/policy"
	"millwright/planner/ledger"
)

// movedLately counts the pods of a node that are there because a voluntary command moved them lately, and
// says when the last of them has been there long enough. Replicas are told apart by nobody, so every pod of
// an owner counts that was created since one of it was moved.
func (c *candidates) movedLately(n *planner.StateNode) (pods int64, until time.Time) {
	if c.moved == nil {
		c.moved = c.s.Ledger.MovedSince(c.s.Now.Add(-policy.AgainAfter))
	}
	if len(c.moved) == 0 {
		return 0, time.Time{}
	}
	for _, p := range reschedulable(n) {
		at, ok := c.moved[ledger.OwnerKey(p.Namespace, p.Name)]
		created := time.Unix(0, p.Created)
		if !ok || created.Before(at.Truncate(time.Second)) || !c.s.Now.Before(created.Add(policy.AgainAfter)) {
			continue
		}
		if pods++; created.Add(policy.AgainAfter).After(until) {
			until = created.Add(policy.AgainAfter).UTC()
		}
	}
	return pods, until
}

// againBlock keeps a node for which the pods that would be moved again are too many for its price.
func (c *candidates) againBlock(n *planner.StateNode) *Blocked {
	pods, until := c.movedLately(n)
	text := policy.Again(pods, c.prices.Of(n))
	if text == "" {
		return nil
	}
	return unconsolidatable(CauseMovedLately, "%s", text).until(until)
}

// savesTooLittleAgain says why an outcome saves too little for the pods that it moves again; "" if it does
// not.
func (p *pass) savesTooLittleAgain(o *outcome) string {
	pods := int64(0)
	for _, n := range o.nodes {
		k, _ := p.movedLately(n)
		pods += k
	}
	saved := p.prices.Sum(o.nodes)
	for i := range o.claims {
		saved -= o.claims[i].Cheapest.MicroUSDPerHour
	}
	return policy.Again(pods, saved)
}

// unlessMovedLately leaves out nodes whose pods were moved too lately, and says so of them.
func (p *pass) unlessMovedLately(nodes []*planner.StateNode) []*planner.StateNode {
	return slices.DeleteFunc(nodes, func(n *planner.StateNode) bool {
		b := p.againBlock(n)
		if b != nil {
			p.block([]*planner.StateNode{n}, *b)
			p.report.wake(b.Until)
		}
		return b != nil
	})
}
