package offer

import (
	"cmp"
	"strings"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/nodepool"
)

// Passing reports a problem that a new NodePool has until its NodeClass is resolved.
func (p *PoolProblem) Passing() bool {
	return p.Reason == problemNotReady || p.Reason == problemNotSeen
}

// PoolProblem says why a NodePool opens no claims.
type PoolProblem struct {
	NodePool string `json:"nodePool"`
	// Reason is one of the problem constants.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Reasons of a PoolProblem.
const (
	problemNotReady    = "NotReady"
	ProblemDeleting    = "Deleting"
	ProblemStatic      = "Static"
	problemUnsupported = "UnsupportedNodeClass"
	problemInvalid     = "InvalidRequirements"
	ProblemNoTypes     = "NoCompatibleInstanceTypes"
	problemNotSeen     = "InstanceTypesNotSeen"
)

// ineligible says why a pool is not for pods at all; nil if it is.
func ineligible(p *karpv1.NodePool) *PoolProblem {
	switch {
	case p.DeletionTimestamp != nil:
		return &PoolProblem{p.Name, ProblemDeleting, "nodepool is being deleted"}
	case p.Spec.Replicas != nil:
		return &PoolProblem{p.Name, ProblemStatic, "nodepool is static"}
	}
	return Unready(p)
}

// Unready says why a pool can have no claims now; nil if it can.
func Unready(p *karpv1.NodePool) *PoolProblem {
	if !nodepool.Supported(p) {
		return &PoolProblem{p.Name, problemUnsupported, "nodepool refers to a NodeClass that is not supported"}
	}
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type != karpv1.ConditionTypeReady {
			continue
		}
		if c.Status == "True" {
			return nil
		}
		return &PoolProblem{p.Name, problemNotReady, strings.TrimSuffix("nodepool is not ready: "+cmp.Or(c.Message, c.Reason), ": ")}
	}
	return &PoolProblem{p.Name, problemNotReady, "nodepool is not ready: no Ready condition"}
}
