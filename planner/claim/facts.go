package claim

import (
	"slices"
	"strings"
	"time"

	"millwright/planner/taint"

	"millwright/planner/condition"
	"millwright/planner/drain"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
	"millwright/planner/nodepool"
)

// FactsOfLedger extracts what Input needs; nil for nil.
func FactsOfLedger(c *ledger.Claim) *LedgerFacts {
	if c == nil {
		return nil
	}
	f := &LedgerFacts{State: c.State, UID: c.UID, Open: c.Open != nil, Attempt: c.Attempt, Terminated: c.Terminated,
		Inherited: c.Inherited}
	if c.Instance != nil {
		f.InstanceID = c.Instance.InstanceID
	}
	if c.Doomed != nil {
		f.Doomed, f.Deadline = c.Doomed.Reason, c.Doomed.Deadline
	}
	return f
}

// FailureOf is the failure of the last attempt in the Ledger; nil if it did not fail.
func FailureOf(c *ledger.Claim) *Failure {
	if c == nil || c.Failed == nil || c.Instance != nil {
		return nil
	}
	return &Failure{Class: c.Failed.Class, Reason: c.Failed.Reason, Message: c.Failed.Message}
}

// FactsOfObject extracts what Input needs; nil for nil. l is the Ledger's claim of the name or nil.
func FactsOfObject(o *karpv1.NodeClaim, l *ledger.Claim, logID string) *ObjectFacts {
	if o == nil {
		return nil
	}
	stamp, stamped := o.Annotations[karpv1.TerminationTimestampAnnotationKey]
	stampedAt, _ := drain.ParseDeadline(stamp) // zero for a time that no record can hold, as the input may be in one
	planned := l != nil && l.Planned != nil
	record := o.Annotations[karpv1.RecordAnnotationKey]
	author, seq, _ := ledger.ParseRecordAnnotation(record)
	f := &ObjectFacts{
		UID: o.UID, Created: o.CreationTimestamp.UTC(),
		Ours:                planned && record == ledger.RecordAnnotation(logID, seq) && l.ContentOf(seq) != nil,
		Stray:               !planned && author == logID && logID != "",
		Inherited:           !planned && inherited(o, author, logID),
		Finalizer:           slices.Contains(o.Finalizers, karpv1.TerminationFinalizer),
		ProviderID:          o.Status.ProviderID,
		AwaitsPartition:     AwaitsPartition(o.Labels),
		LaunchedSince:       since(o, karpv1.ConditionTypeLaunched),
		RegisteredSince:     since(o, karpv1.ConditionTypeRegistered),
		Registered:          condition.IsTrue(o.Status.Conditions, karpv1.ConditionTypeRegistered),
		InstanceTerminating: condition.IsTrue(o.Status.Conditions, karpv1.ConditionTypeInstanceTerminating),
		ExpireAfter:         o.Spec.ExpireAfter.Duration,
		GracePeriod:         o.Spec.TerminationGracePeriod != nil,
		Stamped:             stamped,
		StampedAt:           stampedAt,
		NodeName:            o.Status.NodeName,
		Tagged: o.Annotations[awsv1.TaggedAnnotationKey] == "true" &&
			o.Annotations[awsv1.ClusterNameTaggedAnnotationKey] == "true",
	}
	if !o.DeletionTimestamp.IsZero() {
		f.Deleting = o.DeletionTimestamp.UTC()
	}
	return f
}

// inherited reports that somebody else may have asked for an instance that the object does not show: who
// makes a claim by hand leaves finalizer, status and owner to the controller, and we adopt before we write.
func inherited(o *karpv1.NodeClaim, author, logID string) bool {
	switch {
	case o.Status.ProviderID != "" || author == logID && logID != "":
		return false
	case author != "" || len(o.Status.Conditions) > 0 || slices.Contains(o.Finalizers, karpv1.TerminationFinalizer):
		return true
	}
	return slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.Kind == "NodePool" && strings.HasPrefix(r.APIVersion, karpv1.Group+"/")
	})
}

func since(o *karpv1.NodeClaim, kind string) time.Time {
	if c := condition.Get(o.Status.Conditions, kind); c != nil && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.UTC()
	}
	return o.CreationTimestamp.UTC()
}

// FactsOfNode extracts what Input needs. o is the claim's object or nil.
func FactsOfNode(n *corev1.Node, o *karpv1.NodeClaim, drained bool) NodeFacts {
	return NodeFacts{
		Name: n.Name, UID: n.UID, Deleting: !n.DeletionTimestamp.IsZero(), Drained: drained,
		Finalizer:  slices.Contains(n.Finalizers, karpv1.TerminationFinalizer),
		Registered: IsRegistered(n), Bare: isBare(n, o), Open: !IsHeld(n) && MissesUnregisteredTaint(n), Ready: isReady(n), Pending: PendingOf(n, o),
	}
}

// isBare reports that registration has written nothing on the Node, or nothing is left of it.
func isBare(n *corev1.Node, o *karpv1.NodeClaim) bool {
	return o != nil && n.Labels[karpv1.NodeRegisteredLabelKey] == "" && !slices.Contains(n.Finalizers, karpv1.TerminationFinalizer) &&
		!slices.ContainsFunc(n.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == o.UID })
}

// FactsOfNodeClass extracts what Input needs; nil if nc is nil or being deleted.
func FactsOfNodeClass(nc *awsv1.EC2NodeClass) *NodeClassFacts {
	if nc == nil || !nc.DeletionTimestamp.IsZero() {
		return nil
	}
	c := condition.Get(nc.Status.Conditions, karpv1.ConditionTypeReady)
	if c == nil || c.ObservedGeneration != nc.Generation {
		return &NodeClassFacts{Ready: string(metav1.ConditionUnknown)}
	}
	return &NodeClassFacts{Ready: string(c.Status), Message: strings.TrimSpace(c.Message)}
}

// BlockEnds is when the capacity block of an id ends, as the NodeClass says; zero for another reservation,
// and for one that it does not know.
func BlockEnds(nc *awsv1.EC2NodeClass, id string) time.Time {
	if nc == nil || id == "" {
		return time.Time{}
	}
	for _, r := range nc.Status.CapacityReservations {
		if r.ID == id && r.ReservationType == awsv1.ReservationTypeCapacityBlock && r.EndTime != nil {
			return r.EndTime.UTC()
		}
	}
	return time.Time{}
}

// IsRegistered reports that the Node bears the label of registration and no unregistered taint.
func IsRegistered(n *corev1.Node) bool {
	return n.Labels[karpv1.NodeRegisteredLabelKey] == "true" && !taint.In(n.Spec.Taints, karpv1.UnregisteredTaint())
}

// IsHeld reports that the Node is one of ours: it is registered, or bears our finalizer.
func IsHeld(n *corev1.Node) bool {
	return IsRegistered(n) || slices.Contains(n.Finalizers, karpv1.TerminationFinalizer)
}

// IsDrained reports that the pods of the Node are evicted before its instance is ended: it is one of ours, or
// may have pods although it is not registered.
func IsDrained(n *corev1.Node) bool { return IsHeld(n) || MissesUnregisteredTaint(n) }

// Managed reports that the NodeClaim refers to an EC2NodeClass.
func Managed(o *karpv1.NodeClaim) bool { return nodepool.SupportedClass(o.Spec.NodeClassRef) }

func isReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
