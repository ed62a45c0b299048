package disrupt

import (
	"slices"

	"millwright/planner"
)

// doesNotPay says why evicting the pods of nodes is not worth what it saves by price, in micro USD per hour,
// and by so many nodes fewer; nil if it is.
func (c *candidates) doesNotPay(saved int64, fewer int, nodes ...*planner.StateNode) *Blocked {
	if r := c.payBack.Again(saved, nodes...); r != nil {
		return unconsolidatable(CauseMovedLately, "%s", r.Text).until(r.Until)
	}
	if r := c.payBack.Evictions(saved+c.s.Options.NodeCost*int64(fewer), nodes...); r != nil {
		cause := CauseEvictionCost
		if r.Again {
			cause = CauseMovedLately
		}
		return unconsolidatable(cause, "%s", r.Text).until(r.Until)
	}
	return nil
}

// evictionBlock keeps a node whose pods cost more to evict than its removal saves.
func (c *candidates) evictionBlock(n *planner.StateNode) *Blocked {
	return c.doesNotPay(c.prices.Of(n), 1, n)
}

// payingOff leaves out nodes whose evictions do not pay, even if nothing comes in their place, and says so of
// them.
func (p *pass) payingOff(nodes []*planner.StateNode) []*planner.StateNode {
	return slices.DeleteFunc(nodes, func(n *planner.StateNode) bool {
		b := p.evictionBlock(n)
		if b != nil {
			p.block([]*planner.StateNode{n}, *b)
			p.report.wake(b.Until)
		}
		return b != nil
	})
}
