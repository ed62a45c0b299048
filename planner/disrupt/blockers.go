package disrupt

import (
	"fmt"
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt/internal/account"
	"millwright/planner/disrupt/internal/order"
	"millwright/planner/disrupt/internal/policy"
	"millwright/planner/ledger"
	"millwright/planner/world"
)

// Blockers are all checks that a node fails now, in the order of eligibility (reference: disruption §2),
// where Plan reports the first.
func Blockers(s *planner.Snapshot, n *planner.StateNode) (list []*Blocked) {
	p := newPass(s)
	p.examineAll()
	add := func(b *Blocked) {
		if b != nil && !slices.ContainsFunc(list, func(x *Blocked) bool { return x.Cause == b.Cause && x.Message == b.Message }) {
			list = append(list, b)
		}
	}
	if n.Claim == nil || n.Node == nil {
		return []*Blocked{p.state(n, "")}
	}
	add(p.state(n, ""))
	add(p.pool(n))
	pool := p.s.World.NodePool(n.NodePool)
	if pool == nil {
		return list
	}
	pdbs := p.s.PodBudgets()
	for _, pod := range n.Pods {
		alone := *n
		alone.Pods = []*world.Pod{pod}
		add(p.always(&alone, ""))
		add(p.pods(&alone))
		if blocking, _ := pdbs.Blocking(pod); len(blocking) == 0 && planner.IsEvictable(pod, p.s.Now) {
			add(p.pdbTake(account.Going(p.s), &alone))
		}
	}
	var r NodeReport
	check := p.consolidatable
	if len(reschedulable(n)) == 0 {
		check = p.emptied
	}
	if b := check(n, &r); b != nil && b.Cause != CauseNotQuiet {
		add(b)
	}
	if b := p.quiet(pool, n, &r); b != nil && !pool.Spec.Disruption.ConsolidateAfter.IsNever() {
		add(b.until(r.ConsolidatableAt))
	}
	reason := ReasonFor(n)
	for _, rule := range p.policies[n.NodePool] {
		add(refusedBy(rule, rule.Block(n, reason, p.s.Now)))
		add(refusedBy(rule, rule.BlockByRate(p.s, n, len(reschedulable(n)))))
	}
	if reason == karpv1.DisruptionReasonDrifted {
		if b := p.haltedBlock(pool); b != nil {
			add(b)
		} else {
			add(waveBlock(p, n))
		}
	}
	add(p.proposalBlock(n, reason))
	if b := p.budgets[budgetKey{n.NodePool, reason}]; b.Remaining == 0 && (n.Ready() || b.remainingUnready() == 0) {
		text := fmt.Sprintf("the disruption budget of NodePool %s allows %d nodes, %d are going or not ready", n.NodePool, b.Allowed, b.Consuming)
		if b.Invalid != "" {
			text = fmt.Sprintf("the disruption budgets of NodePool %s can't be read: %s", n.NodePool, b.Invalid)
		}
		add(&Blocked{Cause: CauseBudget, Message: text})
	}
	if reason == karpv1.DisruptionReasonUnderutilized {
		add(p.evictionBlock(n))
	}
	if p.isFallback(n) {
		add(fallbacks{p}.why(n))
	}
	if until := p.backoff(n.NodePool); p.s.Now.Before(until) {
		add(blocked(CauseBackoff, "Replacements of NodePool %q fail, trying again at %s", n.NodePool, until.UTC().Format("15:04:05")).until(until))
	}
	return list
}

// ReasonFor is what a node would go for.
func ReasonFor(n *planner.StateNode) karpv1.DisruptionReason {
	switch {
	case order.Drifted(n) != nil:
		return karpv1.DisruptionReasonDrifted
	case len(reschedulable(n)) == 0:
		return karpv1.DisruptionReasonEmpty
	}
	return karpv1.DisruptionReasonUnderutilized
}

// Without is what would become of a node's pods if it alone were taken away, for people to see: nothing is
// decided by it.
type Without struct {
	// Elsewhere counts the pods that nodes which stay would take; Unplaced are those that nothing takes, with
	// the reason, sorted.
	Elsewhere int
	Unplaced  []string
	// Claims would take the others. Least is what they have to save, in micro USD per hour; Reason is why
	// consolidation does not take the node so, "" if it would.
	Claims []ledger.PlannedClaim
	Least  int64
	Reason string
}

// TryWithout takes a node away in a simulation.
func TryWithout(s *planner.Snapshot, n *planner.StateNode) (x Without) {
	p := newPass(s)
	p.examineAll()
	p.balances = policy.Totals(p.s, p.prices.Of)
	o := p.consolidationTrial([]*planner.StateNode{n}, nil, false)
	x.Elsewhere, x.Claims = len(o.places), o.claims
	for _, r := range slices.Concat(o.unplaced, o.waiting) {
		x.Unplaced = append(x.Unplaced, fmt.Sprintf("%s: %s", r.mover.Key(), r.reason))
	}
	slices.Sort(x.Unplaced)
	part := int64(hysteresis)
	if len(o.claims) > 1 {
		part = hysteresisMany
	}
	x.Least = max(1, (p.prices.Of(n)+part-1)/part)
	switch bad, scores := p.balance(o); {
	case len(x.Unplaced) > 0:
	case len(o.claims) > 0:
		if c, why := p.replacement([]*planner.StateNode{n}, false); c == nil {
			x.Reason = why.Reason
		}
	case len(bad) > 0:
		x.Reason = fmt.Sprintf("Balanced: the disruption is too much for the saving, the score is %.2f of %.2f", float64(scores[0].Thousandths)/1000, float64(ScoreLeast)/1000)
	default:
		x.Reason = p.notWorth(o)
	}
	return x
}
