package cluster

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/services/sim/clock"
)

// Object of the cluster.
type Object interface {
	metav1.Object
	runtime.Object
}

// Change is one write. Object is what was stored, or for a deletion what was there last.
type Change struct {
	Kind   events.Kind
	Op     events.Op
	Key    string
	Object Object
}

// Watcher is told of writes as they happen. Before is nil for a creation, after for a removal.
type Watcher func(kind events.Kind, before, after Object)

// Cluster holds the objects.
type Cluster struct {
	*tables

	clock *clock.Clock
	rng   *rand.Rand
	// changes since the beginning; a View and the stream's publisher each stand somewhere in it.
	changes  []Change
	version  uint64
	uids     int
	watchers []Watcher

	// SchedulerLate is how many of a thousand Node changes the scheduler learns of seconds late.
	SchedulerLate int

	scheduler   *scheduler
	controllers *controllers
	machines    map[string]*machine
}

// New returns an empty cluster.
func New(c *clock.Clock, rng *rand.Rand) *Cluster {
	k := &Cluster{tables: newTables(events.KubeKinds()), clock: c, rng: rng, machines: map[string]*machine{}}
	k.startControllers()
	return k
}

// Watch has w told of every write from now on.
func (k *Cluster) Watch(w Watcher) { k.watchers = append(k.watchers, w) }

// Version is the resourceVersion of the last write.
func (k *Cluster) Version() uint64 { return k.version }

// Len counts the writes so far; Changes returns those from the index-th on.
func (k *Cluster) Len() int                  { return len(k.changes) }
func (k *Cluster) Changes(from int) []Change { return k.changes[from:] }
func (k *Cluster) now() metav1.Time          { return metav1.NewTime(k.clock.Now().Truncate(time.Second)) }
func (k *Cluster) between(a, b int) time.Duration {
	return time.Duration(a+k.rng.IntN(b-a+1)) * time.Millisecond
}

func keyOf(o Object) string {
	if ns := o.GetNamespace(); ns != "" {
		return ns + "/" + o.GetName()
	}
	return o.GetName()
}

// put stores an object, which must not be changed any more, with a new resourceVersion.
func (k *Cluster) put(kind events.Kind, o Object) {
	before := k.get(kind, keyOf(o))
	if before != nil && o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && kind != events.KindPod {
		k.remove(kind, keyOf(o))
		return
	}
	k.version++
	o.SetResourceVersion(strconv.FormatUint(k.version, 10))
	if before == nil {
		k.uids++
		o.SetUID(types.UID(fmt.Sprintf("uid-%06d", k.uids)))
		o.SetCreationTimestamp(k.now())
		o.SetGeneration(1)
	}
	k.setObject(kind, keyOf(o), o)
	k.record(kind, events.OpUpsert, before, o)
}

func (k *Cluster) remove(kind events.Kind, key string) {
	before := k.get(kind, key)
	if before == nil {
		return
	}
	k.version++
	k.deleteObject(kind, key)
	k.record(kind, events.OpDelete, before, nil)
}

func (k *Cluster) record(kind events.Kind, op events.Op, before, after Object) {
	c := Change{Kind: kind, Op: op, Object: after}
	if after == nil {
		c.Object = before
	}
	c.Key = keyOf(c.Object)
	k.changes = append(k.changes, c)
	for _, w := range k.watchers {
		w(kind, before, after)
	}
}

// Pods, Nodes, NodeClaims, NodePools and NodeClasses list the present by name. Objects are shared.
func (k *Cluster) Pods() []*corev1.Pod   { return listed[*corev1.Pod](k.tables, events.KindPod) }
func (k *Cluster) Nodes() []*corev1.Node { return listed[*corev1.Node](k.tables, events.KindNode) }
func (k *Cluster) NodeClaims() []*karpv1.NodeClaim {
	return listed[*karpv1.NodeClaim](k.tables, events.KindNodeClaim)
}
func (k *Cluster) NodePools() []*karpv1.NodePool {
	return listed[*karpv1.NodePool](k.tables, events.KindNodePool)
}
func (k *Cluster) NodeClasses() []*awsv1.EC2NodeClass {
	return listed[*awsv1.EC2NodeClass](k.tables, events.KindEC2NodeClass)
}

// Object of a kind and key; nil if there is none.
func (k *Cluster) Object(kind events.Kind, key string) Object { return k.get(kind, key) }

// Pod, Node, NodeClaim, NodeClass and NodePool return nil if there is none of the key.
func (k *Cluster) Pod(key string) *corev1.Pod { return got[*corev1.Pod](k.tables, events.KindPod, key) }
func (k *Cluster) Node(name string) *corev1.Node {
	return got[*corev1.Node](k.tables, events.KindNode, name)
}
func (k *Cluster) NodeClaim(n string) *karpv1.NodeClaim {
	return got[*karpv1.NodeClaim](k.tables, events.KindNodeClaim, n)
}
func (k *Cluster) NodeClass(n string) *awsv1.EC2NodeClass {
	return got[*awsv1.EC2NodeClass](k.tables, events.KindEC2NodeClass, n)
}
func (k *Cluster) NodePool(n string) *karpv1.NodePool {
	return got[*karpv1.NodePool](k.tables, events.KindNodePool, n)
}

// Present returns every object by kind and key, as a relist does.
func (k *Cluster) Present() []Change {
	var list []Change
	for _, kind := range events.KubeKinds() {
		for _, o := range k.all(kind) {
			list = append(list, Change{Kind: kind, Op: events.OpUpsert, Key: keyOf(o), Object: o})
		}
	}
	return list
}

// PodsOn lists the pods bound to a node, by key.
func (k *Cluster) PodsOn(node string) []*corev1.Pod {
	var list []*corev1.Pod
	for _, o := range k.all(events.KindPod) {
		if p := o.(*corev1.Pod); p.Spec.NodeName == node {
			list = append(list, p)
		}
	}
	return list
}

// Apply creates an object, or replaces the one that is there but for its identity: what a user does.
func (k *Cluster) Apply(kind events.Kind, o Object) {
	if have := k.get(kind, keyOf(o)); have != nil {
		o.SetUID(have.GetUID())
		o.SetCreationTimestamp(have.GetCreationTimestamp())
		o.SetGeneration(have.GetGeneration())
		if kind == events.KindNodePool || kind == events.KindPodDisruptionBudget { // of others users change no spec
			o.SetGeneration(have.GetGeneration() + 1)
		}
	}
	k.put(kind, o)
}

// Delete asks for the deletion of an object, which goes once it has no finalizers. A pod gets its grace
// period.
func (k *Cluster) Delete(kind events.Kind, key string) {
	o := k.get(kind, key)
	switch {
	case o == nil:
	case kind == events.KindPod:
		k.endPod(o.(*corev1.Pod), graceOf(o.(*corev1.Pod)))
	default:
		k.markDeleted(kind, o)
	}
}

func (k *Cluster) markDeleted(kind events.Kind, o Object) {
	if len(o.GetFinalizers()) == 0 {
		k.remove(kind, keyOf(o))
		return
	}
	if o.GetDeletionTimestamp() != nil {
		return
	}
	marked := o.DeepCopyObject().(Object)
	at := k.now()
	marked.SetDeletionTimestamp(&at)
	marked.SetGeneration(o.GetGeneration() + 1)
	k.put(kind, marked)
}
