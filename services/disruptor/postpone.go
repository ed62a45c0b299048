package disruptor

import (
	"fmt"
	"slices"

	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/disrupt/patience"
	"millwright/planner/ledger"
)

// postpone takes back a command of consolidation that is to wait until waiting has cost as much as its
// evictions, and says so of its nodes. The search is repeated when that may be, at the latest.
func (s *Service) postpone(snap *planner.Snapshot, p *planned) {
	wait := s.patience.Wait(snap.Now, p.decisions, snap.Options.NodeCost)
	if wait == 0 {
		return
	}
	c := p.decisions[0].Payload.(*ledger.CommandStarted)
	p.decisions = nil
	until := snap.Now.Add(wait)
	if p.report.WakeAt.IsZero() || until.Before(p.report.WakeAt) {
		p.report.WakeAt = until
	}
	why := &disrupt.Blocked{Cause: disrupt.CauseEvictionCost, EventReason: disrupt.EventUnconsolidatable, Until: until,
		Message: fmt.Sprintf("Consolidation would save %.4g USD per hour and evict %d pod(s), and waits a while whether that lasts",
			float64(patience.Saved(c, snap.Options.NodeCost))/1e6, c.Evictions)}
	for i := range p.report.Nodes {
		n := &p.report.Nodes[i]
		if slices.ContainsFunc(c.Candidates, func(x ledger.Candidate) bool { return x.Claim == n.Claim }) {
			n.Blocked = why
		}
	}
}
