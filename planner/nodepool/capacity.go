package nodepool

import (
	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/resource"
)

// Sum is what the nodes and launched claims of a pool have, without those that are going.
type Sum struct {
	Capacity resource.Vector
	Nodes    int64
}

// Plus is the sum with one node more.
func (s Sum) Plus(capacity resource.Vector) Sum {
	return Sum{Capacity: s.Capacity.Add(capacity), Nodes: s.Nodes + 1}
}

// Capacity of a NodeClaim that has an instance is its Node's; what the Node does not report before it is
// initialized comes from the claim. n may be nil.
func Capacity(o *karpv1.NodeClaim, n *corev1.Node) resource.Vector {
	estimate := resource.From(o.Status.Capacity)
	if n == nil {
		return estimate
	}
	have := resource.From(n.Status.Capacity)
	if n.Labels[karpv1.NodeInitializedLabelKey] == "true" {
		return have
	}
	return have.Filled(estimate)
}
