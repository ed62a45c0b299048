package disrupt

import (
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/ledger"
)

// candidatesMax bounds one command, so that its record stays small. The next Plan takes the rest.
const candidatesMax = 100

// reportedMax bounds the blocked nodes an explanation names.
const reportedMax = 100

// MethodEmptiness is the method that removes empty nodes.
const MethodEmptiness = "emptiness"

// Explanation of a CommandStarted record.
type Explanation struct {
	Budget PoolReport `json:"budget"`
	// ConsolidateAfter of the NodePool, as a Go duration.
	ConsolidateAfter string `json:"consolidateAfter,omitempty"`
	// Taken are the command's nodes; Blocked those of the pool that stay, first the ones the budget kept back.
	Taken   []NodeReport `json:"taken"`
	Blocked []NodeReport `json:"blocked,omitempty"`
	// BlockedMore counts those that are not listed.
	BlockedMore int `json:"blockedMore,omitempty"`
	// MicroUSDPerHour is what the taken nodes cost.
	MicroUSDPerHour int64 `json:"price"`
}

// Plan returns the next command, nil if nothing may be taken, and what was found of every node and budget. Empty nodes come first,
// then drifted ones of static NodePools.
// One command takes nodes of one NodePool only, the first by name that has any; call again for the next.
func Plan(s *planner.Snapshot) (*planner.Decision, Report) {
	r := Report{Eligible: map[karpv1.DisruptionReason]int{}}
	all := newCandidates(s)
	e, drift := emptiness{all}, staticDrift{all}
	byPool, drifted := map[string][]*planner.StateNode{}, map[string][]*planner.StateNode{}
	for _, n := range s.StateNodes() {
		if drift.concerns(n) {
			nr := drift.examine(n)
			r.Nodes = append(r.Nodes, nr)
			if nr.Blocked == nil {
				drifted[n.NodePool] = append(drifted[n.NodePool], n)
				r.Eligible[karpv1.DisruptionReasonDrifted]++
			}
			continue
		}
		nr := e.examine(n)
		r.Nodes = append(r.Nodes, nr)
		if nr.Blocked == nil {
			byPool[n.NodePool] = append(byPool[n.NodePool], n)
			r.Eligible[karpv1.DisruptionReasonEmpty]++
		} else if nr.ConsolidatableAt.After(s.Now) {
			r.wake(nr.ConsolidatableAt)
		}
	}
	var d *planner.Decision
	budgets := map[string]PoolReport{}
	for _, pool := range s.World.NodePools() {
		var budget PoolReport
		budget, budgets[pool.Name] = e.poolReports(pool, &r)
		if nodes := byPool[pool.Name]; len(nodes) > 0 {
			taken := nodes[:min(len(nodes), budget.Remaining, candidatesMax)]
			r.holdBack(s, pool, nodes[len(taken):], budget)
			if d == nil && len(taken) > 0 {
				d = e.command(pool, taken, budget, &r)
			}
		}
	}
	for _, pool := range s.World.NodePools() {
		nodes, budget := drifted[pool.Name], budgets[pool.Name]
		switch {
		case len(nodes) == 0:
		case budget.Remaining == 0:
			r.holdBack(s, pool, nodes, budget)
		case d == nil:
			d = drift.command(pool, nodes, budget, &r)
		}
	}
	r.wakeForProtection(s)
	return d, r
}

// poolReports adds what the pool's budgets allow for each reason, and returns those for Empty and Drifted.
func (c *candidates) poolReports(pool *karpv1.NodePool, r *Report) (empty, drifted PoolReport) {
	for _, reason := range Reasons {
		p := Budgets(c.s, pool, reason)
		r.Pools = append(r.Pools, p)
		switch reason {
		case karpv1.DisruptionReasonEmpty:
			empty = p
		case karpv1.DisruptionReasonDrifted:
			drifted = p
		}
	}
	return empty, drifted
}

// holdBack marks the nodes a budget keeps, and wakes when a window of a budget moves.
func (r *Report) holdBack(s *planner.Snapshot, pool *karpv1.NodePool, kept []*planner.StateNode, budget PoolReport) {
	if len(kept) == 0 || budget.Remaining >= candidatesMax {
		return
	}
	r.wake(nextChange(pool.Spec.Disruption.Budgets, s.Now))
	r.block(kept, Blocked{Cause: CauseBudget})
}

// block says of nodes why they stay.
func (r *Report) block(kept []*planner.StateNode, why Blocked) {
	for _, n := range kept {
		i := slices.IndexFunc(r.Nodes, func(nr NodeReport) bool { return nr.Claim == n.ClaimName() && nr.Node == n.Name })
		r.Nodes[i].Blocked = &why
	}
}

// wakeForProtection wakes when a pod's do-not-disrupt duration ends on a node blocked by it.
func (r *Report) wakeForProtection(s *planner.Snapshot) {
	for _, nr := range r.Nodes {
		if nr.Blocked == nil || nr.Blocked.Cause != CausePodAnnotation {
			continue
		}
		for _, p := range s.World.PodsOn(nr.Node) {
			if state := planner.DoNotDisrupt(p, s.Now); state.InEffect {
				r.wake(state.Until)
			}
		}
	}
}

// command builds the decision to remove empty nodes of one pool.
func (e emptiness) command(pool *karpv1.NodePool, nodes []*planner.StateNode, budget PoolReport, r *Report) *planner.Decision {
	started := &ledger.CommandStarted{Reason: karpv1.DisruptionReasonEmpty, Method: MethodEmptiness}
	for _, n := range nodes {
		started.Candidates = append(started.Candidates, candidate(e.s, n))
	}
	x := e.explain(pool, started, budget, r)
	x.ConsolidateAfter = ConsolidateAfter(pool).String()
	return e.decision(pool, started, x)
}

// decision to start a command on nodes of one pool. It relies on the pool and on each node and claim.
func (c *candidates) decision(pool *karpv1.NodePool, started *ledger.CommandStarted, x Explanation) *planner.Decision {
	aggregates := []string{ledger.PoolAggregate(pool.Name)}
	subjects := []string{"pool/" + pool.Name}
	for _, n := range started.Candidates {
		aggregates = append(aggregates, ledger.NodeAggregate(n.Node), ledger.ClaimAggregate(n.Claim))
		subjects = append(subjects, "node/"+n.Node, "claim/"+n.Claim)
	}
	slices.Sort(aggregates)
	slices.Sort(subjects)
	return &planner.Decision{
		Kind: ledger.KindCommandStarted, Payload: started, Explanation: x,
		Subjects: subjects, Expects: c.s.Expect(aggregates...), Advances: aggregates,
	}
}

func candidate(s *planner.Snapshot, n *planner.StateNode) ledger.Candidate {
	c := ledger.Candidate{
		Node: n.Name, Claim: n.Claim.Name, ClaimUID: n.Claim.UID, ProviderID: n.ProviderID, NodePool: n.NodePool,
		InstanceType: n.InstanceTypeName(), Zone: n.Zone(), CapacityType: n.CapacityType(), Capacity: n.Capacity,
	}
	c.Price = s.World.Price(c.InstanceType, c.CapacityType, c.Zone)
	return c
}

func (c *candidates) explain(pool *karpv1.NodePool, started *ledger.CommandStarted, budget PoolReport, r *Report) Explanation {
	x := Explanation{Budget: budget}
	taken := map[string]bool{}
	for _, cand := range started.Candidates {
		taken[cand.Claim] = true
		x.MicroUSDPerHour += cand.Price
	}
	var kept, others []NodeReport
	for _, nr := range r.Nodes {
		switch {
		case nr.NodePool != pool.Name:
		case taken[nr.Claim]:
			x.Taken = append(x.Taken, nr)
		case nr.Blocked != nil && nr.Blocked.Cause == CauseBudget:
			kept = append(kept, nr)
		default:
			others = append(others, nr)
		}
	}
	x.Blocked = append(kept, others...)
	if more := len(x.Blocked) - reportedMax; more > 0 {
		x.Blocked, x.BlockedMore = x.Blocked[:reportedMax], more
	}
	return x
}

// commandTimeout ends a command whose taints don't show in the World.
const commandTimeout = 10 * time.Minute
