package weeks

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"
)

// amount of room: millicores, MiB and pods.
type amount struct{ cpu, memory, pods int64 }

func (a amount) plus(b amount) amount {
	return amount{a.cpu + b.cpu, a.memory + b.memory, a.pods + b.pods}
}
func (a amount) minus(b amount) amount {
	return amount{a.cpu - b.cpu, a.memory - b.memory, a.pods - b.pods}
}
func (a amount) fits(room amount) bool {
	return a.cpu <= room.cpu && a.memory <= room.memory && a.pods <= room.pods
}

// machineType is an instance type; allocatable is what pods may ask for in all.
type machineType struct {
	name                  string
	capacity, allocatable amount
	// price on demand, in micro USD per hour.
	price int64
}

const (
	onDemand = "on-demand"
	spot     = "spot"
	// pricesEvery is how often spot prices move.
	pricesEvery = 6 * time.Hour
)

var zones = []string{"zone-a", "zone-b", "zone-c"}

// machineTypes are 60: three families of five makes in four sizes.
var machineTypes = func() (list []*machineType) {
	for _, family := range []struct {
		name       string
		gib, price int64
	}{{"c", 2, 42_500}, {"m", 4, 48_000}, {"r", 8, 63_000}} {
		for _, made := range []struct {
			name    string
			percent int64
		}{{"5", 100}, {"5a", 90}, {"6i", 101}, {"6a", 91}, {"7i", 105}} {
			for _, size := range []struct {
				name string
				cpu  int64
			}{{"large", 2}, {"xlarge", 4}, {"2xlarge", 8}, {"4xlarge", 16}} {
				full := amount{size.cpu * 1000, size.cpu * family.gib << 10, 58}
				list = append(list, &machineType{
					name: family.name + made.name + "." + size.name, capacity: full, allocatable: full.minus(overheadOf(full)),
					price: family.price * size.cpu * made.percent / 100,
				})
			}
		}
	}
	return list
}()

// overheadOf is what the kubelet and DaemonSets take.
func overheadOf(full amount) amount { return amount{250, 400 + full.memory/40, 0} }

// offering is a type in a zone and capacity type, with its price at a time.
type offering struct {
	kind           *machineType
	zone, capacity string
	price          int64
}

// market knows the prices of a week.
type market struct {
	seed uint64
	// offerings of each capacity type at a period of prices: the cheapest zone of each type, by price.
	offers map[marketKey][]offering
}

type marketKey struct {
	capacity string
	period   int64
}

func newMarket(seed uint64) *market { return &market{seed, map[marketKey][]offering{}} }

// price of an offering: spot costs 28 to 45 % of on demand, by type and zone, and moves by up to 8 %.
func (m *market) price(t *machineType, zone, capacity string, at time.Duration) int64 {
	if capacity == onDemand {
		return t.price
	}
	share := 280 + int64(hashOf("spot", t.name, zone)%170)
	moved := 920 + int64(hashOf("moved", m.seed, t.name, zone, int64(at/pricesEvery))%161)
	return t.price * share / 1000 * moved / 1000
}

// cheapest lists each type in its cheapest zone, cheapest first.
func (m *market) cheapest(capacity string, at time.Duration) []offering {
	key := marketKey{capacity, int64(at / pricesEvery)}
	if list, ok := m.offers[key]; ok {
		return list
	}
	var list []offering
	for _, t := range machineTypes {
		best := offering{}
		for _, z := range zones {
			if p := m.price(t, z, capacity, at); best.kind == nil || p < best.price {
				best = offering{t, z, capacity, p}
			}
		}
		list = append(list, best)
	}
	slices.SortFunc(list, func(a, b offering) int {
		return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(a.kind.name, b.kind.name))
	})
	m.offers[key] = list
	return list
}

// hashOf draws a number that depends on nothing but its arguments.
func hashOf(parts ...any) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		fmt.Fprint(h, p, "|")
	}
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}
