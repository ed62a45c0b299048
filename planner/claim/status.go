package claim

import (
	"cmp"
	"maps"
	"time"

	"millwright/planner/condition"

	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
	"millwright/planner/resource"
)

// messageMax bounds a launch error in a condition.
const messageMax = 300

const (
	reasonNodeNotFound  = "NodeNotFound"
	messageNodeNotFound = "Node not registered with cluster"
)

// StatusFacts are what the status of a NodeClaim follows from, beside the object itself. All may be empty.
type StatusFacts struct {
	// Claim is the Ledger's; one with the UID of another object counts as none.
	Claim *ledger.Claim
	// Nodes have the claim's provider id.
	Nodes     []*corev1.Node
	NodeClass *NodeClassFacts
	// Failure and Boot as in Input.
	Failure *Failure
	Boot    *Boot
}

// Desired returns the NodeClaim with the labels, annotations and status that follow from the facts. o is not
// changed; without a difference the copy equals it.
func Desired(o *karpv1.NodeClaim, facts StatusFacts, now time.Time) *karpv1.NodeClaim {
	out, l := o.DeepCopy(), facts.Claim
	if l != nil && l.UID != o.UID {
		l = nil
	}
	if l != nil && l.Instance != nil {
		fill(out, l.Instance)
	}
	if !o.DeletionTimestamp.IsZero() {
		return out
	}
	hydrate(out)
	c := ConditionsOf(o, now)
	launched(c, out, facts.Failure, facts.NodeClass)
	registered(c, out, l, facts.Nodes, facts.Boot)
	initialized(c, out, l, facts.Nodes)
	consistent(c, out, facts.Nodes)
	out.Status.Conditions = c.Finish()
	return out
}

// fill adds to the NodeClaim what is known of its instance: the NodeClaim's own labels win over those of the
// launch, but annotations of the launch win over its own.
func fill(o *karpv1.NodeClaim, i *ledger.Launched) {
	launched := i.Labels
	if i.CapacityType == karpv1.CapacityTypeReserved && o.Labels[karpv1.CapacityTypeLabelKey] == karpv1.CapacityTypeOnDemand {
		launched = Unreserved(launched)
	}
	o.Labels = overlaid(launched, o.Labels)
	if len(i.Annotations) > 0 {
		o.Annotations = overlaid(o.Annotations, i.Annotations)
	}
	if o.Status.ProviderID == i.ProviderID || i.ProviderID == "" {
		return
	}
	o.Status.ProviderID = i.ProviderID // also in place of another's: it is by this that the Node is found
	o.Status.ImageID = cmp.Or(i.ImageID, o.Status.ImageID)
	if !i.Capacity.IsZero() {
		o.Status.Capacity, o.Status.Allocatable = list(i.Capacity), list(i.Allocatable)
	}
}

// Unreserved are the labels of the same instance once its capacity reservation has ended: it runs on as an
// on-demand one (ec2 §2.5).
func Unreserved(labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	for _, key := range []string{awsv1.LabelCapacityReservationID, awsv1.LabelCapacityReservationType, awsv1.LabelCapacityReservationInterruptible} {
		delete(out, key)
	}
	out[karpv1.CapacityTypeLabelKey] = karpv1.CapacityTypeOnDemand
	return out
}

// hydrate gives a claim of Karpenter 1.0 the label of its NodeClass, which later versions set from the start
// (reference: lifecycle §9).
func hydrate(o *karpv1.NodeClaim) {
	if key, name := classLabel(o); name != "" && o.Labels[key] == "" {
		o.Labels = overlaid(o.Labels, map[string]string{key: name})
	}
}

// Hydrated returns the registered Node of a claim with the label of its NodeClass added; nil if it has the
// label, or is not registered: then registration adds it.
func Hydrated(n *corev1.Node, o *karpv1.NodeClaim) *corev1.Node {
	key, name := classLabel(o)
	if name == "" || n.Labels[key] != "" || !IsRegistered(n) || !n.DeletionTimestamp.IsZero() {
		return nil
	}
	out := n.DeepCopy()
	out.Labels = overlaid(n.Labels, map[string]string{key: name})
	return out
}

func classLabel(o *karpv1.NodeClaim) (key, name string) {
	if ref := o.Spec.NodeClassRef; ref != nil && ref.Group == awsv1.Group {
		return awsv1.LabelEC2NodeClass, ref.Name
	}
	return "", ""
}

func list(v resource.Vector) corev1.ResourceList {
	if v.IsZero() {
		return nil
	}
	return v.List()
}

func launched(c *condition.List, o *karpv1.NodeClaim, failure *Failure, class *NodeClassFacts) {
	switch {
	case o.Status.ProviderID != "":
		c.True(karpv1.ConditionTypeLaunched)
	case failure != nil:
		c.Set(karpv1.ConditionTypeLaunched, metav1.ConditionUnknown, orElse(failure.Reason, "LaunchFailed"), cut(failure.Message))
	case class != nil && class.Ready == string(metav1.ConditionUnknown):
		c.Set(karpv1.ConditionTypeLaunched, metav1.ConditionUnknown, "NodeClassReadinessUnknown", "NodeClass is in Ready=Unknown")
	}
}

func registered(c *condition.List, o *karpv1.NodeClaim, l *ledger.Claim, nodes []*corev1.Node, boot *Boot) {
	switch {
	case condition.IsTrue(c.Conditions, karpv1.ConditionTypeRegistered):
		c.True(karpv1.ConditionTypeRegistered) // Karpenter 1.0 sets no generation; without one Ready would be Unknown
		if l != nil && l.Node != "" {
			o.Status.NodeName = l.Node // a Node that was made anew may have another name
		}
	case l != nil && reached(l.State, ledger.ClaimRegisteredState) && l.Node != "":
		c.True(karpv1.ConditionTypeRegistered)
		o.Status.NodeName = l.Node
	case len(nodes) > 1:
		c.Set(karpv1.ConditionTypeRegistered, metav1.ConditionFalse, "MultipleNodesFound", "Invariant violated, matched multiple nodes")
	case len(nodes) == 1 && AwaitsPartition(o.Labels):
		c.Set(karpv1.ConditionTypeRegistered, metav1.ConditionUnknown, "RegistrationHookPending", "PlacementGroupRegistrationHook")
	default:
		c.Set(karpv1.ConditionTypeRegistered, metav1.ConditionUnknown, reasonNodeNotFound, boot.unregisteredText())
	}
}

// initialized is judged only once the claim is registered.
func initialized(c *condition.List, o *karpv1.NodeClaim, l *ledger.Claim, nodes []*corev1.Node) {
	const kind = karpv1.ConditionTypeInitialized
	switch {
	case !condition.IsTrue(c.Conditions, karpv1.ConditionTypeRegistered):
	case condition.IsTrue(c.Conditions, kind):
		c.True(kind)
	case l != nil && reached(l.State, ledger.ClaimInitializedState):
		c.True(kind)
	case len(nodes) != 1:
		c.Set(kind, metav1.ConditionUnknown, reasonNodeNotFound, messageNodeNotFound)
	default:
		if p := PendingOf(nodes[0], o); p != nil {
			c.Set(kind, metav1.ConditionUnknown, p.Reason, p.Message)
		}
	}
}

var stateOrder = map[ledger.ClaimState]int{
	ledger.ClaimLaunched: 1, ledger.ClaimRegisteredState: 2, ledger.ClaimInitializedState: 3,
}

func reached(have, want ledger.ClaimState) bool { return stateOrder[have] >= stateOrder[want] }

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// cut shortens a text to the length that conditions and events carry.
func cut(s string) string {
	if r := []rune(s); len(r) > messageMax {
		return string(r[:messageMax]) + "..."
	}
	return s
}

// SameMetadata reports equal labels, annotations and finalizers.
func SameMetadata(a, b *karpv1.NodeClaim) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}

// SameStatus reports that no status write is needed.
func SameStatus(a, b *karpv1.NodeClaim) bool {
	x, y := a.Status, b.Status
	return x.NodeName == y.NodeName && x.ProviderID == y.ProviderID && x.ImageID == y.ImageID &&
		sameList(x.Capacity, y.Capacity) && sameList(x.Allocatable, y.Allocatable) && condition.Equal(x.Conditions, y.Conditions) &&
		x.LastPodEventTime.Equal(&y.LastPodEventTime)
}

func sameList(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y quantity.Quantity) bool { return x.Cmp(y) == 0 })
}
