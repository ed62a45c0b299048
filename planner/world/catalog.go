package world

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"

	"millwright/events"
	"millwright/planner/catalog"
)

// catalogRow is the catalogue of one NodeClass.
type catalogRow struct {
	// raw is nil if the message's blob could not be had.
	raw        *events.Catalog
	hash       string
	generation uint32
	// built joins raw with the prices; nil when stale.
	built atomic.Pointer[catalog.Catalog]
}

// priceTable holds prices with the generation that last mentioned them.
type priceTable struct {
	prices      catalog.Prices
	generations map[catalog.PriceKey]uint32
}

func newPriceTable() priceTable {
	return priceTable{prices: catalog.Prices{}, generations: map[catalog.PriceKey]uint32{}}
}

// set applies one difference and reports whether a price changed.
func (t *priceTable) set(e events.Price, generation uint32) bool {
	key := catalog.PriceKey{InstanceType: intern(e.InstanceType), CapacityType: intern(e.CapacityType), Zone: intern(e.Zone)}
	old := t.prices[key]
	if e.MicroUSDPerHour <= 0 {
		t.remove(key)
		return old != 0
	}
	t.prices[key], t.generations[key] = e.MicroUSDPerHour, generation
	return old != e.MicroUSDPerHour
}

func (t *priceTable) remove(key catalog.PriceKey) {
	delete(t.prices, key)
	delete(t.generations, key)
}

func (t *priceTable) dropBelow(generation uint32) {
	maps.DeleteFunc(t.prices, func(k catalog.PriceKey, _ int64) bool { return t.generations[k] < generation })
	maps.DeleteFunc(t.generations, func(_ catalog.PriceKey, g uint32) bool { return g < generation })
}

func (t *priceTable) keys() []catalog.PriceKey {
	return slices.SortedFunc(maps.Keys(t.prices), func(x, y catalog.PriceKey) int {
		return cmp.Or(cmp.Compare(x.InstanceType, y.InstanceType), cmp.Compare(x.CapacityType, y.CapacityType), cmp.Compare(x.Zone, y.Zone))
	})
}

func (t *priceTable) encode(e *encoder, generation uint32) {
	e.uint(uint64(len(t.prices)))
	for _, k := range t.keys() {
		e.string(k.InstanceType)
		e.string(k.CapacityType)
		e.string(k.Zone)
		e.int(t.prices[k])
		e.bool(t.generations[k] == generation)
	}
}

func (t *priceTable) decode(d *decoder, generation uint32) {
	for range d.count() {
		k := catalog.PriceKey{InstanceType: intern(d.string()), CapacityType: intern(d.string()), Zone: intern(d.string())}
		t.prices[k], t.generations[k] = d.int(), mark(d.bool(), generation)
	}
}

// Catalog returns what EC2 offers to a NodeClass, at the World's prices; nil if it was not seen. It is built
// when first asked for after a change of the catalogue or of a price.
func (w *World) Catalog(nodeClass string) *catalog.Catalog {
	r, ok := w.aws.catalogs[nodeClass]
	if !ok || r.raw == nil {
		return nil
	}
	if c := r.built.Load(); c != nil {
		return c
	}
	c := catalog.New(r.raw, w.aws.prices.prices)
	r.built.Store(c)
	return c
}

// CatalogNames returns the NodeClasses with a catalogue, sorted.
func (w *World) CatalogNames() []string { return sortedKeys(w.aws.catalogs) }

// CatalogHash is the hash of the blob a NodeClass's catalogue came from; "" if there is none.
func (w *World) CatalogHash(nodeClass string) string {
	if r, ok := w.aws.catalogs[nodeClass]; ok {
		return r.hash
	}
	return ""
}

// RawCatalog is the catalogue as it was published, without prices; nil if it was not seen.
func (w *World) RawCatalog(nodeClass string) *events.Catalog {
	if r, ok := w.aws.catalogs[nodeClass]; ok {
		return r.raw
	}
	return nil
}

// Price of an offering in micro USD per hour: the zone's own, else the one for every zone; 0 if unknown.
func (w *World) Price(instanceType, capacityType, zone string) int64 {
	return w.aws.prices.prices.Of(instanceType, capacityType, zone)
}
