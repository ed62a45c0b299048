package status

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/claim"
	"millwright/services/internal/ec2"
	"millwright/services/internal/service"
	"millwright/services/lifecycle/effects"
	"millwright/services/lifecycle/nodeclass"
	"millwright/services/lifecycle/recent"
)

// Cache is the cluster as informers have it. Objects are shared; lists are by name.
type Cache interface {
	// Version rises with every change.
	Version() uint64
	NodeClaims() []*karpv1.NodeClaim
	Nodes() []*corev1.Node
	NodesByProviderID(id string) []*corev1.Node
	NodePools() []*karpv1.NodePool
	NodePool(name string) *karpv1.NodePool
	NodeClasses() []*awsv1.EC2NodeClass
	NodeClass(name string) *awsv1.EC2NodeClass
}

// Kube is what is written to the API server. Updates write what differs between before and after, bound to before's UID
// and resourceVersion.
type Kube interface {
	UpdateNodeClaim(ctx context.Context, before, after *karpv1.NodeClaim) (*karpv1.NodeClaim, error)
	UpdateNodePool(ctx context.Context, before, after *karpv1.NodePool) (*karpv1.NodePool, error)
	UpdateNodePoolStatus(ctx context.Context, before, after *karpv1.NodePool) (*karpv1.NodePool, error)
	UpdateNodeOverlayStatus(ctx context.Context, before, after *karpv1alpha1.NodeOverlay) (*karpv1alpha1.NodeOverlay, error)
	UpdateNodeClass(ctx context.Context, before, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error)
	UpdateNodeClassStatus(ctx context.Context, before, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error)
}

// Classes says what an EC2NodeClass should become and when to look again at the latest. nodeclass.Reconciler is one.
type Classes interface {
	Reconcile(ctx context.Context, class *awsv1.EC2NodeClass, claims []*karpv1.NodeClaim) (nodeclass.Change, time.Duration, error)
}

// Placements says where instances were launched; false if that is not known.
type Placements interface {
	Placement(instanceID string) (ec2.Placement, bool)
}

// Listener is told what a look at a NodeClaim said of its drift and quiet time.
type Listener interface {
	SetMarks(name string, m claim.Marks)
}

// Deps of a Keeper. Classes may be nil: then nobody keeps EC2NodeClasses.
type Deps struct {
	Cache      Cache
	Kube       Kube
	Classes    Classes
	Placements Placements
	Listener   Listener
	// Hasher of EC2NodeClasses; the same as that of Classes.
	Hasher nodeclass.Hasher

	// Claims in the newest form known, and which versions of any object are known not to be the newest.
	Claims   *recent.Objects[*karpv1.NodeClaim]
	Outdated *recent.Outdated
}

// Keeper keeps the status of NodePools, NodeOverlays and EC2NodeClasses, and finds out which NodeClaims have drifted.
type Keeper struct {
	host          service.Host
	effects       *effects.Effects
	registrations *Registrations
	deps          Deps

	// What follows belongs to steps alone.

	// pools are by name; sums are those of the last look at them.
	pools map[string]readPool
	sums  poolSums
	// classes says when EC2NodeClasses are to be looked at.
	classes struct {
		touched atomic.Bool
		wake    time.Time
	}
	// marked is the last NodeClaim that got other marks.
	marked string

	mu sync.Mutex
	// classAt is by name of the EC2NodeClass.
	classAt map[string]classRun
}

// New returns a keeper. It does nothing before the first step.
func New(host service.Host, e *effects.Effects, registrations *Registrations, deps Deps) *Keeper {
	return &Keeper{host: host, effects: e, registrations: registrations, deps: deps, classAt: map[string]classRun{}}
}

// Prune forgets what is about NodePools and EC2NodeClasses that are gone.
func (k *Keeper) Prune(pools map[types.UID]bool, classes map[string]bool) {
	k.registrations.prune(pools)
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.classAt, func(name string, _ classRun) bool { return !classes[name] })
}

// Len counts what is remembered of objects.
func (k *Keeper) Len() int {
	k.registrations.mu.Lock()
	defer k.registrations.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.registrations.pools) + len(k.classAt)
}

// newest is the NodeClaim of the cache, or what is known of it since.
func (k *Keeper) newest(o *karpv1.NodeClaim, now time.Time) *karpv1.NodeClaim {
	o, _ = k.deps.Claims.Newest(o.Name, o, true, now)
	return o
}

// merged returns b over a.
func merged(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, b)
	return out
}
