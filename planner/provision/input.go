package provision

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/planner/resource"
	"millwright/planner/topology"
	"millwright/planner/world"
)

// input is everything the solver may look at. The order of its lists does not matter.
type input struct {
	now     time.Time
	options planner.Options
	// pods need a place.
	pods  []*world.Pod
	pools []poolInput
	// overlayProblems are NodeOverlays that are not applied.
	overlayProblems []OverlayProblem
	nodes           []*planner.StateNode
	planned         []plannedInput
	// simulated: nodes may go in trials; mobile are the pods that would move then.
	simulated bool
	mobile    []*world.Pod
	// destinations orders nodes that are equally ready; nil: by name.
	destinations func(a, b *planner.StateNode) int
	daemons      []daemonInput
	// unavailable offerings are not offered to any pool.
	unavailable []ledger.OfferingKey
	// fullSubnets are those without free addresses; closedZones gives the zones in which a NodeClass has no other.
	fullSubnets []string
	closedZones func(nodeClass string) []string
	// freeReserved is how much of a capacity reservation is free, of which a catalogue says what EC2 said and when.
	freeReserved func(id string, free int64, at time.Time) int64
	// prior is where a pod was placed before; zero if nowhere.
	prior func(types.UID) target
	// since is when a pod was placed there, zero if nowhere; excluded are the nodes it is to avoid now.
	since    func(types.UID) time.Time
	excluded func(types.UID) []ledger.ExcludedNode
	// classes of all pods, for the anti-affinity of those that run.
	classes    []*world.PodClass
	namespaces []topology.Namespace
	volumes    volumeSource
}

// poolInput is a NodePool with the catalogue of its NodeClass.
type poolInput struct {
	pool    *karpv1.NodePool
	catalog *catalog.Catalog
	// priceOverlaid and capacityOverlaid are the types that a NodeOverlay has changed.
	priceOverlaid, capacityOverlaid map[string]bool
	// used is the capacity that counts against the limits, nodes the number of nodes.
	used  resource.Vector
	nodes int64
}

// plannedInput is a claim of the Ledger that is not a node yet.
type plannedInput struct {
	claim   *ledger.Claim
	catalog *catalog.Catalog
	// pods that are to go there and still need a place.
	pods []*world.Pod
	// uncreated: the claim is for pods, and its NodeClaim is not made yet as far as the Snapshot shows: it may be widened or withdrawn.
	uncreated bool
}

// daemonInput is a DaemonSet whose pods take room on each node it matches.
type daemonInput struct {
	spec     *corev1.PodSpec
	requests resource.Vector
}

// volumeSource looks up what a pod's volumes say of places. Keys of claims are namespace/name.
type volumeSource interface {
	PersistentVolumeClaim(key string) *corev1.PersistentVolumeClaim
	PersistentVolume(name string) *corev1.PersistentVolume
	StorageClass(name string) *storagev1.StorageClass
	CSINode(node string) *storagev1.CSINode
}
