package planner

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	"millwright/planner/condition"
)

// BufferStatus is what the status of a CapacityBuffer should say, as the Snapshot has it (reference:
// scheduling §15, api §3). What is not ours of the conditions stays; transition times move with a condition's
// status only. As long as the provisioner has not looked at all of the buffer, Provisioning stays as it is.
func (s *Snapshot) BufferStatus(b *Buffer) (status bufferv1beta1.CapacityBufferStatus) {
	o := b.Object
	status.ProvisioningStrategy = o.Spec.ProvisioningStrategy
	if status.ProvisioningStrategy == nil {
		strategy := bufferv1beta1.StrategyActiveCapacity
		status.ProvisioningStrategy = &strategy
	}
	ready := metav1.Condition{Type: bufferv1beta1.ConditionReadyForProvisioning, Status: metav1.ConditionFalse, Reason: b.Reason, Message: b.Message}
	if b.Reason == bufferv1beta1.ReasonResolved {
		ready.Status = metav1.ConditionTrue
		status.Replicas = &b.Replicas
	}
	if b.Template != nil {
		status.PodTemplateRef = &bufferv1beta1.LocalObjectRef{Name: b.Template.Name}
		status.PodTemplateGeneration = &b.Template.Generation
	}
	conditions := condition.List{Generation: o.Generation, Created: o.CreationTimestamp.Time, Now: s.Now, Conditions: slices.Clone(o.Status.Conditions)}
	conditions.Set(ready.Type, ready.Status, ready.Reason, ready.Message)
	if c, known := s.provisioning(b); known {
		conditions.Set(c.Type, c.Status, c.Reason, c.Message)
	}
	status.Conditions = conditions.Conditions
	return status
}

// provisioning is the condition of that name.
func (s *Snapshot) provisioning(b *Buffer) (c metav1.Condition, ok bool) {
	c = metav1.Condition{Type: bufferv1beta1.ConditionProvisioning, Status: metav1.ConditionFalse}
	switch {
	case b.Reason != bufferv1beta1.ReasonResolved:
		c.Reason, c.Message = bufferv1beta1.ReasonNotReady, b.Message
		return c, true
	case b.Replicas == 0:
		c.Reason = bufferv1beta1.ReasonBufferEmpty
		return c, true
	}
	onNodes, onClaims, refused := 0, 0, 0
	for _, p := range b.Pods {
		v := s.Ledger.Verdict(p.UID)
		switch {
		case v == nil:
			return c, false
		case v.Node != "" && s.World.Node(v.Node) != nil, v.Claim != "" && s.hasNode(v.Claim):
			onNodes++
		case v.Node != "" || v.Claim != "":
			onClaims++
		default:
			refused++
		}
	}
	if onNodes == int(b.Replicas) {
		c.Status, c.Reason = metav1.ConditionTrue, bufferv1beta1.ReasonFitsExistingCapacity
		return c, true
	}
	c.Reason = bufferv1beta1.ReasonRequiresNewCapacity
	c.Message = fmt.Sprintf("%d of %d pods fit on nodes that are there, %d wait for nodes", onNodes, b.Replicas, onClaims)
	if refused > 0 {
		c.Message += fmt.Sprintf(", for %d there can be none", refused)
	}
	if more := int(b.Replicas) - len(b.Pods); more > 0 {
		c.Message += fmt.Sprintf(", %d are above the %d that all buffers may have together", more, VirtualPodsMax)
	}
	return c, true
}

// hasNode reports that the node of a claim has come.
func (s *Snapshot) hasNode(claim string) bool {
	c := s.World.NodeClaim(claim)
	return c != nil && c.Status.ProviderID != "" && s.World.NodeByProviderID(c.Status.ProviderID) != nil
}
