package status

import (
	"maps"
	"slices"
	"time"

	"millwright/planner/providerid"

	"millwright/planner/condition"

	corev1 "k8s.io/api/core/v1"

	"millwright/api/drifthash"
	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/catalog"
	"millwright/planner/claim"
	"millwright/planner/requirement"
	"millwright/services/internal/ec2"
	"millwright/services/lifecycle/launch"
	"millwright/services/lifecycle/nodeclass"
)

// Reasons of the condition Drifted (reference: api §4).
const (
	driftNodePool      = "NodePoolDrifted"
	driftRequirements  = "RequirementsDrifted"
	driftInstanceType  = "InstanceTypeNotFound"
	driftNodeClass     = "NodeClassDrift"
	driftAMI           = "AMIDrift"
	driftSecurityGroup = "SecurityGroupDrift"
	driftSubnet        = "SubnetDrift"
)

// instanceTypeAge is how old a claim is before its instance type must be on offer: at first it may come from a newer catalogue.
const instanceTypeAge = time.Hour

// verdict of one comparison.
type verdict int

const (
	// unknown: one side of the comparison is not at hand.
	unknown verdict = iota
	inSync
	drifted
)

func driftedIf(differs bool) verdict {
	if differs {
		return drifted
	}
	return inSync
}

// comparison is one claim beside what it was made of.
type comparison struct {
	o    *karpv1.NodeClaim
	pool *poolReference
	// class is nil if the NodeClass is not there or going.
	class *classReference
	// placement as EC2 lists it; listed is false before it did.
	placement ec2.Placement
	listed    bool
	now       time.Time
}

// driftChecks in the order in which the first hit wins. Those behind the first three ask about the NodeClass.
var driftChecks = []struct {
	reason  string
	compare func(*comparison) verdict
}{
	{driftNodePool, (*comparison).poolHash},
	{driftRequirements, (*comparison).requirements},
	{driftInstanceType, (*comparison).instanceType},
	{driftNodeClass, (*comparison).classHash},
	{driftAMI, (*comparison).image},
	{driftSecurityGroup, (*comparison).securityGroups},
	{driftSubnet, (*comparison).subnet},
}

// drift returns why a claim has drifted, "" if it has not. A claim that is not launched has not. false: no comparison found a
// drift, and not all could be made.
func (y *driftReferences) drift(o *karpv1.NodeClaim, pool *poolReference, now time.Time) (reason string, known bool) {
	if !condition.IsTrue(o.Status.Conditions, karpv1.ConditionTypeLaunched) {
		return "", true
	}
	c := &comparison{o: o, pool: pool, class: y.class(o.Spec.NodeClassRef.Name), now: now}
	_, id := providerid.Split(o.Status.ProviderID)
	c.placement, c.listed = y.k.deps.Placements.Placement(id)
	known = true
	for _, check := range driftChecks {
		switch check.compare(c) {
		case drifted:
			return check.reason, true
		case unknown:
			known = false
		}
	}
	return "", known
}

// poolReference is a NodePool as its claims are compared with it.
type poolReference struct {
	*karpv1.NodePool
	// hashes that are the pool'k.
	hashes []string
	// requirements are nil if they cannot be read.
	requirements *requirement.Set
}

func newPoolReference(p *karpv1.NodePool) *poolReference {
	y := &poolReference{NodePool: p, hashes: drifthash.NodePools(p.Spec.Template)}
	if set, err := requirement.FromClaim(p.Spec.Template.Spec.Requirements); err == nil {
		y.requirements = &set
	}
	return y
}

// classReference is an EC2NodeClass as its claims are compared with it.
type classReference struct {
	*awsv1.EC2NodeClass
	// hashes that are the class's, by the version it bears; none if that cannot be computed.
	hashes []string
	// current: the status speaks of the present spec.
	current bool
	groups  map[string]bool
	// images are what status.amis ask of an instance type.
	images []requirement.Set
	// catalog is nil or empty while it is not known what EC2 offers.
	catalog *catalog.Catalog
}

func newClassReference(h nodeclass.Hasher, nc *awsv1.EC2NodeClass, cat *catalog.Catalog) *classReference {
	y := &classReference{EC2NodeClass: nc, catalog: cat, groups: map[string]bool{}}
	if nc.Unreadable != "" {
		return y
	}
	y.hashes = h.Hashes(nc, nc.Annotations[awsv1.NodeClassHashVersionAnnotationKey])
	ready := condition.Get(nc.Status.Conditions, karpv1.ConditionTypeReady)
	y.current = ready != nil && ready.ObservedGeneration == nc.Generation
	for _, g := range nc.Status.SecurityGroups {
		y.groups[g.ID] = true
	}
	for _, i := range nc.Status.AMIs {
		y.images = append(y.images, launch.ImageRequirements(i))
	}
	return y
}

// typeOf the claim's instance; nil if the catalogue does not know it.
func (y *classReference) typeOf(o *karpv1.NodeClaim) *catalog.InstanceType {
	if y == nil || y.catalog == nil {
		return nil
	}
	return y.catalog.Type(o.Labels[corev1.LabelInstanceTypeStable])
}

// poolHash compares what cannot be seen on claim or node. Hashes of other algorithms say nothing: they are replaced soon.
func (c *comparison) poolHash() verdict {
	hash, version := c.o.Annotations[karpv1.NodePoolHashAnnotationKey], c.o.Annotations[karpv1.NodePoolHashVersionAnnotationKey]
	switch {
	case c.pool.Annotations[karpv1.NodePoolHashVersionAnnotationKey] != claim.PoolHashVersion:
		return inSync
	case version == claim.PoolHashVersion:
		return driftedIf(hash != "" && !slices.Contains(c.pool.hashes, hash))
	}
	same, known := claim.SamePoolHash(c.pool.NodePool, hash, version)
	return driftedIf(known && !same)
}

// requirements compares the NodePool's with the claim's labels; a label that the claim lacks and its instance type would give
// it counts as there: the claim may have been launched before the catalogue was known.
func (c *comparison) requirements() verdict {
	switch {
	case c.pool.requirements == nil:
		return unknown
	case c.pool.requirements.MatchesLabels(c.o.Labels):
		return inSync
	}
	t := c.class.typeOf(c.o)
	if t == nil {
		return drifted
	}
	labels := t.Requirements.Labels()
	maps.Copy(labels, c.o.Labels)
	return driftedIf(!c.pool.requirements.MatchesLabels(labels))
}

// instanceType: EC2 still offers the type where it runs, be it sold out.
func (c *comparison) instanceType() verdict {
	name := c.o.Labels[corev1.LabelInstanceTypeStable]
	switch {
	case c.class == nil || name == "" || c.now.Sub(c.o.CreationTimestamp.Time) <= instanceTypeAge:
		return inSync
	case c.class.catalog == nil || len(c.class.catalog.Types) == 0:
		return unknown
	}
	t := c.class.typeOf(c.o)
	return driftedIf(t == nil || !slices.ContainsFunc(t.Offerings, c.runsIn))
}

// runsIn: the offering is where the claim's instance runs. A reservation that ends makes its instances on-demand.
func (c *comparison) runsIn(o catalog.Offering) bool {
	want := c.o.Labels[karpv1.CapacityTypeLabelKey]
	same := o.CapacityType == want || want == karpv1.CapacityTypeReserved && o.CapacityType == karpv1.CapacityTypeOnDemand
	return same && o.Zone == c.o.Labels[corev1.LabelTopologyZone]
}

func (c *comparison) classHash() verdict {
	if c.class == nil {
		return inSync
	}
	hash, version := c.o.Annotations[awsv1.NodeClassHashAnnotationKey], c.o.Annotations[awsv1.NodeClassHashVersionAnnotationKey]
	if c.class.Unreadable != "" {
		return unknown
	}
	if hash == "" || len(c.class.hashes) == 0 || version != c.class.Annotations[awsv1.NodeClassHashVersionAnnotationKey] {
		return inSync
	}
	return driftedIf(!slices.Contains(c.class.hashes, hash))
}

// image: the claim runs what a launch of its type would choose now.
func (c *comparison) image() verdict {
	if c.class == nil {
		return inSync
	}
	have, t := c.o.Status.ImageID, c.class.typeOf(c.o)
	if have == "" {
		have = c.placement.ImageID
	}
	if !c.class.current || have == "" || t == nil {
		return unknown
	}
	i := slices.IndexFunc(c.class.images, func(s requirement.Set) bool { return s.IntersectsSet(t.Requirements) })
	if i < 0 {
		return unknown
	}
	return driftedIf(c.class.Status.AMIs[i].ID != have)
}

func (c *comparison) securityGroups() verdict {
	switch {
	case c.class == nil:
		return inSync
	case !c.class.current || !c.listed || len(c.placement.SecurityGroupIDs) == 0 || len(c.class.groups) == 0:
		return unknown
	}
	have := map[string]bool{}
	for _, id := range c.placement.SecurityGroupIDs {
		have[id] = true
	}
	return driftedIf(!maps.Equal(have, c.class.groups))
}

func (c *comparison) subnet() verdict {
	switch {
	case c.class == nil:
		return inSync
	case !c.class.current || !c.listed || c.placement.SubnetID == "" || len(c.class.Status.Subnets) == 0:
		return unknown
	}
	return driftedIf(!slices.ContainsFunc(c.class.Status.Subnets, func(s awsv1.Subnet) bool { return s.ID == c.placement.SubnetID }))
}
