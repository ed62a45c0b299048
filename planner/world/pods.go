package world

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/events"
)

// podTable holds pods by UID and by name, and those without a node.
type podTable struct {
	byUID   map[types.UID]*podRow
	byName  map[podName]*podRow
	pending map[types.UID]*Pod
	// sorted caches pending by name; nil when stale.
	sorted *atomic.Pointer[[]*Pod]
}

type podName struct{ namespace, name string }

type podRow struct {
	Pod
	generation uint32
}

func newPodTable() podTable {
	return podTable{
		byUID: map[types.UID]*podRow{}, byName: map[podName]*podRow{}, pending: map[types.UID]*Pod{},
		sorted: &atomic.Pointer[[]*Pod]{},
	}
}

func (w *World) foldPod(o events.Observation) {
	obj, ok := o.Object.(*corev1.Pod)
	if o.Op != events.OpUpsert || !ok || obj == nil {
		w.removePodNamed(o)
		return
	}
	at := o.ObservedAt
	uid := cmp.Or(o.UID, obj.UID, types.UID(o.Name))
	key := podName{obj.Namespace, obj.Name}
	if old := w.pods.byName[key]; old != nil && old.UID != uid {
		w.removePod(old, at)
	}
	r := w.pods.byUID[uid]
	if r == nil {
		r = &podRow{Pod: Pod{UID: uid, Namespace: intern(obj.Namespace), Name: obj.Name}}
		w.pods.byUID[uid] = r
		w.pods.byName[podName{r.Namespace, r.Name}] = r
	} else {
		w.detach(r)
	}
	before := r.Pod
	r.generation = w.generation
	setPod(&r.Pod, obj, w.classes.acquire(obj))
	if before.Class != nil {
		w.classes.release(before.Class)
	}
	w.attach(r)
	w.nodes.prune(before.NodeName)
	if w.synced && podEvent(&before, &r.Pod) {
		w.nodes.event(r.NodeName, at)
	}
}

// setPod copies what differs between the pods of a class.
func setPod(p *Pod, obj *corev1.Pod, class *PodClass) {
	*p = Pod{
		UID: p.UID, Namespace: p.Namespace, Name: p.Name, Class: class,
		NodeName: intern(obj.Spec.NodeName), NominatedNode: intern(obj.Status.NominatedNodeName),
		Created: unixNano(obj.CreationTimestamp.Time), Phase: corev1.PodPhase(intern(string(obj.Status.Phase))),
		ResourceVersion: obj.ResourceVersion,
	}
	if obj.Status.StartTime != nil {
		p.Started = unixNano(obj.Status.StartTime.Time)
	}
	if obj.DeletionTimestamp != nil {
		p.Deleting = unixNano(obj.DeletionTimestamp.Time)
	}
	if c := podCondition(&obj.Status, corev1.PodScheduled); c != nil && c.Reason == corev1.PodReasonUnschedulable {
		p.Unschedulable, p.UnschedulableSince = true, unixNano(c.LastTransitionTime.Time)
		p.UnschedulableMessage = intern(c.Message)
	}
	if c := podCondition(&obj.Status, corev1.PodReady); c != nil {
		p.Ready, p.NotReady = c.Status == corev1.ConditionTrue, c.Status == corev1.ConditionFalse
	}
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// podEvent reports that the change restarts its node's quiet time (reference: disruption §1): the pod was
// bound, ended, or is being deleted. before has no class if the pod was not known.
func podEvent(before, after *Pod) bool {
	if after.NodeName == "" || after.Class.DaemonSetOwned() {
		return false
	}
	bound := before.NodeName != after.NodeName
	ended := after.Terminal() && !before.Terminal()
	deleting := after.Deleting != 0 && before.Deleting == 0
	return bound || ended || deleting
}

// attach adds a pod to its node's sums or to the pending ones; detach takes it away before any change.
func (w *World) attach(r *podRow) {
	switch {
	case r.NodeName != "":
		w.nodes.bind(&r.Pod)
	case !r.Terminal():
		w.pods.pending[r.UID] = &r.Pod
		w.pods.sorted.Store(nil)
	}
}

func (w *World) detach(r *podRow) {
	if r.NodeName != "" {
		w.nodes.unbind(&r.Pod)
		return
	}
	if _, ok := w.pods.pending[r.UID]; ok {
		delete(w.pods.pending, r.UID)
		w.pods.sorted.Store(nil)
	}
}

// removePodNamed folds a deletion, by UID or, without one, by name.
func (w *World) removePodNamed(o events.Observation) {
	if r, ok := w.pods.byUID[o.UID]; ok {
		w.removePod(r, o.ObservedAt)
		return
	}
	if o.UID != "" {
		return
	}
	namespace, name, _ := strings.Cut(o.Name, "/")
	if r, ok := w.pods.byName[podName{namespace, name}]; ok {
		w.removePod(r, o.ObservedAt)
	}
}

// removePod forgets a pod. If it was seen neither ending nor being deleted, that is noticed now.
func (w *World) removePod(r *podRow, at time.Time) {
	w.detach(r)
	delete(w.pods.byUID, r.UID)
	if key := (podName{r.Namespace, r.Name}); w.pods.byName[key] == r {
		delete(w.pods.byName, key)
	}
	if w.synced && r.NodeName != "" && r.Active() && !r.Class.DaemonSetOwned() {
		w.nodes.event(r.NodeName, at)
	}
	w.classes.release(r.Class)
	w.nodes.prune(r.NodeName)
}

func (w *World) dropPods(at time.Time) {
	for _, uid := range sortedKeys(w.pods.byUID) {
		if r := w.pods.byUID[uid]; r.generation < w.generation {
			w.removePod(r, at)
		}
	}
}

// Pod returns the pod with a UID; nil if there is none.
func (w *World) Pod(uid types.UID) *Pod {
	if r, ok := w.pods.byUID[uid]; ok {
		return &r.Pod
	}
	return nil
}

// PodNamed returns the pod of a namespace and name; nil if there is none.
func (w *World) PodNamed(namespace, name string) *Pod {
	if r, ok := w.pods.byName[podName{namespace, name}]; ok {
		return &r.Pod
	}
	return nil
}

// PodCount and ClassCount say how much is held.
func (w *World) PodCount() int   { return len(w.pods.byUID) }
func (w *World) ClassCount() int { return len(w.classes) }

// Pods returns all pods by namespace, name and UID. It sorts anew on each call; prefer PodsOn and PendingPods.
func (w *World) Pods() []*Pod {
	all := make([]*Pod, 0, len(w.pods.byUID))
	for _, r := range w.pods.byUID {
		all = append(all, &r.Pod)
	}
	slices.SortFunc(all, ComparePods)
	return all
}

// PendingPods returns the pods without a node that have not ended, by namespace, name and UID.
func (w *World) PendingPods() []*Pod {
	if p := w.pods.sorted.Load(); p != nil {
		return *p
	}
	list := make([]*Pod, 0, len(w.pods.pending))
	for _, p := range w.pods.pending {
		list = append(list, p)
	}
	slices.SortFunc(list, ComparePods)
	w.pods.sorted.Store(&list)
	return list
}

// Classes returns the classes of the World's pods by digest.
func (w *World) Classes() []*PodClass {
	list := make([]*PodClass, 0, len(w.classes))
	for _, k := range sortedKeys(w.classes) {
		list = append(list, w.classes[k])
	}
	return list
}

// ComparePods orders by namespace, name and UID.
func ComparePods(a, b *Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}
