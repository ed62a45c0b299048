package claim

import (
	"fmt"
	"slices"

	"millwright/planner/taint"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
)

// Pending says what a node still lacks, as reason and message of a condition.
type Pending struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// PendingOf returns the first thing that keeps the Node from being initialized, nil if nothing does or if
// there is no claim.
func PendingOf(n *corev1.Node, o *karpv1.NodeClaim) *Pending {
	if o == nil {
		return nil
	}
	if !isReady(n) {
		return &Pending{"NodeNotReady", "Node status is NotReady"}
	}
	for _, t := range n.Spec.Taints {
		if taint.In(o.Spec.StartupTaints, t) {
			return &Pending{"StartupTaintsExist", fmt.Sprintf("StartupTaint %q still exists", taintText(t))}
		}
	}
	for _, t := range n.Spec.Taints {
		if taint.Ephemeral(t) {
			return &Pending{"KnownEphemeralTaintsExist", fmt.Sprintf("KnownEphemeralTaint %q still exists", taintText(t))}
		}
	}
	if name := missingResource(n, o); name != "" {
		return &Pending{"ResourceNotRegistered", fmt.Sprintf("Resource %q was requested but not registered", name)}
	}
	return nil
}

// missingResource is the first requested resource, by name, of which the Node has none.
func missingResource(n *corev1.Node, o *karpv1.NodeClaim) corev1.ResourceName {
	var missing []corev1.ResourceName
	for name, want := range o.Spec.Resources.Requests {
		have := n.Status.Allocatable[name]
		if !want.IsZero() && have.IsZero() {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return slices.Min(missing)
}

func taintText(t corev1.Taint) string {
	if t.Value == "" {
		return fmt.Sprintf("%s:%s", t.Key, t.Effect)
	}
	return fmt.Sprintf("%s=%s:%s", t.Key, t.Value, t.Effect)
}
