package disrupt

import (
	"cmp"
	"fmt"
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner"
	"millwright/planner/disrupt/internal/minimum"
	"millwright/planner/disrupt/internal/order"
	"millwright/planner/disrupt/internal/payback"
	"millwright/planner/disrupt/internal/policy"
	"millwright/planner/disrupt/internal/preference"
	"millwright/planner/disrupt/internal/pricing"
	"millwright/planner/ledger"
	"millwright/planner/nodepool"
	"millwright/planner/provision"
	"millwright/planner/requirement"
)

// Preferred is what a command with reason PreferredAvailable returns to.
type Preferred struct {
	// Policy that wants it.
	Policy string `json:"policy"`
	// From is what the node is, To what each replacement is at the cheapest, such as "on-demand of NodePool p
	// (weight 10)".
	From string   `json:"from"`
	To   []string `json:"to"`
	// AvailableFor is how long the offerings must have been there, as a Go duration.
	AvailableFor string `json:"availableFor"`
}

// returnRule of a NodePool; nil if its nodes do not return.
func (c *candidates) returnRule(name string) *preference.Rule {
	if len(c.policies[name]) == 0 {
		return nil
	}
	if r, ok := c.returns[name]; ok {
		return r
	}
	if c.returns == nil {
		c.returns = map[string]*preference.Rule{}
	}
	c.returns[name] = preference.RuleOf(c.s, c.policies[name], c.s.World.NodePool(name))
	return c.returns[name]
}

// isFallback reports that something could be preferred to a node, so that no pod is moved to it for that
// reason.
func (c *candidates) isFallback(n *planner.StateNode) bool {
	r := c.returnRule(n.NodePool)
	return r != nil && n.Claim != nil && r.IsFallback(preference.Of(c.s, n))
}

// returnBlock says what keeps a node from being tried; nil if nothing does.
func (c *candidates) returnBlock(n *planner.StateNode) *Blocked {
	r := c.returnRule(n.NodePool)
	if !c.isFallback(n) || len(reschedulable(n)) == 0 || order.Drifted(n) != nil || !n.Ready() {
		return &Blocked{Cause: CauseNotPreferred}
	}
	if b := c.node(n, ""); b != nil {
		return b
	}
	if b := c.policyBlock(n, mwv1alpha1.ReasonPreferredAvailable); b != nil {
		return b
	}
	if old := n.Claim.CreationTimestamp.Add(r.AvailableFor); c.s.Now.Before(old) {
		return unpreferred("DisruptionPolicy %q returns no node that is younger than %s", r.Policy, r.AvailableFor).until(old)
	}
	if pods, until := c.payBack.MovedLately(n); pods > 0 {
		return (&Blocked{Cause: CauseMovedLately, Message: fmt.Sprintf("%d of its pods were moved within %s", pods, payback.AgainAfter)}).until(until)
	}
	return nil
}

// unpreferred says why a node does not return to what is preferred. There is no KubeEvent: nothing is wrong
// with the node.
func unpreferred(format string, args ...any) *Blocked {
	return &Blocked{Cause: CauseNotPreferred, Message: fmt.Sprintf(format, args...)}
}

// fallbacks returns nodes that are one.
type fallbacks struct{ *pass }

// choose puts a node that may return where its method finds it.
func (p fallbacks) choose(n *planner.StateNode) {
	if p.returnRule(n.NodePool) == nil {
		return
	}
	if b := p.returnBlock(n); b != nil {
		p.report.wake(b.Until)
		return
	}
	p.returning[n.NodePool] = append(p.returning[n.NodePool], n)
	p.report.Eligible[mwv1alpha1.ReasonPreferredAvailable]++
}

// budgetOf is Budgets, and what policies allow besides for the return to what is preferred.
func (c *candidates) budgetOf(pool *karpv1.NodePool, reason karpv1.DisruptionReason) PoolReport {
	b := Budgets(c.s, pool, reason)
	if r := c.returnRule(pool.Name); r != nil && reason == mwv1alpha1.ReasonPreferredAvailable {
		if n := r.Allowed(b.Nodes, c.s.Now); n < b.Allowed {
			b.Allowed, b.Unlimited, b.Remaining = n, n == nodepool.Unlimited, max(0, n-b.Consuming)
		}
	}
	return b
}

// plan replaces nodes that are a fallback by what is preferred, the oldest first. Their pods go to no
// other fallback, for that would have to return too.
func (p fallbacks) plan() []*planner.Decision {
	nodes := p.byPools(p.returning)
	slices.SortStableFunc(nodes, func(a, b *planner.StateNode) int {
		return cmp.Or(a.Claim.CreationTimestamp.Compare(b.Claim.CreationTimestamp.Time), order.ByName(a, b))
	})
	nodes, next := inTurn(p.pass, nodes, p.from.Preferred)
	trials := p.newTrials()
	for _, n := range nodes {
		if len(p.started.list) >= p.commandsMax {
			return p.started.list
		}
		why := p.withOthers(n, mwv1alpha1.ReasonPreferredAvailable)
		var o *outcome
		if why == nil {
			o = trials.begin([]*planner.StateNode{n})
			if why = p.failure(n, o); why != nil {
				trials.simulation().Revert()
			}
		}
		if why != nil {
			why.EventReason = ""
			p.blockFirst(n, *why)
			p.report.wake(why.Until)
			continue
		}
		unblock(p.pass, []*planner.StateNode{n})
		if p.start(n, p.commandOf(o, mwv1alpha1.ReasonPreferredAvailable, MethodPreferred), Explanation{Preferred: p.preference(n, o)}) {
			trials.promise(o)
		} else {
			trials.simulation().Revert()
		}
	}
	p.report.Next.Preferred = next
	return p.started.list
}

// newTrials place pods on no node that is a fallback itself.
func (p fallbacks) newTrials() *trials { return &trials{s: p.s, closed: p.isFallback} }

// now says what keeps a node that a person has approved the return of; nil if nothing does.
func (p fallbacks) now(n *planner.StateNode) *Blocked {
	if b := p.returnBlock(n); b != nil {
		return b
	}
	return budgetLeft(p.pass, n, mwv1alpha1.ReasonPreferredAvailable)
}

func (p fallbacks) preference(n *planner.StateNode, o *outcome) *Preferred {
	describe := func(capacityType, pool string) string {
		return fmt.Sprintf("%s of NodePool %s (weight %d)", capacityType, pool, preference.WeightOf(p.s.World.NodePool(pool)))
	}
	r := p.returnRule(n.NodePool)
	x := &Preferred{Policy: r.Policy, From: describe(n.CapacityType(), n.NodePool), AvailableFor: r.AvailableFor.String()}
	for i := range o.claims {
		x.To = append(x.To, describe(o.claims[i].Cheapest.CapacityType, o.claims[i].NodePool))
	}
	return x
}

// failure says why the pods of a node do not go to what is preferred; nil if all do. It leaves of the
// claims what is preferred, so that a shortage fails the launch rather than buys what there was before.
func (p fallbacks) failure(n *planner.StateNode, o *outcome) *Blocked {
	if why := p.driftFailure(o); why != nil {
		return why
	}
	r, from := p.returnRule(n.NodePool), preference.Of(p.s, n)
	for _, to := range o.places {
		if x := p.s.StateNode(to); x == nil || !r.Better(from, preference.Of(p.s, x)) {
			return unpreferred("Not all of its pods would go to what is preferred")
		}
	}
	if len(o.claims) == 0 {
		return nil // there is room on what is preferred
	}
	heavier, after := false, int64(0)
	for i := range o.claims {
		c := &o.claims[i]
		if why := p.prefer(c, r, from); why != nil {
			return why
		}
		heavier = heavier || preference.WeightOf(p.s.World.NodePool(c.NodePool)) > from.Weight
		after += c.Cheapest.MicroUSDPerHour
	}
	if before := p.prices.Of(n); !heavier && (before-after)*hysteresis < before {
		return unpreferred("The saving is too small: what is preferred costs %s USD per hour instead of %s", policy.USD(after), policy.USD(before))
	}
	return nil
}

// prefer cuts a claim to the capacity types that are preferred, and to the instance types of which no
// offering that a launch may take was without capacity lately.
func (p fallbacks) prefer(c *ledger.PlannedClaim, r *preference.Rule, from preference.Standing) *Blocked {
	set, _ := requirement.FromClaim(c.Requirements) // as planned: it may name labels that users may not
	cat := provision.Catalog(p.s, c.NodePool, c.NodeClassRef.Name)
	var may []string
	for i, t := range preference.CapacityTypes {
		if set.Get(karpv1.CapacityTypeLabelKey).Has(t) && r.Better(from, preference.Standing{Weight: preference.WeightOf(p.s.World.NodePool(c.NodePool)), Capacity: i}) {
			may = append(may, t)
		}
	}
	if len(may) == 0 || cat == nil {
		return unpreferred("Its pods would go to a new node of NodePool %q that is not preferred", c.NodePool)
	}
	set = set.Add(requirement.In(karpv1.CapacityTypeLabelKey, may...))
	wait := r.Wait(p.s.Ledger.LostReturns(c.NodePool, p.s.Now).Times)
	kept, best, soonest := p.prices.LastingTypes(c, cat, set, wait)
	switch key := minimum.Unmet(set, cat, kept); {
	case len(kept) == 0 && soonest.IsZero():
		return unpreferred("What NodePool %q prefers cannot be had", c.NodePool)
	case !soonest.IsZero() && (len(kept) == 0 || key != ""):
		return unpreferred("What NodePool %q prefers must be there for %s", c.NodePool, wait).until(soonest)
	case key != "":
		return unpreferred("minValues requirement is not met for label %q", key)
	}
	pricing.Narrow(c, set, cat, kept)
	c.Cheapest = best
	return nil
}

// returnStops says why a command can no longer return a node to what is preferred; "" if it can.
func (c *candidates) returnStops(n *planner.StateNode) string {
	switch {
	case c.returnRule(n.NodePool) == nil:
		return "no DisruptionPolicy returns it to what is preferred any more"
	case !c.isFallback(n):
		return "nothing is preferred to it any more"
	}
	return ""
}

// why says why a node is not returned to what is preferred, for people to see; nil if it is.
func (p fallbacks) why(n *planner.StateNode) *Blocked {
	b := p.now(n)
	if b == nil {
		b = p.failure(n, p.newTrials().without([]*planner.StateNode{n}, nil, false))
	}
	if b == nil || b.Cause == CauseNotPreferred && b.Message == "" {
		return nil
	}
	return (&Blocked{Cause: CauseNotPreferred, Message: "Stays a fallback: " + cmp.Or(b.Message, b.Reasons()[0])}).until(b.Until)
}
