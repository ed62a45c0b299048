package disrupt

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/planner/world"
)

// outcome of taking nodes away: where their pods go.
type outcome struct {
	nodes []*planner.StateNode
	// pods that move, by UID, and where to: places by node, the others to claims, which name them.
	pods   map[types.UID]*mover
	places map[types.UID]string
	claims []ledger.PlannedClaim
	// others are pods that need a place anyway, with the nodes that they go to.
	others map[types.UID]string
	// scores of Balanced NodePools for it.
	scores []Score
	// tooLittle is why a DisruptionPolicy finds that it saves too little; "" if none does.
	tooLittle string
	// unplaced are the pods for which there is no place, by namespace and name, with the reason; waiting are those whose only place
	// is a node that is not ready yet.
	unplaced []refusedPod
	waiting  []refusedPod
	// shared: a claim would be for pods that wait anyway too.
	shared bool
}

// mover is a pod of a node that is to go.
type mover struct {
	*world.Pod
	from *planner.StateNode
}

type refusedPod struct {
	mover  *mover
	reason string
}

// trial takes nodes away in a simulation by the provisioning planner. places are wishes for pods; pack asks for the cheapest claims.
// Pods that wait for a place anyway are the provisioner's business: the claims they need are no replacements.
func (p *pass) trial(nodes []*planner.StateNode, places map[types.UID]string, pack bool) *outcome {
	p.trials++
	o := &outcome{nodes: nodes, pods: map[types.UID]*mover{}, places: map[types.UID]string{}, others: map[types.UID]string{}}
	names := make([]string, len(nodes))
	budgets := p.s.PodBudgets()
	for i, n := range nodes {
		names[i] = n.Name
		for _, pod := range n.Pods {
			if budgets.IsMoving(pod, p.s.Now) {
				o.pods[pod.UID] = &mover{pod, n}
			}
		}
	}
	if places == nil && !pack && len(nodes) > 0 {
		p.ask(o, names)
		return o
	}
	p.simulate(o, provision.Scenario{Without: names, Places: places, Pack: pack})
	return o
}

// ask has the pass's one simulation answer, which is much faster than to begin a new one.
func (p *pass) ask(o *outcome, names []string) {
	if p.sim == nil {
		p.sim = provision.NewSimulation(p.s, provision.Settings{})
	}
	a := p.sim.Begin(names...)
	defer p.sim.Revert()
	own := map[int]bool{}
	for _, id := range a.Claims {
		own[id] = true
	}
	wanted := map[int]bool{}
	for i := range a.Moves {
		v := &a.Moves[i]
		m := o.pods[v.Pod.UID]
		switch {
		case v.NewClaim > 0 && (m == nil || !own[v.NewClaim]):
			o.shared = true
		case m == nil:
		case v.NewClaim > 0:
			wanted[v.NewClaim] = true
		case v.Node != "" && p.ready(v.Node):
			o.places[v.Pod.UID] = v.Node
		case v.Node != "" || v.Claim != "":
			o.waiting = append(o.waiting, unready(m, v.Claim, v.Node))
		default:
			o.unplaced = append(o.unplaced, refusedPod{m, provision.FailureMessage(p.sim.Why(v.Pod))})
		}
	}
	for _, id := range a.Claims {
		if !wanted[id] {
			continue
		}
		claim, err := p.sim.Claim(id)
		if err != nil {
			o.unplaced = append(o.unplaced, refusedPod{o.pods[o.anyOf(a.Moves, id)], err.Error()})
			continue
		}
		o.claims = append(o.claims, claim)
	}
}

// anyOf is a pod that was to go to a new claim.
func (o *outcome) anyOf(moves []provision.Move, id int) types.UID {
	for i := range moves {
		if moves[i].NewClaim == id {
			return moves[i].Pod.UID
		}
	}
	return ""
}

func unready(m *mover, claim, node string) refusedPod {
	return refusedPod{m, fmt.Sprintf("would schedule against uninitialized nodeclaim/%s, node/%s", claim, node)}
}

// simulate begins a simulation of its own, with wishes or packing.
func (p *pass) simulate(o *outcome, scenario provision.Scenario) {
	r := provision.Simulate(p.s, scenario)
	wanted := map[int]bool{}
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		m := o.pods[v.Pod.UID]
		switch {
		case m == nil && v.Node != "":
			o.others[v.Pod.UID] = v.Node
		case m == nil:
		case len(v.Reasons) > 0:
			o.unplaced = append(o.unplaced, refusedPod{m, provision.FailureMessage(v.Reasons)})
		case v.NewClaim > 0:
			wanted[v.NewClaim-1] = true
		case v.Node == "" || !p.ready(v.Node):
			o.waiting = append(o.waiting, unready(m, v.Claim, v.Node))
		default:
			o.places[v.Pod.UID] = v.Node
		}
	}
	for i := range r.Claims {
		if wanted[i] {
			o.claims = append(o.claims, r.Claims[i])
		}
	}
}

// ready reports that a node can take pods at once.
func (p *pass) ready(name string) bool {
	n := p.s.StateNode(name)
	return n != nil && n.Node != nil && n.Initialized && !slices.ContainsFunc(n.Node.Object.Spec.Taints, isDisrupted)
}

// failure says why some pods have no place; "" if all have.
func (o *outcome) failure() string {
	list := slices.Concat(o.unplaced, o.waiting)
	if len(list) == 0 {
		return ""
	}
	text := fmt.Sprintf("Not all pods would schedule, %s => %s", list[0].mover.Key(), list[0].reason)
	if more := len(list) - 1; more > 0 {
		text += fmt.Sprintf(" and %d other(s)", more)
	}
	return text
}

// mixed reports that a replacement would also be for pods that wait anyway: they come first.
func (o *outcome) mixed() bool {
	if o.shared {
		return true
	}
	for i := range o.claims {
		for _, pod := range o.claims[i].Pods {
			if o.pods[pod.UID] == nil {
				return true
			}
		}
	}
	return false
}

// evictions counts the pods that move.
func (o *outcome) evictions() int { return len(o.pods) }

// command puts the outcome into a record.
func (p *pass) commandOf(o *outcome, reason karpv1.DisruptionReason, method string) *ledger.CommandStarted {
	started := &ledger.CommandStarted{Reason: reason, Method: method, Replacements: o.claims, Evictions: o.evictions()}
	byNode := map[string][]ledger.PodRef{}
	for _, n := range sortedNodes(o.nodes) {
		c := p.candidate(n)
		started.Candidates = append(started.Candidates, c)
		started.PriceBefore += c.Price
		for _, pod := range c.Pods {
			if to, ok := o.places[pod.UID]; ok {
				byNode[to] = append(byNode[to], pod)
			}
		}
	}
	for i := range o.claims {
		started.PriceAfter += o.claims[i].Cheapest.MicroUSDPerHour
	}
	for _, n := range slices.Sorted(maps.Keys(byNode)) {
		started.Placements = append(started.Placements, ledger.Placement{Node: n, Pods: byNode[n]})
	}
	return started
}

func sortedNodes(nodes []*planner.StateNode) []*planner.StateNode {
	list := slices.Clone(nodes)
	slices.SortFunc(list, compareNodes)
	return list
}

// limitExceeded returns the NodePool whose limits the replacements would exceed while the nodes they replace are still there;
// "" if none.
func (p *pass) limitExceeded(claims []ledger.PlannedClaim) string {
	for _, pool := range p.s.World.NodePools() {
		if len(pool.Spec.Limits) == 0 || !slices.ContainsFunc(claims, func(c ledger.PlannedClaim) bool { return c.NodePool == pool.Name }) {
			continue
		}
		used, nodes := p.use(pool.Name)
		for i := range claims {
			if claims[i].NodePool == pool.Name {
				used, nodes = used.Add(claims[i].Capacity), nodes+1
			}
		}
		for name, q := range pool.Spec.Limits {
			limit := q.Value()
			have := used.Get(name)
			switch name {
			case "cpu":
				limit = q.MilliValue()
			case provision.ResourceNodes:
				have = nodes
			}
			if have > limit {
				return pool.Name
			}
		}
	}
	return ""
}
