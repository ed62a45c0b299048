package launch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/planner/requirement"
	"millwright/planner/resource"
	"millwright/services/internal/ec2"
)

const (
	// typesMax bounds the instance types of one request (ec2 §4.2).
	typesMax = 60
	// flexibleMin is the number of types below which an on-demand launch that could be spot is warned about.
	flexibleMin = 5
)

// Selection is what one launch may use: instance types by price, each with the offerings of the chosen
// capacity type.
type Selection struct {
	CapacityType string
	// kind of the capacity reservations, if the capacity type is reserved.
	kind int
	// Tenancy is default or dedicated.
	Tenancy string
	// Group is the placement group, and the partition if one has to be asked for, as in ledger.OfferingKey;
	// "" for none.
	Group      string
	Candidates []Candidate
	// Warning, if any, for the log.
	Warning string
}

// Candidate is an instance type with its image and the offerings it may be launched in, by price, then zone.
type Candidate struct {
	Type      *catalog.InstanceType
	Image     awsv1.AMI
	Offerings []catalog.Offering
}

// Select applies the filters of a launch in their order (ec2 §4.2). Its errors are *ec2.Failure.
func Select(in Input) (Selection, error) {
	reqs, err := requirement.FromClaim(withoutNodeClass(in.Claim.Spec.Requirements))
	if err != nil {
		return Selection{}, &ec2.Failure{Class: ec2.Permanent, Reason: "InstanceTypeResolutionFailed", Message: err.Error(), Err: err}
	}
	candidates := available(in, reqs)
	if len(candidates) == 0 {
		return Selection{}, noCapacity("all requested instance types were unavailable during launch")
	}
	if candidates = withImages(candidates, in.NodeClass.Status.AMIs); len(candidates) == 0 {
		return Selection{}, &ec2.Failure{Class: ec2.Permanent, Reason: "InstanceTypeResolutionFailed",
			Message: fmt.Sprintf("no instance types satisfy requirements of amis %s", imageIDs(in.NodeClass.Status.AMIs))}
	}
	candidates, group := inGroup(in, candidates, reqs)
	candidates = reservedFirst(candidates, reqs, in.FreeReserved)
	if !reqs.HasMinValues() {
		candidates = dropDearSpot(dropExotic(candidates), reqs)
	}
	sortCandidates(candidates)
	if candidates, err = truncate(candidates, reqs, in.MinValuesBestEffort); err != nil {
		return Selection{}, err
	}
	s := choose(candidates, reqs)
	s.Group = group
	return s, nil
}

// withoutNodeClass leaves out the label of the NodeClass, which users may not ask for but every planned claim
// names.
func withoutNodeClass(entries []karpv1.NodeSelectorRequirementWithMinValues) []karpv1.NodeSelectorRequirementWithMinValues {
	return slices.DeleteFunc(slices.Clone(entries), func(e karpv1.NodeSelectorRequirementWithMinValues) bool {
		return e.Key == awsv1.LabelEC2NodeClass
	})
}

func noCapacity(message string) error {
	return &ec2.Failure{Class: ec2.NoCapacity, Reason: "InsufficientCapacity", Message: message}
}

// available keeps the types that satisfy the claim, hold its requests, and have an offering that can be had
// now in a zone with a subnet that has free addresses.
func available(in Input, reqs requirement.Set) []Candidate {
	requests := resource.From(in.Claim.Spec.Resources.Requests)
	zones := map[string]bool{}
	for _, s := range in.subnets() {
		zones[s.Zone] = true
	}
	var out []Candidate
	for _, t := range in.Types {
		if !reqs.IntersectsSet(t.Requirements) || !requests.Fits(t.Allocatable) {
			continue
		}
		c := Candidate{Type: t}
		for _, o := range t.Offerings {
			marked := in.Unavailable[ledger.OfferingKey{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, PlacementGroup: o.Group()}]
			if o.Available && !marked && in.launchable(o) && o.PlacementGroup == in.groupID() && zones[o.Zone] && reqs.IntersectsSet(o.Requirements) {
				c.Offerings = append(c.Offerings, o)
			}
		}
		if len(c.Offerings) > 0 {
			slices.SortFunc(c.Offerings, compareOfferings)
			out = append(out, c)
		}
	}
	return out
}

func (in Input) launchable(o catalog.Offering) bool {
	switch o.CapacityType {
	case karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand:
		return true
	case karpv1.CapacityTypeReserved:
		return o.ReservationID != "" && in.FreeReserved[o.ReservationID] > 0
	}
	return false
}

// reservedFirst keeps only reserved offerings if there are any: those of one kind, and of each type and zone
// that of the reservation with most free instances. A claim that demands more different types than those
// keeps the others, too: choose does not take them.
func reservedFirst(candidates []Candidate, reqs requirement.Set, free map[string]int64) []Candidate {
	candidates = ofOneKind(candidates)
	var reserved, all []Candidate
	for _, c := range candidates {
		best := map[string]string{} // reservation by zone
		for _, o := range c.ofType(karpv1.CapacityTypeReserved) {
			id := o.ReservationID
			if now, ok := best[o.Zone]; !ok || free[id] > free[now] || free[id] == free[now] && id < now {
				best[o.Zone] = id
			}
		}
		c.Offerings = slices.DeleteFunc(slices.Clone(c.Offerings), func(o catalog.Offering) bool {
			return o.CapacityType == karpv1.CapacityTypeReserved && best[o.Zone] != o.ReservationID
		})
		all = append(all, c)
		if c.Offerings = c.ofType(karpv1.CapacityTypeReserved); len(c.Offerings) > 0 {
			reserved = append(reserved, c)
		}
	}
	if len(reserved) == 0 || !satisfied(reserved, reqs) {
		return all
	}
	return reserved
}

// ofOneKind drops the reserved offerings that CreateFleet cannot ask for together with the cheapest: those of
// other kinds of reservation, and, as it takes no second capacity block, all blocks but that one. What is not
// reserved stays.
func ofOneKind(candidates []Candidate) []Candidate {
	var best *catalog.Offering
	var bestType string
	for _, c := range candidates {
		for i := range c.Offerings {
			o := &c.Offerings[i]
			if o.CapacityType != karpv1.CapacityTypeReserved {
				continue
			}
			if best == nil || cmp.Or(cmp.Compare(o.Price, best.Price), cmp.Compare(o.Rank, best.Rank),
				cmp.Compare(kindOf(o), kindOf(best)), cmp.Compare(c.Type.Name, bestType), cmp.Compare(o.ReservationID, best.ReservationID)) < 0 {
				best, bestType = o, c.Type.Name
			}
		}
	}
	if best == nil {
		return candidates
	}
	var out []Candidate
	for _, c := range candidates {
		c.Offerings = slices.DeleteFunc(slices.Clone(c.Offerings), func(o catalog.Offering) bool {
			return o.CapacityType == karpv1.CapacityTypeReserved &&
				(kindOf(&o) != kindOf(best) || kindOf(best) == capacityBlock && (o.ReservationID != best.ReservationID || c.Type.Name != bestType))
		})
		if len(c.Offerings) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// Kinds of capacity reservations, in the order in which they are preferred at the same price.
const (
	plainReservation = iota
	capacityBlock
	interruptibleReservation
)

func kindOf(o *catalog.Offering) int {
	switch {
	case o.ReservationType == awsv1.ReservationTypeCapacityBlock:
		return capacityBlock
	case o.Interruptible:
		return interruptibleReservation
	}
	return plainReservation
}

// satisfied: the candidates have the values the claim demands a number of.
func satisfied(candidates []Candidate, reqs requirement.Set) bool {
	return !slices.ContainsFunc(reqs.Requirements(), func(r requirement.Requirement) bool { return distinctValues(candidates, r) < r.MinValues() })
}

// subnets of the class that may be launched in, in the order of its status.
func (in Input) subnets() []awsv1.Subnet {
	return slices.DeleteFunc(slices.Clone(in.NodeClass.Status.Subnets), func(s awsv1.Subnet) bool { return slices.Contains(in.FullSubnets, s.ID) })
}

// withImages gives each candidate the first image that fits it and drops those without one.
func withImages(candidates []Candidate, images []awsv1.AMI) []Candidate {
	sets := make([]requirement.Set, len(images))
	for i, image := range images {
		sets[i] = requirement.FromExpressions(image.Requirements)
	}
	var out []Candidate
	for _, c := range candidates {
		if i := slices.IndexFunc(sets, func(s requirement.Set) bool { return s.IntersectsSet(c.Type.Requirements) }); i >= 0 {
			c.Image = images[i]
			out = append(out, c)
		}
	}
	return out
}

// ImageOf is the id of the image that a type is launched with; "" if none fits it.
func ImageOf(t *catalog.InstanceType, images []awsv1.AMI) string {
	if found := withImages([]Candidate{{Type: t}}, images); len(found) > 0 {
		return found[0].Image.ID
	}
	return ""
}

func imageIDs(images []awsv1.AMI) string {
	var ids []string
	for _, i := range images {
		ids = append(ids, i.ID)
	}
	return fmt.Sprintf("%v", ids)
}

// exoticResources are those nobody should get without asking.
var exoticResources = []string{
	"aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "amd.com/gpu", "nvidia.com/gpu", "habana.ai/gaudi",
}

// dropExotic drops bare metal and accelerators if something else remains.
func dropExotic(candidates []Candidate) []Candidate {
	plain := slices.DeleteFunc(slices.Clone(candidates), func(c Candidate) bool { return exotic(c.Type) })
	if len(plain) == 0 {
		return candidates
	}
	return plain
}

func exotic(t *catalog.InstanceType) bool {
	_, size, _ := strings.Cut(t.Name, ".")
	return strings.Contains(size, "metal") || slices.ContainsFunc(t.Capacity.Extended, func(a resource.Amount) bool {
		return slices.Contains(exoticResources, string(a.Name)) && a.Value > 0
	})
}

// dropDearSpot drops spot offerings dearer than the cheapest on-demand offering, if the claim allows both.
func dropDearSpot(candidates []Candidate, reqs requirement.Set) []Candidate {
	wanted := reqs.Get(karpv1.CapacityTypeLabelKey)
	if !wanted.Has(karpv1.CapacityTypeSpot) || !wanted.Has(karpv1.CapacityTypeOnDemand) {
		return candidates
	}
	limit, found := cheapestOnDemand(candidates)
	if !found {
		return candidates
	}
	var out []Candidate
	for _, c := range candidates {
		c.Offerings = slices.DeleteFunc(slices.Clone(c.Offerings), func(o catalog.Offering) bool {
			return o.CapacityType == karpv1.CapacityTypeSpot && o.Price > limit
		})
		if len(c.Offerings) > 0 {
			out = append(out, c)
		}
	}
	return out
}

func cheapestOnDemand(candidates []Candidate) (price int64, found bool) {
	for _, c := range candidates {
		for _, o := range c.Offerings {
			if o.CapacityType == karpv1.CapacityTypeOnDemand && (!found || o.Price < price) {
				price, found = o.Price, true
			}
		}
	}
	return price, found
}

// truncate keeps the cheapest types; those must still have the values the claim demands a number of. Of a
// claim that demands none, a few of other quotas are among them.
func truncate(candidates []Candidate, reqs requirement.Set, bestEffort bool) ([]Candidate, error) {
	if !reqs.HasMinValues() {
		return cheapest(candidates), nil
	}
	candidates = candidates[:min(len(candidates), typesMax)]
	if bestEffort {
		return candidates, nil
	}
	for _, r := range reqs.Requirements() {
		if n := distinctValues(candidates, r); n < r.MinValues() {
			return nil, &ec2.Failure{Class: ec2.Permanent, Reason: "InstanceTypeFilteringFailed", Message: fmt.Sprintf(
				"minValues of %s is %d, but the %d cheapest instance types that can be launched have %d", r.Key(), r.MinValues(), len(candidates), n)}
		}
	}
	return candidates, nil
}

func distinctValues(candidates []Candidate, r requirement.Requirement) int {
	seen := map[string]bool{}
	for _, c := range candidates {
		for _, v := range c.Type.Requirements.Get(r.Key()).Values() {
			if r.Has(v) {
				seen[v] = true
			}
		}
	}
	return len(seen)
}

// choose picks the capacity type, reserved before spot before on-demand, and drops what is not of it.
func choose(candidates []Candidate, reqs requirement.Set) Selection {
	s := Selection{CapacityType: karpv1.CapacityTypeOnDemand, Tenancy: tenancy(reqs)}
	for _, capacityType := range []string{karpv1.CapacityTypeSpot, karpv1.CapacityTypeReserved} {
		if slices.ContainsFunc(candidates, func(c Candidate) bool { return len(c.ofType(capacityType)) > 0 }) {
			s.CapacityType = capacityType
		}
	}
	for _, c := range candidates {
		if c.Offerings = c.ofType(s.CapacityType); len(c.Offerings) > 0 {
			s.Candidates = append(s.Candidates, c)
		}
	}
	sortCandidates(s.Candidates)
	if s.CapacityType == karpv1.CapacityTypeReserved {
		s.kind = kindOf(&s.Candidates[0].Offerings[0])
	}
	if s.CapacityType == karpv1.CapacityTypeOnDemand && reqs.Get(karpv1.CapacityTypeLabelKey).Has(karpv1.CapacityTypeSpot) && len(s.Candidates) < flexibleMin {
		s.Warning = fmt.Sprintf("at least %d instance types are recommended when flexible to spot but requesting on-demand, the current request has only %d", flexibleMin, len(s.Candidates))
	}
	return s
}

// tenancy is default if the claim allows it.
func tenancy(reqs requirement.Set) string {
	if reqs.Get(awsv1.LabelInstanceTenancy).Has("default") {
		return "default"
	}
	return "dedicated"
}

func (c Candidate) ofType(capacityType string) []catalog.Offering {
	return slices.DeleteFunc(slices.Clone(c.Offerings), func(o catalog.Offering) bool { return o.CapacityType != capacityType })
}
