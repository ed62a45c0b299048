package disrupt

import (
	"cmp"
	"fmt"
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt/internal/account"
	"millwright/planner/disrupt/internal/order"
	"millwright/planner/disrupt/internal/packing"
	"millwright/planner/disrupt/internal/policy"
	"millwright/planner/disrupt/internal/pricing"
	"millwright/planner/ledger"
	"millwright/planner/options"
)

// A replacement has to save more than one part in hysteresis of what it replaces, so that nodes are not
// swapped for a wobble of prices; several of them one part in hysteresisMany, for that is many nodes bought
// for little. There may be more nodes than before only if each has furtherLeast pods.
const (
	hysteresis     = 50
	hysteresisMany = 7
	furtherLeast   = 10
)

// choice is a replacement that would do.
type choice struct {
	*outcome
	// saved per hour, what nodes cost by themselves included; dollars without.
	saved, dollars int64
}

// replacements looks for nodes whose pods can be had cheaper on new ones: each alone, then together. A node
// that can go without a new one after all, which the model did not see, is one of them.
func (p *pass) replacements(k *packing.Model) *planner.Decision {
	var choices []choice
	var rejected []Rejected
	groups, next := p.groups(k)
	for _, group := range groups {
		if len(group) > 1 && p.trials.begun >= p.trials.allowed() {
			p.report.ended(MethodMulti)
			continue
		}
		c, why := p.replacement(group, len(group) > 1)
		if c == nil {
			rejected = append(rejected, why)
			if len(group) == 1 {
				b := unconsolidatable(cmp.Or(why.cause, CauseNotCheaper), "%s", why.Reason)
				if len(reschedulable(group[0])) == 0 {
					b = hasBufferPods(group[0])
				}
				p.block(group, *b)
			}
			continue
		}
		choices = append(choices, *c)
	}
	p.report.Next.Consolidation = next
	if best := p.bestChoice(append(choices, p.inParts(k, groups)...)); best != nil {
		return p.replace(best, rejected)
	}
	return nil
}

// partsMax bounds the nodes that one Plan tries to have in parts: each is a simulation begun anew.
const partsMax = 8

// inParts looks for single nodes that several smaller ones can replace, which are packed for that: those that
// waste most, as far as they waste what several replacements have to save.
func (p *pass) inParts(k *packing.Model, groups [][]*planner.StateNode) (choices []choice) {
	tried := 0
	for _, group := range groups {
		x := k.Sites()[slices.IndexFunc(k.Sites(), func(x *packing.Site) bool { return x.Node == group[0] })]
		if len(group) > 1 || tried == partsMax || p.trials.begun >= p.trials.allowed() || pricing.Waste(x)*hysteresisMany < x.Price {
			break
		}
		if len(reschedulable(group[0])) < 2 {
			continue
		}
		tried++
		if c, _ := p.replacement(group, true); c != nil {
			choices = append(choices, *c)
		}
	}
	return choices
}

// anew packs the pods of all candidates on new nodes, if that is so much cheaper than what deletes lead to
// that it is worth moving the pods that would stay, by what pods cost now or, where much is saved, by what
// they would cost after the deletes; nil if not. What it moves is moved once: the nodes that deletes would
// fill go too.
func (p *pass) anew(k *packing.Model, nodes []*planner.StateNode, before int64) *choice {
	allowed, counts := p.remaining(), account.Going(p.s)
	if len(nodes) < 2 || len(nodes) > neighbours {
		return nil
	}
	for _, n := range nodes {
		if allowed[n.NodePool]--; allowed[n.NodePool] < 0 || p.pdbTake(counts, n) != nil {
			return nil
		}
	}
	c, _ := p.replacement(nodes, true)
	if c == nil || len(c.claims) > len(nodes) && c.evictions() < furtherLeast*len(c.claims) {
		return nil
	}
	evictions := 0
	for _, x := range k.Candidates(true) {
		evictions += x.Evictions()
	}
	extra, more := c.saved-(before-k.Bill()), c.evictions()-evictions
	all := p.prices.Sum(nodes)
	left, worth := all-(before-k.Bill()), extra*int64(c.evictions())*packing.WorthMoving
	if extra > 0 && worth >= all*int64(more) || extra*hysteresisMany >= left && worth >= left*int64(more) {
		return c
	}
	return nil
}

// replace decides on a replacement.
func (p *pass) replace(best *choice, rejected []Rejected) *planner.Decision {
	method := MethodMulti
	if len(best.nodes) == 1 {
		method = MethodSingle
	}
	unblock(p, best.nodes) // another way to take one of them away may have been refused
	started := p.commandOf(best.outcome, karpv1.DisruptionReasonUnderutilized, method)
	slices.SortStableFunc(rejected, func(a, b Rejected) int { return cmp.Compare(b.Savings, a.Savings) })
	x := Explanation{Rejected: rejected[:min(len(rejected), rejectedMax)], Scores: best.scores}
	return p.decision(started, p.explain(started, x))
}

// bestChoice saves most; among those that save nearly as much, a tenth less, it moves the fewest pods. What
// failed before comes last.
func (p *pass) bestChoice(choices []choice) *choice {
	failed := func(c choice) bool { return order.AnyFailed(p.s, c.nodes) }
	if slices.ContainsFunc(choices, func(c choice) bool { return !failed(c) }) {
		choices = slices.DeleteFunc(choices, failed)
	}
	most := int64(0)
	for i := range choices {
		most = max(most, choices[i].saved)
	}
	var best *choice
	for i := range choices {
		c := &choices[i]
		if c.saved < most-most/10 {
			continue
		}
		if best == nil || c.evictions() < best.evictions() || c.evictions() == best.evictions() && c.saved > best.saved {
			best = c
		}
	}
	return best
}

// groups are the sets of nodes to try: each node alone, those that waste most first; then the first so many
// of them that may go together. next is where the next pass goes on.
func (p *pass) groups(k *packing.Model) (list [][]*planner.StateNode, next string) {
	left, counts, old := p.remaining(), account.Going(p.s), p.s.Options.Revision < options.Revision5
	var may []*packing.Site
	for _, x := range k.Sites() {
		if !x.Candidate || left[x.Node.NodePool] <= 0 {
			continue
		}
		why := p.failing(x.Node.NodePool)
		if why == nil {
			why = p.pdbSum(counts, x.Node)
		}
		if why == nil && old {
			counts.Add(p.s, x.Node)
		}
		if why != nil {
			p.blockFirst(x.Node, *why)
			continue
		}
		may = append(may, x)
	}
	slices.SortFunc(may, func(a, b *packing.Site) int {
		return cmp.Or(cmp.Compare(pricing.Waste(b), pricing.Waste(a)), order.ByName(a.Node, b.Node))
	})
	alone := make([]*planner.StateNode, len(may))
	for i, x := range may {
		alone[i] = x.Node
	}
	together := account.Together(p.s, alone, left, neighbours)
	most := len(together)
	if old {
		most = min(len(may), neighbours)
	}
	alone, next = inTurn(p, alone, p.from.Consolidation)
	if next != "" {
		p.report.ended(MethodSingle)
	}
	for _, n := range alone {
		list = append(list, []*planner.StateNode{n})
	}
	for size := 2; size <= most; size += max(1, size/2) {
		list = append(list, together[:min(size, len(together))])
	}
	if most > 2 && len(may) <= neighbours {
		list = append(list, together)
	}
	return list, next
}

// replacement tries to have the pods of some nodes cheaper, on claims that are packed for it or not; if that
// can't be, it says why.
func (p *pass) replacement(group []*planner.StateNode, pack bool) (*choice, Rejected) {
	o := p.consolidationTrial(group, nil, pack)
	for like := p.alike(o); len(like) > 0 && len(group) > 1 && len(o.claims) > 1 && p.trials.begun < p.trials.allowed(); like = p.alike(o) {
		group = slices.DeleteFunc(slices.Clone(group), func(n *planner.StateNode) bool { return slices.Contains(like, n) })
		o = p.consolidationTrial(group, nil, len(group) > 1)
	}
	no := func(cause Cause, format string, args ...any) (*choice, Rejected) {
		r := rejectedOf(o, fmt.Sprintf(format, args...), 0)
		r.cause = cause
		return nil, r
	}
	switch {
	case o.failure() != "":
		return no(CauseNoPlace, "%s", o.failure())
	case o.mixed():
		return no(CauseNominated, "pods that wait for a place come first")
	case len(group) == 1 && len(o.claims) > 1 && !p.cheaperInParts(o):
		return no(CauseNotCheaper, "Can't remove without creating %d candidates", len(o.claims))
	}
	if cause, why := p.reprice(o); why != "" {
		return no(cause, "%s", why)
	}
	before, after := p.prices.Sum(o.nodes), int64(0)
	for i := range o.claims {
		after += o.claims[i].Cheapest.MicroUSDPerHour
	}
	saved := before - after + p.nodeCost()*int64(len(group)-len(o.claims))
	switch {
	case before <= after:
		return no(CauseNotCheaper, "Can't replace with a cheaper node")
	case saved <= 0, (before-after)*hysteresis < before, len(o.claims) > 1 && (before-after)*hysteresisMany < before:
		return nil, rejectedOf(o, "the saving is too small", before-after)
	}
	if pool := account.LimitExceeded(p.s, o.claims); pool != "" {
		return no(CauseLimits, "Replacements would exceed the limits of NodePool %q", pool)
	}
	bad, scores := p.balance(o)
	if o.scores = scores; len(bad) > 0 {
		return no(CauseScore, "Balanced: the disruption is too much for the saving")
	}
	if p.notWorth(o) != "" {
		return nil, o.rejectedByPolicy()
	}
	if b := p.doesNotPay(before-after, len(o.nodes)-len(o.claims), o.nodes...); b != nil {
		return nil, Rejected{Nodes: namesOf(o.nodes), Reason: b.Message, Savings: before - after, Evictions: o.evictions(), cause: b.Cause}
	}
	return &choice{outcome: o, saved: saved, dollars: before - after}, Rejected{}
}

// notWorth is what a DisruptionPolicy has against the outcome as a whole; "" if none has anything.
func (p *pass) notWorth(o *outcome) string {
	_, o.tooLittle = p.worth(o)
	return o.tooLittle
}

func (o *outcome) rejectedByPolicy() Rejected {
	r := rejectedOf(o, o.tooLittle, 0)
	r.cause = o.keptBy
	return r
}

// alike are removed nodes of which replacements would be others just like them, but one at least: they can
// stay. Of several those with the most pods. Without the option AlikeAtOnce it is one of them.
func (p *pass) alike(o *outcome) (stay []*planner.StateNode) {
	left := slices.Clone(o.claims)
	for _, n := range slices.SortedStableFunc(slices.Values(o.nodes), func(a, b *planner.StateNode) int { return cmp.Compare(len(b.Pods), len(a.Pods)) }) {
		at := slices.IndexFunc(left, func(c ledger.PlannedClaim) bool {
			return c.NodePool == n.NodePool && c.Cheapest.InstanceType == n.InstanceTypeName() && c.Cheapest.CapacityType == n.CapacityType()
		})
		if at < 0 || len(stay) == len(o.nodes)-1 {
			continue
		}
		if stay = append(stay, n); !p.s.Options.AlikeAtOnce {
			break
		}
		left = slices.Delete(left, at, at+1)
	}
	return stay
}

// cheaperInParts reports that several replacements for one node save more than the further nodes cost by
// themselves.
func (p *pass) cheaperInParts(o *outcome) bool {
	saved := p.prices.Sum(o.nodes)
	for i := range o.claims {
		saved -= o.claims[i].Cheapest.MicroUSDPerHour
	}
	return saved > p.nodeCost()*int64(len(o.claims)-1)
}

// reprice keeps of each claim the types and offerings that can't make it dearer than what it replaces,
// whatever of them is launched.
func (p *pass) reprice(o *outcome) (Cause, string) {
	allSpot := !slices.ContainsFunc(o.nodes, func(n *planner.StateNode) bool { return n.CapacityType() != karpv1.CapacityTypeSpot })
	before, cheapest := p.prices.Sum(o.nodes), int64(0)
	if extra := len(o.claims) - len(o.nodes); extra > 0 {
		before -= p.nodeCost() * int64(extra)
	}
	for i := range o.claims {
		cheapest += o.claims[i].Cheapest.MicroUSDPerHour
	}
	if cheapest += p.prices.Fit(nil, o.claims); cheapest >= before {
		return CauseNotCheaper, "Can't replace with a cheaper node"
	}
	for i := range o.claims {
		c := &o.claims[i]
		ceiling := before
		if len(o.claims) > 1 {
			ceiling = c.Cheapest.MicroUSDPerHour + policy.Proportion(before-cheapest, c.Cheapest.MicroUSDPerHour, cheapest)
		}
		if len(o.claims) > 1 && p.s.Options.Revision < options.Revision1 {
			c.InstanceTypes = slices.DeleteFunc(slices.Clone(c.InstanceTypes), o.removes)
		} else if same := p.prices.SameTypeCeiling(o.nodes, c); same < ceiling {
			ceiling = same
		}
		if cause, why := p.prices.Restrict(c, pricing.Replaced{Price: ceiling, AllSpot: allSpot, Single: len(o.nodes) == 1}); why != "" {
			return Cause(cause), why
		}
	}
	return "", ""
}

// removes reports that a node of a type is removed.
func (o *outcome) removes(instanceType string) bool {
	return slices.ContainsFunc(o.nodes, func(n *planner.StateNode) bool { return n.InstanceTypeName() == instanceType })
}
