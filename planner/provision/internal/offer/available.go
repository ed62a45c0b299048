package offer

import (
	"slices"
	"strings"

	"millwright/planner/bitset"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
)

// OfferedBy returns, by shape, the types of a NodeClass's catalogue that are available: without the marked
// offerings, and without zones in which no subnet has free addresses. proven are those of them that are not
// unproven; nil if that is all.
func (in *Input) OfferedBy(c *catalog.Catalog, nodeClass string) (available, proven []bitset.Set) {
	closed := in.ClosedZones(nodeClass)
	available = make([]bitset.Set, len(c.Shapes))
	for i := range available {
		available[i] = c.Shapes[i].Offered
		if slices.Contains(closed, c.Shapes[i].Zone) {
			available[i] = bitset.New(len(c.Types))
		}
	}
	available = without(c, available, in.Unavailable)
	if len(in.Unproven) == 0 {
		return available, nil
	}
	proven = without(c, available, in.Unproven)
	if slices.EqualFunc(available, proven, bitset.Set.Equal) {
		return available, nil
	}
	return available, proven
}

// without returns what is offered by shape less some offerings; what does not change is shared.
func without(c *catalog.Catalog, offered []bitset.Set, keys []ledger.OfferingKey) []bitset.Set {
	out := slices.Clone(offered)
	owned := make([]bool, len(out))
	for _, k := range keys {
		it, everywhere := c.Type(k.InstanceType), k == ledger.OfferingKey{CapacityType: k.CapacityType}
		for i := range out {
			s := &c.Shapes[i]
			if everywhere && s.CapacityType == k.CapacityType {
				out[i], owned[i] = bitset.New(len(c.Types)), true
				continue
			}
			if s.Zone != k.Zone || k.PlacementGroup != "" && k.PlacementGroup != s.Group && !strings.HasPrefix(s.Group, k.PlacementGroup+"/") {
				continue
			}
			if k.InstanceType == "" && k.PlacementGroup != "" { // the group is full in the zone
				out[i], owned[i] = bitset.New(len(c.Types)), true
				continue
			}
			if it == nil || s.CapacityType != k.CapacityType || !out[i].Has(it.Index) {
				continue
			}
			if !owned[i] {
				out[i], owned[i] = out[i].Clone(), true
			}
			out[i].Remove(it.Index)
		}
	}
	return out
}

// Probes reports that types could in state n be had from unproven offerings alone.
func (n *State) Probes(types bitset.Set) bool {
	if n.Template.Proven == nil {
		return false
	}
	return !slices.ContainsFunc(n.Shapes, func(i int) bool {
		return n.Offered.Shapes[i].Meets(types) && n.Template.Proven[i].Meets(types)
	})
}
