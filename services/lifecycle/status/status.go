package status

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/claim"
	"millwright/services/internal/ec2"
	"millwright/services/internal/kube"
	"millwright/services/internal/service"
	"millwright/services/lifecycle/effects"
	"millwright/services/lifecycle/nodeclass"
	"millwright/services/lifecycle/recent"
)

// Cache is the cluster as informers have it. Objects are shared; lists are by name.
type Cache interface {
	// Version rises with every change.
	Version() uint64
	// Since returns what changed after a version; complete is false if some of it is forgotten.
	Since(version uint64) (changes []kube.Change, now uint64, complete bool)
	NodeClaims() []*karpv1.NodeClaim
	NodeClaim(name string) *karpv1.NodeClaim
	NodeClaimsByProviderID(id string) []*karpv1.NodeClaim
	Nodes() []*corev1.Node
	NodesByProviderID(id string) []*corev1.Node
	NodePools() []*karpv1.NodePool
	NodePool(name string) *karpv1.NodePool
	NodeClasses() []*awsv1.EC2NodeClass
	NodeClass(name string) *awsv1.EC2NodeClass
}

// Kube is what is written to the API server. Updates write what differs between before and after, bound to
// before's UID and resourceVersion.
type Kube interface {
	UpdateNodeClaim(ctx context.Context, before, after *karpv1.NodeClaim) (*karpv1.NodeClaim, error)
	UpdateNodePool(ctx context.Context, before, after *karpv1.NodePool) (*karpv1.NodePool, error)
	UpdateNodePoolStatus(ctx context.Context, before, after *karpv1.NodePool) (*karpv1.NodePool, error)
	UpdateNodeOverlayStatus(ctx context.Context, before, after *karpv1alpha1.NodeOverlay) (*karpv1alpha1.NodeOverlay, error)
	// UpdateBufferStatus writes the status of a CapacityBuffer; InstallBufferCRD makes their CRD if there is
	// none.
	UpdateBufferStatus(ctx context.Context, before, after *bufferv1beta1.CapacityBuffer) (*bufferv1beta1.CapacityBuffer, error)
	InstallBufferCRD(ctx context.Context) error
	UpdateNodeClass(ctx context.Context, before, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error)
	UpdateNodeClassStatus(ctx context.Context, before, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error)
}

// Classes says what an EC2NodeClass should become and when to look again at the latest. nodeclass.Reconciler
// is one.
type Classes interface {
	Reconcile(ctx context.Context, class *awsv1.EC2NodeClass, claims []*karpv1.NodeClaim) (nodeclass.Change, time.Duration, error)
}

// Placements says where instances were launched; false if that is not known.
type Placements interface {
	Placement(instanceID string) (ec2.Placement, bool)
	// Running: EC2 said of the capacity reservation, which its class does not list, that it is active.
	Running(reservationID string) bool
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

// Keeper keeps the status of NodePools, NodeOverlays, CapacityBuffers and EC2NodeClasses, and finds out which
// NodeClaims have drifted.
type Keeper struct {
	host          service.Host
	effects       *effects.Effects
	registrations *Registrations
	deps          Deps

	// What follows belongs to steps alone.

	// pools are by name; sums are what their nodes and claims have.
	pools map[string]readPool
	sums  *poolSums
	// classes says when EC2NodeClasses are to be looked at.
	classes struct {
		touched atomic.Bool
		wake    time.Time
	}
	// marked is the last NodeClaim that got other marks.
	marked string

	// crdSeen: the CRD of CapacityBuffers was there, or was made, or may not be made.
	crdSeen atomic.Bool

	mu sync.Mutex
	// judged is why NodeClaims have drifted, "" if they have not, as this process recorded it last, by UID.
	judged map[types.UID]string
	// classAt is by name of the EC2NodeClass.
	classAt map[string]classRun
}

// New returns a keeper. It does nothing before the first step.
func New(host service.Host, e *effects.Effects, registrations *Registrations, deps Deps) *Keeper {
	return &Keeper{host: host, effects: e, registrations: registrations, deps: deps,
		sums: &poolSums{}, classAt: map[string]classRun{}, judged: map[types.UID]string{}}
}

// Prune forgets what is about NodePools, EC2NodeClasses and NodeClaims that are gone.
func (k *Keeper) Prune(pools map[types.UID]bool, classes map[string]bool, claims map[types.UID]bool) {
	k.registrations.prune(pools)
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.classAt, func(name string, _ classRun) bool { return !classes[name] })
	maps.DeleteFunc(k.judged, func(uid types.UID, _ string) bool { return !claims[uid] })
}

// Len counts what is remembered of objects.
func (k *Keeper) Len() int {
	k.registrations.mu.Lock()
	defer k.registrations.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.registrations.pools) + len(k.classAt) + len(k.judged)
}

// newest is the NodeClaim of the cache, or what is known of it since.
func (k *Keeper) newest(o *karpv1.NodeClaim, now time.Time) *karpv1.NodeClaim {
	o, _ = k.deps.Claims.Newest(o.Name, o, true, now)
	return o
}
