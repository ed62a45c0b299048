package world

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner/resource"
	"millwright/planner/version"
)

// nodes holds Nodes by name with the pods bound to them. A name is kept as long as either is known: pods may
// be observed before their Node and after it.
type nodes struct {
	rows version.Table[string, *nodeRow, *Node]
	// byProvider holds the names of the Nodes with a providerID, sorted. The slices are never changed.
	byProvider version.Map[string, []string]
}

// nodeRow is changed only by its owner; all others have copies.
type nodeRow struct {
	Node
	owner *version.Owner
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

func newNodeTable() nodes {
	return nodes{
		rows:       version.NewTable[string](func(r *nodeRow) (*Node, bool) { return &r.Node, r.known }),
		byProvider: version.NewMap[string, []string](version.String[string]),
	}
}

// row returns the row of a name for reading; nil if there is none.
func (t *nodes) row(name string) *nodeRow {
	r, _ := t.rows.Get(name)
	return r
}

// edit returns the row of a name for writing; a new one if there is none.
func (t *nodes) edit(o *version.Owner, name string) *nodeRow {
	r := t.row(name)
	switch {
	case r == nil:
		r = &nodeRow{owner: o}
	case r.owner == o:
		return r
	default:
		c := *r
		c.owner, c.pods = o, append(make([]*Pod, 0, len(r.pods)+1), r.pods...)
		r = &c
	}
	t.rows.Set(o, name, r)
	return r
}

func (w *World) foldNode(o events.Observation) {
	before := w.nodes.recordNamed(o.Name)
	obj, ok := o.Object.(*corev1.Node)
	if o.Op == events.OpUpsert && ok && obj != nil {
		w.nodes.putNode(w.owner, o, obj, w.generation)
	} else {
		w.nodes.remove(w.owner, o.Name, o.UID)
	}
	w.recordChanged(before, w.nodes.recordNamed(o.Name))
}

func (t *nodes) recordNamed(name string) string {
	if r := t.row(name); r != nil && r.known {
		return r.Object.Annotations[karpv1.RecordAnnotationKey]
	}
	return ""
}

func (t *nodes) putNode(owner *version.Owner, o events.Observation, obj *corev1.Node, generation uint32) {
	r := t.edit(owner, o.Name)
	uid := cmp.Or(o.UID, obj.UID)
	if !r.known || r.uid != uid {
		r.firstSeen, r.lastEvent = unixNano(o.ObservedAt), 0
	}
	t.moveProvider(owner, o.Name, r.providerID(), obj.Spec.ProviderID)
	listed := r.known
	r.Object, r.known = obj, true
	r.uid, r.version, r.generation = uid, o.ResourceVersion, generation
	r.setAmounts()
	if !listed {
		t.rows.Set(owner, o.Name, r)
	}
}

func (r *nodeRow) providerID() string {
	if !r.known {
		return ""
	}
	return r.Object.Spec.ProviderID
}

// moveProvider lists a Node under a new providerID.
func (t *nodes) moveProvider(o *version.Owner, name, from, to string) {
	if from == to {
		return
	}
	if from != "" {
		names, _ := t.byProvider.Get(from)
		rest := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
		if len(rest) == 0 {
			t.byProvider.Delete(o, from)
		} else {
			t.byProvider.Set(o, from, rest)
		}
	}
	if to != "" {
		names, _ := t.byProvider.Get(to)
		t.byProvider.Set(o, to, slices.Sorted(slices.Values(append(slices.Clip(names), name))))
	}
}

func (r *nodeRow) setAmounts() {
	r.Capacity, r.Allocatable = resource.From(r.Object.Status.Capacity), resource.From(r.Object.Status.Allocatable)
}

func (t *nodes) remove(o *version.Owner, name string, uid types.UID) {
	r := t.row(name)
	if r == nil || !r.known || uid != "" && r.uid != "" && uid != r.uid {
		return
	}
	t.moveProvider(o, name, r.providerID(), "")
	r = t.edit(o, name)
	r.forget()
	t.rows.Set(o, name, r)
	t.prune(o, name)
}

// forget keeps only the bound pods and their sums.
func (r *nodeRow) forget() {
	*r = nodeRow{owner: r.owner, Node: Node{Used: r.Used, DaemonUsed: r.DaemonUsed}, pods: r.pods}
}

// prune drops a name for which neither a Node nor a pod is known.
func (t *nodes) prune(o *version.Owner, name string) {
	if r := t.row(name); r != nil && !r.known && len(r.pods) == 0 {
		t.rows.Delete(o, name)
	}
}

func (w *World) dropNodes() {
	for _, name := range w.nodes.rows.Keys() {
		if r := w.nodes.row(name); r.known && r.generation < w.generation {
			w.nodes.remove(w.owner, name, r.uid)
		}
	}
}

// bind adds a pod to its node; unbind removes it, and must be given the pod as it was bound. rebind replaces
// it by its new state.
func (t *nodes) bind(o *version.Owner, p *Pod) {
	r := t.edit(o, p.NodeName)
	i, _ := slices.BinarySearchFunc(r.pods, p, ComparePods)
	r.pods = slices.Insert(r.pods, i, p)
	r.count(p, resource.Vector.Add)
}

func (t *nodes) unbind(o *version.Owner, p *Pod) {
	r := t.edit(o, p.NodeName)
	if i, found := slices.BinarySearchFunc(r.pods, p, ComparePods); found {
		r.pods = slices.Delete(r.pods, i, i+1)
		r.count(p, resource.Vector.Sub)
	}
}

func (t *nodes) rebind(o *version.Owner, before, after *Pod) {
	r := t.edit(o, after.NodeName)
	if i, found := slices.BinarySearchFunc(r.pods, before, ComparePods); found {
		r.pods[i] = after
		r.count(before, resource.Vector.Sub)
		r.count(after, resource.Vector.Add)
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
func (t *nodes) event(o *version.Owner, name string, at time.Time) {
	if t.row(name) != nil {
		r := t.edit(o, name)
		r.lastEvent = max(r.lastEvent, unixNano(at))
	}
}

// Nodes returns the Nodes by name.
func (t *nodes) Nodes() []*Node { return t.rows.List() }

// Node returns the Node of a name; nil if there is none.
func (t *nodes) Node(name string) *Node {
	if r := t.row(name); r != nil && r.known {
		return &r.Node
	}
	return nil
}

// NodeByProviderID returns the first Node by name with a providerID; nil if there is none.
func (t *nodes) NodeByProviderID(id string) *Node {
	if names, ok := t.byProvider.Get(id); ok {
		return t.Node(names[0])
	}
	return nil
}

// PodsOn returns the pods bound to a node by namespace, name and UID, even if the Node is not known.
func (t *nodes) PodsOn(node string) []*Pod {
	if r := t.row(node); r != nil {
		return r.pods
	}
	return nil
}

// LastPodEvent is when a pod, not of a DaemonSet and not one that a DisruptionPolicy ignores, was last seen
// to be bound to the node, to end on it or to be deleted from it. Zero if none was seen: what the first
// resync found is not an event.
func (t *nodes) LastPodEvent(node string) time.Time {
	if r := t.row(node); r != nil && r.lastEvent != 0 {
		return time.Unix(0, r.lastEvent).UTC()
	}
	return time.Time{}
}

// FirstSeen is when the Node was first folded: earlier pod events on it were not observed.
func (t *nodes) FirstSeen(node string) time.Time {
	if r := t.row(node); r != nil && r.firstSeen != 0 {
		return time.Unix(0, r.firstSeen).UTC()
	}
	return time.Time{}
}
