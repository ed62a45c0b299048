// Package pricing says what nodes cost, and what launches may come to cost: which instance types and
// offerings of a planned NodeClaim are left when it must cost less than what it replaces.
package pricing

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/catalog"
	"millwright/planner/disrupt/internal/account"
	"millwright/planner/disrupt/internal/minimum"
	"millwright/planner/ledger"
	"millwright/planner/options"
	"millwright/planner/provision"
	"millwright/planner/requirement"
	"millwright/planner/resource"
)

// Why a claim can't be cut to what is cheap enough.
const (
	UnknownType = "instance-type-not-found"
	NotCheaper  = "not-cheaper"
	Spot        = "spot-to-spot"
)

// Prices as of a Snapshot, in micro USD per hour.
type Prices struct {
	s *planner.Snapshot
	// nodes asked for; marked are the offerings without capacity, nil until asked for.
	nodes  map[*planner.StateNode]int64
	marked map[ledger.OfferingKey]bool
	// left of the limits of NodePools, as far as it was asked for; nil for those without.
	left map[string]map[corev1.ResourceName]int64
}

// New returns the prices as of a Snapshot.
func New(s *planner.Snapshot) *Prices {
	return &Prices{s: s, nodes: map[*planner.StateNode]int64{}, left: map[string]map[corev1.ResourceName]int64{}}
}

// catalogOf is what EC2 offers to the claims of a node's pool.
func (p *Prices) catalogOf(n *planner.StateNode) *catalog.Catalog {
	if n.Claim == nil || n.Claim.Spec.NodeClassRef == nil {
		return nil
	}
	return provision.Catalog(p.s, n.NodePool, n.Claim.Spec.NodeClassRef.Name)
}

// TypeOf is a node's instance type; nil if the catalogue does not have it.
func (p *Prices) TypeOf(n *planner.StateNode) *catalog.InstanceType {
	if cat := p.catalogOf(n); cat != nil {
		return cat.Type(n.InstanceTypeName())
	}
	return nil
}

// Of is what a node costs per hour: its type's cheapest offering in its zone and capacity type, available
// or not (reference: disruption §3); 0 if it is not known.
func (p *Prices) Of(n *planner.StateNode) int64 {
	if v, ok := p.nodes[n]; ok {
		return v
	}
	best := int64(0)
	if t := p.TypeOf(n); t != nil {
		for i := range t.Offerings {
			o := &t.Offerings[i]
			if o.Price > 0 && o.Zone == n.Zone() && o.CapacityType == n.CapacityType() && (best == 0 || o.Price < best) {
				best = o.Price
			}
		}
	}
	if p.free(n) {
		best = 0
	} else if best == 0 {
		best = p.s.World.Price(n.InstanceTypeName(), n.CapacityType(), n.Zone())
	}
	p.nodes[n] = best
	return best
}

// free: NodeOverlays say that a node costs nothing, as where it is paid for anyway. An offering without a
// price is not available otherwise.
func (p *Prices) free(n *planner.StateNode) bool {
	t := p.TypeOf(n)
	return p.s.Options.Revision >= options.Revision1 && t != nil && n.CapacityType() != karpv1.CapacityTypeReserved &&
		slices.ContainsFunc(t.Offerings, func(o catalog.Offering) bool {
			return o.Price == 0 && o.Available && o.Zone == n.Zone() && o.CapacityType == n.CapacityType()
		})
}

// Known reports that it is known what a node costs. Reserved capacity may cost nothing: a ten-millionth of
// the on-demand price is less than a micro USD, mostly.
func (p *Prices) Known(n *planner.StateNode) bool {
	if p.Of(n) > 0 || p.free(n) {
		return true
	}
	t := p.TypeOf(n)
	return p.s.Options.ConsolidateReserved && n.CapacityType() == karpv1.CapacityTypeReserved && t != nil &&
		slices.ContainsFunc(t.Offerings, func(o catalog.Offering) bool {
			return o.CapacityType == karpv1.CapacityTypeReserved && o.Zone == n.Zone() && o.Rank > 0
		})
}

// Sum of the prices of nodes.
func (p *Prices) Sum(nodes []*planner.StateNode) (sum int64) {
	for _, n := range nodes {
		sum += p.Of(n)
	}
	return sum
}

// unavailable offerings, as the Ledger has them marked.
func (p *Prices) unavailable() map[ledger.OfferingKey]bool {
	if p.marked == nil {
		p.marked = map[ledger.OfferingKey]bool{}
		for _, k := range p.s.Ledger.UnavailableOfferings(p.s.Now) {
			p.marked[k] = true
		}
	}
	return p.marked
}

func (p *Prices) isMarked(t *catalog.InstanceType, o *catalog.Offering) bool {
	marked := p.unavailable()
	key := keyOf(t, o)
	if key.PlacementGroup == "" {
		return marked[key] || marked[ledger.OfferingKey{CapacityType: key.CapacityType}]
	}
	return slices.ContainsFunc(key.Wider(), func(k ledger.OfferingKey) bool { return marked[k] })
}

func keyOf(t *catalog.InstanceType, o *catalog.Offering) ledger.OfferingKey {
	return ledger.OfferingKey{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, PlacementGroup: o.Group()}
}

// Offers are the offerings of a type that a claim with these requirements may be launched in now. closedZones
// have no free addresses.
func (p *Prices) Offers(t *catalog.InstanceType, set requirement.Set, closedZones []string) []*catalog.Offering {
	var list []*catalog.Offering
	for i := range t.Offerings {
		o := &t.Offerings[i]
		if o.Available && !p.isMarked(t, o) && !slices.Contains(closedZones, o.Zone) && set.IntersectsSet(o.Requirements) {
			list = append(list, o)
		}
	}
	return list
}

// spotTypesLeast is how many cheaper types a spot node's replacement must be able to become (reference:
// disruption §5).
const spotTypesLeast = 15

// SameTypeCeiling is the lowest price that a removed node has of a type that the replacement may become too:
// keeping that node would be as good (reference: disruption §5).
func (p *Prices) SameTypeCeiling(nodes []*planner.StateNode, c *ledger.PlannedClaim) int64 {
	least := int64(math.MaxInt64)
	for _, n := range nodes {
		if slices.Contains(c.InstanceTypes, n.InstanceTypeName()) {
			least = min(least, p.Of(n))
		}
	}
	return least
}

// Replaced is what a claim is to replace: its price, whether all of it is spot, and whether it is one node.
type Replaced struct {
	Price           int64
	AllSpot, Single bool
}

// Restrict cuts a claim's types to those whose dearest launch costs less than what it replaces; or it says
// why that leaves too few.
func (p *Prices) Restrict(c *ledger.PlannedClaim, by Replaced) (cause, why string) {
	set, _ := requirement.FromClaim(c.Requirements) // as planned: it may name labels that users may not
	cat := provision.Catalog(p.s, c.NodePool, c.NodeClassRef.Name)
	if cat == nil {
		return UnknownType, "the catalogue is not known"
	}
	capacityTypes := set.Get(karpv1.CapacityTypeLabelKey)
	spotToSpot := by.AllSpot && capacityTypes.Has(karpv1.CapacityTypeSpot)
	if spotToSpot && !p.s.Options.SpotToSpot {
		return Spot, "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"
	}
	closed := p.s.ClosedZones(c.NodeClassRef.Name)
	if capacityTypes.Has(karpv1.CapacityTypeSpot) && capacityTypes.Has(karpv1.CapacityTypeOnDemand) {
		set = set.Add(requirement.In(karpv1.CapacityTypeLabelKey, p.firstCapacityType(c, cat, set, closed)))
	}
	var kept []string
	var best ledger.OfferingPrice
	for _, name := range c.InstanceTypes {
		t := cat.Type(name)
		if t == nil {
			continue
		}
		offer, worst := p.launchPrice(t, set, closed)
		if offer == nil || worst >= by.Price {
			continue
		}
		kept, best = append(kept, name), cheaper(best, name, offer)
	}
	if len(kept) == 0 {
		return NotCheaper, "Can't replace with a cheaper node"
	}
	if spotToSpot && by.Single {
		if len(kept) < spotTypesLeast {
			return Spot, fmt.Sprintf("SpotToSpotConsolidation requires %d cheaper instance type options than the current candidate to consolidate, got %d", spotTypesLeast, len(kept))
		}
		kept = p.spotTypes(kept, set, cat)
	}
	if key := minimum.Unmet(set, cat, kept); key != "" {
		return NotCheaper, fmt.Sprintf("Filtering by price: minValues requirement is not met for label(s) (label(s)=[%s])", key)
	}
	Narrow(c, set, cat, kept)
	c.Cheapest = best
	return "", ""
}

// spotTypes are the cheapest of the types that spot is replaced with: as many as are enough to find
// capacity, and for minValues (reference: disruption §5).
func (p *Prices) spotTypes(kept []string, set requirement.Set, cat *catalog.Catalog) []string {
	n := max(spotTypesLeast, minimum.Types(set))
	if p.s.Options.Revision < options.Revision1 {
		return kept[:n]
	}
	n = min(n, len(kept))
	more := sort.Search(len(kept)-n, func(i int) bool { return minimum.Unmet(set, cat, kept[:n+i]) == "" })
	return kept[:n+more]
}

// Fit cuts the types of claims to those that the limits of their NodePools have room for while the nodes
// that they replace are still there, and beside the claims that were started before. It returns how much
// dearer their cheapest offerings are then, in micro USD per hour. A claim that no type fits, or too few for
// its minValues, is left as it is.
//
// Claims are planned as if the nodes they replace were gone. With a limit of 12 CPUs and two nodes of 4, one
// that replaces either of them may become a type of 8; until that node is gone there is room for 4.
func (p *Prices) Fit(started, claims []ledger.PlannedClaim) (dearer int64) {
	if p.s.Options.Revision < options.Revision7 {
		return 0
	}
	before := slices.Clone(started)
	for i := range claims {
		c := &claims[i]
		left, asked := p.left[c.NodePool]
		if !asked {
			left = account.Left(p.s, c.NodePool)
			p.left[c.NodePool] = left
		}
		if left != nil {
			was := c.Cheapest.MicroUSDPerHour
			p.fit(c, account.Beside(left, c.NodePool, before))
			dearer += c.Cheapest.MicroUSDPerHour - was
		}
		before = append(before, *c)
	}
	return dearer
}

func (p *Prices) fit(c *ledger.PlannedClaim, left map[corev1.ResourceName]int64) {
	if fits(c.Capacity, left) {
		return
	}
	set, _ := requirement.FromClaim(c.Requirements)
	cat, closed := provision.Catalog(p.s, c.NodePool, c.NodeClassRef.Name), p.s.ClosedZones(c.NodeClassRef.Name)
	if cat == nil {
		return
	}
	var kept []string
	var best ledger.OfferingPrice
	for _, name := range c.InstanceTypes {
		t := cat.Type(name)
		if t == nil || !fits(t.Capacity, left) {
			continue
		}
		if offer, _ := p.launchPrice(t, set, closed); offer != nil {
			kept, best = append(kept, name), cheaper(best, name, offer)
		}
	}
	if len(kept) > 0 && len(kept) < len(c.InstanceTypes) && minimum.Unmet(set, cat, kept) == "" {
		Narrow(c, set, cat, kept)
		c.Cheapest = best
	}
}

func fits(v resource.Vector, left map[corev1.ResourceName]int64) bool {
	for name, most := range left {
		if name != provision.ResourceNodes && v.Get(name) > most {
			return false
		}
	}
	return true
}

// cheaper is the offering, if it costs less than the best until now.
func cheaper(best ledger.OfferingPrice, name string, o *catalog.Offering) ledger.OfferingPrice {
	if best.InstanceType != "" && o.Price >= best.MicroUSDPerHour {
		return best
	}
	return ledger.OfferingPrice{InstanceType: name, Zone: o.Zone, CapacityType: o.CapacityType, MicroUSDPerHour: o.Price, ReservationID: o.ReservationID}
}

// Narrow leaves a claim these types and requirements.
func Narrow(c *ledger.PlannedClaim, set requirement.Set, cat *catalog.Catalog, types []string) {
	c.InstanceTypes = types
	c.Requirements = set.Without(corev1.LabelInstanceTypeStable).Add(minimum.OfTypes(set, types)).Entries()
	c.Capacity = resource.Vector{}
	for _, name := range types {
		c.Capacity = c.Capacity.Max(cat.Type(name).Capacity)
	}
}

// firstCapacityType is the one the launch would take: spot if some type has it now, for the price was
// computed with it, and a shortage of spot must fail the launch rather than buy dearer.
func (p *Prices) firstCapacityType(c *ledger.PlannedClaim, cat *catalog.Catalog, set requirement.Set, closedZones []string) string {
	for _, name := range c.InstanceTypes {
		if t := cat.Type(name); t != nil && slices.ContainsFunc(p.Offers(t, set, closedZones), func(o *catalog.Offering) bool { return o.CapacityType == karpv1.CapacityTypeSpot }) {
			return karpv1.CapacityTypeSpot
		}
	}
	return karpv1.CapacityTypeOnDemand
}

// launchPrice is the cheapest offering that a launch may take, and what the dearest of its capacity type
// costs: reserved, spot and on-demand in this order, the first that there is.
func (p *Prices) launchPrice(t *catalog.InstanceType, set requirement.Set, closedZones []string) (best *catalog.Offering, worst int64) {
	offers := p.Offers(t, set, closedZones)
	for _, capacityType := range []string{karpv1.CapacityTypeReserved, karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand} {
		for _, o := range offers {
			if o.CapacityType != capacityType {
				continue
			}
			worst = max(worst, o.Price)
			if best == nil || o.Price < best.Price {
				best = o
			}
		}
		if best != nil {
			return best, worst
		}
	}
	return nil, 0
}

// LastingTypes are a claim's types that can be had and could be for a time, in their order, with the cheapest
// offering; soonest is when the first of the others will have been there that long, zero if there is none.
func (p *Prices) LastingTypes(c *ledger.PlannedClaim, cat *catalog.Catalog, set requirement.Set, wait time.Duration) (kept []string, best ledger.OfferingPrice, soonest time.Time) {
	closed, lost := p.s.ClosedZones(c.NodeClassRef.Name), p.s.Ledger.LostReturns(c.NodePool, p.s.Now)
	for _, name := range c.InstanceTypes {
		t := cat.Type(name)
		if t == nil {
			continue
		}
		offer, _ := p.launchPrice(t, set, closed)
		if offer == nil {
			continue
		}
		since := lost.At
		for _, o := range p.Offers(t, set, closed) {
			for _, key := range keyOf(t, o).Wider() {
				if mark := p.s.Ledger.UnavailableOffering(key); mark != nil && mark.Until.After(since) {
					since = mark.Until
				}
			}
		}
		if at := since.Add(wait); p.s.Now.Before(at) {
			if soonest.IsZero() || at.Before(soonest) {
				soonest = at
			}
			continue
		}
		kept, best = append(kept, name), cheaper(best, name, offer)
	}
	return kept, best, soonest
}
