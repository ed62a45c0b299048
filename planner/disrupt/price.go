package disrupt

import (
	"cmp"
	"slices"

	"millwright/planner"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/planner/requirement"
)

func compareNodes(a, b *planner.StateNode) int { return cmp.Compare(a.Name, b.Name) }

// catalogOf is what EC2 offers to the claims of a node's pool.
func (c *candidates) catalogOf(n *planner.StateNode) *catalog.Catalog {
	if n.Claim == nil || n.Claim.Spec.NodeClassRef == nil {
		return nil
	}
	return provision.Catalog(c.s, n.NodePool, n.Claim.Spec.NodeClassRef.Name)
}

func (c *candidates) typeOf(n *planner.StateNode) *catalog.InstanceType {
	if cat := c.catalogOf(n); cat != nil {
		return cat.Type(n.InstanceTypeName())
	}
	return nil
}

// price is what a node costs per hour: its type's cheapest offering in its zone and capacity type, available
// or not (reference: disruption §3); 0 if it is not known.
func (c *candidates) price(n *planner.StateNode) int64 {
	if v, ok := c.prices[n]; ok {
		return v
	}
	best := int64(0)
	if t := c.typeOf(n); t != nil {
		for i := range t.Offerings {
			o := &t.Offerings[i]
			if o.Price > 0 && o.Zone == n.Zone() && o.CapacityType == n.CapacityType() && (best == 0 || o.Price < best) {
				best = o.Price
			}
		}
	}
	if best == 0 {
		best = c.s.World.Price(n.InstanceTypeName(), n.CapacityType(), n.Zone())
	}
	c.prices[n] = best
	return best
}

// Price is what a node costs per hour, in micro USD; 0 if it is not known.
func Price(s *planner.Snapshot, n *planner.StateNode) int64 {
	c := &candidates{s: s, prices: map[*planner.StateNode]int64{}}
	return c.price(n)
}

func (p *pass) priceOf(nodes []*planner.StateNode) (sum int64) {
	for _, n := range nodes {
		sum += p.price(n)
	}
	return sum
}

// unavailable offerings, as the Ledger has them marked.
func (c *candidates) unavailable() map[ledger.OfferingKey]bool {
	if c.marked == nil {
		c.marked = map[ledger.OfferingKey]bool{}
		for _, k := range c.s.Ledger.UnavailableOfferings(c.s.Now) {
			c.marked[k] = true
		}
	}
	return c.marked
}

func (c *candidates) isMarked(t *catalog.InstanceType, o *catalog.Offering) bool {
	marked := c.unavailable()
	key := ledger.OfferingKey{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, PlacementGroup: o.Group()}
	if key.PlacementGroup == "" {
		return marked[key]
	}
	return slices.ContainsFunc(key.Wider(), func(k ledger.OfferingKey) bool { return marked[k] })
}

// offers are the offerings of a type that a claim with these requirements may be launched in now. closedZones
// have no free addresses.
func (c *candidates) offers(t *catalog.InstanceType, set requirement.Set, closedZones []string) []*catalog.Offering {
	var list []*catalog.Offering
	for i := range t.Offerings {
		o := &t.Offerings[i]
		if o.Available && !c.isMarked(t, o) && !slices.Contains(closedZones, o.Zone) && set.IntersectsSet(o.Requirements) {
			list = append(list, o)
		}
	}
	return list
}
