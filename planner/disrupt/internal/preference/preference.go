// Package preference says what of NodePools and capacity types is preferred to a node, as DisruptionPolicies
// want it returned to.
package preference

import (
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt/internal/policy"
	"millwright/planner/provision"
	"millwright/planner/requirement"
)

// Standing is how much a node is preferred: by the weight of its NodePool, and by its capacity type.
type Standing struct {
	Weight   int32
	Capacity int
}

// CapacityTypes from the least to the most preferred, as launches choose them.
var CapacityTypes = []string{karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot, karpv1.CapacityTypeReserved}

// Rule is what policies say of a NodePool, and what could be preferred to its nodes.
type Rule struct {
	*policy.Return
	weight int32
	// best is the most preferred capacity type that the NodePool allows; outweighed: there is a NodePool of a
	// higher weight.
	best       int
	outweighed bool
}

// RuleOf is how the nodes of a NodePool that policies select return to what is preferred; nil if they do not.
func RuleOf(s *planner.Snapshot, list []*policy.Policy, pool *karpv1.NodePool) *Rule {
	want := policy.ReturnOf(list)
	if pool == nil || want == nil || pool.Spec.Replicas != nil {
		return nil
	}
	r := &Rule{Return: want, weight: WeightOf(pool)}
	r.best = bestCapacity(s, pool)
	r.outweighed = slices.ContainsFunc(s.World.NodePools(), func(x *karpv1.NodePool) bool {
		return x.Spec.Replicas == nil && x.DeletionTimestamp == nil && WeightOf(x) > r.weight
	})
	return r
}

// bestCapacity is the most preferred capacity type that a NodePool allows and EC2 offers to it.
func bestCapacity(s *planner.Snapshot, pool *karpv1.NodePool) (best int) {
	set, err := requirement.FromClaim(pool.Spec.Template.Spec.Requirements)
	if err != nil || pool.Spec.Template.Spec.NodeClassRef == nil {
		return 0
	}
	cat := provision.Catalog(s, pool.Name, pool.Spec.Template.Spec.NodeClassRef.Name)
	if cat == nil {
		return 0
	}
	for _, t := range cat.Types {
		for i := range t.Offerings {
			o := &t.Offerings[i]
			if at := slices.Index(CapacityTypes, o.CapacityType); at > best && o.Available && set.Get(karpv1.CapacityTypeLabelKey).Has(o.CapacityType) {
				best = at
			}
		}
	}
	return best
}

// WeightOf a NodePool; 0 if it has none.
func WeightOf(pool *karpv1.NodePool) int32 {
	if pool == nil || pool.Spec.Weight == nil {
		return 0
	}
	return *pool.Spec.Weight
}

// Better reports that nodes return from one standing to another.
func (r *Rule) Better(from, to Standing) bool {
	return r.Weight && to.Weight > from.Weight || r.CapacityType && to.Weight >= from.Weight && to.Capacity > from.Capacity
}

// Of a node.
func Of(s *planner.Snapshot, n *planner.StateNode) Standing {
	return Standing{WeightOf(s.World.NodePool(n.NodePool)), slices.Index(CapacityTypes, n.CapacityType())}
}

// IsFallback reports that something could be preferred to a node.
func (r *Rule) IsFallback(at Standing) bool {
	return r.Weight && r.outweighed || r.CapacityType && at.Capacity >= 0 && at.Capacity < r.best
}
