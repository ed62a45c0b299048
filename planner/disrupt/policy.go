package disrupt

import (
	"cmp"
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner"
	"millwright/planner/disrupt/internal/payback"
	"millwright/planner/disrupt/internal/policy"
	"millwright/planner/options"
)

// PolicyStatus is what a DisruptionPolicy's status is to say at a time: the NodePools it selects, its next
// openings, and what of it can't be read ("" if all can).
func PolicyStatus(o *mwv1alpha1.DisruptionPolicy, pools []*karpv1.NodePool, now time.Time) (selected int, openings []mwv1alpha1.Opening, fault string) {
	return policy.Status(o, pools, now)
}

// policyBlock says what DisruptionPolicies, or proposals because of them, have against taking a node away for
// a reason now; nil if nothing. What a later time may change is in Until.
func (c *candidates) policyBlock(n *planner.StateNode, reason karpv1.DisruptionReason) *Blocked {
	pods := -1
	for _, p := range c.policies[n.NodePool] {
		b := refusedBy(p, p.Block(n, reason, c.s.Now))
		if b == nil && p.Spec.MaxEvictionsPerHour != nil {
			if pods < 0 {
				pods = len(reschedulable(n))
			}
			b = refusedBy(p, p.BlockByRate(c.s, n, pods))
		}
		if b != nil {
			return b
		}
	}
	if pool := c.s.World.NodePool(n.NodePool); reason == karpv1.DisruptionReasonDrifted && pool != nil {
		if b := c.haltedBlock(pool); b != nil {
			return b
		}
	}
	return c.proposalBlock(n, reason)
}

// policyStops is policyBlock for a command that has started: its evictions count among those of the hour
// already.
func (c *candidates) policyStops(n *planner.StateNode, reason karpv1.DisruptionReason) *Blocked {
	for _, p := range c.policies[n.NodePool] {
		if b := refusedBy(p, p.Block(n, reason, c.s.Now)); b != nil {
			return b
		}
	}
	b := c.proposalBlock(n, reason)
	if b != nil && b.Message == "" && c.s.Options.Revision >= options.Revision8 {
		return nil // other nodes of its NodePool are asked about
	}
	return b
}

// refusedBy reports what a policy says; nil for nil.
func refusedBy(rule *policy.Policy, r *policy.Refusal) *Blocked {
	if r == nil {
		return nil
	}
	return blocked(Cause(r.Cause), "%s", r.Message).until(r.Until).by("DisruptionPolicy " + rule.Name)
}

// worth says which nodes of an outcome the policies' savings keep, and why; nothing if the outcome evicts
// nobody.
//
// What is taken away without replacement saves its own price, so each node is measured by itself: one with
// many pods and a low price must not hide behind one with few and a high price. With replacements the command
// is measured as a whole.
//
// Example. minPerEviction 0.01: of two nodes of 0.10 USD per hour, one with 4 pods and one with 30, the first
// may go (0.025 per pod) and the second stays (0.0033 per pod).
func (p *pass) worth(o *outcome) (kept []*planner.StateNode, why string) {
	if len(p.policies) == 0 || o.evictions() == 0 {
		return nil, ""
	}
	if kept, why = policy.TooMany(p.s, p.policies, o.nodes, policy.PodsOn); why != "" {
		o.keptBy = CauseRate
		return kept, why
	}
	o.keptBy = CauseSavings
	parts := [][]*planner.StateNode{o.nodes}
	if len(o.claims) == 0 {
		parts = nil
		for _, n := range o.nodes {
			parts = append(parts, []*planner.StateNode{n})
		}
	}
	for _, part := range parts {
		if text := p.tooLittle(o, part); text != "" {
			kept, why = append(kept, part...), cmp.Or(why, text)
		}
	}
	return kept, why
}

// tooLittle says which policy finds that taking these nodes of an outcome away saves too little; "" if none
// does.
func (p *pass) tooLittle(o *outcome, nodes []*planner.StateNode) string {
	before := p.prices.Sum(nodes)
	saved := before
	for i := range o.claims {
		saved -= o.claims[i].Cheapest.MicroUSDPerHour
	}
	evictions, weight := int64(0), int64(0)
	for _, m := range o.pods {
		if slices.Contains(nodes, m.from) && !planner.IsVirtual(m.Class) {
			evictions++
			weight += policy.EvictionGrains(m.Pod)
		}
	}
	if evictions == 0 {
		return ""
	}
	for _, n := range nodes {
		for _, rule := range p.policies[n.NodePool] {
			text, until := p.payBack.Shortfall(rule, n.NodePool, payback.Trade{Saved: saved, Before: before, Evictions: evictions, Weight: weight})
			if p.report.wake(until); text != "" {
				return text
			}
			text, until = rule.SpotShortfall(p.s.World, p.s.Now, p.pricesOf(nodes), comingOf(o))
			if p.report.wake(until); text != "" {
				return text
			}
		}
	}
	return ""
}

// pricesOf are the offerings of nodes, comingOf those of the replacements of an outcome.
func (p *pass) pricesOf(nodes []*planner.StateNode) (list []policy.Priced) {
	for _, n := range nodes {
		list = append(list, policy.Priced{InstanceType: n.InstanceTypeName(), Zone: n.Zone(), CapacityType: n.CapacityType(), Price: p.prices.Of(n)})
	}
	return list
}

func comingOf(o *outcome) (list []policy.Priced) {
	for i := range o.claims {
		c := &o.claims[i].Cheapest
		list = append(list, policy.Priced{InstanceType: c.InstanceType, Zone: c.Zone, CapacityType: c.CapacityType, Price: c.MicroUSDPerHour})
	}
	return list
}
