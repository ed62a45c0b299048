package ledger

import (
	"cmp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/resource"
)

// ClaimState is where a claim stands in its life, by record.
type ClaimState string

const (
	ClaimPlanned          ClaimState = "Planned"   // decided; the NodeClaim may not exist yet
	ClaimCreatedOnce      ClaimState = "Created"   // the NodeClaim exists, no instance asked for
	ClaimLaunching        ClaimState = "Launching" // an attempt is open
	ClaimLaunchFailed     ClaimState = "LaunchFailed"
	ClaimLaunched         ClaimState = "Launched"
	ClaimRegisteredState  ClaimState = "Registered"
	ClaimInitializedState ClaimState = "Initialized"
)

// Claim is an open claim: planned or adopted and not yet closed or withdrawn.
type Claim struct {
	Name string `json:"Name"`
	// Planned is nil for an adopted claim.
	Planned *PlannedClaim `json:"Planned"`
	// PlannedSeq is the record that planned or adopted it; CommandID is set for replacements.
	PlannedSeq uint64 `json:"PlannedSeq"`
	// WidenedSeq is the record that Planned is of, if it was widened; 0 else. Earlier is what was planned
	// before, oldest first, until it is known which of all that the NodeClaim was made of.
	WidenedSeq uint64           `json:"WidenedSeq,omitempty"`
	Earlier    []EarlierContent `json:"Earlier,omitempty"`
	CommandID  string           `json:"CommandID"`
	NodePool   string           `json:"NodePool"`
	State      ClaimState       `json:"State"`
	UID        types.UID        `json:"UID"`
	// Attempt counts launch attempts; Open is the open one, nil if none.
	Attempt int              `json:"Attempt"`
	Open    *LaunchRequested `json:"Open"`
	// Failed is the last attempt that failed; nil before the first and once launched.
	Failed *LaunchFailed `json:"Failed"`
	// OpenSeq and OpenedAt are of the LaunchRequested record.
	OpenSeq  uint64    `json:"OpenSeq"`
	OpenedAt time.Time `json:"OpenedAt"`
	Instance *Launched `json:"Instance"`
	Node     string    `json:"Node"`
	// RegisteredAt is when its node joined; zero before, and for adopted claims.
	RegisteredAt time.Time    `json:"RegisteredAt,omitzero"`
	Doomed       *ClaimDoomed `json:"Doomed"`
	// TakenBy is the command whose success doomed it; empty if something else did.
	TakenBy string `json:"TakenBy,omitempty"`
	// RolledOut: a command of a wave has replaced it, whatever doomed it. With the option WavesAwaitDoomed.
	RolledOut bool `json:"RolledOut,omitempty"`
	// RolledOutTo is the target of that roll-out. Since Revision8.
	RolledOutTo string `json:"RolledOutTo,omitempty"`
	// KeptAt is when a command that was to replace it last failed for its replacements; zero if none did.
	// Since Revision8.
	KeptAt time.Time `json:"KeptAt,omitzero"`
	// Returned: a command with reason PreferredAvailable has made it, and succeeded.
	Returned bool `json:"Returned,omitempty"`
	// Inherited: adopted without an instance from another controller, which may have launched one. Never
	// launched.
	Inherited bool `json:"Inherited,omitempty"`
	// Terminated: EC2 said that the instance is gone.
	Terminated bool `json:"Terminated"`
	// Capacity counts against the pool's limits: of the instance once launched, else the planned maximum.
	Capacity resource.Vector `json:"Capacity"`
}

// EarlierContent of a claim that was widened since, as record Seq planned it.
type EarlierContent struct {
	Seq     uint64        `json:"Seq"`
	Planned *PlannedClaim `json:"Planned"`
}

// ContentSeq is the record that Planned is of.
func (c *Claim) ContentSeq() uint64 { return cmp.Or(c.WidenedSeq, c.PlannedSeq) }

// ContentOf returns what record seq planned for the claim, as long as the NodeClaim may be made of it; nil if
// nothing.
func (c *Claim) ContentOf(seq uint64) *PlannedClaim {
	if seq == c.ContentSeq() {
		return c.Planned
	}
	for _, x := range c.Earlier {
		if x.Seq == seq {
			return x.Planned
		}
	}
	return nil
}

// CommandState is where a command stands.
type CommandState string

const (
	CommandStartedState   CommandState = "Started"
	CommandConfirmedState CommandState = "Confirmed"
)

// Command that has neither succeeded nor been rolled back.
type Command struct {
	ID      string         `json:"ID"`
	Seq     uint64         `json:"Seq"`
	State   CommandState   `json:"State"`
	Started CommandStarted `json:"Started"`
	At      time.Time      `json:"At"`
}

// Drain of a node that has not ended.
type Drain struct {
	Started DrainStarted `json:"Started"`
	Seq     uint64       `json:"Seq"`
	// Tier is the last one started, 0 before the first.
	Tier int `json:"Tier"`
	// TierPods are the pods named by the records of the current tier; false: as held back only, since
	// Revision8.
	TierPods map[types.UID]bool `json:"TierPods"`
	// Drained is the sequence of NodeDrained; 0 while draining.
	Drained uint64 `json:"Drained"`
	// Surges are what was decided of pods of the node that nothing stands in for.
	Surges map[types.UID]Surge `json:"Surges,omitempty"`
	At     time.Time           `json:"At"`
}

// OfferingKey names an offering across NodeClasses.
type OfferingKey struct {
	InstanceType string `json:"InstanceType"`
	Zone         string `json:"Zone"`
	CapacityType string `json:"CapacityType"`
	// PlacementGroup is an id, or "id/number" of one of its partitions: the mark is of launches into it
	// alone. "" is of all launches. With a group, an empty InstanceType and CapacityType stand for all there
	// are in the zone. A CapacityType alone stands for all offerings that have it.
	PlacementGroup string `json:"PlacementGroup,omitempty"`
}

// Wider returns the keys whose marks hold for an offering: its own and those of which it is a part.
func (k OfferingKey) Wider() []OfferingKey {
	keys := []OfferingKey{k, {CapacityType: k.CapacityType}}
	group, _, partition := strings.Cut(k.PlacementGroup, "/")
	if group == "" {
		return keys
	}
	if partition {
		keys = append(keys, OfferingKey{k.InstanceType, k.Zone, k.CapacityType, group})
	}
	return append(keys, OfferingKey{Zone: k.Zone, PlacementGroup: group}, OfferingKey{k.InstanceType, k.Zone, k.CapacityType, ""})
}

// UnavailableOffering, or subnet, is marked until a time, longer with each failure in a row.
type UnavailableOffering struct {
	Until    time.Time `json:"Until"`
	Failures int       `json:"Failures"`
	Code     string    `json:"Code"`
	Seq      uint64    `json:"Seq"`
}

// Verdict on a pod that was last recorded.
type Verdict struct {
	Seq uint64 `json:"Seq"`
	// Node or Claim the pod waits for; both empty if refused.
	Node  string `json:"Node"`
	Claim string `json:"Claim"`
	// Digest of the reasons of a refusal.
	Digest uint64 `json:"Digest"`
	Pod    PodRef `json:"Pod"`
	// Since is the Now of the record that first gave this verdict.
	Since time.Time `json:"Since"`
	// Excluded nodes take the pod no more for a while, though by our rules they could.
	Excluded []ExcludedNode `json:"Excluded,omitempty"`
}

// ExcludedNode until a time.
type ExcludedNode struct {
	Node  string    `json:"Node"`
	Until time.Time `json:"Until"`
}

// ExcludedAt returns the nodes that are excluded for the pod at a time; nil for no verdict.
func (v *Verdict) ExcludedAt(now time.Time) []ExcludedNode {
	if v == nil {
		return nil
	}
	var list []ExcludedNode
	for _, x := range v.Excluded {
		if now.Before(x.Until) {
			list = append(list, x)
		}
	}
	return list
}
