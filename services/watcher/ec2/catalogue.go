package ec2

import (
	"fmt"
	"slices"
	"strings"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	karpawsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
)

// offered is what EC2 has in the region: instance types by name, and the zones each is offered in. It never
// changes.
type offered struct {
	types []ec2types.InstanceTypeInfo
	zones map[string]map[string]bool
}

// newCatalog computes what EC2 offers to a NodeClass. Zones are those of its subnets; nothing is available in
// those of shifts.
func newCatalog(nc *karpawsv1.EC2NodeClass, o *offered, known *outposts, now *reserved, shifts []events.ZonalShift, region string, opts Options) (*events.Catalog, error) {
	s, err := newSizing(nc, opts)
	if err != nil {
		return nil, fmt.Errorf("catalogue of %s: %w", nc.Name, err)
	}
	s.shifts = shifts
	c := &events.Catalog{NodeClass: nc.Name, Generation: nc.Generation}
	zones, reservations := subnetZones(nc), reservationsOf(nc)
	offeredIn, onOutposts := o.inZones(nc, known)
	s.onOutposts = onOutposts
	for i := range o.types {
		usable := s.unusable(&o.types[i]) == ""
		t, err := s.instanceType(&o.types[i], offeredIn[string(o.types[i].InstanceType)], zones, region)
		if err != nil {
			return nil, fmt.Errorf("catalogue of %s: %w", nc.Name, err)
		}
		addReserved(&t, reservations, now, zones, func(zone string) bool { return offeredIn[t.Name][zone] && usable && s.opens(zone) })
		addGroup(&t, s.group)
		c.InstanceTypes = append(c.InstanceTypes, t)
	}
	return c, nil
}

// zone of a subnet. The id may be unknown.
type zone struct{ name, id string }

// subnetZones by name.
func subnetZones(nc *karpawsv1.EC2NodeClass) []zone {
	var out []zone
	for _, s := range nc.Status.Subnets {
		out = append(out, zone{s.Zone, s.ZoneID})
	}
	slices.SortFunc(out, func(a, b zone) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return -strings.Compare(a.id, b.id) // one with an id first
	})
	return slices.CompactFunc(out, func(a, b zone) bool { return a.name == b.name })
}

func (s *sizing) instanceType(t *ec2types.InstanceTypeInfo, in map[string]bool, zones []zone, region string) (events.CatalogInstanceType, error) {
	out := events.CatalogInstanceType{Name: string(t.InstanceType), Capacity: s.capacity(t)}
	var err error
	if out.Overhead, err = s.overheadOf(t, out.Capacity); err != nil {
		return out, err
	}
	usable := s.unusable(t) == ""
	l := labelsOf(t, s.family, region)
	var names, ids []string
	for _, z := range zones {
		if in[z.name] {
			names = append(names, z.name)
		}
		if in[z.name] && z.id != "" {
			ids = append(ids, z.id)
		}
		for _, capacityType := range l[karpv1.CapacityTypeLabelKey] {
			out.Offerings = append(out.Offerings, events.CatalogOffering{
				Zone: z.name, ZoneID: z.id, CapacityType: capacityType, Available: in[z.name] && usable && s.opens(z.name) && !(s.onOutposts[z.name] && capacityType == spot),
			})
		}
	}
	l.several(corev1.LabelTopologyZone, names)
	if len(ids) > 0 {
		l.several(karpawsv1.LabelTopologyZoneID, ids)
	}
	out.Requirements = l
	return out, nil
}
