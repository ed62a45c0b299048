package disrupt

import (
	"cmp"
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt/internal/account"
	"millwright/planner/disrupt/internal/packing"
	"millwright/planner/disrupt/internal/policy"
	"millwright/planner/resource"
	"millwright/planner/world"
)

const (
	// modelSteps are what one Plan may spend on its search in the model.
	modelSteps  = 60_000_000
	rejectedMax = 5
	// neighbours is how many nodes are packed anew together at most.
	neighbours = 60
)

// consolidation takes nodes away whose pods can be had cheaper: by deletes first, for they cost nothing, then
// by replacements. It works out which nodes would have gone in the end, and starts with what saves most per
// eviction.
func (p *pass) consolidation() *planner.Decision {
	nodes := p.payingOff(p.affordable(p.byPools(p.filled)))
	if len(nodes) == 0 {
		return nil
	}
	p.balances = policy.Totals(p.s, p.prices.Of)
	k := p.newModel(nodes, modelSteps)
	before := k.Bill()
	k.Solve()
	target := k.Candidates(true)
	if k.Exhausted() {
		p.report.ended(MethodMulti)
	}
	if c := p.anew(k, nodes, before); c != nil {
		return p.replace(c, nil)
	}
	if d := p.deletes(k, target); d != nil {
		return d
	}
	return p.replacements(k)
}

// newModel of the Snapshot. Pods that wait for a place anyway have theirs already.
func (p *pass) newModel(candidates []*planner.StateNode, steps int) *packing.Model {
	k := packing.New(steps)
	may := map[*planner.StateNode]bool{}
	for _, n := range candidates {
		may[n] = true
	}
	taken := map[string]resource.Vector{}
	for uid, node := range p.trials.waits() {
		if pod := p.trials.pod(uid); pod != nil {
			taken[node] = taken[node].Add(pod.Class.Requests)
		}
	}
	for name, pods := range p.trials.room().pods {
		for _, pod := range pods {
			taken[name] = taken[name].Add(pod.Class.Requests)
		}
	}
	budgets := p.s.PodBudgets()
	for _, n := range p.s.StateNodes() {
		if n.MarkedForDeletion || !p.trials.ready(n.Name) {
			continue
		}
		x := &packing.Site{Node: n, Candidate: may[n], Price: p.prices.Of(n) + p.nodeCost(), Cost: 1, Room: n.Available.Sub(taken[n.Name])}
		var moving []*world.Pod
		for _, pod := range n.Pods {
			if budgets.IsMoving(pod, p.s.Now) {
				moving = append(moving, pod)
				x.Cost += policy.EvictionGrains(pod)
			}
		}
		if p.banned(n) {
			x.Room = resource.Vector{}
		}
		k.Add(x, append(moving, p.trials.buffered(n)...))
	}
	return k
}

// affordable leaves out nodes of which nobody knows what they cost.
func (p *pass) affordable(nodes []*planner.StateNode) []*planner.StateNode {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *planner.StateNode) bool {
		if until := p.backoff(n.NodePool); p.s.Now.Before(until) {
			p.report.wake(until)
		}
		if p.prices.Known(n) {
			return false
		}
		p.block([]*planner.StateNode{n}, Blocked{Cause: CauseNoPrice})
		return true
	})
}

// deletes tries what the model found and starts as much of it as budgets allow. Nodes that cannot go after
// all leave what budgets allow to the next ones.
func (p *pass) deletes(k *packing.Model, target []*packing.Site) *planner.Decision {
	chosen := p.within(target)
	places := k.Places()
	var rejected []Rejected
	for left := target; len(chosen) > 0 && p.trials.begun < p.trials.allowed(); {
		o := p.consolidationTrial(chosen, places, false)
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
			Savings: p.prices.Sum(bad)})
		p.stays(bad, o)
		chosen = slices.DeleteFunc(chosen, func(n *planner.StateNode) bool { return slices.Contains(bad, n) })
		left = slices.DeleteFunc(slices.Clone(left), func(x *packing.Site) bool { return slices.Contains(bad, x.Node) })
		if len(chosen) == 0 {
			chosen = p.within(left)
			unblock(p, chosen)
		}
	}
	return nil
}

func (p *pass) delete(o *outcome, target []*packing.Site, rejected []Rejected) *planner.Decision {
	method := MethodMulti
	if len(o.nodes) == 1 {
		method = MethodSingle
	}
	started := p.commandOf(o, karpv1.DisruptionReasonUnderutilized, method)
	x := Explanation{Rejected: rejected[:min(len(rejected), rejectedMax)], Scores: o.scores}
	for _, s := range target {
		x.Target = append(x.Target, s.Node.Name)
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
			why = unconsolidatable(o.keptBy, "%s", o.tooLittle)
		}
		if o.buysFor(n) {
			why = unconsolidatable(CauseNoPlace, "Not all pods would schedule on nodes that stay")
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

// buysFor reports that pods of a node would go to a new one.
func (o *outcome) buysFor(n *planner.StateNode) bool {
	for i := range o.claims {
		for _, pod := range o.claims[i].Pods {
			if m := o.pods[pod.UID]; m != nil && m.from == n {
				return true
			}
		}
	}
	return false
}

// obstacles are the nodes with pods that would not go to nodes that stay and are ready; all of them, if it
// can't be said.
func (o *outcome) obstacles() []*planner.StateNode {
	bad := map[*planner.StateNode]bool{}
	for _, r := range slices.Concat(o.unplaced, o.waiting) {
		bad[r.mover.from] = true
	}
	var list []*planner.StateNode
	for _, n := range o.nodes {
		if bad[n] || o.buysFor(n) {
			list = append(list, n)
		}
	}
	return list
}

// within takes of the target, in order, what budgets and PodDisruptionBudgets allow at once.
func (p *pass) within(target []*packing.Site) []*planner.StateNode {
	left := p.remaining()
	counts := account.Going(p.s)
	var chosen, kept []*planner.StateNode
	for _, x := range target {
		n := x.Node
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

func namesOf(nodes []*planner.StateNode) []string {
	list := make([]string, len(nodes))
	for i, n := range nodes {
		list[i] = n.Name
	}
	slices.Sort(list)
	return list
}

// nodeCost is what a node costs by itself, in micro USD per hour.
func (p *pass) nodeCost() int64 { return p.s.Options.NodeCost }

func rejectedOf(o *outcome, reason string, saved int64) Rejected {
	return Rejected{Nodes: namesOf(o.nodes), Reason: reason, Savings: saved, Evictions: o.evictions()}
}
