package disruptor

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	"millwright/services/internal/service"
)

// typesNamed is how many instance types of a replacement a text names.
const typesNamed = 5

// commandText says what a command does, as Karpenter's events and logs do (reference: disruption §6).
func commandText(c *ledger.CommandStarted) string {
	var nodes []string
	pods := 0
	for _, x := range c.Candidates {
		nodes = append(nodes, fmt.Sprintf("%s/%s/%s", x.Node, x.InstanceType, x.CapacityType))
		pods += len(x.Pods)
	}
	text := fmt.Sprintf("%s, terminating %d nodes (%d pods) %s", decisionOf(c), len(nodes), pods, named(nodes))
	if len(c.Replacements) == 0 {
		return text
	}
	var parts []string
	for i := range c.Replacements {
		r := &c.Replacements[i]
		parts = append(parts, fmt.Sprintf("%s node from types %s", r.Cheapest.CapacityType, named(r.InstanceTypes)))
	}
	return text + " and replacing with " + strings.Join(parts[:min(len(parts), typesNamed)], ", ")
}

// named lists the first few.
func named(list []string) string {
	text := strings.Join(list[:min(len(list), typesNamed)], ", ")
	if more := len(list) - typesNamed; more > 0 {
		text += fmt.Sprintf(" and %d other(s)", more)
	}
	return text
}

// savingsText is what the command saves, in USD per hour. For a command without replacements that is the
// price of its nodes.
func savingsText(c *ledger.CommandStarted) string {
	saved := -c.PriceAfter
	for _, x := range c.Candidates {
		saved += x.Price
	}
	return fmt.Sprintf("(savings: $%.2f)", float64(saved)/1e6)
}

// tellConsolidation says on its nodes that a command is to consolidate them, and what Balanced NodePools
// approved.
func (s *Service) tellConsolidation(c *ledger.CommandStarted, explanation any) {
	if consolidationType(c.Method) == "" {
		return
	}
	s.tellNodes(c.Candidates, "ConsolidationCandidate", fmt.Sprintf("Consolidation candidate: %s %s", commandText(c), savingsText(c)))
	s.countMoves(c)
	x, ok := explanation.(disrupt.Explanation)
	if !ok {
		return
	}
	s.metrics.scored(moveApproved, x.Scores)
	for _, score := range x.Scores {
		text := fmt.Sprintf("score %.2f >= threshold %.2f (k: %d, savings %.1f%%, disruption %.1f%%)", float64(score.Thousandths)/1000,
			float64(disrupt.ScoreLeast)/1000, 1000/disrupt.ScoreLeast, percent(score.Savings, score.Cost), percent(score.Disruption, score.All))
		if len(c.Candidates) == 1 {
			s.tellNodes(c.Candidates, "ConsolidationApproved", text)
			continue
		}
		s.host.Event(service.KubeEvent{Object: poolReference(score.NodePool), Type: corev1.EventTypeNormal, Reason: "ConsolidationApproved", Message: text})
	}
}

// countMoves counts a command for each NodePool of its candidates; those of empty nodes are no moves.
func (s *Service) countMoves(c *ledger.CommandStarted) {
	if c.Method == disrupt.MethodEmptiness {
		return
	}
	pools := map[string]bool{}
	for _, candidate := range c.Candidates {
		pools[candidate.NodePool] = true
	}
	_ = s.host.Snapshot(service.ForEffects, func(snap *planner.Snapshot) error {
		for pool := range pools {
			if p := snap.World.NodePool(pool); p != nil {
				s.metrics.moved(moveApproved, pool, p.Spec.Disruption.ConsolidationPolicy)
			}
		}
		return nil
	})
}

func percent(part, whole int64) float64 { return 100 * float64(part) / float64(max(1, whole)) }

// tellRejected says on the nodes that were not confirmed why their consolidation was given up.
func (s *Service) tellRejected(c *ledger.Command, d *planner.Decision) {
	v, ok := d.Explanation.(disrupt.Verdict)
	if !ok || v.Rejection == "" || consolidationType(c.Started.Method) == "" {
		return
	}
	nodes := c.Started.Candidates
	if v.Outcome == disrupt.Reduced {
		nodes = nil
		for _, x := range v.Dropped {
			nodes = append(nodes, ledger.Candidate{Node: x.Node, Claim: x.Claim})
		}
	}
	s.tellNodes(nodes, "ConsolidationRejected",
		fmt.Sprintf("Consolidation rejected: %s, reason: %s %s", commandText(&c.Started), v.Rejection, savingsText(&c.Started)))
}

// tellAwaited says on replacements that their command waits for them.
func (s *Service) tellAwaited(c command) {
	for _, name := range c.awaited {
		for _, e := range []service.KubeEvent{
			{Reason: "DisruptionLaunching", Message: "Launching NodeClaim: " + string(c.Started.Reason)},
			{Reason: "DisruptionWaitingReadiness", Message: "Waiting on readiness to continue disruption"},
		} {
			e.Object, e.Type = claimReference(name), corev1.EventTypeNormal
			s.host.Event(e)
		}
	}
}

// tellNodes publishes an event on the Nodes and NodeClaims of a command.
func (s *Service) tellNodes(nodes []ledger.Candidate, reason, text string) {
	for _, c := range nodes {
		s.host.Event(service.KubeEvent{Object: nodeReference(c.Node), Type: corev1.EventTypeNormal, Reason: reason, Message: text})
		s.host.Event(service.KubeEvent{Object: claimReference(c.Claim), Type: corev1.EventTypeNormal, Reason: reason, Message: text})
	}
}
