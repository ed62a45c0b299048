package claim

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/ledger"
)

// Input is all that the next move depends on.
type Input struct {
	Name string    `json:"name"`
	Now  time.Time `json:"now"`
	// AsOf is the watcher's last heartbeat: what follows from time alone follows from the earlier of it and
	// Now, so from no clock by itself. Zero in records of before planner version 11, which had Now alone.
	AsOf time.Time `json:"asOf,omitzero"`
	// Paced are the reasons of which so many claims were doomed a moment ago that this one waits, each with
	// until when.
	Paced map[string]time.Time `json:"paced,omitempty"`
	// LaunchTimeout and RegistrationTimeout; 0 means never.
	LaunchTimeout       time.Duration `json:"launchTimeout"`
	RegistrationTimeout time.Duration `json:"registrationTimeout"`
	// LaunchFrom is since when a claim that was never tried could be launched, if it is older: nobody was
	// there, or nothing was to be launched. Zero in records of programs that did not ask.
	LaunchFrom time.Time `json:"launchFrom,omitzero"`
	// Ledger is nil for a claim the Ledger does not know.
	Ledger *LedgerFacts `json:"ledger,omitempty"`
	// Object is nil if no NodeClaim of the name is known.
	Object *ObjectFacts `json:"object,omitempty"`
	// ObjectGone: the API server itself said that the Ledger's object does not exist. A cache that lacks it
	// proves nothing.
	ObjectGone bool `json:"objectGone,omitempty"`
	// Nodes whose provider id is the claim's, by name.
	Nodes []NodeFacts `json:"nodes,omitempty"`
	// NodeGone: the claim is registered, and for some minutes the API server itself has had no Node of it.
	NodeGone bool `json:"nodeGone,omitempty"`
	// NodeClass the claim refers to; nil if there is none or it is being deleted.
	NodeClass *NodeClassFacts `json:"nodeClass,omitempty"`
	// PoolMissing: no NodePool has the UID the claim was planned for. PoolGone: a list read from the API
	// server after the claim was planned says so too.
	PoolMissing bool `json:"poolMissing,omitempty"`
	PoolGone    bool `json:"poolGone,omitempty"`
	// Refused: for a while the API server has called the NodeClaim, as it is planned, invalid each time.
	Refused bool `json:"refused,omitempty"`
	// Failure of the last launch attempt, or of building its request; nil if nothing failed since.
	Failure *Failure `json:"failure,omitempty"`
	// Boot is what EC2 said about an instance whose Node is overdue; nil while it is not, or was not asked
	// about.
	Boot *Boot `json:"boot,omitempty"`
	// Instance is what EC2 last said.
	Instance InstanceFacts `json:"instance,omitzero"`
	// Interruptions are the messages about the instance from the interruption queue, in the order of
	// events.InterruptionKinds.
	Interruptions []Interruption `json:"interruptions,omitempty"`
	// Offering is what the instance runs on, as far as it is known; nil without an instance.
	Offering *Offering `json:"offering,omitempty"`
	// BlockEnds is when the capacity block ends that the instance runs in; zero if it runs in none.
	BlockEnds time.Time `json:"blockEnds,omitzero"`
	// Unhealthy is why the Node is to be replaced, and when; nil if it is healthy, or nothing is repaired.
	Unhealthy *Unhealthy `json:"unhealthy,omitempty"`
	// Sought: an inherited claim's instance was searched by its tag for long enough, and there is none.
	Sought bool `json:"sought,omitempty"`
	// CollectionHeld: so many instances vanished at once that a person has to look first.
	CollectionHeld bool `json:"collectionHeld,omitempty"`
	// Stopped: an operator has stopped everything; what creates or ends something waits. LogAway: the event
	// log can't be reached; nothing is decided or created, but what is recorded and converges goes on.
	Stopped bool `json:"stopped,omitempty"`
	LogAway bool `json:"logAway,omitempty"`
	// RetryAt: an effect of the claim failed; none is tried before.
	RetryAt time.Time `json:"retryAt,omitzero"`
}

// Classes of a Failure, as in ledger.LaunchFailed.
const (
	ClassNoCapacity = "no-capacity"
	ClassNotReady   = "not-ready"
	ClassTransient  = "transient"
	ClassPermanent  = "permanent"
)

// Failure of a launch. Reason and Message stand in the condition Launched.
type Failure struct {
	Class   string `json:"class"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// LedgerFacts of a claim.
type LedgerFacts struct {
	State ledger.ClaimState `json:"state"`
	UID   types.UID         `json:"uid,omitempty"`
	// Open: a launch attempt is open.
	Open       bool   `json:"open,omitempty"`
	Attempt    int    `json:"attempt,omitempty"`
	InstanceID string `json:"instanceID,omitempty"`
	// Doomed is the reason of ClaimDoomed; empty if the claim may live.
	Doomed string `json:"doomed,omitempty"`
	// Deadline is when the instance is taken away by a recorded notice; zero: none is recorded.
	Deadline   time.Time `json:"deadline,omitzero"`
	Terminated bool      `json:"terminated,omitempty"`
	// Inherited: another controller, or Millwright with another log, had the claim in hand and may have
	// launched for it.
	Inherited bool `json:"inherited,omitempty"`
}

// ObjectFacts of a NodeClaim.
type ObjectFacts struct {
	UID     types.UID `json:"uid"`
	Created time.Time `json:"created"`
	// Ours: the annotation millwright.sh/record names the record that planned the Ledger's claim.
	Ours bool `json:"ours,omitempty"`
	// Stray: it names a record of our log that planned it, but the Ledger's claim of the name was not
	// planned: the planned one was closed before the object was seen.
	Stray bool `json:"stray,omitempty"`
	// Inherited: it has no instance, and has the marks of another controller: see inherited.
	Inherited bool `json:"inherited,omitempty"`
	Finalizer bool `json:"finalizer,omitempty"`
	// Deleting is the deletionTimestamp; zero while the object lives.
	Deleting   time.Time `json:"deleting,omitzero"`
	ProviderID string    `json:"providerID,omitempty"`
	// AwaitsPartition: its Node is not registered yet, see AwaitsPartition.
	AwaitsPartition bool `json:"awaitsPartition,omitempty"`
	// LaunchedSince and RegisteredSince are when those conditions last changed their status; creation if they
	// are not there.
	LaunchedSince   time.Time `json:"launchedSince"`
	RegisteredSince time.Time `json:"registeredSince"`
	// Registered: the condition is True. InstanceTerminating likewise.
	Registered          bool `json:"registered,omitempty"`
	InstanceTerminating bool `json:"instanceTerminating,omitempty"`
	// ExpireAfter is nil for Never.
	ExpireAfter *time.Duration `json:"expireAfter,omitempty"`
	// GracePeriod: spec.terminationGracePeriod is set. Stamped: the termination timestamp is annotated, with
	// StampedAt, which is zero if it can't be read or recorded.
	GracePeriod bool      `json:"gracePeriod,omitempty"`
	Stamped     bool      `json:"stamped,omitempty"`
	StampedAt   time.Time `json:"stampedAt,omitzero"`
	NodeName    string    `json:"nodeName,omitempty"`
	// Tagged: both annotations say that the instance has its tags.
	Tagged bool `json:"tagged,omitempty"`
}

// NodeFacts of a Node that may be the claim's.
type NodeFacts struct {
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	Deleting  bool      `json:"deleting,omitempty"`
	Finalizer bool      `json:"finalizer,omitempty"`
	// Registered: the label is there and the unregistered taint is not.
	Registered bool `json:"registered,omitempty"`
	// Bare: nothing on it is of registration, neither finalizer nor owner nor label.
	Bare bool `json:"bare,omitempty"`
	// Open: it is not registered, and nothing keeps pods off it.
	Open  bool `json:"open,omitempty"`
	Ready bool `json:"ready,omitempty"`
	// Pending says why the node is not initialized yet; nil if nothing is missing.
	Pending *Pending `json:"pending,omitempty"`
	// Drained: the terminator recorded that nothing is left to wait for.
	Drained bool `json:"drained,omitempty"`
}

// Interruption is a message about the instance; see events.Interruption.
type Interruption struct {
	Kind string    `json:"kind"`
	At   time.Time `json:"at"`
	// Deadline is when the instance is taken away; zero if the message says nothing of it.
	Deadline time.Time `json:"deadline,omitzero"`
	// NotBefore is when a scheduled event begins.
	NotBefore time.Time `json:"notBefore,omitzero"`
	MessageID string    `json:"id,omitempty"`
	Detail    string    `json:"detail,omitempty"`
}

// Offering an instance runs on; empty where it is not known.
type Offering struct {
	InstanceType  string `json:"type,omitempty"`
	Zone          string `json:"zone,omitempty"`
	CapacityType  string `json:"capacityType,omitempty"`
	ReservationID string `json:"reservation,omitempty"`
	ImageID       string `json:"image,omitempty"`
}

// Unhealthy is the condition of a Node for which it is to be replaced first.
type Unhealthy struct {
	Condition string `json:"condition"`
	Status    string `json:"status"`
	// Reason is the condition's own.
	Reason string `json:"reason,omitempty"`
	// Since is when it came, Until how long it is tolerated.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Blocked says why nothing is repaired: too many of all are unhealthy.
	Blocked string `json:"blocked,omitempty"`
}

// NodeClassFacts: Ready is the status of the condition, at the current generation; else Unknown.
type NodeClassFacts struct {
	Ready   string `json:"ready"`
	Message string `json:"message,omitempty"`
}

// InstanceFacts: Terminated is a definite answer; Missing means that EC2 does not know the id although the
// launch is old enough to be visible. Ending: it is shutting down, or was asked to lately. None: it runs, or
// nobody asked yet.
type InstanceFacts struct {
	Terminated bool `json:"terminated,omitempty"`
	Missing    bool `json:"missing,omitempty"`
	Ending     bool `json:"ending,omitempty"`
}

// Gone reports that no instance is there any more.
func (f InstanceFacts) Gone() bool { return f.Terminated || f.Missing }
