package claim

import (
	"slices"

	"millwright/planner/ledger"
)

// State is where a claim stands, derived from the facts.
type State string

const (
	// Unknown: the object exists, the Ledger has no claim of the name.
	Unknown State = "Unknown"
	// Planned: the Ledger has not recorded the object yet.
	Planned State = "Planned"
	// Created: there is an object and no instance, and none was asked for.
	Created State = "Created"
	// Launching: an attempt is open; there may be an instance. It is left only by closing the attempt.
	Launching State = "Launching"
	// Launched: there is an instance.
	Launched    State = "Launched"
	Registered  State = "Registered"
	Initialized State = "Initialized"
	// Missing: the object was there and is no longer found; nothing may be concluded before the API server
	// was asked.
	Missing State = "Missing"
	// Deleting: the object is being deleted or gone, and an instance may run.
	Deleting State = "Deleting"
	// Terminated: there is no instance any more; the object or Nodes may still exist.
	Terminated State = "Terminated"
	// Closed: nothing is left, neither in the cluster nor in the Ledger.
	Closed State = "Closed"
)

// living states are those in which a claim can be doomed.
var living = []State{Created, Launching, Launched, Registered, Initialized}

// view is an Input with what the guards derive from it.
type view struct {
	Input
	// object is the claim's own: nil if the name belongs to another object.
	object *ObjectFacts
	state  State
}

func viewOf(in Input) view {
	v := view{Input: in, object: in.Object}
	if in.Ledger != nil && in.Ledger.UID != "" && in.Object != nil && in.Object.UID != in.Ledger.UID {
		v.object = nil
	}
	v.state = v.derive()
	return v
}

// StateOf derives the state of a claim.
func StateOf(in Input) State { return viewOf(in).state }

func (v view) derive() State {
	switch l := v.Ledger; {
	case l == nil && v.Object == nil:
		return Closed
	case l == nil:
		return Unknown
	case l.State == ledger.ClaimPlanned:
		return Planned
	case l.Open:
		return Launching
	case v.object != nil && v.object.Deleting.IsZero():
		return v.alive()
	case v.Object == nil && !v.ObjectGone:
		return Missing
	case !v.launched() || l.Terminated:
		return Terminated
	}
	return Deleting
}

func (v view) alive() State {
	switch v.Ledger.State {
	case ledger.ClaimRegisteredState:
		return Registered
	case ledger.ClaimInitializedState:
		return Initialized
	}
	if v.launched() {
		return Launched
	}
	return Created
}

// launched reports that an instance was launched for the claim, by the Ledger or by its object.
func (v view) launched() bool {
	return v.Ledger != nil && v.Ledger.InstanceID != "" || v.object != nil && v.object.ProviderID != ""
}

// unsought: another controller may have launched for the claim, and nobody has looked yet. Until then nothing
// is launched for it and it is not released.
func (v view) unsought() bool {
	return v.Ledger != nil && v.Ledger.Inherited && !v.Ledger.Terminated && !v.Sought && !v.launched()
}

// held are Nodes that stay until we release them: registered, or with our finalizer.
func (v view) held() []NodeFacts {
	var held []NodeFacts
	for _, n := range v.Nodes {
		if n.Finalizer || n.Registered {
			held = append(held, n)
		}
	}
	return held
}

// toDrain: it stays until we release it, or it joined without the taint that keeps pods off until it is
// registered, so that it may have some.
func (n NodeFacts) toDrain() bool { return n.Finalizer || n.Registered || n.Open }

// drained reports that no Node has pods to wait for.
func (v view) drained() bool {
	return !slices.ContainsFunc(v.Nodes, func(n NodeFacts) bool { return n.toDrain() && !n.Drained })
}

// vanished reports that EC2 has no instance any more and that no kubelet says otherwise.
func (v view) vanished() bool {
	ready := slices.ContainsFunc(v.Nodes, func(n NodeFacts) bool { return n.Ready })
	return v.Instance.Gone() && !ready
}
