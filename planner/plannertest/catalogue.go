package plannertest

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
)

// Zones of test catalogues.
var Zones = []string{"us-west-2a", "us-west-2b", "us-west-2c"}

// Types is a small catalogue: name, vCPU, GiB, on-demand micro USD per hour, architecture.
const Types = `
m5.large     2   8   96000 amd64
m5.xlarge    4  16  192000 amd64
m5.2xlarge   8  32  384000 amd64
c5.large     2   4   85000 amd64
c5.xlarge    4   8  170000 amd64
r5.large     2  16  126000 amd64
m6g.large    2   8   77000 arm64
m6g.xlarge   4  16  154000 arm64
t3.small     2   2   20800 amd64
`

// Catalogue parses a table as Types has it into the catalogue of a NodeClass and its prices. Every type is
// offered in all Zones, on demand and as spot at 40 % of the price; 100m CPU, 256 MiB are overhead.
func Catalogue(nodeClass, table string) (*events.CatalogRef, *events.Prices) {
	c := &events.Catalog{NodeClass: nodeClass, Generation: 1}
	prices := &events.Prices{}
	for _, line := range strings.Split(strings.TrimSpace(table), "\n") {
		f := strings.Fields(line)
		if len(f) != 5 {
			panic(fmt.Sprintf("plannertest: five columns in %q", line))
		}
		cpu, gib, price := number(f[1]), number(f[2]), number(f[3])
		c.InstanceTypes = append(c.InstanceTypes, instanceType(f[0], cpu, gib, f[4]))
		prices.Entries = append(prices.Entries, events.Price{InstanceType: f[0], CapacityType: karpv1.CapacityTypeOnDemand, MicroUSDPerHour: price})
		for _, zone := range Zones {
			prices.Entries = append(prices.Entries, events.Price{InstanceType: f[0], CapacityType: karpv1.CapacityTypeSpot, Zone: zone, MicroUSDPerHour: price * 4 / 10})
		}
	}
	return &events.CatalogRef{NodeClass: nodeClass, Hash: "hash-" + nodeClass, Catalog: c}, prices
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	must(err)
	return n
}

func instanceType(name string, cpu, gib int64, arch string) events.CatalogInstanceType {
	family, size, _ := strings.Cut(name, ".")
	t := events.CatalogInstanceType{
		Name: name,
		Requirements: map[string][]string{
			corev1.LabelInstanceTypeStable: {name}, corev1.LabelArchStable: {arch}, corev1.LabelOSStable: {"linux"},
			corev1.LabelTopologyZone: Zones, karpv1.CapacityTypeLabelKey: {karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot},
			"karpenter.k8s.aws/instance-family": {family}, "karpenter.k8s.aws/instance-size": {size},
			"karpenter.k8s.aws/instance-category": {family[:1]}, "karpenter.k8s.aws/instance-cpu": {strconv.FormatInt(cpu, 10)},
			"karpenter.k8s.aws/instance-memory": {strconv.FormatInt(gib<<10, 10)}, corev1.LabelTopologyRegion: {"us-west-2"},
		},
		Capacity: map[string]int64{"cpu": cpu * 1000, "memory": gib << 30, "pods": 58, "ephemeral-storage": 20 << 30},
		Overhead: map[string]int64{"cpu": 100, "memory": 256 << 20},
	}
	for _, zone := range Zones {
		for _, ct := range []string{karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot} {
			t.Offerings = append(t.Offerings, events.CatalogOffering{Zone: zone, ZoneID: "usw2-az" + zone[len(zone)-1:], CapacityType: ct, Available: true})
		}
	}
	return t
}

// WithCatalogue returns the objects every provisioning test needs: an EC2NodeClass default with the catalogue
// and its prices.
func WithCatalogue() []any {
	ref, prices := Catalogue("default", Types)
	return []any{NodeClass("default"), ref, prices}
}

// WideCatalogue of a NodeClass has c5, m5 and r5 in four sizes and three zones. Spot costs 30 % of the
// on-demand price in zone a, 33 % in b, 36 % in c.
func WideCatalogue(nodeClass string) (*events.Catalog, *events.Prices) {
	cat, prices := &events.Catalog{NodeClass: nodeClass, Generation: 1}, &events.Prices{}
	for _, family := range []struct {
		name     string
		memory   int64
		microUSD int64
	}{{"c5", 2, 42_500}, {"m5", 4, 48_000}, {"r5", 8, 63_000}} {
		for _, size := range []struct {
			name string
			cpu  int64
		}{{"large", 2}, {"xlarge", 4}, {"2xlarge", 8}, {"4xlarge", 16}} {
			name := family.name + "." + size.name
			t := events.CatalogInstanceType{
				Name: name,
				Requirements: map[string][]string{
					corev1.LabelInstanceTypeStable: {name}, corev1.LabelArchStable: {"amd64"}, corev1.LabelOSStable: {"linux"},
					awsv1.LabelInstanceFamily: {family.name}, awsv1.LabelInstanceSize: {size.name},
					awsv1.LabelInstanceCPU: {fmt.Sprint(size.cpu)}, awsv1.LabelInstanceGPUCount: {},
				},
				Capacity: map[string]int64{"cpu": size.cpu * 1000, "memory": size.cpu * family.memory << 30, "pods": 29 * size.cpu / 2, "ephemeral-storage": 20 << 30},
				Overhead: map[string]int64{"cpu": 100, "memory": 512 << 20},
			}
			for i, zone := range []string{"zone-a", "zone-b", "zone-c"} {
				for _, ct := range []string{karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot} {
					t.Offerings = append(t.Offerings, events.CatalogOffering{Zone: zone, ZoneID: "id-" + zone, CapacityType: ct, Available: true})
				}
				prices.Entries = append(prices.Entries, events.Price{InstanceType: name, CapacityType: karpv1.CapacityTypeSpot, Zone: zone, MicroUSDPerHour: family.microUSD * size.cpu / 100 * int64(30+3*i)})
			}
			prices.Entries = append(prices.Entries, events.Price{InstanceType: name, CapacityType: karpv1.CapacityTypeOnDemand, MicroUSDPerHour: family.microUSD * size.cpu})
			cat.InstanceTypes = append(cat.InstanceTypes, t)
		}
	}
	return cat, prices
}
