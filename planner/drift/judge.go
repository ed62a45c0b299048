package drift

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/nodepool"
	"millwright/planner/requirement"
)

// Reasons of the condition Drifted (reference: disruption §7).
const (
	ReasonNodePool      = "NodePoolDrifted"
	ReasonRequirements  = "RequirementsDrifted"
	ReasonInstanceType  = "InstanceTypeNotFound"
	ReasonNodeClass     = "NodeClassDrift"
	ReasonImage         = "AMIDrift"
	ReasonSecurityGroup = "SecurityGroupDrift"
	ReasonSubnet        = "SubnetDrift"
	ReasonReservation   = "CapacityReservationDrift"
	ReasonGroup         = "PlacementGroupDrift"
	// ReasonEvent: there is time to replace the node within the budgets before what EC2 has scheduled.
	ReasonEvent     = "EventScheduled"
	ReasonRebalance = "RebalanceRecommended"
)

// instanceTypeAge is how old a claim is before its instance type must be on offer: at first it may come from
// a newer catalogue.
const instanceTypeAge = time.Hour

// Verdict on a claim.
type Verdict struct {
	Claim string
	// Reason is one of the constants; empty if no comparison found a drift.
	Reason string
	// Known is false if no comparison found a drift, and not all could be made.
	Known bool
	// Detail says what differs, if it has drifted.
	Detail string
}

// finding of one comparison.
type finding struct {
	verdict int
	detail  string
}

// Verdicts of a comparison; 0 is in sync.
const (
	// unknown: one side of the comparison is not at hand.
	unknown = iota + 1
	drifted
)

func same() finding      { return finding{} }
func notAtHand() finding { return finding{verdict: unknown} }
func differs(format string, args ...any) finding {
	return finding{drifted, fmt.Sprintf(format, args...)}
}

// comparison is one claim beside what it was made of.
type comparison struct {
	*Claim
	pool *poolSide
	// class is nil if the NodeClass is not there or going, instance if the catalogue does not know the
	// claim's type.
	class    *classSide
	instance *typeSide
	now      time.Time
}

// checks in the order in which the first hit wins (reference: disruption §7). Those behind the first three
// ask about the NodeClass.
var checks = [...]struct {
	reason  string
	compare func(*comparison) finding
}{
	{ReasonNodePool, (*comparison).poolHash},
	{ReasonRequirements, (*comparison).requirements},
	{ReasonInstanceType, (*comparison).offered},
	{ReasonNodeClass, (*comparison).classHash},
	{ReasonImage, (*comparison).image},
	{ReasonSecurityGroup, (*comparison).securityGroups},
	{ReasonSubnet, (*comparison).subnet},
	{ReasonReservation, (*comparison).reservation},
	{ReasonGroup, (*comparison).placementGroup},
	{ReasonEvent, (*comparison).event},
	{ReasonRebalance, (*comparison).rebalance},
}

// Judge returns the verdict on each claim, in the order of the input. The NodePool of each must be in it.
func Judge(in Input) []Verdict {
	s := sidesOf(in)
	verdicts := make([]Verdict, len(in.Claims))
	for i := range in.Claims {
		verdicts[i] = s.judge(&in.Claims[i], in.Now)
	}
	return verdicts
}

func (s *sides) judge(c *Claim, now time.Time) Verdict {
	v := Verdict{Claim: c.Name, Known: true}
	if !c.Launched {
		return v
	}
	x := comparison{Claim: c, pool: s.pools[c.NodePool], class: s.classes[c.NodeClass], now: now}
	if x.pool == nil {
		v.Known = false
		return v
	}
	if x.class != nil {
		x.instance = x.class.types[c.instanceType()]
	}
	for _, check := range checks {
		switch f := check.compare(&x); f.verdict {
		case drifted:
			return Verdict{Claim: c.Name, Reason: check.reason, Known: true, Detail: f.detail}
		case unknown:
			v.Known = false
		}
	}
	return v
}

// sides are what claims are compared with, read once for all of them.
type sides struct {
	pools   map[string]*poolSide
	classes map[string]*classSide
}

type poolSide struct {
	*Pool
	// requirements are nil if they cannot be read.
	requirements *requirement.Set
}

type classSide struct {
	*Class
	images []requirement.Set
	types  map[string]*typeSide
}

type typeSide struct {
	*Type
	requirements requirement.Set
}

func sidesOf(in Input) *sides {
	s := &sides{pools: map[string]*poolSide{}, classes: map[string]*classSide{}}
	for i := range in.Pools {
		p := &poolSide{Pool: &in.Pools[i]}
		if set, err := requirement.FromClaim(p.Requirements); err == nil {
			p.requirements = &set
		}
		s.pools[p.Name] = p
	}
	for i := range in.Classes {
		c := &classSide{Class: &in.Classes[i], types: map[string]*typeSide{}}
		for _, image := range c.Images {
			c.images = append(c.images, requirement.FromExpressions(image.Requirements))
		}
		for j := range c.Types {
			set, _ := requirement.FromClaim(c.Types[j].Requirements) // what Validate refuses EC2 may say
			c.types[c.Types[j].Name] = &typeSide{&c.Types[j], set}
		}
		s.classes[c.Name] = c
	}
	return s
}

// poolHash compares what cannot be seen on claim or node. Hashes of other algorithms say nothing: they are
// replaced soon.
func (x *comparison) poolHash() finding {
	i := slices.IndexFunc(x.pool.Hashes, func(h Hashes) bool { return h.Version == x.PoolHash.Version })
	if x.pool.HashVersion != nodepool.HashVersion || x.PoolHash.Value == "" || i < 0 {
		return same()
	}
	return x.hashes("NodePool "+x.pool.Name, x.PoolHash, x.pool.Hashes[i].Values)
}

func (x *comparison) hashes(owner string, have Hash, want []string) finding {
	if slices.Contains(want, have.Value) {
		return same()
	}
	return differs("hash %s (%s), that of %s is %s", have.Value, have.Version, owner, want[0])
}

// requirements compares the NodePool's with the claim's labels; a label that the claim lacks and its instance
// type would give it counts as there: the claim may have been launched before the catalogue was known.
func (x *comparison) requirements() finding {
	if x.pool.requirements == nil {
		return notAtHand()
	}
	labels := x.Labels
	if x.pool.requirements.MatchesLabels(labels) {
		return same()
	}
	if x.instance != nil {
		labels = x.instance.requirements.Labels()
		maps.Copy(labels, x.Labels)
	}
	for _, r := range x.pool.requirements.Requirements() {
		if one := requirement.NewSet(r); !one.MatchesLabels(labels) {
			return differs("label %s=%q, NodePool %s requires %s", r.Key(), labels[r.Key()], x.pool.Name, r)
		}
	}
	return same()
}

// offered: EC2 still offers the type where it runs, be it sold out.
func (x *comparison) offered() finding {
	switch {
	case x.class == nil || x.instanceType() == "" || x.now.Sub(x.CreatedAt) <= instanceTypeAge:
		return same()
	case !x.class.Offered:
		return notAtHand()
	case x.instance == nil || !slices.ContainsFunc(x.instance.Offerings, x.runsIn):
		return differs("EC2 offers no %s %s in %s", x.Labels[karpv1.CapacityTypeLabelKey], x.instanceType(), x.Labels[corev1.LabelTopologyZone])
	}
	return same()
}

// runsIn: the offering is where the claim's instance runs. A reservation that ends makes its instances
// on-demand.
func (x *comparison) runsIn(o Offering) bool {
	want := x.Labels[karpv1.CapacityTypeLabelKey]
	is := o.CapacityType == want || want == karpv1.CapacityTypeReserved && o.CapacityType == karpv1.CapacityTypeOnDemand
	return is && o.Zone == x.Labels[corev1.LabelTopologyZone]
}

func (x *comparison) classHash() finding {
	switch {
	case x.class == nil:
		return same()
	case x.class.Unreadable:
		return notAtHand()
	case x.ClassHash.Value == "" || len(x.class.Hashes.Values) == 0 || x.ClassHash.Version != x.class.Hashes.Version:
		return same()
	}
	return x.hashes("EC2NodeClass "+x.class.Name, x.ClassHash, x.class.Hashes.Values)
}

// image: the claim runs what a launch of its type would choose now.
func (x *comparison) image() finding {
	if x.class == nil {
		return same()
	}
	have := x.ImageID
	if have == "" && x.Placement != nil {
		have = x.Placement.ImageID
	}
	if !x.class.Current || have == "" || x.instance == nil {
		return notAtHand()
	}
	i := slices.IndexFunc(x.class.images, func(s requirement.Set) bool { return s.IntersectsSet(x.instance.requirements) })
	if i < 0 {
		return notAtHand()
	}
	if want := x.class.Images[i].ID; want != have {
		return differs("image %s, that of EC2NodeClass %s for %s is %s", have, x.class.Name, x.instance.Name, want)
	}
	return same()
}

func (x *comparison) securityGroups() finding {
	switch {
	case x.class == nil:
		return same()
	case !x.class.Current || x.Placement == nil || len(x.Placement.SecurityGroupIDs) == 0 || len(x.class.SecurityGroupIDs) == 0:
		return notAtHand()
	}
	have, want := distinct(x.Placement.SecurityGroupIDs), distinct(x.class.SecurityGroupIDs)
	if !slices.Equal(have, want) {
		return differs("security groups %v, those of EC2NodeClass %s are %v", have, x.class.Name, want)
	}
	return same()
}

func distinct(ids []string) []string { return slices.Compact(slices.Sorted(slices.Values(ids))) }

func (x *comparison) subnet() finding {
	switch {
	case x.class == nil:
		return same()
	case !x.class.Current || x.Placement == nil || x.Placement.SubnetID == "" || len(x.class.SubnetIDs) == 0:
		return notAtHand()
	case !slices.Contains(x.class.SubnetIDs, x.Placement.SubnetID):
		return differs("subnet %s, those of EC2NodeClass %s are %v", x.Placement.SubnetID, x.class.Name, distinct(x.class.SubnetIDs))
	}
	return same()
}

// reservation: the class still selects the capacity reservation that the instance is in. One that has ended
// is not listed either, but makes its instances on-demand, so EC2 has to have said that it runs.
func (x *comparison) reservation() finding {
	have := x.Labels[awsv1.LabelCapacityReservationID]
	switch {
	case x.class == nil || have == "" || x.Labels[karpv1.CapacityTypeLabelKey] != karpv1.CapacityTypeReserved:
		return same()
	case x.class.Unreadable:
		return notAtHand()
	case x.class.Reservations == nil || slices.Contains(x.class.Reservations.IDs, have):
		return same()
	case !x.class.Current || !x.class.Reservations.Known || x.Placement == nil || x.Placement.ReservationID != have:
		return notAtHand()
	}
	return differs("capacity reservation %s, those that EC2NodeClass %s selects are %v", have, x.class.Name, distinct(x.class.Reservations.IDs))
}

// placementGroup: the instance is in the group that the class names, or in none if that names none.
func (x *comparison) placementGroup() finding {
	switch have := x.Labels[awsv1.LabelPlacementGroupID]; {
	case x.class == nil || have == "" && !x.class.Grouped && x.class.Current:
		return same()
	case !x.class.Current || x.class.Grouped && x.class.GroupID == "":
		return notAtHand()
	case have != x.class.GroupID:
		return differs("placement group %q, that of EC2NodeClass %s is %q", have, x.class.Name, x.class.GroupID)
	}
	return same()
}

// event: what is scheduled for the instance holds until EC2 says no more of it.
func (x *comparison) event() finding {
	if x.EventScheduled {
		return differs("EC2 has scheduled an event for the instance")
	}
	return same()
}

// rebalance: what EC2 recommends holds until the instance is gone.
func (x *comparison) rebalance() finding {
	if x.RebalanceRecommended {
		return differs("EC2 recommends to leave the instance")
	}
	return same()
}
