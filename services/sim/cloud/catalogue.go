package cloud

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner/resource"
)

// Zones of the region.
var Zones = []string{"eu-1a", "eu-1b", "eu-1c"}

// ZoneID of a zone.
func ZoneID(zone string) string { return "euc1-az" + strconv.Itoa(slices.Index(Zones, zone)+1) }

type instanceType struct {
	name string
	// vCPU, GiB, on-demand micro USD per hour. Spot costs 40 %.
	cpu, gib, priced int64
}

var instanceTypes = []instanceType{
	{"c5.large", 2, 4, 85_000}, {"c5.xlarge", 4, 8, 170_000}, {"c5.2xlarge", 8, 16, 340_000},
	{"m5.large", 2, 8, 96_000}, {"m5.xlarge", 4, 16, 192_000}, {"m5.2xlarge", 8, 32, 384_000},
	{"r5.large", 2, 16, 126_000}, {"r5.xlarge", 4, 32, 252_000},
}

const (
	// absentTypes are in the catalogue and offered nowhere, so that sets of types take more than one word, as
	// in every region.
	absentTypes = 64

	overheadCPU    = 100
	overheadMemory = 512 << 20
	podsMax        = 29
)

// Offering names what can be launched.
type Offering struct{ InstanceType, Zone, CapacityType string }

var capacityTypes = []string{karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot}

// Offerings in a fixed order.
func Offerings() []Offering {
	var list []Offering
	for _, t := range instanceTypes {
		for _, zone := range Zones {
			for _, ct := range capacityTypes {
				list = append(list, Offering{t.name, zone, ct})
			}
		}
	}
	return list
}

// InstanceTypes in a fixed order.
func InstanceTypes() []string {
	var names []string
	for _, t := range instanceTypes {
		names = append(names, t.name)
	}
	return names
}

// Market is a change of what is offered: all prices at some percent, no more of one instance type, and one
// that has an accelerator.
type Market struct {
	Percent              int64
	Without, Accelerated string
}

// Catalogue of an EC2NodeClass and the prices, as the watcher publishes them. The market may be nil; reserved
// are the offerings of capacity reservations, by instance type.
func Catalogue(nodeClass string, m *Market, reserved map[string][]events.CatalogOffering) (*events.Catalog, *events.Prices) {
	if m == nil {
		m = &Market{Percent: 100}
	}
	c, prices := &events.Catalog{NodeClass: nodeClass, Generation: 1}, &events.Prices{}
	for i := range absentTypes {
		t := catalogued("a"+strconv.Itoa(i)+".large", 2, 4)
		t.Offerings = nil
		c.InstanceTypes = append(c.InstanceTypes, t)
	}
	for _, t := range instanceTypes {
		if t.name == m.Without {
			continue
		}
		t.priced = t.priced * m.Percent / 100
		c.InstanceTypes = append(c.InstanceTypes, catalogued(t.name, t.cpu, t.gib))
		addReserved(&c.InstanceTypes[len(c.InstanceTypes)-1], reserved[t.name])
		if t.name == m.Accelerated {
			c.InstanceTypes[len(c.InstanceTypes)-1].Requirements[awsv1.LabelInstanceGPUCount] = []string{"1"}
		}
		prices.Entries = append(prices.Entries, events.Price{InstanceType: t.name, CapacityType: karpv1.CapacityTypeOnDemand, MicroUSDPerHour: t.priced})
		for i, zone := range Zones {
			prices.Entries = append(prices.Entries, events.Price{InstanceType: t.name, CapacityType: karpv1.CapacityTypeSpot, Zone: zone,
				MicroUSDPerHour: t.priced*4/10 + int64(i)*100})
		}
	}
	return c, prices
}

// addReserved adds offerings of capacity reservations to a type, and what they are to its labels.
func addReserved(t *events.CatalogInstanceType, offerings []events.CatalogOffering) {
	for _, o := range offerings {
		t.Offerings = append(t.Offerings, o)
		for key, value := range map[string]string{karpv1.CapacityTypeLabelKey: o.CapacityType, awsv1.LabelCapacityReservationID: o.Reservation.ID,
			awsv1.LabelCapacityReservationType: o.Reservation.Type, awsv1.LabelCapacityReservationInterruptible: "false"} {
			if values := t.Requirements[key]; !slices.Contains(values, value) {
				t.Requirements[key] = append(slices.Clone(values), value)
			}
		}
	}
}

func catalogued(name string, cpu, gib int64) events.CatalogInstanceType {
	family, size, _ := strings.Cut(name, ".")
	t := events.CatalogInstanceType{
		Name: name,
		Requirements: map[string][]string{
			corev1.LabelInstanceTypeStable: {name}, corev1.LabelArchStable: {"amd64"}, corev1.LabelOSStable: {"linux"},
			corev1.LabelTopologyZone: Zones, karpv1.CapacityTypeLabelKey: capacityTypes, corev1.LabelTopologyRegion: {"eu-1"},
			"karpenter.k8s.aws/instance-family": {family}, "karpenter.k8s.aws/instance-size": {size},
			"karpenter.k8s.aws/instance-category": {family[:1]}, "karpenter.k8s.aws/instance-cpu": {strconv.FormatInt(cpu, 10)},
			"karpenter.k8s.aws/instance-memory": {strconv.FormatInt(gib<<10, 10)}, "karpenter.k8s.aws/instance-tenancy": {"default"},
		},
		Capacity: map[string]int64{"cpu": cpu * 1000, "memory": gib << 30, "pods": podsMax, "ephemeral-storage": 20 << 30},
		Overhead: map[string]int64{"cpu": overheadCPU, "memory": overheadMemory},
	}
	for i, zone := range Zones {
		for _, ct := range capacityTypes {
			t.Offerings = append(t.Offerings, events.CatalogOffering{Zone: zone, ZoneID: "euc1-az" + strconv.Itoa(i+1), CapacityType: ct, Available: true})
		}
	}
	return t
}

// Size of an instance type: what its Node will report.
func Size(name string) (capacity, allocatable resource.Vector) {
	t := instanceTypes[slices.IndexFunc(instanceTypes, func(t instanceType) bool { return t.name == name })]
	capacity = resource.Vector{MilliCPU: t.cpu * 1000, Memory: t.gib << 30, Pods: podsMax, EphemeralStorage: 20 << 30}
	allocatable = capacity
	allocatable.MilliCPU -= overheadCPU
	allocatable.Memory -= overheadMemory
	return capacity, allocatable
}

// Price of an offering in micro USD per hour while the market is as at the beginning; 0 if there is none.
func Price(o Offering) int64 {
	for _, t := range instanceTypes {
		if t.name != o.InstanceType {
			continue
		}
		if o.CapacityType == karpv1.CapacityTypeReserved {
			return 0 // next to nothing
		}
		if o.CapacityType == karpv1.CapacityTypeSpot {
			return t.priced*4/10 + int64(slices.Index(Zones, o.Zone))*100
		}
		return t.priced
	}
	return 0
}
