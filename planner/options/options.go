// Package options holds the settings that planners plan by: what they are, their defaults, the feature gates
// that set some of them, and the bytes that the log keeps them as. It knows of nothing else, so that the
// Ledger can hand them out decoded.
package options

import (
	"encoding/json"
	"fmt"
	"time"
)

// Options are the settings that can change a decision. They are recorded whole (OptionsSet).
type Options struct {
	// BatchIdleDuration and BatchMaxDuration bound the wait for more pods before planning.
	BatchIdleDuration time.Duration `json:"batchIdleDuration"`
	BatchMaxDuration  time.Duration `json:"batchMaxDuration"`
	// PreferencePolicy: Respect or Ignore. MinValuesPolicy: Strict or BestEffort.
	PreferencePolicy string `json:"preferencePolicy"`
	MinValuesPolicy  string `json:"minValuesPolicy"`
	// InstanceTypesMax bounds the instance types of a planned claim.
	InstanceTypesMax int `json:"instanceTypesMax"`
	// NodeOverlays: they are applied (feature gate NodeOverlay).
	NodeOverlays bool `json:"nodeOverlays"`
	// SpotToSpot lets consolidation replace spot nodes by cheaper spot nodes.
	SpotToSpot bool `json:"spotToSpot,omitempty"`
	// Rebalance says what follows from rebalance recommendations: RebalanceReplace, or nothing.
	Rebalance string `json:"rebalance,omitempty"`
	// NodeRepair: nodes that are unhealthy by RepairPolicies are replaced (feature gate NodeRepair).
	NodeRepair     bool           `json:"nodeRepair,omitempty"`
	RepairPolicies []RepairPolicy `json:"repairPolicies,omitempty"`
	// CapacityBuffers: room is kept for them (feature gate CapacityBuffer).
	CapacityBuffers bool `json:"capacityBuffers,omitempty"`
	// NodeCost is what a node costs by itself, whatever its type, in micro USD per hour: DaemonSets, agents,
	// addresses. It counts in every comparison of plans; 0: by price alone.
	NodeCost int64 `json:"nodeCost"`
	// EvictionCost is what it costs to evict a pod for consolidation, in micro USD, by its deletion cost more
	// or less; 0: nothing. What is saved must pay for it while it lasts: EvictionHorizon, or longer.
	EvictionCost    int64         `json:"evictionCost"`
	EvictionHorizon time.Duration `json:"evictionHorizon"`
	// LaunchTimeout and RegistrationTimeout: a claim without instance or node for longer is deleted.
	LaunchTimeout       time.Duration `json:"launchTimeout"`
	RegistrationTimeout time.Duration `json:"registrationTimeout"`
	// ProvisionFreshness and DisruptFreshness: how old the World's as-of may be for a decision.
	ProvisionFreshness time.Duration `json:"provisionFreshness"`
	DisruptFreshness   time.Duration `json:"disruptFreshness"`
	// OfferingBackoff is the first mark of an offering that failed; doubled per failure in a row up to Max.
	OfferingBackoff    time.Duration `json:"offeringBackoff"`
	OfferingBackoffMax time.Duration `json:"offeringBackoffMax"`
	// ProbeOfferings: after the mark of an offering has ended, one claim at a time may rely on it alone,
	// until something was launched there. It is off by default only for the records of programs that did not
	// do so.
	ProbeOfferings bool `json:"probeOfferings,omitempty"`
	// AwaitDeparted: a pod that was evicted and has ended needs room until its owner has created another one.
	// It is off by default only for the records of programs that did not do so.
	AwaitDeparted bool `json:"awaitDeparted,omitempty"`
	// AwaitNewPods: a node without pods is not taken for empty while a pod is to run on it that is new, so
	// that kube-scheduler has still to bind it. It is off by default only for the records of programs that
	// did not do so.
	AwaitNewPods bool `json:"awaitNewPods,omitempty"`
	// SurgeFirst: a PodDisruptionBudget that never lets a pod go does not keep its node, where a
	// DisruptionPolicy asks for surge and the World shows that the pod's Deployment can replace it before it
	// goes. It is off by default only for the records of programs that did not do so.
	SurgeFirst bool `json:"surgeFirst,omitempty"`
	// AcceleratedWave: of claims that can have nothing but accelerated types a NodePool may have so many
	// in flight, or as many as it launched lately. If it is not 0, offerings also need a trial like those
	// of ProbeOfferings while EC2 lacks the same instance type in the same zone under another capacity
	// type. 0 is for the records of programs that did not do so.
	AcceleratedWave int64 `json:"acceleratedWave,omitempty"`
	// StaticWave is how many claims without an instance static NodePools may have together, whatever number
	// somebody wrote into spec.replicas; the others are made as those launch. 0 is for the records of
	// programs that had no bound.
	StaticWave int64 `json:"staticWave,omitempty"`
	// ExcludeRefusing: a node that was to take a pod and has come with a taint, or without a label, that
	// keeps the pod away counts like one on which kube-scheduler does not put it; after a few of them no
	// more is bought for a while. It is off by default only for the records of programs that did not do
	// so.
	ExcludeRefusing bool `json:"excludeRefusing,omitempty"`
	// PayBackHistory: how long a saving counts for a DisruptionPolicy's payBack follows also from what the
	// NodePool has bought lately, and from how often drift replaces its nodes; commands say for that whether
	// they are of a roll-out. It is off by default only for the records of programs that did not do so.
	PayBackHistory bool `json:"payBackHistory,omitempty"`
	// WavesAwaitDoomed: a wave of drift waits also until nodes are gone that its commands have replaced, but
	// that something else had doomed before. It is off by default only for the records of programs that did
	// not do so.
	WavesAwaitDoomed bool `json:"wavesAwaitDoomed,omitempty"`
	// DrainOutToUsed: nodes drain out only if there is room for their pods on nodes that other pods keep. It
	// is off by default only for the records of programs that did not do so.
	DrainOutToUsed bool `json:"drainOutToUsed,omitempty"`
	// AlikeAtOnce: nodes that would be replaced by others just like them leave a set that is packed anew all
	// at once, and not one in each simulation. It is off by default only for the records of programs that
	// did not do so.
	AlikeAtOnce bool `json:"alikeAtOnce,omitempty"`
	// ReservationClocks: what EC2 said of a capacity reservation's free instances knows nothing of launches
	// shortly before, since the clocks of who asked and who launched may differ. It is off by default only
	// for the records of programs that did not do so.
	ReservationClocks bool `json:"reservationClocks,omitempty"`
	// ExcludeInitialized: a node whose label says that it is initialized is not excluded for pods before its
	// NodeClaim is known and says since when, or five minutes have passed. It is off by default only for the
	// records of programs that did not wait.
	ExcludeInitialized bool `json:"excludeInitialized,omitempty"`
	// ConsolidateReserved: nodes of reserved capacity go if their pods fit elsewhere, though that saves next
	// to nothing. It is off by default only for the records of programs that took their price for unknown.
	ConsolidateReserved bool `json:"consolidateReserved,omitempty"`
	// Revision of the planners' rules that decisions follow, see Revision1; 0 is for the records of programs
	// before it.
	Revision int `json:"revision,omitempty"`
}

// Revisions of the planners' rules. Each corrects errors of the one before, which is kept for the records of
// the programs that followed it.
const (
	// Revision1:
	//   - Pods that stay on a node which is going count for spread and affinity.
	//   - minValues of capacity types are lowered to the types that a claim is left with, and those of any key
	//     are met by the types that spot is replaced with.
	//   - A price that a NodeOverlay sets to 0 is what the node costs, too. Of overlays with the same weight
	//     each is compared with all others.
	//   - DaemonSets need what their newest pod does, and the ports of the node's network. Their pods that are
	//     to come to a node have their ports there, and their room before it is initialized.
	//   - Sidecars take host ports. A volume is where its labels say. What a running pod has attached counts
	//     whatever has become of its claims.
	//   - Static NodePools count NodeClaims that are not on record. A NodeClaim that is made has the labels that
	//     it was made with.
	//   - Emptiness asks PodDisruptionBudgets for the sum of its nodes. Pods that these let go because they are
	//     not ready use up nothing of them.
	//   - Of empty nodes the dearest go first, and those that have to stay use up no budget. Emptiness and
	//     static drift say what they cost.
	//   - Several nodes may be replaced by their own types where these are cheaper.
	//   - Pods that have ended disturb no Balanced NodePool.
	//   - A roll-out in waves is remembered since its last command succeeded.
	//   - Windows of DisruptionPolicies open by what clocks show, also on days on which they change; values of
	//     policies that mean nothing are faults.
	//   - An approved command waits for maxEvictionsPerHour, budgets, PodDisruptionBudgets and until its nodes
	//     are quiet.
	Revision1 = 1 + iota
	// Revision2:
	//   - A node that has not registered the CSI driver of a pod's volume yet, or that kube-scheduler has chosen
	//     for one which is not made yet, is not excluded for the pod within five minutes; another node not
	//     within one minute, if the pod has such volumes.
	Revision2
	// Revision3:
	//   - A command without replacements goes on without nodes that do not show its mark within a minute.
	//   - For Balanced NodePools the pods count that would be moved, in the totals as in what a command takes.
	Revision3
	// Revision4:
	//   - A roll-out in waves stays where it stands, halted or not, while its EC2NodeClass is gone or not
	//     Ready.
	//   - A pod that comes in place of others which NoExecute taints have driven from three new nodes in a row
	//     has to wait until a minute after its creation, and longer with each further node.
	Revision4
	// Revision5:
	//   - Each of several nodes that wait for the same disruption of a PodDisruptionBudget may be replaced by
	//     itself; before, only the first of them was tried. An empty node does not wait for one that has to
	//     stay for the room that it has for CapacityBuffers or for pods that are about to come.
	Revision5
	// Revision6:
	//   - No node is excluded for a pod that kube-scheduler has not tried since the node was ready and last
	//     changed, within 5 minutes, or 30 if it has said nothing of the pod since the Node was made.
	//   - No pod is moved while kube-scheduler takes up no new ones.
	Revision6
	// Revision7:
	//   - Replacements are of types for which limits have room beside the nodes that they replace, if there are
	//     any; before, the largest type that they could be counted.
	//   - Zones, and other domains of spread, in which no NodePool can make a node that a pod selects are none,
	//     and where a spread ignores what its pod selects, all of them count.
	//   - Required affinity follows pods that match all of its terms.
	//   - Of static NodePools with too many nodes those go first that are not initialized. A replacement that
	//     goes for it is no failure.
	Revision7
	// Revision8:
	//   - A node whose replacement failed is replaced after all whose replacements did not.
	//   - A command that was approved is checked like others while further nodes of its NodePool are asked about,
	//     and moves pods to where it was to move them. What is proposed ends once no DisruptionPolicy asks for
	//     approval. Neither it nor a drain-out ends because kube-scheduler is late.
	//   - With destination Ban pods go where they may, and not to nodes to which they may not.
	//   - What a command was to move away from a node that stays does not count as evictions of the hour.
	//   - A command without replacements ends if its nodes cannot be deleted for 20 minutes.
	//   - A replacement that goes because its static NodePool is to have fewer nodes is no failure, whenever it
	//     goes. Nodes of an earlier roll-out that are not gone do not hold up the waves of the next one.
	//   - A pod that a drain had held back is replaced first, too, where a DisruptionPolicy asks for that.
	//   - What NodeOverlays add to a type counts for all NodePools and for NodeClaims that were not planned. What
	//     they make of the price of reserved capacity is not rounded to micro USD.
	//   - A claim that excludes reservations holds none, and counts in the waves of accelerated types; one that
	//     could have several keeps one, or those that its minValues needs.
	//   - A label selector that matches nothing is told from one that matches everything.
	//   - A static NodePool that is not ready gives up nodes that it has too many.
	//   - No node is made for a pod whose ReadWriteOncePod claim another one holds.
	Revision8
	revisionsEnd
	// PresentRevision is what services plan by.
	PresentRevision = revisionsEnd - 1
)

// RepairPolicy says how long a node may have a condition before it is replaced (reference: lifecycle §10).
type RepairPolicy struct {
	// Condition of the Node and its Status: True, False or Unknown.
	Condition string `json:"condition"`
	Status    string `json:"status"`
	// Toleration is how long the node may have it.
	Toleration time.Duration `json:"toleration"`
}

// DefaultRepairPolicies are those of the AWS provider.
func DefaultRepairPolicies() []RepairPolicy {
	const long, short = 30 * time.Minute, 10 * time.Minute
	return []RepairPolicy{
		{"Ready", "False", long}, {"Ready", "Unknown", long}, {"AcceleratedHardwareReady", "False", short}, {"StorageReady", "False", long},
		{"NetworkingReady", "False", long}, {"KernelReady", "False", long}, {"ContainerRuntimeReady", "False", long},
	}
}

// DefaultAcceleratedWave is one CreateFleet: enough for most workloads at once, and few enough to fail.
const DefaultAcceleratedWave = 40

// DefaultStaticWave is more than most static NodePools have in all.
const DefaultStaticWave = 500

// What follows from rebalance recommendations of EC2.
const (
	RebalanceIgnore  = "Ignore"
	RebalanceReplace = "Replace"
)

// Default returns the documented defaults.
func Default() Options {
	return Options{
		BatchIdleDuration: 200 * time.Millisecond, BatchMaxDuration: 10 * time.Second,
		PreferencePolicy: "Respect", MinValuesPolicy: "Strict", InstanceTypesMax: 600, NodeCost: 10_000, EvictionHorizon: time.Hour,
		LaunchTimeout: 5 * time.Minute, RegistrationTimeout: 15 * time.Minute,
		ProvisionFreshness: 10 * time.Second, DisruptFreshness: 3 * time.Second,
		OfferingBackoff: 3 * time.Minute, OfferingBackoffMax: 30 * time.Minute,
	}
}

// Present returns Default with all that programs before this one did not do: what services plan by.
func Present() Options {
	o := Default()
	o.ProbeOfferings, o.AwaitDeparted, o.AwaitNewPods, o.ExcludeRefusing = true, true, true, true
	o.AcceleratedWave, o.StaticWave = DefaultAcceleratedWave, DefaultStaticWave
	o.PayBackHistory, o.WavesAwaitDoomed, o.DrainOutToUsed, o.AlikeAtOnce, o.ReservationClocks = true, true, true, true, true
	o.ExcludeInitialized, o.ConsolidateReserved, o.Revision = true, true, PresentRevision
	return o
}

// Decode reads what Encode wrote; options that are not named have their defaults, as have all of nil.
func Decode(data []byte) (Options, error) {
	o := Default()
	if len(data) == 0 {
		return o, nil
	}
	if err := json.Unmarshal(data, &o); err != nil {
		return Default(), fmt.Errorf("decode options: %w", err)
	}
	return o, nil
}

// Encode gives the bytes of ledger.OptionsSet; equal options give equal bytes.
func Encode(o Options) []byte {
	b, err := json.Marshal(o)
	if err != nil {
		panic("options: they cannot be encoded: " + err.Error())
	}
	return b
}
