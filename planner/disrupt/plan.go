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

// Plan returns the next command, nil if nothing may be taken, and what was found of every node and budget.
// One command takes nodes of one NodePool only, the first by name that has any; call again for the next.
func Plan(s *planner.Snapshot) (*planner.Decision, Report) {
	r := Report{Eligible: map[karpv1.DisruptionReason]int{}}
	e := emptiness{newCandidates(s)}
	byPool := map[string][]*planner.StateNode{}
	for _, n := range s.StateNodes() {
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
	for _, pool := range s.World.NodePools() {
		budget := e.poolReports(pool, &r)
		if nodes := byPool[pool.Name]; len(nodes) > 0 {
			taken := nodes[:min(len(nodes), budget.Remaining, candidatesMax)]
			r.holdBack(s, pool, nodes[len(taken):], budget)
			if d == nil && len(taken) > 0 {
				d = e.command(pool, taken, budget, &r)
			}
		}
	}
	r.wakeForProtection(s)
	return d, r
}

// poolReports adds what the pool's budgets allow for each reason, and returns the one for Empty.
func (e emptiness) poolReports(pool *karpv1.NodePool, r *Report) PoolReport {
	var empty PoolReport
	for _, reason := range Reasons {
		p := Budgets(e.s, pool, reason)
		r.Pools = append(r.Pools, p)
		if reason == karpv1.DisruptionReasonEmpty {
			empty = p
		}
	}
	return empty
}

// holdBack marks the nodes a budget keeps, and wakes when a window of a budget moves.
func (r *Report) holdBack(s *planner.Snapshot, pool *karpv1.NodePool, kept []*planner.StateNode, budget PoolReport) {
	if len(kept) == 0 || budget.Remaining >= candidatesMax {
		return
	}
	r.wake(nextChange(pool.Spec.Disruption.Budgets, s.Now))
	for _, n := range kept {
		i := slices.IndexFunc(r.Nodes, func(nr NodeReport) bool { return nr.Claim == n.ClaimName() && nr.Node == n.Name })
		r.Nodes[i].Blocked = &Blocked{Cause: CauseBudget}
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
	aggregates := []string{ledger.PoolAggregate(pool.Name)}
	subjects := []string{"pool/" + pool.Name}
	for _, n := range nodes {
		started.Candidates = append(started.Candidates, candidate(e.s, n))
		aggregates = append(aggregates, ledger.NodeAggregate(n.Name), ledger.ClaimAggregate(n.ClaimName()))
		subjects = append(subjects, "node/"+n.Name, "claim/"+n.ClaimName())
	}
	slices.Sort(aggregates)
	slices.Sort(subjects)
	return &planner.Decision{
		Kind: ledger.KindCommandStarted, Payload: started, Explanation: e.explain(pool, started, budget, r),
		Subjects: subjects, Expects: e.s.Expect(aggregates...), Advances: aggregates,
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

func (e emptiness) explain(pool *karpv1.NodePool, c *ledger.CommandStarted, budget PoolReport, r *Report) Explanation {
	x := Explanation{Budget: budget, ConsolidateAfter: ConsolidateAfter(pool).String()}
	taken := map[string]bool{}
	for _, cand := range c.Candidates {
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
