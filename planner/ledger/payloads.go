package ledger

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner/ledger/payloads"
	"millwright/planner/resource"
)

// Payloads are encoded as JSON; encoding/json is deterministic for them (structs, slices, string-keyed maps).

// Payloads that are kept by themselves.
type (
	PodRef           = payloads.PodRef
	SignedHead       = payloads.SignedHead
	LedgerCheckpoint = payloads.LedgerCheckpoint
	SegmentArchived  = payloads.SegmentArchived
	MemoryDiscovered = payloads.MemoryDiscovered
	DroppedNode      = payloads.DroppedNode
	DrainStarted     = payloads.DrainStarted
	DrainTierStarted = payloads.DrainTierStarted
	NodeDrained      = payloads.NodeDrained
	DrainEnded       = payloads.DrainEnded
	DriftJudged      = payloads.DriftJudged
	JudgedClaim      = payloads.JudgedClaim
	DrainOutStarted  = payloads.DrainOutStarted
	NodeDrainingOut  = payloads.NodeDrainingOut
	HoldingPod       = payloads.HoldingPod
	DrainOutEnded    = payloads.DrainOutEnded
	SurgeDecided     = payloads.SurgeDecided
	SurgedOwner      = payloads.SurgedOwner
	SurgeFacts       = payloads.SurgeFacts
	BundleTaken      = payloads.BundleTaken
	SharesObserved   = payloads.SharesObserved
	SpotShare        = payloads.SpotShare
	MovedPods        = payloads.MovedPods
)

// Genesis starts a log.
type Genesis struct {
	// LogID is 128 random bits in hex.
	LogID   string `json:"logID"`
	Cluster string `json:"cluster"`
}

// OptionsSet holds the complete planning options in force from here on (planner.Options as JSON).
type OptionsSet struct {
	Options []byte `json:"options"`
}

// ModeChanged says that a service works in another mode from here on.
type ModeChanged struct {
	Service string `json:"service"`
	Mode    Mode   `json:"mode"`
}

// AlarmRaised tells people that something needs them; it changes nothing.
type AlarmRaised struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// ProvisioningPlanned is one decision of the provisioner: the NodeClaims to make and what changed in the
// verdicts on pending pods. It advances the pool of each claim. A decision that widens claims is of kind
// ProvisioningWidened, for who does not know of it must not go on without.
type ProvisioningPlanned struct {
	Claims []PlannedClaim `json:"claims,omitempty"`
	// Widened are claims, planned earlier and not made yet, that take more pods than all their types can
	// hold, by name.
	Widened []WidenedClaim `json:"widened,omitempty"`
	// Placements are pods that wait for a node or claim that exists or was planned earlier, by target.
	Placements []Placement `json:"placements,omitempty"`
	// Refused holds one entry per class of equal pods with equal reasons.
	Refused []Refused `json:"refused,omitempty"`
	// Excess are claims that static NodePools have too many; they are doomed from here on.
	Excess []ExcessClaim `json:"excess,omitempty"`
	// Gone are pods whose earlier verdict may be forgotten: bound or deleted.
	Gone []types.UID `json:"gone,omitempty"`
	// Excluded are nodes, by name, on which kube-scheduler did not put pods that were to go there.
	Excluded []Exclusion `json:"excluded,omitempty"`
	// Plain: no claim was to be widened, because a service of the cluster did not know ProvisioningWidened.
	Plain bool `json:"plain,omitempty"`
	// Search is where the Snapshot of the plan stood if its search took long and the record's own basis is
	// that of the Snapshot on which it was confirmed; nil else.
	Search *SearchBasis `json:"search,omitempty"`
}

// SearchBasis names a Snapshot.
type SearchBasis struct {
	Position   events.Position `json:"position"`
	LedgerSeq  uint64          `json:"ledgerSeq"`
	Now        time.Time       `json:"now"`
	OptionsSeq uint64          `json:"optionsSeq,omitempty"`
}

// WidenedClaim is a planned claim with what it is to be from here on: Content takes the place of what was
// planned. It names all pods of the claim, and advances the claim and its pool.
type WidenedClaim struct {
	Claim   string       `json:"claim"`
	Content PlannedClaim `json:"content"`
}

// Exclusion of a node for some pods, for ExclusionTime.
type Exclusion struct {
	Node string   `json:"node"`
	Pods []PodRef `json:"pods"`
}

// ExclusionTime is how long a node is excluded for a pod.
const ExclusionTime = 5 * time.Minute

// ExcessClaim is a claim to be deleted without regard to budgets.
type ExcessClaim struct {
	Claim  string    `json:"claim"`
	UID    types.UID `json:"uid"`
	Reason string    `json:"reason"`
}

// PlannedClaim is a NodeClaim to be made. Its name is ClaimName(log-id, pool, seq, index in the record).
type PlannedClaim struct {
	NodePool      string                    `json:"nodePool"`
	NodePoolUID   types.UID                 `json:"nodePoolUID,omitempty"`
	NodeClassRef  karpv1.NodeClassReference `json:"nodeClassRef"`
	Labels        map[string]string         `json:"labels,omitempty"`
	Annotations   map[string]string         `json:"annotations,omitempty"`
	Taints        []corev1.Taint            `json:"taints,omitempty"`
	StartupTaints []corev1.Taint            `json:"startupTaints,omitempty"`
	// Requirements are final, node.kubernetes.io/instance-type included, sorted by key.
	Requirements []karpv1.NodeSelectorRequirementWithMinValues `json:"requirements"`
	// InstanceTypes in price order; each of them can run all Pods. Claims of static NodePools name none.
	InstanceTypes []string `json:"instanceTypes"`
	// Requests sums the pods and the daemon overhead.
	Requests resource.Vector `json:"requests"`
	// Capacity is the per-resource maximum over InstanceTypes: what the claim may add to the pool's use.
	Capacity               resource.Vector         `json:"capacity"`
	Pods                   []PodRef                `json:"pods,omitempty"`
	ExpireAfter            karpv1.NillableDuration `json:"expireAfter,omitzero"`
	TerminationGracePeriod *time.Duration          `json:"terminationGracePeriod,omitempty"`
	// Cheapest is the offering the plan's price is computed from.
	Cheapest OfferingPrice `json:"cheapest"`
}

// OfferingPrice is an offering with its price when the decision was taken.
type OfferingPrice struct {
	InstanceType    string `json:"instanceType"`
	Zone            string `json:"zone"`
	CapacityType    string `json:"capacityType"`
	MicroUSDPerHour int64  `json:"price"`
	// ReservationID of reserved capacity.
	ReservationID string `json:"reservationID,omitempty"`
}

// Placement puts pods on a node, or on a claim that is not a node yet.
type Placement struct {
	Node  string   `json:"node,omitempty"`
	Claim string   `json:"claim,omitempty"`
	Pods  []PodRef `json:"pods"`
}

// Refused pods, with one reason per NodePool, or one of its own if no NodePool was looked at.
type Refused struct {
	Pods    []PodRef  `json:"pods"`
	Reasons []Refusal `json:"reasons"`
}

// Refusal says why a pod fits no node of a pool.
type Refusal struct {
	// NodePool is empty if the reason holds for all.
	NodePool string `json:"nodePool,omitempty"`
	// Constraint is from a closed set: pod, taints, requirements, resources, offering, limits, volumes,
	// topology, nodepool.
	Constraint string `json:"constraint"`
	// Message is the text users know (reference: scheduling §7.5, §11).
	Message string `json:"message"`
	// Eliminated counts the instance types that failed each constraint.
	Eliminated map[string]int `json:"eliminated,omitempty"`
	// Closest is the instance type that came nearest, and what it lacked.
	Closest string `json:"closest,omitempty"`
}

// ClaimWithdrawn closes a planned claim whose NodeClaim was never made: a decision of the provisioner if no
// pod needs it any more, an outcome of lifecycle if it can't be made.
type ClaimWithdrawn struct {
	Claim  string `json:"claim"`
	Reason string `json:"reason"`
}

// ClaimCreated says that the NodeClaim object of a planned claim exists.
type ClaimCreated struct {
	Claim string    `json:"claim"`
	UID   types.UID `json:"uid"`
	// Record is the one that gave the object its content, if the claim was ever widened; 0 else. What was
	// widened later came too late: it does not count, and the pods it brought have no verdict.
	Record uint64 `json:"record,omitempty"`
}

// ClaimAdopted opens a claim that was not planned in this log: made by hand or by Karpenter.
type ClaimAdopted struct {
	Claim      string    `json:"claim"`
	UID        types.UID `json:"uid"`
	NodePool   string    `json:"nodePool,omitempty"`
	ProviderID string    `json:"providerID,omitempty"`
	// Inherited: it has no instance, and another controller may have launched one. It is looked for by tag,
	// then the claim is deleted; nothing is launched.
	Inherited bool `json:"inherited,omitempty"`
}

// LogAdopted says that a person (--adopt) let this log take over a cluster whose objects name other logs.
type LogAdopted struct {
	// Logs are their ids, sorted.
	Logs []string `json:"logs"`
}

// LaunchRequested opens a launch attempt. From here until Launched or LaunchFailed the attempt is open: an
// instance may exist, and only the same bytes with the same token may be sent.
type LaunchRequested struct {
	Claim   string    `json:"claim"`
	UID     types.UID `json:"uid"`
	Attempt int       `json:"attempt"`
	// Token is ClientToken(log-id, UID, attempt).
	Token string `json:"token"`
	// Request is the complete CreateFleet request as JSON (ec2.CreateFleetInput). In a record it stands as
	// that JSON under call, or in base64 under request, as earlier programs wrote it (see package compact).
	Request []byte          `json:"request"`
	Call    json.RawMessage `json:"call,omitempty"`
	// LaunchTemplates by id and version, as named in Request.
	LaunchTemplates []LaunchTemplateRef `json:"launchTemplates"`
	// Annotations the NodeClaim gets once launched: hash and instance profile of the NodeClass the request
	// was built from.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Others are launched by the same request, sorted by claim; the record is a FleetRequested if there are
	// any. The request asks for one instance for each claim, and token and launch tag are those of Claim.
	Others []FleetMember `json:"others,omitempty"`
	// Lead is Claim of the record, in the Ledger's attempts of the Others; they have neither token nor
	// request of their own. Empty in records.
	Lead string `json:"lead,omitempty"`
}

// FleetMember is a claim that is launched by the request of another one.
type FleetMember struct {
	Claim   string    `json:"claim"`
	UID     types.UID `json:"uid"`
	Attempt int       `json:"attempt"`
}

// Members are the claims that the request launches for: its own, then the others.
func (p *LaunchRequested) Members() []FleetMember {
	return append([]FleetMember{{p.Claim, p.UID, p.Attempt}}, p.Others...)
}

// FleetAnswered closes the attempts of a FleetRequested, all at once: every member is either in Launched or
// in Failed, in the order of Members.
type FleetAnswered struct {
	Claim    string         `json:"claim"`
	Launched []Launched     `json:"launched,omitempty"`
	Failed   []LaunchFailed `json:"failed,omitempty"`
	// Unavailable: offerings of the fleet that failed. The entries of Launched and Failed name none.
	Unavailable []FailedOffering `json:"unavailable,omitempty"`
}

// LaunchTemplateRef names a version of a launch template.
type LaunchTemplateRef struct {
	ID      string `json:"id"`
	Version string `json:"version"`
	// ReservationID of the capacity reservation that the template targets; empty if none.
	ReservationID string `json:"reservationID,omitempty"`
	// PlacementGroup that the template names, as in OfferingKey; empty if none.
	PlacementGroup string `json:"placementGroup,omitempty"`
}

// Launched closes an attempt with an instance. Attempt 0 is of another controller: an inherited claim's
// instance was found.
type Launched struct {
	Claim        string    `json:"claim"`
	UID          types.UID `json:"uid"`
	Attempt      int       `json:"attempt"`
	InstanceID   string    `json:"instanceID"`
	ProviderID   string    `json:"providerID"`
	InstanceType string    `json:"instanceType"`
	Zone         string    `json:"zone"`
	CapacityType string    `json:"capacityType"`
	// ReservationID of the capacity reservation it runs in; empty if none.
	ReservationID string `json:"reservationID,omitempty"`
	// PlacementGroup that was asked for, as in OfferingKey; empty if none.
	PlacementGroup string `json:"placementGroup,omitempty"`
	ImageID        string `json:"imageID"`
	Price          int64  `json:"price"`
	// OnDemandPrice of a spot instance is that of its type in its zone, at the same time; 0 if not known.
	OnDemandPrice int64           `json:"onDemandPrice,omitempty"`
	Capacity      resource.Vector `json:"capacity"`
	// Allocatable, Labels and Annotations complete what the NodeClaim is told, so that it can be told again
	// after a crash although the catalogue has moved.
	Allocatable resource.Vector   `json:"allocatable,omitzero"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Unavailable: offerings of the fleet that failed although the fleet launched.
	Unavailable []FailedOffering `json:"unavailable,omitempty"`
}

// LaunchFailed closes an attempt without an instance.
type LaunchFailed struct {
	Claim   string    `json:"claim"`
	UID     types.UID `json:"uid"`
	Attempt int       `json:"attempt"`
	// Class: no-capacity, permanent, transient, not-ready.
	Class   string `json:"class"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Unavailable offerings are marked by the fold, with a backoff that grows with repeated failures.
	Unavailable []FailedOffering `json:"unavailable,omitempty"`
}

// FailedOffering is an offering EC2 had no capacity for.
type FailedOffering struct {
	InstanceType string `json:"instanceType,omitempty"`
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType,omitempty"`
	Code         string `json:"code"`
	// ReservationID: not the offering failed but this capacity reservation, which is full until EC2 is asked
	// again.
	ReservationID string `json:"reservationID,omitempty"`
	// SubnetID: not the offering failed but this subnet, which has no free address; InstanceType is empty.
	// With nothing but a CapacityType, all offerings that have it failed.
	SubnetID string `json:"subnetID,omitempty"`
	// PlacementGroup that was asked for, as in OfferingKey. If InstanceType is empty, the group has no place
	// for another instance in the zone.
	PlacementGroup string `json:"placementGroup,omitempty"`
}

// ClaimRegistered: the Node joined and carries its labels and taints.
type ClaimRegistered struct {
	Claim string `json:"claim"`
	Node  string `json:"node"`
}

// ClaimInitialized: the node is ready for pods.
type ClaimInitialized struct {
	Claim string `json:"claim"`
	Node  string `json:"node"`
}

// ClaimDoomed is the decision that a NodeClaim must be deleted. It doesn't wait for budgets.
type ClaimDoomed struct {
	Claim string    `json:"claim"`
	UID   types.UID `json:"uid"`
	// Reason: insufficient_capacity, nodeclass_not_ready, launch_timeout, registration_timeout, expired,
	// garbage_collected, unhealthy, nodepool_deleted, or an interruption kind.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Input is the complete input of the decision (claim.Input as JSON), so that it replays by itself.
	Input []byte `json:"input,omitempty"`
	// Deadline is when EC2 takes the instance away, by its notice; zero: no notice names one. A claim that is
	// going already is doomed again when its notice comes.
	Deadline time.Time `json:"deadline,omitzero"`
	// Unavailable: offerings, or a reservation, of which the cause says that they have no room.
	Unavailable []FailedOffering `json:"unavailable,omitempty"`
	// Failed is the instance, if it goes because it failed.
	Failed *FailedInstance `json:"failed,omitempty"`
}

// FailedInstance is what a node that failed ran on; empty where it is not known.
type FailedInstance struct {
	InstanceID   string `json:"instanceID"`
	ImageID      string `json:"imageID,omitempty"`
	InstanceType string `json:"instanceType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`
	// Cause is the condition of the Node, if that is why.
	Cause string `json:"cause,omitempty"`
}

// Equal compares two; nil is none.
func (f *FailedInstance) Equal(g *FailedInstance) bool {
	if f == nil || g == nil {
		return f == g
	}
	return *f == *g
}

// InstanceTerminated: EC2 says that the instance is terminated or does not exist.
type InstanceTerminated struct {
	Claim      string `json:"claim"`
	InstanceID string `json:"instanceID"`
}

// ClaimClosed: the NodeClaim object is gone, or will never come back to us; its claim leaves the Ledger.
type ClaimClosed struct {
	Claim  string    `json:"claim"`
	UID    types.UID `json:"uid,omitempty"`
	Reason string    `json:"reason"`
}

// Candidate is a node a command takes away, as it was when the command was decided.
type Candidate struct {
	Node         string          `json:"node"`
	Claim        string          `json:"claim"`
	ClaimUID     types.UID       `json:"claimUID"`
	ProviderID   string          `json:"providerID,omitempty"`
	NodePool     string          `json:"nodePool"`
	InstanceType string          `json:"instanceType,omitempty"`
	Zone         string          `json:"zone,omitempty"`
	CapacityType string          `json:"capacityType,omitempty"`
	Price        int64           `json:"price,omitempty"`
	Pods         []PodRef        `json:"pods,omitempty"`
	Capacity     resource.Vector `json:"capacity"`
	// Virtual pods of CapacityBuffers that have their room on the node. They exist nowhere else and are not
	// evicted.
	Virtual []PodRef `json:"virtual,omitempty"`
}

// CommandStarted is one decision of the disruptor. Its id is CommandID(log-id, seq). It advances the pools of
// its candidates and replacements and the nodes and claims of its candidates. One that moves pods is of kind
// CommandMovesStarted, for its fold gives them their places.
type CommandStarted struct {
	// Reason: Empty, Drifted, Underutilized, PreferredAvailable. Method: emptiness, static-drift, drift,
	// preferred, multi, single.
	Reason     karpv1.DisruptionReason `json:"reason"`
	Method     string                  `json:"method"`
	Candidates []Candidate             `json:"candidates"`
	// Replacements are to be made; they name the pods that go there.
	Replacements []PlannedClaim `json:"replacements,omitempty"`
	// Placements are the pods of the candidates that go to nodes that stay, by node.
	Placements []Placement `json:"placements,omitempty"`
	// PriceBefore is what the candidates cost per hour, PriceAfter what the replacements cost, in micro USD.
	// Evictions counts the pods that move.
	PriceBefore int64 `json:"priceBefore,omitempty"`
	PriceAfter  int64 `json:"priceAfter,omitempty"`
	Evictions   int   `json:"evictions,omitempty"`
	// Proposal is the id of the approved proposal that it carries out; empty if nobody had to approve it.
	Proposal string `json:"proposal,omitempty"`
	// Nth is how many commands the same pass, on the same Snapshot, came to before this one.
	Nth int `json:"nth,omitempty"`
	// SearchFrom is where the search of its pass went on from.
	SearchFrom SearchFrom `json:"searchFrom,omitzero"`
	// Wave of the roll-out that it is of; nil if no DisruptionPolicy wants drift in waves.
	Wave *Wave `json:"wave,omitempty"`
	// Rollout: the one node that it replaces has drifted because what the nodes of its NodePool are to be has
	// changed. With the option PayBackHistory.
	Rollout bool `json:"rollout,omitempty"`
}

// SearchFrom says where a search goes on that could not ask about all nodes in one pass: after the node of
// this name, by name and round and round; "" for the first. Each method goes its own way.
type SearchFrom struct {
	Drift         string `json:"drift,omitempty"`
	Consolidation string `json:"consolidation,omitempty"`
	Preferred     string `json:"preferred,omitempty"`
}

// CommandConfirmed: the taint is on all candidates and a Snapshot that contains it still allows the command.
type CommandConfirmed struct {
	ID string `json:"id"`
}

// CommandSucceeded: the deletion of all candidates was accepted.
type CommandSucceeded struct {
	ID string `json:"id"`
}

// CommandReduced takes nodes out of a command that was not confirmed yet, for the others can go without them;
// their taints and conditions are to be taken back.
type CommandReduced struct {
	ID      string        `json:"id"`
	Dropped []DroppedNode `json:"dropped"`
}

// CommandRolledBack: the command was given up; taints and conditions are to be taken back. One that ends
// replacements is of kind CommandAbandoned.
type CommandRolledBack struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
	// Unused are the replacements that no pod runs on or waits for: they go with the command.
	Unused []ExcessClaim `json:"unused,omitempty"`
	// Failing are the NodePools of replacements that will not come, or were made for nothing, sorted.
	Failing []string `json:"failing,omitempty"`
	// HaltsRollout: its wave has failed, so the roll-out takes no more nodes.
	HaltsRollout bool `json:"haltsRollout,omitempty"`
}

// OrphanFound: an instance tagged as ours has no NodeClaim and is terminated.
type OrphanFound struct {
	InstanceID string    `json:"instanceID"`
	ClaimTag   string    `json:"claimTag,omitempty"`
	LaunchTime time.Time `json:"launchTime"`
}
