package workload

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/tools/ec2sim/catalogue"
)

// NodeClass that all NodePools refer to.
const NodeClass = "default"

// Catalogue is what EC2 offers, with prices.
type Catalogue struct {
	Types  *events.Catalog
	Prices *events.Prices
}

// DiverseTypes: the i-th of 400 has i CPU, 2i GiB and 10i pods, in three zones, spot and on demand, at 0.1
// USD per CPU and GB.
func DiverseTypes() Catalogue {
	c := Catalogue{&events.Catalog{NodeClass: NodeClass}, &events.Prices{}}
	for i := int64(1); i <= 400; i++ {
		t := events.CatalogInstanceType{
			Name:         fmt.Sprintf("type-%03d", i),
			Requirements: map[string][]string{corev1.LabelArchStable: {"amd64"}, corev1.LabelOSStable: {"linux"}},
			Capacity:     map[string]int64{"cpu": i * 1000, "memory": 2 * i << 30, "pods": 10 * i},
		}
		for _, zone := range []string{"zone-1", "zone-2", "zone-3"} {
			for _, ct := range []string{karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot} {
				c.offer(&t, zone, ct, 300_000*i)
			}
		}
		c.Types.InstanceTypes = append(c.Types.InstanceTypes, t)
	}
	return c
}

func (c *Catalogue) offer(t *events.CatalogInstanceType, zone, capacityType string, price int64) {
	t.Offerings = append(t.Offerings, events.CatalogOffering{Zone: zone, CapacityType: capacityType, Available: true})
	c.Prices.Entries = append(c.Prices.Entries, events.Price{InstanceType: t.Name, CapacityType: capacityType, Zone: zone, MicroUSDPerHour: price})
}

// priced is the moment whose spot prices RealTypes has.
var priced = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// RealTypes are up to n instance types of us-west-2 as EC2 has them, in three zones, with on-demand prices
// and modelled spot prices. n ≤ 0: all.
func RealTypes(n int) Catalogue {
	c := Catalogue{&events.Catalog{NodeClass: NodeClass}, &events.Prices{}}
	region := catalogue.NewRegion("us-west-2", "abc")
	spot := catalogue.Spot{Region: region, Seed: 1}
	var types []*catalogue.Type
	for _, t := range region.Types() {
		if t.PriceMicroUSD > 0 && t.CurrentGeneration() {
			types = append(types, t)
		}
	}
	if n <= 0 || n > len(types) {
		n = len(types)
	}
	for i := range n {
		t := types[i*len(types)/n]
		out := realType(t)
		for _, z := range region.Zones {
			if !region.Offers(t, z.Name) {
				continue
			}
			if t.Supports("on-demand") {
				c.offer(&out, z.Name, karpv1.CapacityTypeOnDemand, region.OnDemand(t))
			}
			if t.Supports("spot") {
				c.offer(&out, z.Name, karpv1.CapacityTypeSpot, spot.Price(t, z.Name, priced))
			}
		}
		c.Types.InstanceTypes = append(c.Types.InstanceTypes, out)
	}
	return c
}

// realType has the capacity that a node shows, and what the kubelet keeps of it.
func realType(t *catalogue.Type) events.CatalogInstanceType {
	pods := int64(t.ENIPods())
	memory := t.MemoryMiB << 20
	gpus := 0
	for _, g := range t.GPUs {
		gpus += g.Count
	}
	out := events.CatalogInstanceType{
		Name: t.Name,
		Requirements: map[string][]string{
			corev1.LabelInstanceTypeStable: {t.Name}, corev1.LabelArchStable: {t.Arch()}, corev1.LabelOSStable: {"linux"},
			awsv1.LabelInstanceCategory: {t.Category()}, awsv1.LabelInstanceFamily: {t.Family},
			awsv1.LabelInstanceGeneration: {strconv.Itoa(t.Generation())}, awsv1.LabelInstanceSize: {t.Size},
			awsv1.LabelInstanceCPU: {strconv.Itoa(t.VCPUs)}, awsv1.LabelInstanceMemory: {strconv.FormatInt(t.MemoryMiB, 10)},
			awsv1.LabelInstanceHypervisor: {t.Hypervisor},
		},
		Capacity: map[string]int64{"cpu": int64(t.VCPUs) * 1000, "memory": memory - memory*75/1000, "pods": pods, "ephemeral-storage": 20 << 30},
		Overhead: map[string]int64{"cpu": kubeMilliCPU(t.VCPUs), "memory": (11*pods + 355) << 20, "ephemeral-storage": 3 << 30},
	}
	if gpus > 0 {
		out.Capacity["nvidia.com/gpu"] = int64(gpus)
	}
	return out
}

// kubeMilliCPU: 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest.
func kubeMilliCPU(cores int) int64 {
	total := 0
	for _, part := range []struct{ cores, per100k int }{{1, 6000}, {1, 1000}, {2, 500}, {cores, 250}} {
		n := max(0, min(cores, part.cores))
		total += n * part.per100k / 100
		cores -= n
	}
	return int64(total)
}
