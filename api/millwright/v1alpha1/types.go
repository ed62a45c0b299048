package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=disruptionpolicies,scope=Cluster,categories=millwright,shortName=dpol
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="NodePools",type="integer",JSONPath=".status.nodePoolCount"
// +kubebuilder:printcolumn:name="Paused until",type="string",JSONPath=".spec.pause.until"
// +kubebuilder:printcolumn:name="Halted",type="integer",JSONPath=".status.haltedRollouts"
// +kubebuilder:printcolumn:name="Draining out",type="integer",JSONPath=".status.drainingOut",priority=1
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Evictions per hour",type="integer",JSONPath=".spec.maxEvictionsPerHour",priority=1

// DisruptionPolicy narrows the voluntary disruption of the nodes of some NodePools: emptiness, drift and consolidation. It never
// allows what a NodePool's own spec.disruption forbids. Where several policies select a NodePool, all of them hold: the strictest
// value of each counts. Forceful disruption (expiration, interruption, repair, deletion by hand) is not its concern.
type DisruptionPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec DisruptionPolicySpec `json:"spec,omitzero"`
	// +optional
	Status DisruptionPolicyStatus `json:"status,omitzero"`
}

// +kubebuilder:object:root=true

// DisruptionPolicyList is a list of DisruptionPolicies.
type DisruptionPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DisruptionPolicy `json:"items"`
}

// DisruptionPolicySpec says which NodePools, and what holds for them.
type DisruptionPolicySpec struct {
	// NodePoolSelector selects NodePools by their labels; without it, or with an empty one, all are selected.
	// +optional
	NodePoolSelector *metav1.LabelSelector `json:"nodePoolSelector,omitempty"`
	// Savings is the least that a consolidation command must save.
	// +optional
	Savings *Savings `json:"savings,omitempty"`
	// MinNodeAge keeps nodes that are younger from voluntary disruption, by the creation of their NodeClaim.
	// +kubebuilder:validation:XValidation:message="must not be negative",rule="duration(self) >= duration('0s')"
	// +optional
	MinNodeAge *metav1.Duration `json:"minNodeAge,omitempty"`
	// IgnorePodEvents selects pods, by their labels, that do not restart consolidateAfter on nodes of the selected NodePools when they come,
	// end or are deleted, such as those of cron jobs. Of several policies one that selects a pod is enough.
	// +optional
	IgnorePodEvents *metav1.LabelSelector `json:"ignorePodEvents,omitempty"`
	// MaxEvictionsPerHour bounds the pods that voluntary commands move away from nodes of each selected NodePool, counted over the last hour
	// from the time at which their commands started. A single node with more pods may go if nothing else was moved in that hour.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxEvictionsPerHour *int32 `json:"maxEvictionsPerHour,omitempty"`
	// Destination says whether consolidation moves pods to nodes of the selected NodePools that are inside their consolidateAfter: Cost
	// allows it, which is the default, Ban does not.
	// +kubebuilder:validation:Enum={Cost,Ban}
	// +optional
	Destination Destination `json:"destination,omitempty"`
	// Waves make drift of each selected NodePool begin with few nodes and go on with more while that works.
	// +optional
	Waves *Waves `json:"waves,omitempty"`
	// ReturnToPreferred replaces nodes that are a fallback once what is preferred can be had again. Of several policies all that have it
	// must allow it: the longest availableFor, the smallest budget and the preferences that they share count.
	// +optional
	ReturnToPreferred *ReturnToPreferred `json:"returnToPreferred,omitempty"`
	// DrainOut lets nodes run empty that consolidation would take away, were it not for pods that nobody may disturb, and leaves pods of
	// Jobs alone on nodes that hold nothing else. Of several policies one that has it is enough, and the smallest nodes counts.
	// +optional
	DrainOut *DrainOut `json:"drainOut,omitempty"`
	// Surge has Deployments replace pods that nothing stands in for before voluntary commands evict them. Of several policies one that has
	// it is enough, and the shortest within counts.
	// +optional
	Surge *Surge `json:"surge,omitempty"`
	// RebalanceRecommendation says what follows when EC2 recommends to leave an instance of the selected NodePools: Replace has its node
	// replaced like one that has drifted, Ignore does nothing. Without it --rebalance-recommendation says it. Of several policies one
	// that says Ignore is enough.
	// +optional
	RebalanceRecommendation RebalanceRecommendation `json:"rebalanceRecommendation,omitempty"`
	// Windows open or close voluntary disruption by the clock.
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	// +optional
	Windows []Window `json:"windows,omitempty"`
	// Approval makes commands wait until a person has approved them.
	// +optional
	Approval *Approval `json:"approval,omitempty"`
	// Pause stops voluntary disruption for a while.
	// +optional
	Pause *Pause `json:"pause,omitempty"`
}

// Savings of a consolidation command that evicts pods; all that are set must be reached. Commands that only take away empty nodes,
// and drift, are not measured.
// +kubebuilder:validation:XValidation:message="payBack needs costPerEviction",rule="!has(self.payBack) || has(self.payBack.costPerEviction)"
type Savings struct {
	// MinPerHour is the least saving in USD per hour, such as "0.05".
	// +kubebuilder:validation:Pattern=`^\d{1,9}(\.\d{1,6})?$`
	// +optional
	MinPerHour *string `json:"minPerHour,omitempty"`
	// MinPercent is the least saving in percent of the price of the nodes that are taken away.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	MinPercent *int32 `json:"minPercent,omitempty"`
	// MinPerEviction is the least saving in USD per hour for each pod that moves.
	// +kubebuilder:validation:Pattern=`^\d{1,9}(\.\d{1,6})?$`
	// +optional
	MinPerEviction *string `json:"minPerEviction,omitempty"`
	// PayBack demands that what is saved over the life of the new state is worth the evictions.
	// +optional
	PayBack *PayBack `json:"payBack,omitempty"`
	// Spot demands that a replacement whose saving rests on spot prices has been better for some time.
	// +optional
	Spot *SpotSavings `json:"spot,omitempty"`
}

// SpotSavings is for replacements where a node that is taken away, or one that comes, is a spot instance.
type SpotSavings struct {
	// MinPercent is what the replacement must have saved all the time, in percent of what it replaces.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MinPercent int32 `json:"minPercent"`
	// For is how long; at least a minute, at most a day.
	// +kubebuilder:validation:XValidation:message="must be between one minute and 24 hours",rule="duration(self) >= duration('1m') && duration(self) <= duration('24h')"
	For metav1.Duration `json:"for"`
}

// PayBack is the rule saving x expected life >= sum over the evicted pods of CostPerEviction x weight. The weight of a pod is its
// disruption cost: 1, more with a higher priority or controller.kubernetes.io/pod-deletion-cost, less with lower ones.
type PayBack struct {
	// CostPerEviction in USD, such as "0.01".
	// +kubebuilder:validation:Pattern=`^\d{1,9}(\.\d{1,6})?$`
	CostPerEviction string `json:"costPerEviction"`
	// Horizon bounds the expected life of the new state; a shorter expireAfter of the NodePool bounds it too.
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:XValidation:message="must be positive",rule="duration(self) > duration('0s')"
	// +optional
	Horizon *metav1.Duration `json:"horizon,omitempty"`
}

// Waves of drift. A wave begins once all nodes of the one before are replaced and gone, with twice as many. If a replacement fails,
// no more nodes are taken until a person resumes the roll-out, or what new nodes are to be changes.
type Waves struct {
	// Initial is how many nodes of a NodePool the first wave takes. Of several policies the least counts.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Initial int32 `json:"initial,omitempty"`
}

// ReasonPreferredAvailable is the reason of commands of ReturnToPreferred. NodePool budgets that name reasons do not name it; those
// without reasons hold for it too.
const ReasonPreferredAvailable karpv1.DisruptionReason = "PreferredAvailable"

// Preference is what makes one node preferred to another.
// +kubebuilder:validation:Enum={"CapacityType","NodePoolWeight"}
type Preference string

const (
	// PreferCapacityType: of the capacity types that a NodePool allows, reserved comes before spot, and spot before on-demand.
	PreferCapacityType Preference = "CapacityType"
	// PreferNodePoolWeight: a NodePool comes before those of a lower weight.
	PreferNodePoolWeight Preference = "NodePoolWeight"
)

// ReturnToPreferred replaces, with reason PreferredAvailable, a node that pods had to go to because what they prefer could not be had:
// on-demand instead of spot, or a NodePool of a lower weight. Its replacements come first, and only of what is preferred.
type ReturnToPreferred struct {
	// Preferences that nodes return for; all without any.
	// +kubebuilder:validation:MaxItems=2
	// +listType=set
	// +optional
	Preferences []Preference `json:"preferences,omitempty"`
	// AvailableFor is how long an offering must not have been found without capacity, and how old the node must be. It doubles with
	// each time that a node made for this reason was taken back by EC2, up to 24 hours.
	// +kubebuilder:default="30m"
	// +kubebuilder:validation:XValidation:message="must be between one minute and 24 hours",rule="duration(self) >= duration('1m') && duration(self) <= duration('24h')"
	// +optional
	AvailableFor *metav1.Duration `json:"availableFor,omitempty"`
	// Nodes is how many nodes of a NodePool, as a number or in percent, may be going at a time if one goes for this reason.
	// +kubebuilder:default="10%"
	// +kubebuilder:validation:Pattern=`^((100|[0-9]{1,2})%|[0-9]{1,9})$`
	// +optional
	Nodes string `json:"nodes,omitempty"`
}

// DrainOutTaintKey is the key of the taint, with effect PreferNoSchedule, of a node that is to run empty by itself.
const DrainOutTaintKey = "millwright.sh/drain-out"

// DrainOut taints a node millwright.sh/drain-out:PreferNoSchedule whose pods are all protected (karpenter.sh/do-not-disrupt, a
// PodDisruptionBudget that allows nothing) or of Jobs, if they would all fit on the nodes that stay. New pods go elsewhere as long as
// there is room, and the node is removed as an empty one once its pods have ended.
type DrainOut struct {
	// Nodes is how many nodes of a NodePool, as a number or in percent, may drain out at a time.
	// +kubebuilder:default="10%"
	// +kubebuilder:validation:Pattern=`^((100|[0-9]{1,2})%|[0-9]{1,9})$`
	// +kubebuilder:validation:XValidation:message="must let one node drain out at least",rule="!self.matches('^0+%?$')"
	// +optional
	Nodes string `json:"nodes,omitempty"`
}

// SurgeAnnotationKey is set in the pod template of a Deployment, to the id of the command that takes a node of its pods, so that it
// replaces them as after kubectl rollout restart.
const SurgeAnnotationKey = "millwright.sh/surge"

// Surge restarts the roll-out of a Deployment, before a voluntary command evicts one of its pods, if that pod is its only ready one or a
// PodDisruptionBudget never lets it go, and its strategy creates the new pod first: RollingUpdate with a maxSurge that comes to one
// at least and a maxUnavailable that comes to zero.
type Surge struct {
	// Within is how long the Deployment has to replace the pod; then it is evicted as without surge.
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:message="must be between one minute and one hour",rule="duration(self) >= duration('1m') && duration(self) <= duration('1h')"
	// +optional
	Within *metav1.Duration `json:"within,omitempty"`
}

// RebalanceRecommendation is what follows when EC2 recommends to leave an instance.
// +kubebuilder:validation:Enum={"Ignore","Replace"}
type RebalanceRecommendation string

const (
	RebalanceIgnore  RebalanceRecommendation = "Ignore"
	RebalanceReplace RebalanceRecommendation = "Replace"
)

// WindowAction is what a Window does while it is open.
// +kubebuilder:validation:Enum={"Allow","Deny"}
type WindowAction string

const (
	// WindowAllow: with at least one Allow window for a reason, nothing is disrupted for it outside of them.
	WindowAllow WindowAction = "Allow"
	// WindowDeny: nothing is disrupted while it is open, whatever Allow windows say.
	WindowDeny WindowAction = "Deny"
)

// Window that opens by a schedule.
type Window struct {
	Action WindowAction `json:"action"`
	// Schedule in cron's five fields, or @hourly, @daily, @weekly, @monthly, @yearly.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Schedule string `json:"schedule"`
	// Duration for which it stays open; at least a minute, whole minutes.
	// +kubebuilder:validation:XValidation:message="must be at least one minute",rule="duration(self) >= duration('1m')"
	Duration metav1.Duration `json:"duration"`
	// TimeZone of the IANA database, such as Europe/Berlin; UTC without it.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
	// Reasons it is for; all without any.
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:Enum={"Underutilized","Empty","Drifted","PreferredAvailable"}
	// +listType=set
	// +optional
	Reasons []karpv1.DisruptionReason `json:"reasons,omitempty"`
}

// Approval of commands by people.
type Approval struct {
	// Reasons whose commands wait for approval; all without any.
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:Enum={"Underutilized","Empty","Drifted","PreferredAvailable"}
	// +listType=set
	// +optional
	Reasons []karpv1.DisruptionReason `json:"reasons,omitempty"`
	// ExpireAfter ends a proposal that nobody approved or rejected.
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:XValidation:message="must be at least one minute",rule="duration(self) >= duration('1m')"
	// +optional
	ExpireAfter *metav1.Duration `json:"expireAfter,omitempty"`
}

// Pause of voluntary disruption.
type Pause struct {
	// Until is when it ends by itself.
	Until metav1.Time `json:"until"`
	// Reason that people are told.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Reason string `json:"reason,omitempty"`
}

// Destination of moved pods.
type Destination string

const (
	DestinationCost Destination = "Cost"
	DestinationBan  Destination = "Ban"
)

// DisruptionPolicyStatus is written by the disruptor.
type DisruptionPolicyStatus struct {
	// NodePoolCount is how many NodePools are selected.
	// +optional
	NodePoolCount int32 `json:"nodePoolCount"`
	// NextWindows are the next ten openings, by time.
	// +listType=atomic
	// +optional
	NextWindows []Opening `json:"nextWindows,omitempty"`
	// HaltedRollouts counts the roll-outs in waves that wait for a person.
	// +optional
	HaltedRollouts int32 `json:"haltedRollouts,omitempty"`
	// Rollouts in waves that have begun, halted ones first, then by NodePool; at most fifty.
	// +listType=map
	// +listMapKey=nodePool
	// +optional
	Rollouts []Rollout `json:"rollouts,omitempty"`
	// DrainingOut counts the nodes of the selected NodePools that are to run empty by themselves.
	// +optional
	DrainingOut int32 `json:"drainingOut,omitempty"`
	// Conditions: Ready is False while a schedule, time zone or selector can't be read; then nothing is disrupted voluntarily in the
	// NodePools that are selected (in all, if the selector is what can't be read).
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Rollout of a NodePool's drifted nodes in waves.
type Rollout struct {
	NodePool string `json:"nodePool"`
	// Wave is the number of the present wave, from 1, WaveNodes how many nodes it takes.
	Wave      int32 `json:"wave"`
	WaveNodes int32 `json:"waveNodes"`
	// Replaced counts the nodes that were replaced since the roll-out began.
	Replaced int32 `json:"replaced"`
	// Halted says why no more nodes are taken; empty while it goes on.
	// +optional
	Halted string `json:"halted,omitempty"`
	// HaltedAt is since when.
	// +optional
	HaltedAt *metav1.Time `json:"haltedAt,omitempty"`
}

// Opening of a window.
type Opening struct {
	Action  WindowAction              `json:"action"`
	Reasons []karpv1.DisruptionReason `json:"reasons,omitempty"`
	From    metav1.Time               `json:"from"`
	Until   metav1.Time               `json:"until"`
}
