package claim

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrIllegal: the move does not start in this state.
var ErrIllegal = errors.New("illegal move of a claim")

// Move names an act on a claim.
type Move string

const (
	// Wait: nothing to do before Action.At, or before a fact changes.
	Wait Move = "wait"
	// Adopt opens a claim for an object the Ledger does not know.
	Adopt Move = "adopt"
	// Withdraw closes a planned claim whose NodeClaim is not to be made.
	Withdraw Move = "withdraw"
	// Create makes the NodeClaim. RecordCreated: it is there already and is ours.
	Create        Move = "create"
	RecordCreated Move = "record-created"
	// Doom is the decision that the claim goes; Delete carries it out, or follows the user who deleted the
	// Node.
	Doom   Move = "doom"
	Delete Move = "delete"
	// Find asks the API server for an object that the cache does not have.
	Find Move = "find"
	// Guard adds the finalizer to an object that was made without it.
	Guard Move = "guard"
	// Seek looks by tag for the instance of an inherited claim.
	Seek Move = "seek"
	// Launch opens an attempt and sends it. Resolve sends an open one again, or finds out what came of it.
	Launch  Move = "launch"
	Resolve Move = "resolve"
	// Register and Initialize write on the Node, then record. Tag writes on the instance.
	Register   Move = "register"
	Initialize Move = "initialize"
	Tag        Move = "tag"
	// Stamp annotates the termination timestamp. DeleteNodes asks for the drain.
	Stamp       Move = "stamp"
	DeleteNodes Move = "delete-nodes"
	// Terminate asks EC2, and asks again until the instance is gone. Confirm records that it is.
	Terminate Move = "terminate"
	Confirm   Move = "confirm"
	// Release removes finalizers. Close records that the object is gone.
	Release Move = "release"
	Close   Move = "close"
)

// Action is the next move of a claim.
type Action struct {
	Move Move `json:"move"`
	// Reason and Message of Doom and Withdraw; Reason of Delete.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// At: when Wait ends by itself; zero if only a new fact can end it.
	At time.Time `json:"at,omitzero"`
}

// Transition is a legal move: from any state of From to To, if it succeeds; with an empty To the state stays.
// It is the next move if When says so and no earlier one in the table does.
type Transition struct {
	Move Move
	From []State
	To   State
	// Reason of a Doom or Withdraw.
	Reason string
	When   func(v view) bool
	// Text gives the message; nil means none.
	Text func(v view) string
}

// Table of the legal moves, in the order they are tried. What ends a claim comes before what carries it on.
var Table = slices.Concat(openings, dooms, steps, endings)

var openings = []Transition{
	{Move: Adopt, From: []State{Unknown}, To: Created, When: always},
	{Move: RecordCreated, From: []State{Planned}, To: Created, When: view.ours},
	{Move: Withdraw, From: []State{Planned}, To: Closed, Reason: "name_taken", When: view.foreign},
	{Move: Withdraw, From: []State{Planned}, To: Closed, Reason: "nodepool_deleted", When: view.poolGone},
	{Move: Withdraw, From: []State{Planned}, To: Closed, Reason: "nodeclaim_refused", When: refused},
	{Move: Create, From: []State{Planned}, To: Created, When: view.creatable},
}

var steps = []Transition{
	{Move: Find, From: []State{Missing}, When: always},
	{Move: Seek, From: []State{Created, Terminated}, When: view.unsought},
	{Move: Delete, From: living, To: Deleting, When: view.unwanted},
	{Move: Resolve, From: []State{Launching}, To: Launched, When: always},
	{Move: Guard, From: []State{Created, Launched, Registered, Initialized}, When: view.unguarded},
	{Move: Launch, From: []State{Created}, To: Launching, When: view.launchable},
	{Move: Register, From: []State{Launched}, To: Registered, When: view.registrable},
	{Move: Register, From: []State{Registered, Initialized}, To: Registered, When: rejoined},
	{Move: Initialize, From: []State{Registered}, To: Initialized, When: view.initializable},
	{Move: Tag, From: []State{Registered, Initialized}, When: view.untagged},
}

var endings = []Transition{
	{Move: Stamp, From: []State{Deleting}, When: view.unstamped},
	{Move: Confirm, From: []State{Deleting}, To: Terminated, When: view.confirmable},
	{Move: DeleteNodes, From: []State{Deleting}, When: view.hasLivingNodes},
	{Move: Terminate, From: []State{Deleting}, When: view.terminable},
	{Move: Release, From: []State{Terminated}, When: view.releasable},
	{Move: Close, From: []State{Terminated}, To: Closed, When: view.closable},
}

// Next returns the next move. It is total: facts that fit no move yield Wait. An effect that failed holds up
// everything but decisions.
func Next(in Input) Action {
	v := viewOf(in)
	for _, t := range Table {
		if !slices.Contains(t.From, v.state) || t.Move != Doom && !v.due() || v.forbidden(t.Move) || !t.When(v) {
			continue
		}
		a := Action{Move: t.Move, Reason: t.Reason}
		if t.Text != nil {
			a.Message = t.Text(v)
		}
		return a
	}
	return Action{Move: Wait, At: v.wakeup()}
}

// Apply returns the state a move leads to by the table, or ErrIllegal.
func Apply(s State, m Move) (State, error) {
	if m == Wait {
		return s, nil
	}
	for _, t := range Table {
		if t.Move == m && slices.Contains(t.From, s) {
			return State(orElse(string(t.To), string(s))), nil
		}
	}
	return s, fmt.Errorf("%w: %s in state %s", ErrIllegal, m, s)
}

func always(view) bool { return true }

func (v view) due() bool { return !v.Now.Before(v.RetryAt) }

func (v view) ours() bool    { return v.object != nil && v.object.Ours }
func (v view) foreign() bool { return v.object != nil && !v.object.Ours }

func (v view) poolGone() bool  { return v.PoolGone && v.Object == nil }
func (v view) creatable() bool { return v.Object == nil && !v.PoolMissing }

// refused: the API server does not take the object, and never took it.
func refused(v view) bool { return v.Refused && v.Object == nil }

// deleting reports that the claim's object is being deleted or gone.
func (v view) deleting() bool { return v.object == nil || !v.object.Deleting.IsZero() }

// unwanted: doomed, or the user deleted its Node.
func (v view) unwanted() bool {
	if v.deleting() {
		return false
	}
	return v.Ledger.Doomed != "" || slices.ContainsFunc(v.held(), func(n NodeFacts) bool { return n.Deleting })
}

func (v view) unguarded() bool { return !v.object.Finalizer }

func (v view) launchable() bool {
	return !v.Ledger.Inherited && v.NodeClass != nil && v.NodeClass.Ready == "True"
}

func (v view) registrable() bool {
	return v.object.ProviderID != "" && v.joined() && !v.object.AwaitsPartition
}

// rejoined: the Node was deleted without our finalizer, and kubelet has made it anew. It is registered and
// initialized once more; while that can't be recorded it waits.
func rejoined(v view) bool { return v.registrable() && v.Nodes[0].Bare && !v.LogAway }

func (v view) initializable() bool {
	return len(v.Nodes) == 1 && !v.Nodes[0].Deleting && v.Nodes[0].Registered && v.Nodes[0].Pending == nil
}

func (v view) untagged() bool { return !v.object.Tagged && v.object.NodeName != "" }

func (v view) unstamped() bool {
	return v.object != nil && (v.object.GracePeriod && (!v.object.Stamped || v.object.StampedAt.IsZero()) || repaired(v))
}

// repaired: the Node is beyond help, so that its pods are not waited for any longer, and the object does not
// say so yet (reference: lifecycle §10).
func repaired(v view) bool {
	l, at := v.Ledger, v.object.StampedAt
	return l.Doomed == ReasonUnhealthy && !l.Deadline.IsZero() && (at.IsZero() || at.After(l.Deadline))
}

// Deadline is when a claim's pods are deleted whatever protects them: terminationGracePeriod after its
// deletion, or, to repair a Node, when that was decided. It is for a claim to which Stamp applies.
func Deadline(in Input, gracePeriod time.Duration) time.Time {
	if v := viewOf(in); repaired(v) {
		return v.Ledger.Deadline.UTC()
	}
	return in.Object.Deleting.Add(gracePeriod).UTC()
}

func (v view) hasLivingNodes() bool {
	return slices.ContainsFunc(v.Nodes, func(n NodeFacts) bool { return n.toDrain() && !n.Deleting })
}

// confirmable: the instance is gone, and no Node that still runs waits for its drain.
func (v view) confirmable() bool { return v.Instance.Gone() && (v.vanished() || v.drained()) }

func (v view) terminable() bool { return v.drained() && !v.Instance.Ending }

func (v view) releasable() bool {
	return len(v.held()) > 0 || v.object != nil && v.object.Finalizer
}

func (v view) closable() bool { return v.object == nil && len(v.held()) == 0 }
