package script

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner/plannertest"
)

// types shows the catalogue of the EC2NodeClass default.
func types(c *Case, a *Args) {
	block := a.Block()
	if len(block) == 0 {
		c.showCatalogue(plannertest.WideCatalogue("default"))
		return
	}
	cat, prices := &events.Catalog{NodeClass: "default", Generation: 1}, &events.Prices{}
	for _, line := range block {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cat.InstanceTypes = append(cat.InstanceTypes, c.typeOf(strings.Fields(line), prices))
	}
	c.showCatalogue(cat, prices)
}

func (c *Case) showCatalogue(cat *events.Catalog, prices *events.Prices) {
	c.See(&events.CatalogRef{NodeClass: cat.NodeClass, Hash: fmt.Sprint("hash-", len(c.Messages)), Catalog: cat}, prices)
}

// typeOf reads a line of a catalogue. Each type has room for 20 pods, 20Gi of disk, and 100m CPU of overhead.
func (c *Case) typeOf(f []string, prices *events.Prices) events.CatalogInstanceType {
	family, _, _ := strings.Cut(f[0], ".")
	a := &Args{c: c}
	t := events.CatalogInstanceType{
		Name: f[0],
		Requirements: map[string][]string{
			corev1.LabelArchStable: {"amd64"}, corev1.LabelOSStable: {"linux"}, awsv1.LabelInstanceCPU: {f[1]}, awsv1.LabelInstanceFamily: {family},
		},
		Capacity: map[string]int64{"cpu": int64(a.number(f[1])) * 1000, "memory": int64(a.number(f[2])) << 30, "pods": 20, "ephemeral-storage": 20 << 30},
		Overhead: map[string]int64{"cpu": 100},
	}
	for _, word := range f[3:] {
		if k, v, is := strings.Cut(word, "="); is {
			t.Requirements[k] = []string{v}
		} else if i := strings.LastIndex(word, ":"); i > 0 {
			q := a.quantity(word[i+1:])
			t.Capacity[word[:i]] = q.Value()
		} else {
			t.Offerings = append(t.Offerings, c.offeringOf(f[0], word, prices))
		}
	}
	for _, o := range t.Offerings {
		if o.PlacementGroup != "" {
			t.Requirements[awsv1.LabelPlacementGroupID] = []string{o.PlacementGroup}
		}
		if o.Partition != 0 {
			const key = awsv1.LabelPlacementGroupPartition
			t.Requirements[key] = slices.Compact(slices.Sorted(slices.Values(append(t.Requirements[key], strconv.Itoa(int(o.Partition))))))
		}
	}
	return t
}

// groupOf reads GROUP[/PARTITION].
func (c *Case) groupOf(word string) (id string, partition int32) {
	id, number, partitioned := strings.Cut(word, "/")
	if partitioned {
		n, err := strconv.ParseInt(number, 10, 32)
		c.Check(err)
		partition = int32(n)
	}
	return id, partition
}

// offeringOf reads ZONE/CAPACITYTYPE/PRICE[/RESERVATION[/FREE]][/gone][@GROUP[/PARTITION]].
func (c *Case) offeringOf(instanceType, word string, prices *events.Prices) events.CatalogOffering {
	word, group, _ := strings.Cut(word, "@")
	word, gone := strings.CutSuffix(word, "/gone")
	p := strings.Split(word, "/")
	usd, ok := new(big.Rat).SetString(p[2])
	if !ok {
		c.T.Fatalf("%q is no price", p[2])
	}
	pico, _ := new(big.Rat).Mul(usd, big.NewRat(1_000_000_000_000, 1)).Float64()
	o := events.CatalogOffering{Zone: p[0], ZoneID: "id-" + p[0], CapacityType: p[1], Available: !gone}
	o.PlacementGroup, o.Partition = c.groupOf(group)
	if p[1] != karpv1.CapacityTypeReserved {
		prices.Entries = append(prices.Entries, events.Price{InstanceType: instanceType, CapacityType: p[1], Zone: p[0], MicroUSDPerHour: max(1, int64(pico+500_000)/1_000_000)})
		return o
	}
	o.Reservation = &events.CatalogReservation{Type: "default", PicoUSDPerHour: int64(pico)}
	if len(p) > 3 {
		o.Reservation.ID = p[3]
	}
	if len(p) > 4 {
		n, err := strconv.ParseInt(p[4], 10, 64)
		c.Check(err)
		o.Reservation.Free = &n
	}
	return o
}

// reserve adds a reservation to a copy of the catalogue.
func reserve(c *Case, a *Args) {
	name, zone := a.Next(), a.Next()
	r := &events.CatalogReservation{ID: a.Next()}
	if a.More() {
		n := int64(a.number(a.Next()))
		r.Free = &n
	}
	cat := *c.World.RawCatalog("default")
	cat.InstanceTypes = slices.Clone(cat.InstanceTypes)
	for i := range cat.InstanceTypes {
		if it := &cat.InstanceTypes[i]; it.Name == name {
			it.Offerings = append(slices.Clone(it.Offerings), events.CatalogOffering{
				Zone: zone, ZoneID: "id-" + zone, CapacityType: karpv1.CapacityTypeReserved, Available: true, Reservation: r})
		}
	}
	c.See(&events.CatalogRef{NodeClass: "default", Hash: fmt.Sprint("hash-", len(c.Messages)), Catalog: &cat})
}
