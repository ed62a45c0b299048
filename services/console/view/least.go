package view

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/catalog"
	"millwright/planner/requirement"
)

// leastCost is a price in micro USD per hour below which no nodes of a NodePool, as it is now, can hold what
// pods request: the cheapest way to buy their CPU alone, or their memory alone, whichever is dearer. 0 if it
// is not known.
//
// Instances of all sizes count in fractions, and offerings whether EC2 has capacity for them or not, so that
// what can be had costs more. NodeOverlays may have changed prices, so that nothing is said if there are any.
func leastCost(s *planner.Snapshot, pool *karpv1.NodePool, need Amounts) int64 {
	spec := &pool.Spec.Template.Spec
	reqs, err := requirement.FromClaim(spec.Requirements)
	if err != nil || spec.NodeClassRef == nil || len(s.World.NodeOverlays()) > 0 {
		return 0
	}
	cat := s.World.Catalog(spec.NodeClassRef.Name)
	if cat == nil {
		return 0
	}
	reqs = reqs.Intersection(requirement.FromLabels(pool.Spec.Template.Labels))
	matching := cat.MatchingSet(reqs)
	cpu, memory := math.Inf(1), math.Inf(1)
	for i, t := range cat.Types {
		if price := lowest(t, reqs); matching.Has(i) && price > 0 {
			cpu, memory = min(cpu, each(price, t.Allocatable.MilliCPU)), min(memory, each(price, t.Allocatable.Memory))
		}
	}
	if math.IsInf(cpu, 1) || math.IsInf(memory, 1) {
		return 0
	}
	return int64(max(cpu*float64(need.MilliCPU), memory*float64(need.MemoryBytes)))
}

// lowest price of a type where requirements allow it; 0 if none is known.
func lowest(t *catalog.InstanceType, reqs requirement.Set) (price int64) {
	zones, capacityTypes := reqs.Get(corev1.LabelTopologyZone), reqs.Get(karpv1.CapacityTypeLabelKey)
	for _, o := range t.Offerings {
		if o.Price > 0 && (price == 0 || o.Price < price) && zones.Has(o.Zone) && capacityTypes.Has(o.CapacityType) {
			price = o.Price
		}
	}
	return price
}

// each is the price of one of an amount.
func each(price, amount int64) float64 {
	if amount <= 0 {
		return math.Inf(1)
	}
	return float64(price) / float64(amount)
}

// wanted is what the pods of the nodes of each NodePool request that would need nodes elsewhere: those of
// DaemonSets and static ones come with the nodes.
func wanted(s *planner.Snapshot) map[string]Amounts {
	sums := map[string]Amounts{}
	for _, n := range s.StateNodes() {
		sum := sums[n.NodePool]
		for _, p := range n.Pods {
			if !p.Class.DaemonSetOwned() && !p.Class.Static() && !p.Terminal() {
				sum.add(amounts(p.Class.Requests))
			}
		}
		sums[n.NodePool] = sum
	}
	return sums
}
