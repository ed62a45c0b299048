package disrupt

import (
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
)

// driftTrialsMax bounds the drifted nodes that one Plan simulates in vain.
const driftTrialsMax = 50

// drift replaces drifted nodes of dynamic NodePools, those without pods first, then by the time at which they drifted. One command
// takes one node; the next Plan takes the next, as long as budgets allow, so that all that may go goes in one pass.
func (p *pass) drift() *planner.Decision {
	nodes := p.byPools(p.drifted)
	slices.SortStableFunc(nodes, func(a, b *planner.StateNode) int {
		ea, eb := len(reschedulable(a)) == 0, len(reschedulable(b)) == 0
		if ea != eb {
			if ea {
				return -1
			}
			return 1
		}
		return compareDrift(a, b)
	})
	trials := 0
	for _, n := range nodes {
		if trials == driftTrialsMax {
			break
		}
		if until := p.backoff(n.NodePool); p.s.Now.Before(until) {
			p.block([]*planner.StateNode{n}, *blocked(CauseBackoff, "Replacements of NodePool %q fail, trying again at %s", n.NodePool, until.UTC().Format("15:04:05")))
			p.report.wake(until)
			continue
		}
		if why := p.pdbSum([]*planner.StateNode{n}, n.Claim.Spec.TerminationGracePeriod != nil); why != nil {
			p.block([]*planner.StateNode{n}, *why)
			continue
		}
		trials++
		o := p.trial([]*planner.StateNode{n}, nil, false)
		if why := p.driftFailure(o); why != nil {
			p.block([]*planner.StateNode{n}, *why)
			continue
		}
		started := p.commandOf(o, karpv1.DisruptionReasonDrifted, MethodDrift)
		return p.decision(started, p.explain(started, Explanation{}))
	}
	return nil
}

func (p *pass) driftFailure(o *outcome) *Blocked {
	if len(o.unplaced) > 0 {
		return blocked(CauseNoPlace, "%s", o.failure())
	}
	if o.mixed() {
		return &Blocked{Cause: CauseNominated}
	}
	if pool := p.limitExceeded(o.claims); pool != "" {
		return blocked(CauseLimits, "Replacements would exceed the limits of NodePool %q", pool)
	}
	for _, w := range o.waiting { // it is on its way: wait for it, and do not buy another
		return blocked(CauseNoPlace, "Not all pods would schedule, %s => %s", w.mover.Key(), w.reason)
	}
	return nil
}

// backoff is until when a NodePool's nodes are not replaced; zero if they may be.
func (p *pass) backoff(pool string) time.Time { return p.s.Ledger.FailingUntil(pool) }
