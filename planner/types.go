package planner

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner/ledger"
	"millwright/planner/resource"
	"millwright/planner/world"
)

// Snapshot is all a decision may look at: the World at a position joined with the Ledger at a sequence. It is
// of versions, which nothing changes: kept for as long as it is of use, and many at a time. It caches what it
// computes, so one goroutine uses it at a time.
type Snapshot struct {
	World  *world.World
	Ledger *ledger.Ledger
	// Now is the checked clock, raised to the last record's time or the as-of if these are at most 5 s ahead,
	// so that a slow clock never reopens a window and a record from the future moves nobody (DESIGN §2).
	Now     time.Time
	Options Options
	// OptionsSeq is the OptionsSet record in force.
	OptionsSeq uint64

	cache cache
}

// Basis is what a decision record says about the Snapshot it was taken on.
type Basis struct {
	Position   events.Position
	LedgerSeq  uint64
	Now        time.Time
	OptionsSeq uint64
}

// Decision is what a planner returns: one record to append, with everything the log needs to accept it only
// if nothing it relied on has changed.
type Decision struct {
	Kind ledger.Kind
	// Payload is a pointer to the payload type of Kind.
	Payload any
	// Explanation is any JSON-encodable value; encoded it must stay under 64 KiB.
	Explanation any
	Subjects    []string
	Causation   uint64
	// Expects lists aggregates that must stand where the Ledger of the Snapshot has them, sorted; see Expect.
	Expects []Expectation
	// Advances lists aggregates whose sequence becomes this record's, sorted.
	Advances []string
}

// Expectation of an aggregate: Seq is the last record that advanced it; 0 if none did since it was retired,
// or ever.
type Expectation struct {
	Aggregate string `json:"aggregate"`
	Seq       uint64 `json:"seq"`
}

// StateNode is a node as planners see it: Node and NodeClaim joined with what the Ledger knows. A claim
// that is launched but has no Node yet is one too; a claim without an instance is not.
type StateNode struct {
	// Name is the Node's name, or the NodeClaim's while there is no Node.
	Name string
	// Node and Claim: at least one is set.
	Node       *world.Node
	Claim      *karpv1.NodeClaim
	Ledger     *ledger.Claim
	ProviderID string
	NodePool   string
	// Managed: a NodeClaim with a supported NodeClass stands behind it, or the node says so by label.
	Managed bool
	// Registered and Initialized: the labels of the Node. Unmanaged nodes count as both.
	Registered, Initialized bool
	// Labels and Annotations: the NodeClaim's until registered, then the Node's.
	Labels, Annotations map[string]string
	// Taints that pods must tolerate: the claim's until registered, then the Node's; without startup and
	// ephemeral taints until initialized (reference: scheduling §3), and never with that of DrainsOut.
	Taints []corev1.Taint
	// Capacity and Allocatable: the Node's; until initialized, missing amounts come from the claim.
	Capacity, Allocatable resource.Vector
	// Available = Allocatable less the requests of bound pods that are not terminal.
	Available resource.Vector
	// Pods bound to the node, by namespace and name.
	Pods []*world.Pod
	// MarkedForDeletion: the NodeClaim, or the Node if it has none, is being deleted, its instance is
	// terminating or gone, the Ledger has doomed it, or a running command takes it.
	MarkedForDeletion bool
	// DrainsOut: it is to run empty by itself, by the Ledger, or is still tainted so. Pods go there only if
	// no other node has room.
	DrainsOut bool
}
