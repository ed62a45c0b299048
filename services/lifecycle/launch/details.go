package launch

import (
	"cmp"
	"maps"
	"slices"

	"millwright/planner/providerid"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/catalog"
	"millwright/planner/requirement"
	"millwright/planner/resource"
	"millwright/services/internal/ec2"
	"millwright/services/lifecycle/nodeclass"
)

// ClaimDetails is what an instance tells about its NodeClaim (ec2 §5). The NodeClaim's own labels win over
// Labels; Annotations win over the NodeClaim's.
type ClaimDetails struct {
	Labels      map[string]string
	Annotations map[string]string
	ProviderID  string
	ImageID     string
	// Capacity and Allocatable without zero entries; as vectors too, for records.
	Capacity, Allocatable             corev1.ResourceList
	CapacityVector, AllocatableVector resource.Vector
	// Price in micro USD per hour; 0 if not known.
	Price int64
}

// Details derives the NodeClaim's details from its instance. t is nil if the catalogue does not know the
// type; then capacity and the type's labels are missing. nc is nil if the NodeClass is gone.
func Details(h nodeclass.Hasher, nc *awsv1.EC2NodeClass, claim *karpv1.NodeClaim, t *catalog.InstanceType, i ec2.Instance) ClaimDetails {
	d := ClaimDetails{
		ProviderID: providerid.Of(i.Zone, i.ID), ImageID: i.ImageID,
		Labels: instanceLabels(nc, claim, t, i), Annotations: claimAnnotations(h, nc, claim),
	}
	if t == nil {
		return d
	}
	d.CapacityVector, d.AllocatableVector = t.Capacity, t.Allocatable.FloorZero()
	if q := claim.Spec.Resources.Requests[resourceEFA]; q.IsZero() && i.EFAs == 0 && !namesEFAs(nc) {
		d.CapacityVector.Set(resourceEFA, 0)
		d.AllocatableVector.Set(resourceEFA, 0)
	}
	d.Capacity, d.Allocatable = d.CapacityVector.List(), d.AllocatableVector.List()
	for _, o := range t.Offerings {
		if o.Zone == i.Zone && o.CapacityType == i.CapacityType && o.ReservationID == i.ReservationID {
			d.Price = o.Price
		}
	}
	return d
}

// namesEFAs: all instances of the class have EFA interfaces, whether EC2 shows them yet or not.
func namesEFAs(nc *awsv1.EC2NodeClass) bool {
	return nc != nil && slices.ContainsFunc(nc.Spec.NetworkInterfaces, func(n awsv1.NetworkInterface) bool { return n.InterfaceType == awsv1.InterfaceTypeEFAOnly })
}

func instanceLabels(nc *awsv1.EC2NodeClass, claim *karpv1.NodeClaim, t *catalog.InstanceType, i ec2.Instance) map[string]string {
	labels := map[string]string{}
	if t != nil {
		maps.Copy(labels, t.Requirements.Labels())
	}
	for _, k := range []string{awsv1.LabelTopologyZoneID, awsv1.LabelCapacityReservationID, awsv1.LabelCapacityReservationType, awsv1.LabelCapacityReservationInterruptible,
		awsv1.LabelPlacementGroupID, awsv1.LabelPlacementGroupPartition} {
		delete(labels, k)
	}
	labels[corev1.LabelInstanceTypeStable] = i.InstanceType
	labels[corev1.LabelTopologyZone] = i.Zone
	labels[karpv1.CapacityTypeLabelKey] = i.CapacityType
	maps.Copy(labels, reservationLabels(t, i))
	maps.Copy(labels, groupLabels(nc, i))
	reqs, _ := requirement.FromClaim(claim.Spec.Requirements)
	labels[awsv1.LabelInstanceTenancy] = cmp.Or(i.Tenancy, tenancy(reqs))
	if id := ZoneID(nc, t, i.Zone); id != "" {
		labels[awsv1.LabelTopologyZoneID] = id
	}
	return labels
}

// reservationLabels are those of an instance in a capacity reservation; none for others.
func reservationLabels(t *catalog.InstanceType, i ec2.Instance) map[string]string {
	if i.ReservationID == "" {
		return nil
	}
	labels := map[string]string{awsv1.LabelCapacityReservationID: i.ReservationID}
	if t == nil {
		return labels
	}
	for _, o := range t.Offerings {
		if o.ReservationID == i.ReservationID {
			maps.Copy(labels, o.Requirements.Labels())
		}
	}
	return labels
}

// ZoneID of a zone comes from the NodeClass's subnets, else from what the catalogue says of a type; "" if
// neither knows it. Both may be nil.
func ZoneID(nc *awsv1.EC2NodeClass, t *catalog.InstanceType, zone string) string {
	if nc != nil {
		for _, s := range nc.Status.Subnets {
			if s.Zone == zone && s.ZoneID != "" {
				return s.ZoneID
			}
		}
	}
	if t != nil {
		for _, o := range t.Offerings {
			if o.Zone == zone {
				return o.ZoneID
			}
		}
	}
	return ""
}

// claimAnnotations keeps a hash the claim already has: it may be older than the class it was launched from,
// which costs at most a needless replacement; a newer one would hide drift.
func claimAnnotations(h nodeclass.Hasher, nc *awsv1.EC2NodeClass, claim *karpv1.NodeClaim) map[string]string {
	a := map[string]string{}
	if nc == nil {
		return a
	}
	if nc.Status.InstanceProfile != "" {
		a[awsv1.InstanceProfileAnnotationKey] = nc.Status.InstanceProfile
	}
	if claim.Annotations[awsv1.NodeClassHashAnnotationKey] == "" {
		a[awsv1.NodeClassHashAnnotationKey], a[awsv1.NodeClassHashVersionAnnotationKey] = h.Current(nc)
	}
	return a
}
