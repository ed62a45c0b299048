package world

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/events"
	"millwright/planner/resource"
)

// nodeTable holds Nodes by name with the pods bound to them. A name stays as long as either is known:
// pods may be seen before their Node and after it.
type nodeTable struct {
	rows map[string]*nodeRow
	// sorted caches the Nodes by name; nil when stale. byProvider likewise, by providerID.
	sorted     *atomic.Pointer[[]*Node]
	byProvider *atomic.Pointer[map[string]*Node]
}

type nodeRow struct {
	Node
	// known: Object is set and the Node exists.
	known      bool
	uid        types.UID
	version    string
	generation uint32
	// pods by namespace, name and UID.
	pods []*Pod
	// lastEvent is when a pod last came to or left the node, firstSeen when the Node was first folded; Unix
	// nanoseconds, 0 for never.
	lastEvent, firstSeen int64
}

func newNodeTable() nodeTable {
	return nodeTable{rows: map[string]*nodeRow{}, sorted: &atomic.Pointer[[]*Node]{}, byProvider: &atomic.Pointer[map[string]*Node]{}}
}

func (t *nodeTable) row(name string) *nodeRow {
	r, ok := t.rows[name]
	if !ok {
		r = &nodeRow{}
		t.rows[name] = r
	}
	return r
}

func (t *nodeTable) changed() {
	t.sorted.Store(nil)
	t.byProvider.Store(nil)
}

func (w *World) foldNode(o events.Observation) {
	obj, ok := o.Object.(*corev1.Node)
	if o.Op != events.OpUpsert || !ok || obj == nil {
		w.nodes.remove(o.Name, o.UID)
		return
	}
	r := w.nodes.row(o.Name)
	uid := cmp.Or(o.UID, obj.UID)
	if !r.known || r.uid != uid {
		r.firstSeen, r.lastEvent = unixNano(o.ObservedAt), 0
	}
	r.Object, r.known = obj, true
	r.uid, r.version, r.generation = uid, o.ResourceVersion, w.generation
	r.setAmounts()
	w.nodes.changed()
}

func (r *nodeRow) setAmounts() {
	r.Capacity, r.Allocatable = resource.From(r.Object.Status.Capacity), resource.From(r.Object.Status.Allocatable)
}

func (t *nodeTable) remove(name string, uid types.UID) {
	r, ok := t.rows[name]
	if !ok || !r.known || uid != "" && r.uid != "" && uid != r.uid {
		return
	}
	r.forget()
	t.changed()
	t.prune(name)
}

// forget keeps the bound pods and their sums only.
func (r *nodeRow) forget() {
	*r = nodeRow{Node: Node{Used: r.Used, DaemonUsed: r.DaemonUsed}, pods: r.pods}
}

// prune drops a name behind which neither a Node nor a pod is known.
func (t *nodeTable) prune(name string) {
	if r, ok := t.rows[name]; ok && !r.known && len(r.pods) == 0 {
		delete(t.rows, name)
	}
}

func (w *World) dropNodes() {
	for _, name := range sortedKeys(w.nodes.rows) {
		if r := w.nodes.rows[name]; r.known && r.generation < w.generation {
			w.nodes.remove(name, r.uid)
		}
	}
}

// bind adds a pod to its node; unbind takes it away, and must see the pod as it was bound.
func (t *nodeTable) bind(p *Pod) {
	r := t.row(p.NodeName)
	i, _ := slices.BinarySearchFunc(r.pods, p, ComparePods)
	r.pods = slices.Insert(r.pods, i, p)
	r.count(p, resource.Vector.Add)
}

func (t *nodeTable) unbind(p *Pod) {
	r, ok := t.rows[p.NodeName]
	if !ok {
		return
	}
	if i, found := slices.BinarySearchFunc(r.pods, p, ComparePods); found {
		r.pods = slices.Delete(r.pods, i, i+1)
		r.count(p, resource.Vector.Sub)
	}
}

func (r *nodeRow) count(p *Pod, op func(a, b resource.Vector) resource.Vector) {
	if p.Terminal() {
		return
	}
	r.Used = op(r.Used, p.Class.Requests)
	if p.Class.DaemonSetOwned() {
		r.DaemonUsed = op(r.DaemonUsed, p.Class.Requests)
	}
}

// event notes that a pod came to or left the node.
func (t *nodeTable) event(name string, at time.Time) {
	if r, ok := t.rows[name]; ok {
		r.lastEvent = max(r.lastEvent, unixNano(at))
	}
}

// Nodes returns the Nodes by name.
func (w *World) Nodes() []*Node {
	if p := w.nodes.sorted.Load(); p != nil {
		return *p
	}
	list := make([]*Node, 0, len(w.nodes.rows))
	for _, r := range w.nodes.rows {
		if r.known {
			list = append(list, &r.Node)
		}
	}
	slices.SortFunc(list, func(a, b *Node) int { return cmp.Compare(a.Object.Name, b.Object.Name) })
	w.nodes.sorted.Store(&list)
	return list
}

// Node returns the Node of a name; nil if there is none.
func (w *World) Node(name string) *Node {
	if r, ok := w.nodes.rows[name]; ok && r.known {
		return &r.Node
	}
	return nil
}

// NodeByProviderID returns the first Node by name with a providerID; nil if there is none.
func (w *World) NodeByProviderID(id string) *Node {
	if p := w.nodes.byProvider.Load(); p != nil {
		return (*p)[id]
	}
	byID := map[string]*Node{}
	for _, n := range w.Nodes() {
		if _, taken := byID[n.Object.Spec.ProviderID]; !taken && n.Object.Spec.ProviderID != "" {
			byID[n.Object.Spec.ProviderID] = n
		}
	}
	w.nodes.byProvider.Store(&byID)
	return byID[id]
}

// PodsOn returns the pods bound to a node by namespace, name and UID, also if the Node is not known.
func (w *World) PodsOn(node string) []*Pod {
	if r, ok := w.nodes.rows[node]; ok {
		return r.pods
	}
	return nil
}

// LastPodEvent is when a pod, not of a DaemonSet, was last seen to be bound to the node, to end on it or to
// be deleted from it. Zero if none was seen: what the first resync found is not an event.
func (w *World) LastPodEvent(node string) time.Time {
	if r, ok := w.nodes.rows[node]; ok && r.lastEvent != 0 {
		return time.Unix(0, r.lastEvent).UTC()
	}
	return time.Time{}
}

// FirstSeen is when the Node was first folded: before, pod events on it were not seen.
func (w *World) FirstSeen(node string) time.Time {
	if r, ok := w.nodes.rows[node]; ok && r.firstSeen != 0 {
		return time.Unix(0, r.firstSeen).UTC()
	}
	return time.Time{}
}
