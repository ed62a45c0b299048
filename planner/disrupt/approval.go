package disrupt

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt/internal/account"
	"millwright/planner/disrupt/internal/gone"
	"millwright/planner/disrupt/internal/policy"
	"millwright/planner/disrupt/internal/proposal"
	"millwright/planner/ledger"
	"millwright/planner/options"
)

// proposalBlock says which proposal a node waits for, or is kept by, for a reason; nil if none. While one
// that moves pods is open, a NodePool's other nodes are not consolidated either: what is asked would be
// another thing by the time of the answer.
func (c *candidates) proposalBlock(n *planner.StateNode, reason karpv1.DisruptionReason) *Blocked {
	for _, x := range c.s.Ledger.Proposals() {
		command := &x.Proposed.Command
		if x.ID == c.answering || command.Reason != reason {
			continue
		}
		named := slices.ContainsFunc(command.Candidates, func(k ledger.Candidate) bool { return k.Claim == n.ClaimName() })
		moving := x.State != ledger.ProposalRejected && command.Evictions > 0 && reason == karpv1.DisruptionReasonUnderutilized &&
			slices.ContainsFunc(command.Candidates, func(k ledger.Candidate) bool { return k.NodePool == n.NodePool })
		switch {
		case named && x.State == ledger.ProposalRejected:
			return blocked(CauseRejected, "Command %s was rejected by %s until %s: %s", x.ID, x.Answer.By, policy.Clock(x.Answer.Until), x.Answer.Why).until(x.Answer.Until).by("command " + x.ID)
		case named:
			return blocked(CauseProposed, "Command %s waits for approval until %s", x.ID, policy.Clock(x.Proposed.Expires)).until(x.Proposed.Expires).by("command " + x.ID)
		case moving:
			return (&Blocked{Cause: CauseProposed}).until(x.Proposed.Expires).by("command " + x.ID)
		}
	}
	return nil
}

// AnswerDecision returns what is due of a proposal: the command, once it is approved and still holds, or the
// proposal's end; nil as long as it waits, for a person, or for a budget or a window to open.
func AnswerDecision(s *planner.Snapshot, x *ledger.Proposal) *planner.Decision {
	command := &x.Proposed.Command
	switch why := gone.Of(s, command); {
	case x.State == ledger.ProposalRejected && s.Now.Before(x.Answer.Until) && why == "":
		return nil
	case x.State == ledger.ProposalRejected:
		return proposal.End(s, x, "its rejection is over")
	case why != "":
		return proposal.End(s, x, why)
	case !s.Now.Before(x.Proposed.Expires):
		return proposal.End(s, x, fmt.Sprintf("it was not carried out before %s", policy.Clock(x.Proposed.Expires)))
	case x.State != ledger.ProposalApproved && policy.ApprovalFor(policy.ByPool(s), command) == nil && s.Options.Revision >= options.Revision8:
		return proposal.End(s, x, "no DisruptionPolicy asks for approval any more")
	case x.State != ledger.ProposalApproved, waitsAlone(s, x):
		return nil
	}
	p := newPass(s)
	p.answering = x.ID
	p.examineAll()
	d, why, wait := p.carryOut(command)
	switch {
	case wait:
		return nil
	case why != "":
		return proposal.End(s, x, "it was approved and no longer holds: "+why)
	}
	d.Causation = x.Seq
	d.Expects = append(d.Expects, s.Expect(ledger.CommandAggregate(x.ID))...)
	d.Payload.(*ledger.CommandStarted).Proposal = x.ID
	return d
}

// waitsAlone reports that one look at the nodes of an approved command, and at no others, says that it has to
// wait: many that wait for a budget do not cost a look at the whole cluster each.
func waitsAlone(s *planner.Snapshot, x *ledger.Proposal) bool {
	command := &x.Proposed.Command
	if s.Options.Revision < options.Revision8 || command.Method == MethodPreferred {
		return false
	}
	p, pools := newPass(s), map[string]bool{}
	p.answering = x.ID
	for _, c := range command.Candidates {
		p.examine(s.StateNodeOfClaim(c.Claim))
		pools[c.NodePool] = true
	}
	for _, pool := range s.World.NodePools() {
		if pools[pool.Name] {
			p.addBudgets(pool)
		}
	}
	p.holdBack()
	return slices.ContainsFunc(command.Candidates, func(c ledger.Candidate) bool {
		n := s.StateNodeOfClaim(c.Claim)
		b := p.report.Nodes[p.at[n]].Blocked
		return b != nil && p.passes(n, b)
	})
}

// carryOut works an approved command out anew: the same nodes, at most the same price. why says what has
// changed, wait that it only has to wait.
func (p *pass) carryOut(command *ledger.CommandStarted) (d *planner.Decision, why string, wait bool) {
	var nodes []*planner.StateNode
	for _, c := range command.Candidates {
		n := p.s.StateNodeOfClaim(c.Claim)
		b := p.report.Nodes[p.at[n]].Blocked
		if command.Method == MethodPreferred {
			b = fallbacks{p}.now(n)
		}
		if b != nil {
			if p.passes(n, b) {
				return nil, "", true
			}
			return nil, fmt.Sprintf("node %s: %s", c.Node, b.Reasons()[0]), false
		}
		if command.Reason == karpv1.DisruptionReasonDrifted && waveBlock(p, n) != nil {
			return nil, "", true
		}
		if len(command.Replacements) > 0 && p.failing(n.NodePool) != nil {
			return nil, "", true
		}
		if !slices.Contains(p.lists(command)[n.NodePool], n) {
			return nil, fmt.Sprintf("node %s is not to go for reason %s any more", c.Node, command.Reason), false
		}
		nodes = append(nodes, n)
	}
	if policy.FitLater(p.s, p.policies, nodes) || p.crowded(command, nodes) {
		return nil, "", true
	}
	started, x, why := p.anewOf(command, nodes)
	if why != "" {
		return nil, why, false
	}
	if more := started.PriceAfter - command.PriceAfter; more > 0 && command.Reason == karpv1.DisruptionReasonUnderutilized {
		return nil, fmt.Sprintf("its replacements would cost %s USD per hour more than was proposed", policy.USD(more)), false
	}
	return p.startDecision(started, p.explain(started, x)), "", false
}

// passing causes end by themselves.
var passing = []Cause{CauseBudget, CauseWindow, CausePaused, CauseNominated, CauseBackoff, CauseRate, CauseHalted, CauseMovedLately}

// passes reports that what keeps a node ends by itself, also if its cause need not.
func (p *pass) passes(n *planner.StateNode, b *Blocked) bool {
	return slices.Contains(passing, b.Cause) || b.Cause == CauseScheduler && p.s.Options.Revision >= options.Revision8 ||
		p.s.Options.Revision >= options.Revision1 && (b.Cause == CauseNotQuiet || b.Cause == CausePDB && !account.NeverAllowed(p.s, n))
}

// crowded reports that budgets, or PodDisruptionBudgets, do not let nodes go together now beside those that
// go.
func (p *pass) crowded(command *ledger.CommandStarted, nodes []*planner.StateNode) bool {
	if p.s.Options.Revision < options.Revision1 {
		return false
	}
	with, counts := map[string][]*planner.StateNode{}, account.Going(p.s)
	for _, n := range nodes {
		with[n.NodePool] = append(with[n.NodePool], n)
		if _, kept := p.budgets[budgetKey{n.NodePool, command.Reason}].within(with[n.NodePool]); len(kept) > 0 {
			return true
		}
		if !isEventual(command, n) && p.pdbTake(counts, n) != nil {
			return true
		}
	}
	return false
}

// lists are the nodes that may go by the method of a command.
func (p *pass) lists(command *ledger.CommandStarted) map[string][]*planner.StateNode {
	switch command.Method {
	case MethodEmptiness:
		return p.empty
	case MethodStaticDrift:
		return p.static
	case MethodDrift:
		return p.drifted
	case MethodPreferred:
		return p.returning
	}
	return p.filled
}

// anewOf is the command by the method of the one that was proposed.
func (p *pass) anewOf(command *ledger.CommandStarted, nodes []*planner.StateNode) (started *ledger.CommandStarted, x Explanation, why string) {
	switch command.Method {
	case MethodEmptiness:
		return p.emptyCommand(nodes), x, ""
	case MethodStaticDrift:
		pool := p.s.World.NodePool(nodes[0].NodePool)
		if started, _ = p.staticCommand(pool, nodes[0]); started == nil {
			return nil, x, fmt.Sprintf("NodePool %q has no room for a replacement within its node limit", pool.Name)
		}
		return started, x, ""
	case MethodDrift:
		o := p.trials.without(nodes, nil, false)
		if b := p.driftFailure(o); b != nil {
			return nil, x, b.Message
		}
		return p.commandOf(o, command.Reason, command.Method), x, ""
	}
	if command.Method == MethodPreferred {
		o := fallbacks{p}.newTrials().without(nodes, nil, false)
		if b := (fallbacks{p}).failure(nodes[0], o); b != nil {
			return nil, x, b.Reasons()[0]
		}
		x.Preferred = fallbacks{p}.preference(nodes[0], o)
		return p.commandOf(o, command.Reason, command.Method), x, ""
	}
	p.balances = policy.Totals(p.s, p.prices.Of)
	if len(command.Replacements) > 0 {
		c, rejected := p.replacement(nodes, len(nodes) > 1 || len(command.Replacements) > 1)
		if c == nil || len(c.nodes) != len(nodes) {
			return nil, x, rejected.Reason
		}
		x.Scores = c.scores
		return p.commandOf(c.outcome, command.Reason, command.Method), x, ""
	}
	o := p.consolidationTrial(nodes, p.placesOf(command), false)
	if len(o.obstacles()) > 0 {
		return nil, x, o.failureOr("its pods would need new nodes")
	}
	if bad, scores := p.balance(o); len(bad) > 0 {
		return nil, x, "Balanced: the disruption is too much for the saving"
	} else if x.Scores = scores; p.notWorth(o) != "" {
		return nil, x, o.tooLittle
	}
	return p.commandOf(o, command.Reason, command.Method), x, ""
}

// placesOf are the nodes that a command was to move pods to, as wishes; nil before Revision8.
func (p *pass) placesOf(command *ledger.CommandStarted) map[types.UID]string {
	if p.s.Options.Revision < options.Revision8 {
		return nil
	}
	places := map[types.UID]string{}
	for _, to := range command.Placements {
		for _, pod := range to.Pods {
			places[pod.UID] = to.Node
		}
	}
	return places
}

func (o *outcome) failureOr(text string) string {
	if f := o.failure(); f != "" {
		return f
	}
	return text
}
