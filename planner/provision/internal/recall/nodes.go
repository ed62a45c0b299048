package recall

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/resource"
	"millwright/planner/world"
)

// node is what a solver reads of a node, however it was asked.
type node struct {
	name, claim, pool string
	// firm: the node is registered, so that nothing but its own labels and amounts counts.
	hasNode, hasClaim, firm, initialized, drainsOut, marked bool

	labels         map[string]string
	taints         []corev1.Taint
	free, reserved resource.Vector // of reserved: what its DaemonSet pods have already
	pods           []*world.Pod
}

func nodesOf(s *planner.Snapshot) []node {
	list := make([]node, 0, len(s.StateNodes()))
	for _, n := range s.StateNodes() {
		x := node{
			name: n.Name, claim: n.ClaimName(), pool: n.NodePool, hasNode: n.Node != nil, hasClaim: n.Claim != nil,
			firm: n.Registered || n.Ledger == nil, initialized: n.Initialized, drainsOut: n.DrainsOut, marked: n.MarkedForDeletion,
			labels: n.Labels, taints: n.Taints, free: n.Available, pods: slices.Clone(n.Pods),
		}
		if n.Node != nil {
			x.reserved = n.Node.DaemonUsed
		}
		list = append(list, x)
	}
	return list
}

// alike reports that two states of a node differ in pods and amounts at most.
func (n *node) alike(o *node) bool {
	return n.pool == o.pool && n.hasNode == o.hasNode && n.hasClaim == o.hasClaim && n.firm && o.firm && n.initialized == o.initialized &&
		n.drainsOut == o.drainsOut && n.marked == o.marked && maps.Equal(n.labels, o.labels) && slices.EqualFunc(n.taints, o.taints, sameTaint)
}

func sameTaint(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

// change of one node that is otherwise alike.
type change struct {
	name     string
	marked   bool
	old, now resource.Vector
	// pods that came, went, or count otherwise.
	pods []*world.Pod
}

// difference of all nodes.
type difference struct {
	// whole: nodes came or went.
	whole bool
	// others are nodes, by name, that are not alike.
	others  map[string]bool
	changes []change
}

func compareNodes(old, now []node) *difference {
	d := &difference{others: map[string]bool{}}
	if len(old) != len(now) {
		d.whole = true
		return d
	}
	for i := range old {
		a, b := &old[i], &now[i]
		if a.name != b.name || a.claim != b.claim {
			d.whole = true
			return d
		}
		if !a.alike(b) {
			d.others[a.name] = true
			continue
		}
		pods := changedPods(a.pods, b.pods)
		if len(pods) > 0 || !a.free.Equal(b.free) || !a.reserved.Equal(b.reserved) {
			d.changes = append(d.changes, change{a.name, a.marked, a.free, b.free, pods})
		}
	}
	return d
}

// changedPods are those of two lists that are not in both as the same to whoever else is placed.
func changedPods(old, now []*world.Pod) (list []*world.Pod) {
	if slices.Equal(old, now) {
		return nil
	}
	known := make(map[types.UID]*world.Pod, len(old))
	for _, p := range old {
		known[p.UID] = p
	}
	for _, p := range now {
		switch before := known[p.UID]; {
		case before == nil:
			list = append(list, p)
		case before.Class != p.Class || before.Namespace != p.Namespace || before.Name != p.Name || before.Active() != p.Active() || before.Terminal() != p.Terminal():
			list = append(list, before, p)
		}
		delete(known, p.UID)
	}
	for _, p := range old {
		if known[p.UID] != nil {
			list = append(list, p)
		}
	}
	return list
}
