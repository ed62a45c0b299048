package world

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/events"
	"millwright/planner/intern"
	"millwright/planner/version"
)

// pods holds pods by UID and by name, and those without a node.
type pods struct {
	byUID   version.Map[types.UID, *podRow]
	byName  version.Map[podName, types.UID]
	pending version.Table[podKey, *Pod, *Pod]
}

type podName struct{ namespace, name string }

type podKey struct {
	podName
	uid types.UID
}

// podRow is never changed, only replaced.
type podRow struct {
	Pod
	generation uint32
}

func newPodTable() pods {
	return pods{
		byUID:   version.NewMap[types.UID, *podRow](version.String[types.UID]),
		byName:  version.NewMap[podName, types.UID](func(n podName) uint64 { return version.Strings(n.namespace, n.name) }),
		pending: version.NewTableFunc(func(k podKey) uint64 { return version.String(k.uid) }, comparePodKeys, version.Whole[*Pod]),
	}
}

func (t *pods) row(uid types.UID) *podRow {
	r, _ := t.byUID.Get(uid)
	return r
}

// named is the pod of a name; nil if there is none.
func (t *pods) named(n podName) *podRow {
	if uid, ok := t.byName.Get(n); ok {
		return t.row(uid)
	}
	return nil
}

func (p *Pod) name() podName { return podName{p.Namespace, p.Name} }
func (p *Pod) key() podKey   { return podKey{p.name(), p.UID} }

func (w *World) foldPod(o events.Observation) {
	obj, ok := o.Object.(*corev1.Pod)
	if o.Op != events.OpUpsert || !ok || obj == nil {
		w.removePodNamed(o)
		return
	}
	at := o.ObservedAt
	uid := cmp.Or(o.UID, obj.UID, types.UID(o.Name))
	if other := w.pods.named(podName{obj.Namespace, obj.Name}); other != nil && other.UID != uid {
		w.removePod(other, at)
	}
	before := w.pods.row(uid)
	after := &podRow{Pod: Pod{UID: uid}, generation: w.generation}
	if before == nil {
		after.Namespace, after.Name = intern.String(obj.Namespace), obj.Name
		w.pods.byName.Set(w.owner, after.name(), uid)
		before = &podRow{}
	} else {
		after.UID, after.Namespace, after.Name = before.UID, before.Namespace, before.Name
	}
	setPod(&after.Pod, obj, w.classFor(obj))
	after.Successor, after.Displaced = before.Successor, before.Displaced
	after.Fleeing = before.Fleeing || after.Evicted() && !before.Evicted() && w.nodes.flees(&after.Pod, obj)
	w.departed.observe(w.owner, &before.Pod, &after.Pod)
	w.podTouched(&before.Pod, &after.Pod)
	w.replacePod(before, after)
	if w.synced && podEvent(&before.Pod, &after.Pod) {
		podEventOn(w, &after.Pod, at)
	}
}

// podTouched counts the change of a pod; before has no class if it was not known. A new resourceVersion alone
// is not a change.
func (w *World) podTouched(before, after *Pod) {
	was, is := *before, *after
	was.ResourceVersion, is.ResourceVersion = "", ""
	if was != is {
		w.countChange(after.NodeName != "" && (before.NodeName != "" || before.Class == nil))
	}
}

// replacePod replaces the row of a pod; before has no class if there was none.
func (w *World) replacePod(before, after *podRow) {
	w.pods.byUID.Set(w.owner, after.UID, after)
	if before.Class != after.Class {
		w.countClass(after.Class, 1)
	}
	if before.Class == nil {
		w.attach(after)
		return
	}
	if before.NodeName == after.NodeName && before.NodeName != "" {
		w.nodes.rebind(w.owner, &before.Pod, &after.Pod)
	} else {
		w.detach(before)
		w.attach(after)
		w.nodes.prune(w.owner, before.NodeName)
	}
	if before.Class != after.Class {
		w.countClass(before.Class, -1)
	}
}

// setPod copies what differs between the pods of a class.
func setPod(p *Pod, obj *corev1.Pod, class *PodClass) {
	*p = Pod{
		UID: p.UID, Namespace: p.Namespace, Name: p.Name, Class: class,
		NodeName: intern.String(obj.Spec.NodeName), NominatedNode: intern.String(obj.Status.NominatedNodeName),
		Created: unixNano(obj.CreationTimestamp.Time), Phase: corev1.PodPhase(intern.String(string(obj.Status.Phase))),
		ResourceVersion: obj.ResourceVersion,
	}
	if obj.Status.StartTime != nil {
		p.Started = unixNano(obj.Status.StartTime.Time)
	}
	if obj.DeletionTimestamp != nil {
		p.Deleting = unixNano(obj.DeletionTimestamp.Time)
	}
	c := podCondition(&obj.Status, corev1.PodScheduled)
	if c != nil && c.Status == corev1.ConditionFalse {
		p.TriedAt = max(unixNano(c.LastTransitionTime.Time), unixNano(c.LastProbeTime.Time))
	}
	if c != nil && c.Reason == corev1.PodReasonUnschedulable {
		p.Unschedulable, p.UnschedulableSince = true, unixNano(c.LastTransitionTime.Time)
		p.UnschedulableMessage = intern.String(c.Message)
	}
	if c := podCondition(&obj.Status, corev1.DisruptionTarget); c != nil && c.Status == corev1.ConditionTrue {
		p.EvictedAt = unixNano(c.LastTransitionTime.Time)
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

// attach adds a pod to its node's sums or to the pending pods; detach removes it before any change.
func (w *World) attach(r *podRow) {
	switch {
	case r.NodeName != "":
		w.nodes.bind(w.owner, &r.Pod)
	case !r.Terminal():
		w.pods.pending.Set(w.owner, r.key(), &r.Pod)
	}
}

func (w *World) detach(r *podRow) {
	if r.NodeName != "" {
		w.nodes.unbind(w.owner, &r.Pod)
		return
	}
	if !r.Terminal() {
		w.pods.pending.Delete(w.owner, r.key())
	}
}

// removePodNamed folds a deletion, by UID or, without one, by name.
func (w *World) removePodNamed(o events.Observation) {
	r := w.pods.row(o.UID)
	if r == nil && o.UID == "" {
		namespace, name, _ := strings.Cut(o.Name, "/")
		r = w.pods.named(podName{namespace, name})
	}
	if r == nil {
		return
	}
	if r.NodeName == "" && r.Active() { // it goes at once
		w.departed.dismiss(w.owner, &r.Pod)
	}
	w.removePod(r, o.ObservedAt)
}

// removePod forgets a pod. If neither its end nor its deletion was observed, that counts as an event now.
func (w *World) removePod(r *podRow, at time.Time) {
	w.countChange(r.NodeName != "")
	w.detach(r)
	w.pods.byUID.Delete(w.owner, r.UID)
	w.departed.gone(w.owner, &r.Pod, at)
	if w.synced && r.NodeName != "" && r.Active() && !r.Class.DaemonSetOwned() {
		podEventOn(w, &r.Pod, at)
	}
	if uid, ok := w.pods.byName.Get(r.name()); ok && uid == r.UID {
		w.pods.byName.Delete(w.owner, r.name())
	}
	w.countClass(r.Class, -1)
	w.nodes.prune(w.owner, r.NodeName)
}

func (w *World) dropPods(at time.Time) {
	for _, uid := range version.Keys(&w.pods.byUID) {
		if r := w.pods.row(uid); r.generation < w.generation {
			w.removePod(r, at)
		}
	}
}

// Pod returns the pod with a UID; nil if there is none.
func (t *pods) Pod(uid types.UID) *Pod {
	if r := t.row(uid); r != nil {
		return &r.Pod
	}
	return nil
}

// PodVersion is the pods of a version of the World; the zero value is none.
type PodVersion struct {
	byUID version.Map[types.UID, *podRow]
}

// PodsSince calls fn for each pod that is not as it was in an earlier version, in no particular order, and
// returns the present one. was is nil for a pod that has come, is for one that has gone. It costs what was
// changed. The World must be a version.
func (t *pods) PodsSince(earlier PodVersion, fn func(was, is *Pod)) PodVersion {
	pod := func(r *podRow) *Pod {
		if r == nil {
			return nil
		}
		return &r.Pod
	}
	version.Differ(&earlier.byUID, &t.byUID, func(_ types.UID, was, is *podRow) { fn(pod(was), pod(is)) })
	return PodVersion{t.byUID}
}

// PodCount and ClassCount say how much is held.
func (t *pods) PodCount() int    { return t.byUID.Len() }
func (w *World) ClassCount() int { return w.classes.Len() }

// Pods returns all pods by namespace, name and UID. It sorts them on each call; prefer PodsOn and
// PendingPods.
func (t *pods) Pods() []*Pod {
	all := make([]*Pod, 0, t.byUID.Len())
	for _, r := range t.byUID.All() {
		all = append(all, &r.Pod)
	}
	slices.SortFunc(all, ComparePods)
	return all
}

// PendingPods returns the pods without a node that have not ended, by namespace, name and UID.
func (t *pods) PendingPods() []*Pod { return t.pending.List() }

// Classes returns the classes of the World's pods by digest.
func (w *World) Classes() []*PodClass {
	list := make([]*PodClass, 0, w.classes.Len())
	for _, digest := range version.Keys(&w.classes) {
		r, _ := w.classes.Get(digest)
		list = append(list, r.class)
	}
	return list
}

// PodsOfClass counts the pods of a class by its digest.
func (w *World) PodsOfClass(digest uint64) int {
	r, _ := w.classes.Get(digest)
	return r.pods
}

// ComparePods orders by namespace, name and UID.
func ComparePods(a, b *Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

func comparePodKeys(a, b podKey) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name), cmp.Compare(a.uid, b.uid))
}
