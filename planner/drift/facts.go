package drift

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/catalog"
	"millwright/planner/condition"
	"millwright/planner/nodepool"
)

// Input is all that verdicts follow from. Its lists are by name, each name once.
type Input struct {
	// Now is when it is judged.
	Now    time.Time `json:"now"`
	Claims []Claim   `json:"claims"`
	// Pools and Classes are those of the claims. A class that is not among them is not there, or is being
	// deleted.
	Pools   []Pool  `json:"pools"`
	Classes []Class `json:"classes,omitempty"`
}

// Hash of a NodePool's template or an EC2NodeClass, as in an annotation; empty if there is none.
type Hash struct {
	Version string `json:"version,omitempty"`
	Value   string `json:"value,omitempty"`
}

// Hashes are those of one version that are in sync with an object.
type Hashes struct {
	Version string   `json:"version"`
	Values  []string `json:"values"`
}

// Claim is what is known of a NodeClaim and its instance.
type Claim struct {
	Name      string            `json:"name"`
	UID       types.UID         `json:"uid"`
	NodePool  string            `json:"nodePool"`
	NodeClass string            `json:"nodeClass,omitempty"`
	Launched  bool              `json:"launched,omitempty"`
	CreatedAt time.Time         `json:"createdAt"`
	Labels    map[string]string `json:"labels,omitempty"`
	PoolHash  Hash              `json:"poolHash"`
	ClassHash Hash              `json:"classHash"`
	// ImageID is of the status.
	ImageID string `json:"imageID,omitempty"`
	// Placement is nil as long as EC2 has not listed the instance.
	Placement *Placement `json:"placement,omitempty"`
	// EventScheduled: EC2 has scheduled an event for the instance.
	EventScheduled bool `json:"eventScheduled,omitempty"`
	// RebalanceRecommended: EC2 recommends to leave the instance, and options say that this is to be
	// followed.
	RebalanceRecommended bool `json:"rebalanceRecommended,omitempty"`
}

// Placement is how EC2 says that an instance was launched.
type Placement struct {
	ImageID          string   `json:"imageID,omitempty"`
	SubnetID         string   `json:"subnetID,omitempty"`
	SecurityGroupIDs []string `json:"securityGroupIDs,omitempty"`
	// ReservationID of the capacity reservation that it is in, if EC2 was asked about that and says that it
	// is active: it is asked when the class does not list it.
	ReservationID string `json:"reservationID,omitempty"`
}

// Pool is what is known of a NodePool.
type Pool struct {
	Name string `json:"name"`
	// HashVersion is that of the hash that the NodePool has.
	HashVersion string `json:"hashVersion,omitempty"`
	// Hashes in sync with the template, for each version that can be computed.
	Hashes []Hashes `json:"hashes,omitempty"`
	// Requirements of the template.
	Requirements []karpv1.NodeSelectorRequirementWithMinValues `json:"requirements,omitempty"`
}

// Class is what is known of an EC2NodeClass.
type Class struct {
	Name string `json:"name"`
	// Unreadable: nothing is known of it but what EC2 offers.
	Unreadable bool `json:"unreadable,omitempty"`
	// Hashes in sync with its spec, by the version of the hash that it has; no values if that version cannot
	// be computed.
	Hashes Hashes `json:"hashes"`
	// Current: the status is about the present spec. What follows is of the status.
	Current          bool     `json:"current,omitempty"`
	Images           []Image  `json:"images,omitempty"`
	SubnetIDs        []string `json:"subnetIDs,omitempty"`
	SecurityGroupIDs []string `json:"securityGroupIDs,omitempty"`
	// Reservations that the class selects; nil in records of programs that did not compare them.
	Reservations *Reservations `json:"reservations,omitempty"`
	// Grouped: instances are to be in a placement group. GroupID is empty as long as it is not known.
	Grouped bool   `json:"grouped,omitempty"`
	GroupID string `json:"groupID,omitempty"`
	// Offered: it is known what EC2 offers. Types are those that claims ask for, by name.
	Offered bool   `json:"offered,omitempty"`
	Types   []Type `json:"types,omitempty"`
}

// Reservations of capacity, by id. Known is false while the status does not say which there are.
type Reservations struct {
	Known bool     `json:"known,omitempty"`
	IDs   []string `json:"ids,omitempty"`
}

// Image of a class, and what it asks of an instance type.
type Image struct {
	ID           string                           `json:"id"`
	Requirements []corev1.NodeSelectorRequirement `json:"requirements,omitempty"`
}

// Type is an instance type that the class's catalogue has.
type Type struct {
	Name         string                                        `json:"name"`
	Requirements []karpv1.NodeSelectorRequirementWithMinValues `json:"requirements"`
	Offerings    []Offering                                    `json:"offerings,omitempty"`
}

// Offering is where and how a type is offered, be it sold out.
type Offering struct {
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType"`
}

// ClaimOf returns what a NodeClaim shows; placement is nil if EC2 has not listed its instance.
func ClaimOf(o *karpv1.NodeClaim, placement *Placement) Claim {
	return Claim{
		Name: o.Name, UID: o.UID, NodePool: o.Labels[karpv1.NodePoolLabelKey], NodeClass: o.Spec.NodeClassRef.Name,
		Launched: condition.IsTrue(o.Status.Conditions, karpv1.ConditionTypeLaunched), CreatedAt: o.CreationTimestamp.UTC(), Labels: o.Labels,
		PoolHash:  Hash{o.Annotations[karpv1.NodePoolHashVersionAnnotationKey], o.Annotations[karpv1.NodePoolHashAnnotationKey]},
		ClassHash: Hash{o.Annotations[awsv1.NodeClassHashVersionAnnotationKey], o.Annotations[awsv1.NodeClassHashAnnotationKey]},
		ImageID:   o.Status.ImageID, Placement: placement,
	}
}

// PoolOf returns what claims are compared with of a NodePool that can be read.
func PoolOf(p *karpv1.NodePool) Pool {
	pool := Pool{Name: p.Name, HashVersion: p.Annotations[karpv1.NodePoolHashVersionAnnotationKey], Requirements: p.Spec.Template.Spec.Requirements}
	for _, version := range nodepool.VersionsRead {
		pool.Hashes = append(pool.Hashes, Hashes{version, nodepool.Hashes(p, version)})
	}
	return pool
}

// ClassOf returns what claims are compared with of an EC2NodeClass: hashes are those of its spec by the
// version that it has, cat is nil while it is not known what EC2 offers. Types are added by Offer.
func ClassOf(nc *awsv1.EC2NodeClass, hashes []string, cat *catalog.Catalog) Class {
	c := Class{Name: nc.Name, Offered: cat != nil && len(cat.Types) > 0}
	if nc.Unreadable != "" {
		c.Unreadable = true
		return c
	}
	c.Hashes = Hashes{nc.Annotations[awsv1.NodeClassHashVersionAnnotationKey], hashes}
	ready := condition.Get(nc.Status.Conditions, karpv1.ConditionTypeReady)
	c.Current = ready != nil && ready.ObservedGeneration == nc.Generation
	for _, i := range nc.Status.AMIs {
		c.Images = append(c.Images, Image{i.ID, i.Requirements})
	}
	for _, s := range nc.Status.Subnets {
		c.SubnetIDs = append(c.SubnetIDs, s.ID)
	}
	for _, g := range nc.Status.SecurityGroups {
		c.SecurityGroupIDs = append(c.SecurityGroupIDs, g.ID)
	}
	c.Reservations = &Reservations{Known: condition.IsTrue(nc.Status.Conditions, awsv1.ConditionTypeCapacityReservationsReady)}
	for _, r := range nc.Status.CapacityReservations {
		c.Reservations.IDs = append(c.Reservations.IDs, r.ID)
	}
	c.Grouped = nc.Spec.PlacementGroupSelector != nil
	if g := nc.Status.PlacementGroup; c.Grouped && g != nil {
		c.GroupID = g.ID
	}
	return c
}

// Offer adds a type of the class's catalogue to what is known, unless it is there or nil.
func (c *Class) Offer(t *catalog.InstanceType) {
	if t == nil {
		return
	}
	i, there := slices.BinarySearchFunc(c.Types, t.Name, Type.compare)
	if there {
		return
	}
	made := Type{Name: t.Name, Requirements: t.Requirements.ExactEntries()}
	for _, o := range t.Offerings {
		made.Offerings = append(made.Offerings, Offering{o.Zone, o.CapacityType})
	}
	made.Offerings = slices.Compact(made.Offerings) // of several reservations
	c.Types = slices.Insert(c.Types, i, made)
}

func (c Claim) compare(name string) int { return cmp.Compare(c.Name, name) }
func (p Pool) compare(name string) int  { return cmp.Compare(p.Name, name) }
func (c Class) compare(name string) int { return cmp.Compare(c.Name, name) }
func (t Type) compare(name string) int  { return cmp.Compare(t.Name, name) }
func (c *Claim) instanceType() string   { return c.Labels[corev1.LabelInstanceTypeStable] }

// Sort puts the lists in order.
func (in *Input) Sort() {
	slices.SortFunc(in.Claims, func(a, b Claim) int { return a.compare(b.Name) })
	slices.SortFunc(in.Pools, func(a, b Pool) int { return a.compare(b.Name) })
	slices.SortFunc(in.Classes, func(a, b Class) int { return a.compare(b.Name) })
}

// Of returns the input of some claims, by name: what the verdicts on others follow from is left out.
func (in Input) Of(claims ...string) Input {
	out, wanted := Input{Now: in.Now}, map[string]bool{}
	for _, name := range claims {
		wanted[name] = true
	}
	pools, classes := map[string]bool{}, map[string]map[string]bool{}
	for _, c := range in.Claims {
		if !wanted[c.Name] {
			continue
		}
		out.Claims = append(out.Claims, c)
		pools[c.NodePool] = true
		if classes[c.NodeClass] == nil {
			classes[c.NodeClass] = map[string]bool{}
		}
		classes[c.NodeClass][c.instanceType()] = true
	}
	for _, p := range in.Pools {
		if pools[p.Name] {
			out.Pools = append(out.Pools, p)
		}
	}
	for _, c := range in.Classes {
		if asked := classes[c.Name]; asked != nil {
			c.Types = slices.DeleteFunc(slices.Clone(c.Types), func(t Type) bool { return !asked[t.Name] })
			out.Classes = append(out.Classes, c)
		}
	}
	return out
}
