package disrupt

import (
	"cmp"
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
)

// What one Plan may spend on its search: steps of the model, and simulations, fewer the bigger the cluster is.
const (
	modelSteps     = 12_000_000
	trialsMax      = 400
	trialSizeTotal = 1_500_000
	trialsLeast    = 24
	rejectedMax    = 5
	// neighbours is how many nodes are packed anew together at most.
	neighbours = 60
)

// consolidation takes nodes away whose pods can be had cheaper: by deletes first, for they cost nothing, then by replacements. It works
// out which nodes would have gone in the end, and starts with what saves most per eviction.
func (p *pass) consolidation() *planner.Decision {
	nodes := p.affordable(p.byPools(p.filled))
	if len(nodes) == 0 {
		return nil
	}
	p.balances = p.newBalances()
	k := p.newPacking(nodes, modelSteps)
	before := k.bill()
	k.solve()
	target := k.candidates(true)
	if c := p.anew(k, nodes, before); c != nil {
		return p.replace(c, nil)
	}
	if d := p.deletes(k, target); d != nil {
		return d
	}
	return p.replacements(k)
}

// affordable leaves out nodes that nobody would save anything by: without a price.
func (p *pass) affordable(nodes []*planner.StateNode) []*planner.StateNode {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *planner.StateNode) bool {
		if until := p.backoff(n.NodePool); p.s.Now.Before(until) {
			p.report.wake(until)
		}
		return p.price(n) <= 0
	})
}

// deletes tries what the model found and starts as much of it as budgets allow.
func (p *pass) deletes(k *packing, target []*site) *planner.Decision {
	chosen := p.within(target)
	places := k.places()
	var rejected []Rejected
	for len(chosen) > 0 && p.trials < p.trialsAllowed() {
		o := p.trial(chosen, places, false)
		bad := o.obstacles()
		if len(bad) == 0 {
			if bad, o.scores = p.balance(o); len(bad) == 0 {
				bad, o.tooLittle = p.worth(o)
			}
			if len(bad) == 0 {
				return p.delete(o, target, rejected)
			}
		}
		rejected = append(rejected, Rejected{Nodes: namesOf(bad), Reason: cmp.Or(o.failure(), o.tooLittle, "Balanced: the disruption is too much for the saving"),
			Savings: p.priceOf(bad)})
		p.stays(bad, o)
		chosen = slices.DeleteFunc(chosen, func(n *planner.StateNode) bool { return slices.Contains(bad, n) })
	}
	return nil
}

func (p *pass) delete(o *outcome, target []*site, rejected []Rejected) *planner.Decision {
	method := MethodMulti
	if len(o.nodes) == 1 {
		method = MethodSingle
	}
	started := p.commandOf(o, karpv1.DisruptionReasonUnderutilized, method)
	x := Explanation{Rejected: rejected[:min(len(rejected), rejectedMax)], Scores: o.scores}
	for _, s := range target {
		x.Target = append(x.Target, s.node.Name)
	}
	slices.Sort(x.Target)
	x.Target = x.Target[:min(len(x.Target), reportedMax)]
	return p.decision(started, p.explain(started, x))
}

// stays says why nodes that were tried stay.
func (p *pass) stays(nodes []*planner.StateNode, o *outcome) {
	for _, n := range nodes {
		why := &Blocked{Cause: CauseScore}
		if o.tooLittle != "" {
			why = unconsolidatable(CauseSavings, "%s", o.tooLittle)
		}
		for _, r := range slices.Concat(o.unplaced, o.waiting) {
			if r.mover.from == n {
				why = unconsolidatable(CauseNoPlace, "Not all pods would schedule, %s => %s", r.mover.Key(), r.reason)
				break
			}
		}
		p.block([]*planner.StateNode{n}, *why)
	}
}

// obstacles are the nodes with pods that would not go to nodes that stay and are ready; all of them, if it can't be said.
func (o *outcome) obstacles() []*planner.StateNode {
	bad := map[*planner.StateNode]bool{}
	for _, r := range slices.Concat(o.unplaced, o.waiting) {
		bad[r.mover.from] = true
	}
	for i := range o.claims {
		for _, pod := range o.claims[i].Pods {
			if m := o.pods[pod.UID]; m != nil {
				bad[m.from] = true
			}
		}
	}
	var list []*planner.StateNode
	for _, n := range o.nodes {
		if bad[n] {
			list = append(list, n)
		}
	}
	return list
}

// within takes of the target, in order, what budgets and PodDisruptionBudgets allow at once.
func (p *pass) within(target []*site) []*planner.StateNode {
	left := p.remaining()
	counts := p.goingCounts()
	var chosen, kept []*planner.StateNode
	for _, x := range target {
		n := x.node
		switch {
		case len(chosen) == candidatesMax:
			return chosen
		case left[n.NodePool] <= 0:
			kept = append(kept, n)
			continue
		}
		if why := p.pdbTake(counts, n); why != nil {
			p.block([]*planner.StateNode{n}, *why)
			continue
		}
		left[n.NodePool]--
		chosen = append(chosen, n)
	}
	p.block(kept, Blocked{Cause: CauseBudget})
	return chosen
}

// remaining is what the budgets of each NodePool still allow for Underutilized.
func (p *pass) remaining() map[string]int {
	left := map[string]int{}
	for key, b := range p.budgets {
		if key.reason == karpv1.DisruptionReasonUnderutilized {
			left[key.pool] = b.Remaining
		}
	}
	return left
}

func (p *pass) trialsAllowed() int {
	size := 1 + len(p.s.StateNodes()) + p.s.World.PodCount()
	return max(trialsLeast, min(trialsMax, trialSizeTotal/size))
}

func namesOf(nodes []*planner.StateNode) []string {
	list := make([]string, len(nodes))
	for i, n := range nodes {
		list[i] = n.Name
	}
	slices.Sort(list)
	return list
}

// solve looks for the nodes to take away. First each in its turn, in the order of what is saved per eviction; then, to make the bill
// smaller, all their pods are packed anew with one more, or with other nodes in place of some; at last, as long as the bill is within a
// hundredth of the best, nodes that are costly to empty are kept in place of others.
func (k *packing) solve() {
	for _, x := range k.candidates(false) {
		if k.steps > 0 {
			k.remove(x)
		}
	}
	for k.steps > 0 && (k.grow() || k.exchange()) {
	}
	k.billMax = k.bill() + k.bill()/100
	for k.steps > 0 && k.relieve() {
	}
}

// bill is what the sites that stay cost.
func (k *packing) bill() (sum int64) {
	for _, x := range k.sites {
		if !x.gone {
			sum += x.price
		}
	}
	return sum
}

// flip makes the sites that are gone stay and the others go, if all pods find places then.
func (k *packing) flip(list ...*site) bool {
	for _, x := range list {
		x.gone = !x.gone
	}
	if k.repack() {
		return true
	}
	for _, x := range list {
		x.gone = !x.gone
	}
	return false
}

// grow takes one more node away.
func (k *packing) grow() bool {
	for _, x := range k.candidates(false) {
		if k.steps <= 0 {
			return false
		}
		if k.flip(x) {
			return true
		}
	}
	return false
}

// exchangesMax bounds the nodes that an exchange looks at on each side.
const exchangesMax = 24

// exchange takes one or two nodes away and keeps one in their place that is cheaper than they are.
func (k *packing) exchange() bool {
	kept, gone := k.candidates(false), k.candidates(true)
	slices.SortStableFunc(gone, func(a, b *site) int { return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(b.cost, a.cost)) })
	kept, gone = kept[:min(len(kept), exchangesMax)], gone[:min(len(gone), exchangesMax)]
	for _, g := range gone {
		for i, a := range kept {
			if k.steps <= 0 {
				return false
			}
			if a.price > g.price && k.flip(a, g) {
				return true
			}
			for _, b := range kept[:i] {
				if a.price+b.price > g.price && k.steps > 0 && k.flip(a, b, g) {
					return true
				}
			}
		}
	}
	return false
}

// relieve keeps a node that is costly to empty and takes another one in its place that is less so, while the bill stays within its bound.
func (k *packing) relieve() bool {
	gone, kept, bill := k.candidates(true), k.candidates(false), k.bill()
	slices.SortStableFunc(gone, func(a, b *site) int { return cmp.Compare(b.cost, a.cost) })
	slices.SortStableFunc(kept, func(a, b *site) int { return cmp.Compare(a.cost, b.cost) })
	for _, g := range gone {
		for _, s := range kept {
			if k.steps <= 0 || s.cost >= g.cost {
				break
			}
			if bill+g.price-s.price <= k.billMax && k.flip(g, s) {
				return true
			}
		}
	}
	return false
}

// nodeCost is what a node costs by itself, in micro USD per hour.
func (p *pass) nodeCost() int64 { return p.s.Options.NodeCost }

func rejectedOf(o *outcome, reason string, saved int64) Rejected {
	return Rejected{Nodes: namesOf(o.nodes), Reason: reason, Savings: saved, Evictions: o.evictions()}
}
