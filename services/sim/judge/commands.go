package judge

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/services/internal/kube"
	"millwright/services/sim/cloud"
)

// swap is what a command removes, by provider id, and the claims that it has made for that.
type swap struct{ removed, bought []string }

// checkConfirmed demands that no pod can come to the nodes any more.
func (s *Judge) checkConfirmed(c *ledger.CommandStarted) {
	for _, candidate := range c.Candidates {
		n, o := s.Cluster.Node(candidate.Node), s.Cluster.NodeClaim(candidate.Claim)
		alive := n != nil && o != nil && n.Spec.ProviderID == candidate.ProviderID && o.UID == candidate.ClaimUID && o.DeletionTimestamp == nil
		byUser := n != nil && s.Clock.Now().Sub(s.Deeds.Untainted[n.Name]) < lookback
		if alive && !byUser && !kube.IsDisrupted(n) && !s.isDoomed(candidate.Claim) {
			s.Violate(CheckTainted, "node %s is not", n.Name)
		}
	}
}

func (s *Judge) commandStarted(seq uint64, p *ledger.CommandStarted) {
	var bought []string
	for i := range p.Replacements {
		s.Stats.Claims++
		name := ledger.ClaimName(s.Log.ID(), p.Replacements[i].NodePool, seq, i)
		s.history.planned[name] = true
		bought = append(bought, name)
	}
	if p.Reason == karpv1.DisruptionReasonUnderutilized {
		s.Stats.Consolidated++
		if len(bought) > 0 {
			s.Stats.Replacing++
			x := swap{bought: bought}
			for _, c := range p.Candidates {
				x.removed = append(x.removed, c.ProviderID)
			}
			s.history.swaps[ledger.CommandID(s.Log.ID(), seq)] = x
		}
	}
	s.Moved(p.Candidates[0].Node)
}

// CheckReplaced demands that a node which a command replaces is not deleted before all that it bought are
// initialized. A NodeClaim whose Node somebody else has removed, or that is doomed for another reason, goes
// in any case, by lifecycle if not by the command.
func (s *Judge) CheckReplaced(by Process, claim string, uid types.UID) {
	o := s.Cluster.NodeClaim(claim)
	if by.Name() != ledger.ServiceDisruptor || o == nil || o.UID != uid || o.DeletionTimestamp != nil || s.Cluster.Node(o.Status.NodeName) == nil || s.isDoomed(claim) {
		return
	}
	for id, c := range s.book.commands {
		if !slices.Contains(c.claims, claim) {
			continue
		}
		for _, name := range c.bought {
			if !s.history.initialized[name] {
				s.Violate(CheckReplaced, "%s deletes %s by command %s, whose %s is not ready", by, claim, id, name)
			}
		}
	}
}

// checkCheaper demands that the instances which a consolidation bought cost less than those it removes, by
// the prices of the beginning: all move together, but for a hundredth.
func (s *Judge) checkCheaper(id string) {
	x, swaps := s.history.swaps[id]
	if !swaps {
		return
	}
	delete(s.history.swaps, id)
	cost := func(providerID string) int64 {
		i := s.Cloud.Instance(InstanceOf(providerID))
		if i == nil {
			return 0
		}
		return cloud.Price(cloud.Offering{InstanceType: i.InstanceType, Zone: i.Zone, CapacityType: i.CapacityType})
	}
	var before, after int64
	for _, p := range x.removed {
		before += cost(p)
	}
	for _, name := range x.bought {
		if c := s.book.claims[name]; c != nil {
			after += cost(c.provider)
		}
	}
	if after >= before+before/100 || after == before {
		s.Violate(CheckCheaper, "command %s buys %v at %d for %v at %d micro-dollars an hour", id, x.bought, after, x.removed, before)
	}
}

// reduced is the command without the nodes that were taken out of it.
func reduced(c *ledger.CommandStarted, by *ledger.CommandReduced) *ledger.CommandStarted {
	less := *c
	less.Candidates = slices.DeleteFunc(slices.Clone(c.Candidates), func(x ledger.Candidate) bool {
		return slices.ContainsFunc(by.Dropped, func(d ledger.DroppedNode) bool { return d.Claim == x.Claim })
	})
	return &less
}
