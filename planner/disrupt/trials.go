package disrupt

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/disrupt/internal/arrivals"
	"millwright/planner/disrupt/internal/turn"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/planner/world"
)

// trials say what becomes of pods when nodes of one Snapshot are taken away.
type trials struct {
	s *planner.Snapshot
	// memory of simulations of earlier passes; nil: none.
	memory *provision.Memory
	// removals answer the questions; nil until the first.
	removals *provision.Removals
	// closed nodes take no pods; nil: none.
	closed func(*planner.StateNode) bool
	// begun counts the simulations that were begun anew.
	begun int
	// buffers is nil until the room of CapacityBuffers is asked for.
	buffers *bufferRoom
	// missing are pods that their owners have still to create again, by UID; nil until they are asked for.
	missing map[types.UID]*world.Pod
}

// bufferRoom says which nodes have the room of CapacityBuffers.
type bufferRoom struct {
	// pods by the name of the node, home by the pod.
	pods map[string][]*world.Pod
	home map[types.UID]*planner.StateNode
}

// without takes nodes away in a simulation by the provisioning planner. places are wishes for pods; pack asks
// for the cheapest claims. Pods that wait for a place anyway are the provisioner's business: the claims they
// need are no replacements.
func (x *trials) without(nodes []*planner.StateNode, places map[types.UID]string, pack bool) *outcome {
	o, names := x.question(nodes)
	if places == nil && !pack && len(nodes) > 0 {
		x.take(o, x.answers().Of(names...))
		return o
	}
	x.begun++
	x.simulate(o, provision.Scenario{Without: names, Places: places, Pack: pack})
	return o
}

// question is what is known of an outcome before it is asked for, with the names of the nodes.
func (x *trials) question(nodes []*planner.StateNode) (*outcome, []string) {
	o := &outcome{nodes: nodes, pods: map[types.UID]*mover{}, places: map[types.UID]string{}}
	names := make([]string, len(nodes))
	budgets := x.s.PodBudgets()
	for i, n := range nodes {
		names[i] = n.Name
		for _, pod := range n.Pods {
			if budgets.IsMoving(pod, x.s.Now) {
				o.pods[pod.UID] = &mover{pod, n}
			}
		}
		for _, pod := range x.buffered(n) {
			o.pods[pod.UID] = &mover{pod, n}
		}
	}
	return o, names
}

// begin has the one simulation answer, which is much faster than to begin a new one. It must be followed by
// promise, or by its Revert.
func (x *trials) begin(nodes []*planner.StateNode) *outcome {
	o, names := x.question(nodes)
	x.take(o, x.simulation().Remove(names...))
	return o
}

// promise keeps the answer for the questions to come, as a command that is about to be recorded.
func (x *trials) promise(o *outcome) {
	claims := map[int]*ledger.PlannedClaim{}
	for i, id := range o.ids {
		claims[id] = &o.claims[i]
	}
	x.simulation().Promise(fmt.Sprintf("(replacement of %s)", o.nodes[0].Name), claims)
}

// take completes an outcome with the answer.
func (x *trials) take(o *outcome, a provision.Removal) {
	wanted := map[int]bool{}
	for i := range a.Moves {
		v := &a.Moves[i]
		m := o.pods[v.Pod.UID]
		switch {
		case v.NewClaim > 0 && (m == nil || !slices.Contains(a.Claims, v.NewClaim)), m == nil && v.Node == "" && v.Claim == "":
			o.shared = true
		case m == nil:
		case v.NewClaim > 0:
			wanted[v.NewClaim] = true
		case v.Node != "" && x.ready(v.Node):
			o.places[v.Pod.UID] = v.Node
		case v.Node != "" || v.Claim != "":
			o.waiting = append(o.waiting, unready(m, v.Claim, v.Node))
		default:
			o.unplaced = append(o.unplaced, refusedPod{m, provision.FailureMessage(a.Why[v.Pod.UID])})
		}
	}
	for _, id := range a.Claims {
		if !wanted[id] {
			continue
		}
		c := a.Opened[id]
		if c.Err != nil {
			o.unplaced = append(o.unplaced, refusedPod{o.pods[o.anyOf(a.Moves, id)], c.Err.Error()})
			continue
		}
		o.claims, o.ids = append(o.claims, c.Claim), append(o.ids, id)
	}
}

// simulate begins a simulation of its own, with wishes or packing.
func (x *trials) simulate(o *outcome, scenario provision.Scenario) {
	r, nodes := x.memory.Simulate(x.s, scenario), o.nodes
	wanted := map[int]bool{}
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		m := o.pods[v.Pod.UID]
		if m == nil {
			m = x.displaced(o, v)
		}
		switch {
		case m == nil && len(nodes) > 0 && x.losesItsPlace(v):
			o.waiting = append(o.waiting, refusedPod{&mover{x.pod(v.Pod.UID), nodes[len(nodes)-1]}, "it waits for a place anyway, and there would be none left"})
		case m == nil:
		case len(v.Reasons) > 0:
			o.unplaced = append(o.unplaced, refusedPod{m, provision.FailureMessage(v.Reasons)})
		case v.NewClaim > 0:
			wanted[v.NewClaim-1] = true
		case v.Node == "" || !x.ready(v.Node):
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

// waits are the nodes of pods that need a place anyway, by UID, with all nodes there.
func (x *trials) waits() map[types.UID]string { return x.answers().Waiting() }

// pod that needs a place; it may be gone and not created again yet. nil if there is none.
func (x *trials) pod(uid types.UID) *world.Pod {
	if p := x.s.World.Pod(uid); p != nil {
		return p
	}
	return x.absent()[uid]
}

// absent are the pods that their owners have still to create again, by UID.
func (x *trials) absent() map[types.UID]*world.Pod {
	if x.missing == nil {
		x.missing = map[types.UID]*world.Pod{}
		for _, p := range provision.Missing(x.s) {
			x.missing[p.UID] = p
		}
	}
	return x.missing
}

// awaiting are the nodes, by name, whose room is for pods that are about to come; see arrivals.Nodes.
func (x *trials) awaiting() (names, hinted map[string]bool) {
	return arrivals.Nodes(x.s, x.absent, x.waits)
}

// losesItsPlace reports that a pod which needs a place anyway has one on a node only as long as nobody moves.
// The last of the nodes that go is to blame.
func (x *trials) losesItsPlace(v *provision.PodVerdict) bool {
	return v.Buffer == "" && (len(v.Reasons) > 0 || v.NewClaim > 0) && x.waits()[v.Pod.UID] != ""
}

// ready reports that a node can take pods at once.
func (x *trials) ready(name string) bool {
	n := x.s.StateNode(name)
	return n != nil && n.Node != nil && n.Initialized && !slices.ContainsFunc(n.Node.Object.Spec.Taints, isDisrupted)
}

// room is worked out once, and only if there is a buffer.
func (x *trials) room() *bufferRoom {
	if x.buffers != nil {
		return x.buffers
	}
	x.buffers = &bufferRoom{home: map[types.UID]*planner.StateNode{}}
	if x.s.HasVirtualPods() {
		x.buffers.pods = x.simulation().VirtualPods()
		for name, pods := range x.buffers.pods {
			for _, pod := range pods {
				x.buffers.home[pod.UID] = x.s.StateNode(name)
			}
		}
	}
	return x.buffers
}

// buffered are the virtual pods that a node has room for, by UID.
func (x *trials) buffered(n *planner.StateNode) []*world.Pod { return x.room().pods[n.Name] }

// answers to questions about nodes that go.
func (x *trials) answers() *provision.Removals {
	if x.removals == nil {
		x.removals = provision.NewRemovals(x.s, provision.Settings{Last: isDrifted, Closed: x.isClosed}, x.memory)
	}
	return x.removals
}

// simulation is the one that answers questions whose answer may be promised.
func (x *trials) simulation() *provision.Simulation { return x.answers().Simulation() }

// isClosed: no pod is moved to a node that is to run empty, where kube-scheduler would not put it either.
func (x *trials) isClosed(n *planner.StateNode) bool {
	return n.DrainsOut || x.closed != nil && x.closed(n)
}

// displaced takes in a virtual pod that loses its room on a node that stays, because pods that move take it:
// the last of the nodes that go is to blame. nil if the verdict is about anything else.
func (x *trials) displaced(o *outcome, v *provision.PodVerdict) *mover {
	if v.Buffer == "" || len(v.Reasons) == 0 && v.NewClaim == 0 || len(o.nodes) == 0 {
		return nil
	}
	home := x.room().home[v.Pod.UID]
	if home == nil {
		return nil
	}
	for _, pod := range x.buffered(home) {
		if pod.UID == v.Pod.UID {
			m := &mover{pod, o.nodes[len(o.nodes)-1]}
			o.pods[pod.UID] = m
			return m
		}
	}
	return nil
}

// allowed is how many simulations may be begun.
func (x *trials) allowed() int { return turn.Trials(x.size()) }

// questionsAllowed is how many of so many candidates are asked alone in one pass.
func (x *trials) questionsAllowed(candidates int) int { return turn.Questions(x.size(), candidates) }

func (x *trials) size() int { return 1 + len(x.s.StateNodes()) + x.s.World.PodCount() }
