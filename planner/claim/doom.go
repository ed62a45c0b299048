package claim

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"millwright/planner/ledger"
)

// Reasons of ClaimDoomed; also label values of karpenter_nodeclaims_disrupted_total.
const (
	ReasonNodePoolDeleted      = "nodepool_deleted"
	ReasonGarbageCollected     = "garbage_collected"
	ReasonInsufficientCapacity = "insufficient_capacity"
	ReasonNodeClassNotReady    = "nodeclass_not_ready"
	ReasonLaunchTimeout        = "launch_timeout"
	ReasonRegistrationTimeout  = "registration_timeout"
	ReasonNodeGone             = "node_gone"
	ReasonExpired              = "expired"
	ReasonWithdrawn            = "withdrawn"
	ReasonScaledDown           = "scaled_down"
	ReasonUnhealthy            = "unhealthy"
	ReasonBlockEnding          = "capacity_block_ending"
)

// nodeClassGrace is how long a claim without NodeClass waits: caches of different kinds are not in step.
const nodeClassGrace = 10 * time.Second

// dooms are the ways a claim ends without a person asking for it. Budgets do not apply to them.
var dooms = append(interruptions(), []Transition{
	{Move: Doom, From: living, To: Deleting, Reason: ReasonExpired, When: view.expired, Text: view.expiredText},
	{Move: Doom, From: noticed, To: Deleting, Reason: ReasonBlockEnding, When: view.blockEnding, Text: view.blockText},
	{Move: Doom, From: []State{Created}, To: Deleting, Reason: ReasonWithdrawn, When: view.stray},
	{Move: Doom, From: living, To: Deleting, Reason: ReasonNodePoolDeleted, When: view.orphaned},
	{Move: Doom, From: []State{Launched, Registered, Initialized}, To: Deleting, Reason: ReasonGarbageCollected, When: view.collectable},
	{Move: Doom, From: []State{Created}, To: Deleting, Reason: ReasonGarbageCollected, When: view.abandoned, Text: abandonedText},
	{Move: Doom, From: []State{Created}, To: Deleting, Reason: ReasonInsufficientCapacity, When: view.noCapacity, Text: view.failureText},
	{Move: Doom, From: []State{Created}, To: Deleting, Reason: ReasonInsufficientCapacity, When: view.noNodeClass, Text: noNodeClassText},
	{Move: Doom, From: []State{Created}, To: Deleting, Reason: ReasonNodeClassNotReady, When: view.classNotReady, Text: view.classText},
	{Move: Doom, From: []State{Created, Launching}, To: Deleting, Reason: ReasonLaunchTimeout, When: view.launchLate, Text: view.failureText},
	{Move: Doom, From: []State{Created, Launched}, To: Deleting, Reason: ReasonRegistrationTimeout, When: view.registrationLate, Text: view.bootText},
	{Move: Doom, From: []State{Registered, Initialized, Deleting}, To: Deleting, Reason: ReasonUnhealthy, When: view.unhealthy, Text: view.unhealthyText},
	{Move: Doom, From: []State{Launched, Registered, Initialized}, To: Deleting, Reason: ReasonNodeGone, When: view.nodeless},
}...)

// ErrNotDoomed: the input of a ClaimDoomed record does not lead to its decision.
var ErrNotDoomed = fmt.Errorf("input does not doom the claim")

// Replay decides again from a record's own input, and returns the explanation of that or reports a
// difference.
func Replay(d *ledger.ClaimDoomed) (Explanation, error) {
	var in Input
	if err := json.Unmarshal(d.Input, &in); err != nil {
		return Explanation{}, fmt.Errorf("decode input of doomed claim %s: %w", d.Claim, err)
	}
	got := Next(in)
	if got.Move != Doom || got.Reason != d.Reason || got.Message != d.Message || in.Name != d.Claim {
		return Explanation{}, fmt.Errorf("%w: %s: recorded %s, replayed %s %s", ErrNotDoomed, d.Claim, d.Reason, got.Move, got.Reason)
	}
	if again := Payload(in, got); !again.Deadline.Equal(d.Deadline) || !slices.Equal(again.Unavailable, d.Unavailable) || !again.Failed.Equal(d.Failed) {
		return Explanation{}, fmt.Errorf("%w: %s: recorded %s by %s, replayed by %s", ErrNotDoomed, d.Claim, d.Reason, d.Deadline, again.Deadline)
	}
	return Explain(in, got), nil
}

// Explanation of a ClaimDoomed record.
type Explanation struct {
	Message string `json:"message"`
	Reason  string `json:"reason"`
	State   State  `json:"state"`
}

// Explain says why a claim is doomed.
func Explain(in Input, a Action) Explanation {
	return Explanation{Message: a.Message, Reason: a.Reason, State: StateOf(in)}
}

// doomable: alive, not doomed before, and not one whose instance is yet to be found.
func (v view) doomable() bool { return !v.deleting() && v.Ledger.Doomed == "" && !v.unsought() }

// undated: the claim is going, and nothing has said yet when EC2 takes its instance.
func undated(v view) bool {
	return !v.doomable() && v.Ledger.Deadline.IsZero() && !v.Instance.Gone()
}

// TimedReasons are those that follow from time alone. A clock that is wrong would doom every claim by them,
// so they are paced.
var TimedReasons = []string{ReasonExpired, ReasonLaunchTimeout, ReasonRegistrationTimeout, ReasonNodeGone, ReasonUnhealthy, ReasonBlockEnding}

// Timed reports that a reason is one of TimedReasons.
func Timed(reason string) bool { return slices.Contains(TimedReasons, reason) }

// timely: a reason that follows from time alone may doom the claim now.
func (v view) timely(reason string) bool { return v.doomable() && !v.certain().Before(v.Paced[reason]) }

// certain is the time that it is at least, by more than one clock.
func (v view) certain() time.Time {
	if !v.AsOf.IsZero() && v.AsOf.Before(v.Now) {
		return v.AsOf
	}
	return v.Now
}

func (v view) expired() bool { return v.timely(ReasonExpired) && passed(v.certain(), v.expiry()) }

func (v view) expiredText() string { return "expired after " + v.object.ExpireAfter.String() }

// blockLead is how long before the end of a capacity block its nodes go; blockTaken is how long before it EC2
// begins to terminate the instances (ec2 §2.5).
const (
	blockLead  = 40 * time.Minute
	blockTaken = 30 * time.Minute
)

// blockLeaves is when the claim goes because its capacity block ends; zero: it is in none.
func (v view) blockLeaves() time.Time {
	if v.BlockEnds.IsZero() {
		return time.Time{}
	}
	return v.BlockEnds.Add(-blockLead)
}

// BlockLeaves reports that the nodes of a capacity block with this end go, so that it takes no others. The
// zero time is of no block.
func BlockLeaves(end, now time.Time) bool { return !end.IsZero() && !now.Before(end.Add(-blockLead)) }

// blockEnding: the end of its capacity block ends the claim, or names the deadline of one that is going.
func (v view) blockEnding() bool {
	if !passed(v.certain(), v.blockLeaves()) || v.unsought() {
		return false
	}
	return v.timely(ReasonBlockEnding) || undated(v) && !v.certain().Before(v.Paced[ReasonBlockEnding])
}

func (v view) blockText() string {
	return "the capacity block of the instance ends at " + v.BlockEnds.UTC().Format(time.RFC3339)
}

// stray: the plan behind the object was given up; nothing was launched for it.
func (v view) stray() bool { return v.doomable() && v.object.Stray }

// orphaned: Kubernetes deletes the claim of a deleted NodePool through its owner; this says why, and doesn't
// wait.
func (v view) orphaned() bool { return v.doomable() && v.PoolGone }

// collectable: EC2 says terminated; or a registered claim's instance is not known to EC2 and no kubelet
// answers.
func (v view) collectable() bool {
	if !v.doomable() || v.CollectionHeld || !v.vanished() {
		return false
	}
	return v.Instance.Terminated || v.state != Launched || v.object.Registered
}

// abandoned: nothing was ever launched for an inherited claim. What its pods need is planned anew.
func (v view) abandoned() bool { return v.doomable() && v.Ledger.Inherited && !v.launched() }

func abandonedText(view) string { return "left without an instance by another controller" }

func (v view) failed(class string) bool {
	return v.doomable() && v.Failure != nil && v.Failure.Class == class
}

func (v view) noCapacity() bool { return v.failed(ClassNoCapacity) }

func (v view) noNodeClass() bool {
	return v.doomable() && v.NodeClass == nil && passed(v.certain(), v.object.Created.Add(nodeClassGrace))
}

func (v view) classNotReady() bool {
	return v.failed(ClassNotReady) || v.doomable() && v.NodeClass != nil && v.NodeClass.Ready == "False"
}

func (v view) launchLate() bool {
	return v.timely(ReasonLaunchTimeout) && passed(v.certain(), v.launchDeadline())
}

// registrationLate: no Node came, or EC2 does not say which partition it is in. One that is there is
// registered, however late: who adopts a claim or comes back after an outage did not give it the time.
func (v view) registrationLate() bool {
	return v.timely(ReasonRegistrationTimeout) && !v.object.Registered && (!v.joined() || v.object.AwaitsPartition) && passed(v.certain(), v.registrationDeadline())
}

// nodeless: the Node was deleted without our finalizer, and did not come back. The instance runs for nothing,
// and pods planned for it would wait forever. A claim whose object says that it is registered may be short of
// the record of that.
func (v view) nodeless() bool {
	return v.timely(ReasonNodeGone) && v.NodeGone && len(v.Nodes) == 0
}

func (v view) joined() bool { return len(v.Nodes) == 1 && !v.Nodes[0].Deleting }

func (v view) failureText() string {
	if v.Failure == nil {
		return ""
	}
	return cut(v.Failure.Message)
}

func noNodeClassText(view) string { return "NodeClass not found" }

func (v view) classText() string {
	if v.Failure != nil && v.Failure.Class == ClassNotReady {
		return cut(v.Failure.Message)
	}
	return cut(v.NodeClass.Message)
}
