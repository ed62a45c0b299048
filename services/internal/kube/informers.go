package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
)

// Indexes of the informers.
const (
	byProviderID = "providerID"
	byDeletion   = "deletion"
	byNode       = "node"
)

// deleting is the only key of the index byDeletion.
const deleting = "deleting"

// Informers hold the cluster-scoped objects that drive effects, so that they work without the bus. Objects
// are shared: never change them. A list may lag behind the API server by any amount of time.
type Informers struct {
	claims, nodes, pools, classes, attachments cache.SharedIndexInformer
	changed                                    chan struct{}
	changes                                    Changes
}

// NewInformers makes the informers; Run starts them.
func NewInformers(c *Client) *Informers {
	core, storage := c.Core.CoreV1().Nodes(), c.Core.StorageV1().VolumeAttachments()
	f := &Informers{
		claims: informer(&karpv1.NodeClaim{}, lister(c.NodeClaims.List), c.NodeClaims.Watch,
			cache.Indexers{byProviderID: providerIDs, byDeletion: deletions}),
		pools:   informer(&karpv1.NodePool{}, lister(c.NodePools.List), c.NodePools.Watch, nil),
		classes: informer(&awsv1.EC2NodeClass{}, lister(c.NodeClasses.List), c.NodeClasses.Watch, nil),
		nodes: informer(&corev1.Node{}, lister(core.List), core.Watch,
			cache.Indexers{byProviderID: providerIDs, byDeletion: deletions}),
		attachments: informer(&storagev1.VolumeAttachment{}, lister(storage.List), storage.Watch, cache.Indexers{byNode: attachedNodes}),
		changed:     make(chan struct{}, 1),
	}
	return f
}

func lister[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error)) ListFunc {
	return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) }
}

func informer(example runtime.Object, list ListFunc, next WatchFunc, indexers cache.Indexers) cache.SharedIndexInformer {
	lw := &cache.ListWatch{ListWithContextFunc: list, WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return Watch(ctx, list, next, o)
	}}
	return cache.NewSharedIndexInformer(lw, example, 0, indexers)
}

func providerIDs(obj any) ([]string, error) {
	var id string
	switch o := obj.(type) {
	case *corev1.Node:
		id = o.Spec.ProviderID
	case *karpv1.NodeClaim:
		id = o.Status.ProviderID
	}
	if id == "" {
		return nil, nil
	}
	return []string{id}, nil
}

func deletions(obj any) ([]string, error) {
	if o, ok := obj.(metav1.Object); ok && o.GetDeletionTimestamp() != nil {
		return []string{deleting}, nil
	}
	return nil, nil
}

func attachedNodes(obj any) ([]string, error) {
	if a, ok := obj.(*storagev1.VolumeAttachment); ok {
		return []string{a.Spec.NodeName}, nil
	}
	return nil, nil
}

func (f *Informers) all() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{f.claims, f.nodes, f.pools, f.classes, f.attachments}
}

// Run keeps the informers until ctx ends.
func (f *Informers) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	for _, i := range f.all() {
		if err := i.SetTransform(withoutManagedFields); err != nil {
			return fmt.Errorf("set up informer: %w", err)
		}
		if _, err := i.AddEventHandler(f.handler()); err != nil {
			return fmt.Errorf("set up informer: %w", err)
		}
		group.Go(func() { i.RunWithContext(ctx) })
	}
	var synced []cache.InformerSynced
	for _, i := range f.all() {
		synced = append(synced, i.HasSynced)
	}
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		f.notify(nil) // empty lists send no notification by themselves
	}
	<-ctx.Done()
	return nil
}

func withoutManagedFields(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

// handler reports changes. Resyncs with an unchanged resourceVersion do not count.
func (f *Informers) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: f.notify,
		UpdateFunc: func(before, after any) {
			a, ok := before.(metav1.Object)
			if b, both := after.(metav1.Object); !ok || !both || a.GetResourceVersion() != b.GetResourceVersion() {
				f.notify(after)
			}
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			f.notify(obj)
		},
	}
}

func (f *Informers) notify(obj any) {
	f.changes.Add(ChangeOf(obj))
	select {
	case f.changed <- struct{}{}:
	default: // a notification is already waiting
	}
}

// Changed has a value after something changed. It has one reader and is never closed.
func (f *Informers) Changed() <-chan struct{} { return f.changed }

// Version increases with every change. It is read before objects are, to know later whether they may have
// changed.
func (f *Informers) Version() uint64 { return f.changes.Version() }

// Since returns which objects changed after a version; see Changes.
func (f *Informers) Since(version uint64) (changes []Change, now uint64, complete bool) {
	return f.changes.Since(version)
}

// Synced reports that each informer has had its first complete list.
func (f *Informers) Synced() bool {
	return !slices.ContainsFunc(f.all(), func(i cache.SharedIndexInformer) bool { return !i.HasSynced() })
}

// NodeClaims, Nodes, NodePools and NodeClasses return lists by name.
func (f *Informers) NodeClaims() []*karpv1.NodeClaim { return listed[*karpv1.NodeClaim](f.claims) }
func (f *Informers) Nodes() []*corev1.Node           { return listed[*corev1.Node](f.nodes) }
func (f *Informers) NodePools() []*karpv1.NodePool   { return listed[*karpv1.NodePool](f.pools) }
func (f *Informers) NodeClasses() []*awsv1.EC2NodeClass {
	return listed[*awsv1.EC2NodeClass](f.classes)
}

// NodeClaim, NodePool and NodeClass return nil if there is none.
func (f *Informers) NodeClaim(name string) *karpv1.NodeClaim {
	return got[karpv1.NodeClaim](f.claims, name)
}
func (f *Informers) NodePool(name string) *karpv1.NodePool {
	return got[karpv1.NodePool](f.pools, name)
}
func (f *Informers) NodeClass(name string) *awsv1.EC2NodeClass {
	return got[awsv1.EC2NodeClass](f.classes, name)
}

// NodesByProviderID and NodeClaimsByProviderID list by name; none for an empty id.
func (f *Informers) NodesByProviderID(id string) []*corev1.Node {
	return indexed[*corev1.Node](f.nodes, byProviderID, id)
}
func (f *Informers) NodeClaimsByProviderID(id string) []*karpv1.NodeClaim {
	return indexed[*karpv1.NodeClaim](f.claims, byProviderID, id)
}

// DeletingNodes and DeletingNodeClaims list by name those with a deletionTimestamp.
func (f *Informers) DeletingNodes() []*corev1.Node {
	return indexed[*corev1.Node](f.nodes, byDeletion, deleting)
}
func (f *Informers) DeletingNodeClaims() []*karpv1.NodeClaim {
	return indexed[*karpv1.NodeClaim](f.claims, byDeletion, deleting)
}

// VolumeAttachmentsOf lists by name the attachments to a Node.
func (f *Informers) VolumeAttachmentsOf(node string) []*storagev1.VolumeAttachment {
	return indexed[*storagev1.VolumeAttachment](f.attachments, byNode, node)
}

// indexed lists by name; none for an empty key.
func indexed[T metav1.Object](i cache.SharedIndexInformer, index, key string) []T {
	if key == "" {
		return nil
	}
	objs, err := i.GetIndexer().ByIndex(index, key)
	if err != nil {
		return nil // the index is always there
	}
	return sortedObjects[T](objs)
}

func listed[T metav1.Object](i cache.SharedIndexInformer) []T {
	return sortedObjects[T](i.GetStore().List())
}

func sortedObjects[T metav1.Object](objs []any) []T {
	out := make([]T, 0, len(objs))
	for _, o := range objs {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out
}

func got[T any](i cache.SharedIndexInformer, name string) *T {
	obj, ok, err := i.GetStore().GetByKey(name)
	if err != nil || !ok {
		return nil
	}
	t, _ := obj.(*T)
	return t
}
