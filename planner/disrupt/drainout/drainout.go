// Package drainout decides which nodes are to run empty by themselves: those that consolidation would take
// away, were it not for pods that nobody may disturb, and those that hold nothing but such pods and pods of
// Jobs. A DisruptionPolicy asks for it (drainOut). They are tainted millwright.sh/drain-out:PreferNoSchedule,
// so that new pods go elsewhere as long as there is room, and emptiness removes them once their pods have
// ended.
//
// Guarantees: a node that drains out is one that consolidation may take (policies, windows, budgets and
// consolidateAfter included) but for its pods, all of which would fit, together with those of the other nodes
// that drain out, on the nodes that stay and are ready: nothing would have to be bought. Nobody is evicted
// for it, and no capacity leaves. Not guaranteed: that it ever runs empty.
//
// One question is asked of the nodes that drain out together, and one of each of at most QuestionsMax others
// in a pass, all in one simulation.
package drainout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/disrupt/internal/held"
	"millwright/planner/disrupt/internal/policy"
	"millwright/planner/disrupt/internal/turn"
	"millwright/planner/ledger"
	"millwright/planner/options"
	"millwright/planner/provision"
)

const (
	// QuestionsMax is of how many nodes a pass asks whether they may begin; the next one asks of the others.
	QuestionsMax = 100
	// askedMax bounds the pods of all questions of a pass: what drains out already is part of each. openMax
	// bounds the nodes that drain out at a time.
	askedMax = 200_000
	openMax  = 200
	// startedMax bounds the nodes of one record, podsMax the pods that it names of each.
	startedMax = 25
	podsMax    = 10
)

// Ends returns the end of those drain-outs of which one look says that they are over; nil if none is. It asks
// for no simulation.
func Ends(s *planner.Snapshot) *planner.Decision {
	if len(s.Ledger.DrainOuts()) == 0 {
		return nil
	}
	return newPlan(s).ends()
}

// Plan returns Ends; if none is due, the end of those whose pods would need new nodes by now; and else what
// is to drain out from here on. nil if there is nothing to decide. next is where the next one begins, if no
// decision comes of this one.
func Plan(s *planner.Snapshot, from string) (d *planner.Decision, next string) {
	p := newPlan(s)
	if len(p.rules) == 0 && len(p.open) == 0 {
		return nil, ""
	}
	if d = p.ends(); d != nil {
		return d, from
	}
	if d = p.needed(); d != nil || s.Ledger.Stop() != ledger.StopNone {
		return d, from
	}
	return p.starts(from)
}

// Count is how many nodes of the NodePools that a DisruptionPolicy selects drain out.
func Count(s *planner.Snapshot, o *mwv1alpha1.DisruptionPolicy) int {
	var pools []string
	for _, node := range s.Ledger.DrainOuts() {
		d, _ := s.Ledger.DrainOut(node)
		pools = append(pools, d.NodePool)
	}
	return policy.CountSelected(o, s, pools)
}

// plan is one look at a Snapshot.
type plan struct {
	s        *planner.Snapshot
	policies map[string][]*policy.Policy
	// rules by NodePool; none for those whose nodes do not drain out.
	rules map[string]*policy.DrainOut
	// open are the nodes that drain out, the first ones first.
	open []string
	// draining counts them by NodePool.
	draining map[string]int
	// budgets of consolidation, by NodePool, as far as they were asked for.
	budgets  map[string]disrupt.PoolReport
	examiner *disrupt.Examiner
	sim      *provision.Simulation
	// set are the nodes, sorted, whose pods all fit elsewhere together; asked counts the pods of questions.
	set   []string
	asked int
}

func newPlan(s *planner.Snapshot) *plan {
	p := &plan{s: s, policies: policy.ByPool(s), rules: map[string]*policy.DrainOut{}, open: s.Ledger.DrainOuts(), draining: map[string]int{}, budgets: map[string]disrupt.PoolReport{}}
	for pool, list := range p.policies {
		if d := policy.DrainOutOf(list); d != nil {
			p.rules[pool] = d
		}
	}
	return p
}

// ends ends drain-outs that are over by one look.
func (p *plan) ends() *planner.Decision {
	var ended []ledger.DroppedNode
	for _, node := range p.open {
		if why := p.over(node); why != "" {
			ended = append(ended, p.dropped(node, why))
		}
	}
	return p.ended(ended)
}

// over says why a node is to run empty no more; "" if nothing speaks against it. What its own emptying brings
// about does not count: pods that end, a command that takes it.
func (p *plan) over(node string) string {
	d, _ := p.s.Ledger.DrainOut(node)
	n := p.s.StateNode(node)
	if p.s.Ledger.Stop() != ledger.StopNone {
		c := p.s.Ledger.Control()
		return fmt.Sprintf("stopped (%s) by %s: %s", c.Stop, c.By, c.Why)
	}
	if n == nil || n.Claim == nil || n.Node == nil || n.Claim.UID != d.ClaimUID {
		if c := p.s.Ledger.Claim(d.Claim); n == nil && c != nil && c.Doomed == nil && !p.s.Shows(d.At) {
			return "" // the World is older than the record
		}
		return "the node is gone"
	}
	if n.MarkedForDeletion {
		return ""
	}
	rule := p.rules[n.NodePool]
	if rule == nil {
		return "no DisruptionPolicy wants it any more"
	}
	if why := p.forbidden(n); why != "" {
		return why
	}
	if pods, other := held.By(p.s, n); other != nil {
		return fmt.Sprintf("pod %s is on it, which does not hold it", other.Key())
	} else if len(pods) == 0 {
		p.draining[n.NodePool]++
		return ""
	}
	switch b := p.examine(n); {
	case b == nil, b.Cause == disrupt.CauseDrainsOut, b.Cause == disrupt.CauseNotQuiet, b.Cause == disrupt.CauseNominated:
	case b.Cause == disrupt.CauseScheduler && p.s.Options.Revision >= options.Revision8:
	default:
		return b.Reasons()[0]
	}
	if p.draining[n.NodePool]++; p.draining[n.NodePool] > p.allowedIn(n.NodePool) {
		return fmt.Sprintf("%d nodes of NodePool %q may drain out at a time", p.allowedIn(n.NodePool), n.NodePool)
	}
	return ""
}

// forbidden says what policies and budgets have against consolidation of a node; "" if nothing.
func (p *plan) forbidden(n *planner.StateNode) string {
	for _, rule := range p.policies[n.NodePool] {
		if r := rule.Block(n, karpv1.DisruptionReasonUnderutilized, p.s.Now); r != nil {
			return r.Message
		}
	}
	if b := p.budget(n.NodePool); b.Allowed == 0 {
		return cmp.Or(b.Invalid, fmt.Sprintf("the disruption budget of NodePool %s allows none", n.NodePool))
	}
	return ""
}

// budget of consolidation of a NodePool that policies select.
func (p *plan) budget(pool string) disrupt.PoolReport {
	b, known := p.budgets[pool]
	if !known {
		b = disrupt.Budgets(p.s, p.s.World.NodePool(pool), karpv1.DisruptionReasonUnderutilized)
		p.budgets[pool] = b
	}
	return b
}

func (p *plan) examine(n *planner.StateNode) *disrupt.Blocked {
	if p.examiner == nil {
		e := disrupt.NewExaminer(p.s)
		p.examiner = &e
	}
	return p.examiner.Consolidatable(n)
}

// allowedIn is how many nodes of a NodePool may drain out at a time.
func (p *plan) allowedIn(pool string) int {
	b := p.budget(pool)
	return min(b.Allowed, p.rules[pool].Allowed(b.Nodes, p.s.Now))
}

// needed ends drain-outs of nodes whose pods would not all fit elsewhere by now, the oldest first in line for
// the room there is.
func (p *plan) needed() *planner.Decision {
	var open []string
	for _, node := range p.open {
		if n := p.s.StateNode(node); n != nil && !n.MarkedForDeletion {
			open = append(open, node)
		}
	}
	if len(open) == 0 || p.fit(open...) == "" {
		return nil
	}
	var ended []ledger.DroppedNode
	for _, node := range open {
		if why := p.fit(node); why != "" {
			ended = append(ended, p.dropped(node, why))
		}
	}
	return p.ended(ended)
}

// fit says why the pods of some nodes, together with those of the set, would not fit on nodes that stay and
// are ready; "" if they would: then the nodes are of the set. All are asked about together, so that the
// answer is the same the next time.
func (p *plan) fit(nodes ...string) string {
	if p.sim == nil {
		p.sim = provision.NewSimulation(p.s, provision.Settings{Held: true, Closed: p.closed})
	}
	with := slices.Sorted(slices.Values(slices.Concat(p.set, nodes)))
	for _, node := range with {
		p.asked += len(p.s.World.PodsOn(node))
	}
	a := p.sim.Ask(provision.Question{Without: with, ClaimsMax: 0, Hasty: true})
	p.sim.Revert()
	switch {
	case a.Unplaced > 0:
		return "its pods would not fit on the nodes that stay"
	case len(a.Uninitialized) > 0:
		return fmt.Sprintf("its pods would need node %s, which is not ready", a.Uninitialized[0])
	case slices.ContainsFunc(a.Moves, func(m provision.Move) bool { return m.Node == "" }):
		return "its pods would need a node that is still to come"
	}
	p.set = with
	return ""
}

// closed: what drains out itself is no place for the pods of others; nor is a node that holds no pod, but at
// most room of a CapacityBuffer, for it is the one that is to go.
func (p *plan) closed(n *planner.StateNode) bool {
	return n.DrainsOut || p.s.Options.DrainOutToUsed && !slices.ContainsFunc(n.Pods, planner.IsReschedulable)
}

// starts lets nodes drain out, those that cost most first.
func (p *plan) starts(from string) (*planner.Decision, string) {
	list, next := p.candidates(from)
	started := &ledger.DrainOutStarted{From: from}
	var aggregates, subjects []string
	total := len(p.open)
	for _, n := range list {
		if p.draining[n.NodePool] >= p.allowedIn(n.NodePool) || total >= openMax || p.asked > askedMax || len(started.Nodes) == startedMax {
			continue
		}
		if p.fit(n.Name) != "" {
			continue
		}
		p.draining[n.NodePool]++
		total++
		pods, _ := held.By(p.s, n)
		kept := pods[:min(len(pods), podsMax)]
		started.Nodes = append(started.Nodes, ledger.NodeDrainingOut{Node: n.Name, Claim: n.Claim.Name, ClaimUID: n.Claim.UID, NodePool: n.NodePool,
			Policy: p.rules[n.NodePool].Policy, Price: disrupt.Price(p.s, n), Pods: kept, PodsMore: len(pods) - len(kept)})
		aggregates = append(aggregates, ledger.NodeAggregate(n.Name), ledger.ClaimAggregate(n.Claim.Name), ledger.PoolAggregate(n.NodePool))
		subjects = append(subjects, "node/"+n.Name, "claim/"+n.Claim.Name)
	}
	if len(started.Nodes) == 0 {
		return nil, next
	}
	return p.decision(ledger.KindDrainOutStarted, started, subjects, aggregates), from
}

// candidates are the nodes that may begin to drain out, if their pods fit elsewhere, the dearest first.
func (p *plan) candidates(from string) (list []*planner.StateNode, next string) {
	names := []string{}
	for _, n := range p.s.StateNodes() {
		if p.rules[n.NodePool] != nil && p.mayBegin(n) {
			names = append(names, n.Name)
		}
	}
	in, next := turn.Of(names, from, QuestionsMax)
	for _, name := range names {
		if in == nil || in[name] {
			list = append(list, p.s.StateNode(name))
		}
	}
	slices.SortStableFunc(list, func(a, b *planner.StateNode) int { return cmp.Compare(disrupt.Price(p.s, b), disrupt.Price(p.s, a)) })
	return list, next
}

// mayBegin reports that consolidation could take a node but for its pods, which all hold it.
func (p *plan) mayBegin(n *planner.StateNode) bool {
	if d, known := p.s.Ledger.DrainOut(n.Name); known && (d.Ended.IsZero() || p.s.Now.Before(d.Ended.Add(ledger.DrainOutPause))) {
		return false
	}
	if n.Node == nil || n.Claim == nil || n.MarkedForDeletion || p.draining[n.NodePool] >= p.allowedIn(n.NodePool) {
		return false
	}
	if pods, _ := held.By(p.s, n); len(pods) == 0 || p.forbidden(n) != "" {
		return false
	}
	b := p.examine(n)
	return b == nil || b.Cause == disrupt.CauseDrainsOut
}

func (p *plan) dropped(node, why string) ledger.DroppedNode {
	d, _ := p.s.Ledger.DrainOut(node)
	return ledger.DroppedNode{Node: node, Claim: d.Claim, Reason: why}
}

// ended is the end of some drain-outs; nil for none.
func (p *plan) ended(list []ledger.DroppedNode) *planner.Decision {
	if len(list) == 0 {
		return nil
	}
	var aggregates, subjects []string
	for _, n := range list {
		aggregates = append(aggregates, ledger.NodeAggregate(n.Node), ledger.ClaimAggregate(n.Claim))
		subjects = append(subjects, "node/"+n.Node, "claim/"+n.Claim)
	}
	return p.decision(ledger.KindDrainOutEnded, &ledger.DrainOutEnded{Nodes: list}, subjects, aggregates)
}

func (p *plan) decision(kind ledger.Kind, payload any, subjects, aggregates []string) *planner.Decision {
	slices.Sort(subjects)
	slices.Sort(aggregates)
	advances := slices.DeleteFunc(slices.Compact(slices.Clone(aggregates)), func(a string) bool { return !ledger.Retirable(a) })
	return &planner.Decision{Kind: kind, Payload: payload, Subjects: subjects, Expects: p.s.Expect(aggregates...), Advances: advances}
}

// Text says what is to be said of a node: that it drains out, or why it does not although a policy lets nodes
// do so; "" if that is no question.
func Text(s *planner.Snapshot, n *planner.StateNode) (text string, since time.Time) {
	p := newPlan(s)
	if d, open := s.Ledger.DrainOut(n.Name); open && d.Ended.IsZero() {
		return fmt.Sprintf("runs empty by itself, as DisruptionPolicy %s wants: new pods go elsewhere if there is room", d.Policy), d.At
	}
	rule := p.rules[n.NodePool]
	if pods, _ := held.By(s, n); rule == nil || len(pods) == 0 || n.Claim == nil || n.Node == nil {
		return "", time.Time{}
	}
	const not = "does not run empty by itself yet: "
	if d, known := s.Ledger.DrainOut(n.Name); known && s.Now.Before(d.Ended.Add(ledger.DrainOutPause)) {
		return not + "it was to until " + policy.Clock(d.Ended) + ", and is left alone for a while", time.Time{}
	}
	if why := p.forbidden(n); why != "" {
		return not + why, time.Time{}
	}
	if b := p.examine(n); b != nil && b.Cause != disrupt.CauseDrainsOut {
		return not + b.Reasons()[0], time.Time{}
	}
	if d := p.needed(); d == nil {
		if why := p.fit(n.Name); why != "" {
			return not + why, time.Time{}
		}
	}
	if len(p.open) > 0 && p.count(n.NodePool) >= p.allowedIn(n.NodePool) {
		return not + fmt.Sprintf("%d nodes of its NodePool may at a time", p.allowedIn(n.NodePool)), time.Time{}
	}
	return "is about to run empty by itself, as DisruptionPolicy " + rule.Policy + " wants", time.Time{}
}

func (p *plan) count(pool string) (n int) {
	for _, node := range p.open {
		if d, _ := p.s.Ledger.DrainOut(node); d.NodePool == pool {
			n++
		}
	}
	return n
}
