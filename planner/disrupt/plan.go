package disrupt

import (
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner"
	"millwright/planner/disrupt/internal/order"
	"millwright/planner/disrupt/internal/policy"
	"millwright/planner/disrupt/internal/proposal"
	"millwright/planner/drain"
	"millwright/planner/ledger"
	"millwright/planner/nodepool"
	"millwright/planner/options"
	"millwright/planner/provision"
)

// candidatesMax bounds one command, so that its record stays small. The next Plan takes the rest.
const candidatesMax = 100

// reportedMax bounds the blocked nodes an explanation names.
const reportedMax = 100

// Methods, in the order they are tried (reference: disruption §4).
const (
	MethodEmptiness   = "emptiness"
	MethodStaticDrift = "static-drift"
	MethodDrift       = "drift"
	MethodPreferred   = "preferred"
	MethodMulti       = "multi"
	MethodSingle      = "single"
)

// Explanation of a CommandStarted record.
type Explanation struct {
	Budget PoolReport `json:"budget"`
	// ConsolidateAfter of the NodePool, as a Go duration.
	ConsolidateAfter string `json:"consolidateAfter,omitempty"`
	// Taken are the command's nodes; Blocked those of the pool that stay, first the ones the budget kept
	// back.
	Taken   []NodeReport `json:"taken"`
	Blocked []NodeReport `json:"blocked,omitempty"`
	// BlockedMore counts those that are not listed.
	BlockedMore int `json:"blockedMore,omitempty"`
	// MicroUSDPerHour is what the taken nodes cost.
	MicroUSDPerHour int64 `json:"price"`
	// Target are the nodes, by name, that consolidation would have gone in the end; this command is a step to
	// it.
	Target []string `json:"target,omitempty"`
	// Rejected are the best of the alternatives that were looked at and not taken.
	Rejected []Rejected `json:"rejected,omitempty"`
	// Scores of Balanced NodePools, by name.
	Scores []Score `json:"scores,omitempty"`
	// Preferred is nil unless the node returns to what is preferred.
	Preferred *Preferred `json:"preferred,omitempty"`
	// Searched is nil if the pass came to all nodes.
	Searched *Searched `json:"searched,omitempty"`
}

// Rejected alternative of a command.
type Rejected struct {
	Nodes  []string `json:"nodes"`
	Reason string   `json:"reason"`
	// Savings in micro USD per hour, as far as it came to that.
	Savings   int64 `json:"savings,omitempty"`
	Evictions int   `json:"evictions,omitempty"`
	// cause of a node that stays for it.
	cause Cause
}

// commandsMax bounds the commands of one pass, so that what was started continues before more is planned.
const commandsMax = 100

// Plans returns the commands to start now, none if nothing may be taken, and what was found of every node and
// budget. Empty nodes come first, then drifted ones, those that are a fallback, and those whose pods can be
// had cheaper. The commands hold together and each without the others: they are started one after the other
// as long as nothing else has changed what they rely on (After), and the rest is left to the next pass. Call
// again for what follows.
func Plans(s *planner.Snapshot) ([]*planner.Decision, Report) {
	return PlansFrom(s, ledger.SearchFrom{})
}

// PlansFrom is Plans of a pass that goes on where an earlier one stopped, as Report.Next says.
func PlansFrom(s *planner.Snapshot, from ledger.SearchFrom) ([]*planner.Decision, Report) {
	return NewPass(s).From(from).run()
}

// Plan is the first of Plans; nil for none.
func Plan(s *planner.Snapshot) (*planner.Decision, Report) { return NewPass(s).first() }

// PlanPrompt is Plan without the return to what is preferred and consolidation, which take long in a large
// cluster: its decision, if there is one, is that of Plan.
func PlanPrompt(s *planner.Snapshot) (*planner.Decision, Report) { return NewPromptPass(s).first() }

// Pass is Plan in steps, one for each method, for callers that measure how long each takes.
type Pass struct {
	pass    *pass
	methods []method
}

type method struct {
	name   string
	decide func() []*planner.Decision
}

// only is a method that comes to one decision.
func only(decide func() *planner.Decision) func() []*planner.Decision {
	return func() []*planner.Decision {
		if d := decide(); d != nil {
			return []*planner.Decision{d}
		}
		return nil
	}
}

// NewPass looks at all nodes and budgets of a Snapshot, as Plan does first.
func NewPass(s *planner.Snapshot) *Pass {
	p := NewPromptPass(s)
	p.methods = append(p.methods, method{MethodPreferred, fallbacks{p.pass}.plan}, method{MethodMulti, only(p.pass.consolidation)})
	return p
}

// NewPromptPass is NewPass for PlanPrompt.
func NewPromptPass(s *planner.Snapshot) *Pass {
	p := newPass(s)
	p.examineAll()
	return &Pass{p, []method{{MethodEmptiness, only(p.emptiness)}, {MethodStaticDrift, p.staticDrift}, {MethodDrift, p.drift}}}
}

// From has the pass go on where an earlier one stopped, as its Report.Next says. It comes before Next.
func (p *Pass) From(from ledger.SearchFrom) *Pass {
	p.pass.from, p.pass.report.Next = from, from
	return p
}

// Remembering has the pass use results of simulations of earlier passes that cannot have changed since, which
// it began with the Snapshot of this one: what it decides and says is the same as without.
func (p *Pass) Remembering(m *provision.Memory) *Pass {
	p.pass.trials.memory = m
	return p
}

// Next tries the next method, MethodMulti for consolidation of any number of nodes. There is no next one, and
// the name is "", once a method has come to a decision.
func (p *Pass) Next() (name string, list []*planner.Decision) {
	if len(p.methods) == 0 {
		return "", nil
	}
	m := p.methods[0]
	if p.methods, list = p.methods[1:], m.decide(); len(list) > 0 {
		p.methods = nil
	}
	return m.name, list
}

// Report is what was found so far.
func (p *Pass) Report() Report {
	p.pass.report.wakeForProtection(p.pass.s)
	return p.pass.report
}

func (p *Pass) run() ([]*planner.Decision, Report) {
	for {
		if name, list := p.Next(); len(list) > 0 || name == "" {
			return list, p.Report()
		}
	}
}

// first is run for one command.
func (p *Pass) first() (*planner.Decision, Report) {
	p.pass.commandsMax = 1
	list, r := p.run()
	if len(list) == 0 {
		return nil, r
	}
	return list[0], r
}

// examineAll examines all nodes and budgets.
func (p *pass) examineAll() {
	for _, n := range p.s.StateNodes() {
		p.examine(n)
	}
	for _, pool := range p.s.World.NodePools() {
		p.addBudgets(pool)
	}
	p.holdBack()
}

// pass is one look at a Snapshot.
type pass struct {
	*candidates
	report Report
	// empty, static, drifted, returning and filled are the nodes that each method may take, by NodePool, as
	// far as budgets allow.
	empty, static, drifted, returning, filled map[string][]*planner.StateNode
	budgets                                   map[budgetKey]PoolReport
	at                                        map[*planner.StateNode]int // in report.Nodes
	// balances are of the Balanced NodePools, by name.
	balances map[string]policy.Total
	trials   *trials
	// banning are trials in which no pod goes to a node that policies ban; nil until there are some.
	banning *trials
	// commandsMax is how many commands it may come to; started are those of drift so far.
	commandsMax int
	started     startedTogether
	// from is where the search goes on.
	from ledger.SearchFrom
}

type budgetKey struct {
	pool   string
	reason karpv1.DisruptionReason
}

func newPass(s *planner.Snapshot) *pass {
	return &pass{
		candidates: newCandidates(s), trials: &trials{s: s}, commandsMax: commandsMax, report: Report{Eligible: map[karpv1.DisruptionReason]int{}},
		empty: map[string][]*planner.StateNode{}, static: map[string][]*planner.StateNode{},
		drifted: map[string][]*planner.StateNode{}, returning: map[string][]*planner.StateNode{}, filled: map[string][]*planner.StateNode{},
		budgets: map[budgetKey]PoolReport{}, at: map[*planner.StateNode]int{},
	}
}

// examine reports on a node and puts it where its method finds it.
func (p *pass) examine(n *planner.StateNode) {
	r := NodeReport{NodePool: n.NodePool, Claim: n.ClaimName()}
	if n.Node != nil {
		r.Node = n.Name
	}
	r.Blocked = p.choose(n, &r)
	fallbacks{p}.choose(n)
	if r.Blocked != nil && r.ConsolidatableAt.After(p.s.Now) {
		p.report.wake(r.ConsolidatableAt)
	}
	p.at[n] = len(p.report.Nodes)
	p.report.Nodes = append(p.report.Nodes, r)
}

// choose finds the method that may take a node; if none may, it says why.
func (p *pass) choose(n *planner.StateNode, r *NodeReport) *Blocked {
	drifted := order.Drifted(n)
	pool := p.s.World.NodePool(n.NodePool)
	if drifted != nil && pool != nil {
		r.Drifted = drifted.Reason
	}
	if drifted != nil && pool != nil && pool.Spec.Replicas != nil {
		return p.offer(p.static, karpv1.DisruptionReasonDrifted, n, p.eventual(n, ""))
	}
	blocked := p.node(n, "")
	if blocked == nil {
		check, list, reason := p.filled, p.consolidatable, karpv1.DisruptionReasonUnderutilized
		if !p.consolidatedByPods(n) {
			check, list, reason = p.empty, p.emptied, karpv1.DisruptionReasonEmpty
		}
		blocked = p.offer(check, reason, n, list(n, r))
	}
	if drifted == nil {
		return blocked
	}
	if why := p.offer(p.drifted, karpv1.DisruptionReasonDrifted, n, p.eventual(n, "")); why != nil && blocked != nil {
		return why
	}
	return nil
}

func (p *pass) offer(list map[string][]*planner.StateNode, reason karpv1.DisruptionReason, n *planner.StateNode, why *Blocked) *Blocked {
	if why == nil {
		if why = p.policyBlock(n, reason); why != nil {
			p.report.wake(why.Until)
		}
	}
	if why == nil {
		list[n.NodePool] = append(list[n.NodePool], n)
		p.report.Eligible[reason]++
	}
	return why
}

func (p *pass) addBudgets(pool *karpv1.NodePool) {
	reasons := Reasons
	if p.returnRule(pool.Name) != nil {
		reasons = append(slices.Clone(reasons), mwv1alpha1.ReasonPreferredAvailable)
	}
	for _, reason := range reasons {
		b := p.budgetOf(pool, reason)
		p.report.Pools = append(p.report.Pools, b)
		p.budgets[budgetKey{pool.Name, reason}] = b
	}
}

// holdBack marks the nodes that budgets keep, and wakes when a window of a budget moves.
func (p *pass) holdBack() {
	for _, m := range []struct {
		nodes  map[string][]*planner.StateNode
		reason karpv1.DisruptionReason
	}{
		{p.empty, karpv1.DisruptionReasonEmpty}, {p.static, karpv1.DisruptionReasonDrifted},
		{p.drifted, karpv1.DisruptionReasonDrifted}, {p.filled, karpv1.DisruptionReasonUnderutilized},
	} {
		for _, pool := range p.s.World.NodePools() {
			budget := p.budgets[budgetKey{pool.Name, m.reason}]
			nodes := m.nodes[pool.Name]
			if len(nodes) == 0 || budget.Remaining >= min(len(nodes), candidatesMax) {
				continue
			}
			p.report.wake(nodepool.NextChange(pool.Spec.Disruption.Budgets, p.s.Now))
			switch taken, kept := budget.within(nodes); {
			case m.reason == karpv1.DisruptionReasonEmpty:
				p.block(kept, Blocked{Cause: CauseBudget, Reason: m.reason})
				if p.s.Options.Revision < options.Revision1 {
					m.nodes[pool.Name] = taken
				}
			case budget.Remaining > 0: // each method counts what it takes
			case m.reason == karpv1.DisruptionReasonDrifted && len(taken) > 0:
				p.block(slices.DeleteFunc(slices.Clone(nodes), func(n *planner.StateNode) bool { return !n.Ready() }), Blocked{Cause: CauseBudget, Reason: m.reason})
				m.nodes[pool.Name] = slices.DeleteFunc(slices.Clone(nodes), (*planner.StateNode).Ready)
			default:
				p.block(nodes, Blocked{Cause: CauseBudget, Reason: m.reason})
				delete(m.nodes, pool.Name)
			}
		}
	}
}

// block says of nodes why they stay.
func (p *pass) block(kept []*planner.StateNode, why Blocked) {
	for _, n := range kept {
		p.report.Nodes[p.at[n]].Blocked = &why
	}
}

// unblock takes back what was said of nodes that seemed to stay.
func unblock(p *pass, nodes []*planner.StateNode) {
	for _, n := range nodes {
		p.report.Nodes[p.at[n]].Blocked = nil
	}
}

// blockFirst says why a node stays, if nothing was said yet.
func (p *pass) blockFirst(n *planner.StateNode, why Blocked) {
	if r := &p.report.Nodes[p.at[n]]; r.Blocked == nil {
		r.Blocked = &why
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

// byPools returns the nodes of all NodePools, by pool and name.
func (p *pass) byPools(nodes map[string][]*planner.StateNode) []*planner.StateNode {
	var list []*planner.StateNode
	for _, pool := range p.s.World.NodePools() {
		list = append(list, nodes[pool.Name]...)
	}
	return list
}

// commandTimeout ends a command whose taints don't show in the World, or whose replacements are not ready.
const commandTimeout = 10 * time.Minute

// deletionTimeout ends a command without replacements if some of its NodeClaims cannot be deleted.
const deletionTimeout = 20 * time.Minute

// markTimeout is how long the nodes of a command whose taints show wait for those of the others.
const markTimeout = time.Minute

// decision to start a command, or to ask for it where a policy demands that.
func (p *pass) decision(started *ledger.CommandStarted, x Explanation) *planner.Decision {
	started.SearchFrom = p.from
	if searched := p.report.Searched; searched.Left > 0 {
		x.Searched = &searched
	}
	d := p.startDecision(started, x)
	if a := policy.ApprovalFor(p.policies, started); a != nil {
		return proposal.Ask(p.s, d, started, a)
	}
	return d
}

// startDecision relies on the pools and on each node and claim.
func (p *pass) startDecision(started *ledger.CommandStarted, x Explanation) *planner.Decision {
	p.inWave(started)
	var aggregates, subjects []string
	pool := func(name string) {
		aggregates, subjects = append(aggregates, ledger.PoolAggregate(name)), append(subjects, "pool/"+name)
	}
	for _, n := range started.Candidates {
		pool(n.NodePool)
		aggregates = append(aggregates, ledger.NodeAggregate(n.Node), ledger.ClaimAggregate(n.Claim))
		subjects = append(subjects, "node/"+n.Node, "claim/"+n.Claim)
	}
	for _, r := range started.Replacements {
		pool(r.NodePool)
	}
	expects := slices.Clone(aggregates)
	for _, t := range started.Placements {
		if n := p.s.StateNode(t.Node); n != nil {
			expects = append(expects, ledger.PoolAggregate(n.NodePool))
		}
	}
	d := &planner.Decision{Kind: ledger.KindCommandStarted, Payload: started, Explanation: x, Subjects: sorted(subjects),
		Expects: p.s.Expect(expects...), Advances: sorted(aggregates)}
	if started.Evictions > 0 && started.Method != MethodStaticDrift || slices.ContainsFunc(started.Replacements, func(c ledger.PlannedClaim) bool { return len(c.Pods) > 0 }) {
		d.Kind = ledger.KindCommandMovesStarted
	}
	return d
}

func sorted(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// candidate is a node as a record names it, with the pods that move.
func (p *pass) candidate(n *planner.StateNode) ledger.Candidate {
	c := ledger.Candidate{
		Node: n.Name, Claim: n.Claim.Name, ClaimUID: n.Claim.UID, ProviderID: n.ProviderID, NodePool: n.NodePool,
		InstanceType: n.InstanceTypeName(), Zone: n.Zone(), CapacityType: n.CapacityType(), Capacity: n.Capacity,
		Price: p.prices.Of(n), Pods: drain.Refs(reschedulable(n)), Virtual: drain.Refs(p.trials.buffered(n)),
	}
	return c
}

// explain completes an explanation with the nodes of the first candidate's pool; those that stay only for the
// first command of a pass, which speaks for the others.
func (p *pass) explain(started *ledger.CommandStarted, x Explanation) Explanation {
	first := started.Candidates[0].NodePool
	x.Budget = p.budgets[budgetKey{first, started.Reason}]
	taken := map[string]bool{}
	for _, c := range started.Candidates {
		taken[c.Claim] = true
		x.MicroUSDPerHour += c.Price
	}
	var kept, others []NodeReport
	for _, nr := range p.report.Nodes {
		switch {
		case taken[nr.Claim]:
			x.Taken = append(x.Taken, nr)
		case nr.NodePool != first, started.Nth > 0:
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
