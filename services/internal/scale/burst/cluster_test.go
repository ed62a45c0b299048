package burst

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/kube"
)

// table holds the objects of one kind.
type table[T metav1.Object] map[string]T

// cluster is an API server in memory and the informers of lifecycle, which are always up to date. Objects are
// never changed, only replaced.
type cluster struct {
	changes kube.Changes

	mu      sync.Mutex
	wake    map[chan struct{}]bool
	version int
	claims  table[*karpv1.NodeClaim]
	nodes   table[*corev1.Node]
	pools   table[*karpv1.NodePool]
	classes table[*awsv1.EC2NodeClass]
	// nodeOf and claimOf are the names by provider id.
	nodeOf, claimOf map[string]string
}

func newCluster() *cluster {
	return &cluster{
		wake: map[chan struct{}]bool{}, claims: table[*karpv1.NodeClaim]{}, nodes: table[*corev1.Node]{}, pools: table[*karpv1.NodePool]{},
		classes: table[*awsv1.EC2NodeClass]{}, nodeOf: map[string]string{}, claimOf: map[string]string{},
	}
}

// Subscribe implements process.Changes.
func (k *cluster) Subscribe() (<-chan struct{}, func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ch := make(chan struct{}, 1)
	k.wake[ch] = true
	return ch, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.wake, ch)
	}
}

// keep puts a new version of an object, or removes one that is deleted and held by nobody. The caller holds
// the lock.
func keep[T metav1.Object](k *cluster, objects table[T], o T) T {
	k.version++
	o.SetResourceVersion(fmt.Sprint(k.version))
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", k.version)))
		o.SetCreationTimestamp(metav1.Now())
		o.SetGeneration(1)
	}
	objects[o.GetName()] = o
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 {
		delete(objects, o.GetName())
	}
	k.changes.Add(kube.ChangeOf(o))
	for ch := range k.wake {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
	return o
}

// add puts a new object.
func add[T metav1.Object](k *cluster, objects table[T], o T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	keep(k, objects, o)
}

// change writes upon the version that the caller has seen.
func change[T metav1.Object](k *cluster, objects table[T], seen T, write func(have T) T) (none T, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	have, ok := objects[seen.GetName()]
	switch {
	case !ok || have.GetUID() != seen.GetUID():
		return none, notFound(seen.GetName())
	case have.GetResourceVersion() != seen.GetResourceVersion():
		return none, apierrors.NewConflict(schema.GroupResource{}, seen.GetName(), fmt.Errorf("it is at %s, not %s", have.GetResourceVersion(), seen.GetResourceVersion()))
	}
	return keep(k, objects, write(have)), nil
}

// remove deletes an object as soon as nobody holds it.
func remove[T metav1.Object](k *cluster, objects table[T], name string, uid types.UID, copied func(T) T) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	have, ok := objects[name]
	if !ok || have.GetUID() != uid {
		return notFound(name)
	}
	o := copied(have)
	if o.GetDeletionTimestamp() == nil {
		now := metav1.Now()
		o.SetDeletionTimestamp(&now)
	}
	keep(k, objects, o)
	return nil
}

func get[T metav1.Object](k *cluster, objects table[T], name string) T {
	k.mu.Lock()
	defer k.mu.Unlock()
	return objects[name]
}

func list[T metav1.Object](k *cluster, objects table[T], wanted func(T) bool) (all []T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		if o := objects[name]; wanted == nil || wanted(o) {
			all = append(all, o)
		}
	}
	return all
}

func notFound(name string) error { return apierrors.NewNotFound(schema.GroupResource{}, name) }

// The informers.

func (k *cluster) Synced() bool    { return true }
func (k *cluster) Version() uint64 { return k.changes.Version() }
func (k *cluster) Since(version uint64) ([]kube.Change, uint64, bool) {
	return k.changes.Since(version)
}
func (k *cluster) NodeClaim(name string) *karpv1.NodeClaim   { return get(k, k.claims, name) }
func (k *cluster) NodePool(name string) *karpv1.NodePool     { return get(k, k.pools, name) }
func (k *cluster) NodeClass(name string) *awsv1.EC2NodeClass { return get(k, k.classes, name) }
func (k *cluster) NodeClaims() []*karpv1.NodeClaim           { return list(k, k.claims, nil) }
func (k *cluster) NodePools() []*karpv1.NodePool             { return list(k, k.pools, nil) }
func (k *cluster) NodeClasses() []*awsv1.EC2NodeClass        { return list(k, k.classes, nil) }
func (k *cluster) Nodes() []*corev1.Node                     { return list(k, k.nodes, nil) }
func (k *cluster) DeletingNodes() []*corev1.Node {
	return list(k, k.nodes, func(n *corev1.Node) bool { return n.DeletionTimestamp != nil })
}

func (k *cluster) NodesByProviderID(id string) (found []*corev1.Node) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := k.nodes[k.nodeOf[id]]; n != nil {
		found = append(found, n)
	}
	return found
}

func (k *cluster) NodeClaimsByProviderID(id string) (found []*karpv1.NodeClaim) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.claims[k.claimOf[id]]; c != nil {
		found = append(found, c)
	}
	return found
}

// The API server.

func (k *cluster) CreateNodeClaim(_ context.Context, c *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.claims[c.Name] != nil {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{}, c.Name)
	}
	return keep(k, k.claims, c.DeepCopy()), nil
}

func (k *cluster) GetNodeClaim(_ context.Context, name string) (*karpv1.NodeClaim, error) {
	if c := k.NodeClaim(name); c != nil {
		return c, nil
	}
	return nil, notFound(name)
}

func (k *cluster) ListNodeClaims(context.Context) ([]*karpv1.NodeClaim, error) {
	return k.NodeClaims(), nil
}

func (k *cluster) DeleteNodeClaim(_ context.Context, name string, uid types.UID) error {
	return remove(k, k.claims, name, uid, (*karpv1.NodeClaim).DeepCopy)
}

func (k *cluster) UpdateNodeClaim(_ context.Context, before, after *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	return change(k, k.claims, before, func(have *karpv1.NodeClaim) *karpv1.NodeClaim {
		o := have.DeepCopy()
		o.Labels, o.Annotations, o.Finalizers = after.Labels, after.Annotations, after.Finalizers
		return o
	})
}

func (k *cluster) UpdateNodeClaimStatus(_ context.Context, before, after *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	return change(k, k.claims, before, func(have *karpv1.NodeClaim) *karpv1.NodeClaim {
		o := have.DeepCopy()
		o.Status = *after.Status.DeepCopy()
		k.claimOf[o.Status.ProviderID] = o.Name
		return o
	})
}

func (k *cluster) Node(_ context.Context, name string) (*corev1.Node, error) {
	if n := get(k, k.nodes, name); n != nil {
		return n, nil
	}
	return nil, notFound(name)
}

func (k *cluster) UpdateNode(_ context.Context, before, after *corev1.Node) (*corev1.Node, error) {
	return change(k, k.nodes, before, func(*corev1.Node) *corev1.Node { return after.DeepCopy() })
}

func (k *cluster) DeleteNode(_ context.Context, name string, uid types.UID) error {
	return remove(k, k.nodes, name, uid, (*corev1.Node).DeepCopy)
}

func (k *cluster) ListNodePools(context.Context) ([]*karpv1.NodePool, error) {
	return k.NodePools(), nil
}

func (k *cluster) UpdateNodePool(_ context.Context, before, after *karpv1.NodePool) (*karpv1.NodePool, error) {
	return change(k, k.pools, before, func(have *karpv1.NodePool) *karpv1.NodePool {
		o := have.DeepCopy()
		o.Annotations = after.Annotations
		return o
	})
}

func (k *cluster) UpdateNodePoolStatus(_ context.Context, before, after *karpv1.NodePool) (*karpv1.NodePool, error) {
	return change(k, k.pools, before, func(have *karpv1.NodePool) *karpv1.NodePool {
		o := have.DeepCopy()
		o.Status = after.Status
		return o
	})
}

func (k *cluster) UpdateNodeClass(_ context.Context, before, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	return change(k, k.classes, before, func(have *awsv1.EC2NodeClass) *awsv1.EC2NodeClass {
		o := have.DeepCopy()
		o.Annotations, o.Finalizers = after.Annotations, after.Finalizers
		return o
	})
}

func (k *cluster) UpdateNodeClassStatus(_ context.Context, before, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	return change(k, k.classes, before, func(have *awsv1.EC2NodeClass) *awsv1.EC2NodeClass {
		o := have.DeepCopy()
		o.Status = *after.Status.DeepCopy()
		return o
	})
}

func (k *cluster) UpdateBufferStatus(_ context.Context, _, after *bufferv1beta1.CapacityBuffer) (*bufferv1beta1.CapacityBuffer, error) {
	return after, nil
}
func (k *cluster) InstallBufferCRD(context.Context) error { return nil }
func (k *cluster) UpdateNodeOverlayStatus(_ context.Context, _, after *karpv1alpha1.NodeOverlay) (*karpv1alpha1.NodeOverlay, error) {
	return after, nil
}

// join has a Node register for an instance, as its kubelet would.
func (k *cluster) join(name, providerID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.nodeOf[providerID] != "" {
		return
	}
	k.nodeOf[providerID] = name
	keep(k, k.nodes, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{ProviderID: providerID, Taints: []corev1.Taint{karpv1.UnregisteredTaint()}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(time.Now()), LastTransitionTime: metav1.NewTime(time.Now()),
		}}},
	})
}
