package world

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"millwright/events"
	"millwright/planner/catalog"
	"millwright/planner/intern"
	"millwright/planner/version"
)

// catalogRow is the catalogue of one NodeClass.
type catalogRow struct {
	nodeClass      string
	classVersion   int64
	reservationsAt time.Time
	zonalShifts    []events.ZonalShift
	hash           string
	generation     uint32
	// offer is nil if the message's blob could not be read; rows with equal types share one.
	offer *offer
	// built is offer's catalogue for this NodeClass; nil when stale.
	built atomic.Pointer[catalog.Catalog]
	// discovered is built as World.Catalog last returned it.
	discovered atomic.Pointer[discovered]
}

// offer is a list of types with its catalogue at the World's prices.
type offer struct {
	list *catalog.List
	// joined is types joined with the prices; nil until it is asked for.
	joined atomic.Pointer[catalog.Catalog]
}

// offers are those of all rows, each once, under the name of the first NodeClass that has it; the offer of
// the row named first comes first.
func (a *aws) offers(first string) []*offer {
	var all []*offer
	add := func(r *catalogRow) {
		if r != nil && r.offer != nil && !slices.Contains(all, r.offer) {
			all = append(all, r.offer)
		}
	}
	add(a.catalogs[first])
	for _, name := range slices.Sorted(maps.Keys(a.catalogs)) {
		add(a.catalogs[name])
	}
	return all
}

// offerOf returns the offer for a NodeClass's types: that of another row if it has the same types.
func (a *aws) offerOf(nodeClass string, types []events.CatalogInstanceType) *offer {
	all := a.offers(nodeClass)
	var like []*catalog.List
	for _, o := range all {
		like = append(like, o.list)
	}
	list := catalog.NewList(types, like...)
	for _, o := range all {
		if o.list == list {
			return o
		}
	}
	return &offer{list: list}
}

// stalePrices makes every offer be joined again when it is next asked for.
func (a *aws) stalePrices() {
	fresh := map[*offer]*offer{}
	for _, o := range a.offers("") {
		fresh[o] = &offer{list: o.list}
	}
	rows := make(map[string]*catalogRow, len(a.catalogs))
	for name, r := range a.catalogs {
		rows[name] = &catalogRow{
			nodeClass: r.nodeClass, classVersion: r.classVersion, reservationsAt: r.reservationsAt, zonalShifts: r.zonalShifts, hash: r.hash,
			generation: r.generation, offer: fresh[r.offer],
		}
	}
	a.catalogs = rows
}

// joinCatalog returns the offer's catalogue. It shares parts with others that were joined before.
func (a *aws) joinCatalog(o *offer) *catalog.Catalog {
	if c := o.joined.Load(); c != nil {
		return c
	}
	var like []*catalog.Catalog
	for _, other := range a.offers("") {
		if c := other.joined.Load(); c != nil && len(like) < joinedLike {
			like = append(like, c)
		}
	}
	c := o.list.Join(a.prices.prices, like...)
	o.joined.Store(c)
	return c
}

// joinedLike is how many other catalogues one is compared with to share equal parts.
const joinedLike = 8

// priceTable holds prices with the generation that last mentioned them, and what spot offerings cost before.
type priceTable struct {
	owner       *version.Owner
	prices      catalog.Prices
	generations map[catalog.PriceKey]uint32
	spot        map[catalog.PriceKey][]spotStep
}

func newPriceTable() priceTable {
	return priceTable{prices: catalog.Prices{}, generations: map[catalog.PriceKey]uint32{}, spot: map[catalog.PriceKey][]spotStep{}}
}

// ownedBy returns the table, or its copy.
func (t priceTable) ownedBy(o *version.Owner) priceTable {
	if t.owner == o {
		return t
	}
	return priceTable{owner: o, prices: maps.Clone(t.prices), generations: maps.Clone(t.generations), spot: maps.Clone(t.spot)}
}

// setPrice applies one difference that was seen at a time and reports whether a price changed.
func (t *priceTable) setPrice(e events.Price, at time.Time, generation uint32) bool {
	key := catalog.PriceKey{InstanceType: intern.String(e.InstanceType), CapacityType: intern.String(e.CapacityType), Zone: intern.String(e.Zone)}
	old := t.prices[key]
	if e.MicroUSDPerHour <= 0 {
		t.remove(key)
		return old != 0
	}
	t.prices[key], t.generations[key] = e.MicroUSDPerHour, generation
	t.remember(key, e.MicroUSDPerHour, at)
	return old != e.MicroUSDPerHour
}

func (t *priceTable) remove(key catalog.PriceKey) {
	delete(t.prices, key)
	delete(t.generations, key)
	delete(t.spot, key)
}

func (t *priceTable) dropBelow(generation uint32) {
	maps.DeleteFunc(t.prices, func(k catalog.PriceKey, _ int64) bool { return t.generations[k] < generation })
	maps.DeleteFunc(t.spot, func(k catalog.PriceKey, _ []spotStep) bool { return t.generations[k] < generation })
	maps.DeleteFunc(t.generations, func(_ catalog.PriceKey, g uint32) bool { return g < generation })
}

func (t *priceTable) keys() []catalog.PriceKey {
	return slices.SortedFunc(maps.Keys(t.prices), func(x, y catalog.PriceKey) int {
		return cmp.Or(cmp.Compare(x.InstanceType, y.InstanceType), cmp.Compare(x.CapacityType, y.CapacityType), cmp.Compare(x.Zone, y.Zone))
	})
}

// Catalog returns what EC2 offers to a NodeClass, at the World's prices and with memory as it was published;
// nil if no catalogue was observed. It is built when first asked for after a change of the catalogue or of a
// price.
func (a *aws) Catalog(nodeClass string) *catalog.Catalog {
	r, ok := a.catalogs[nodeClass]
	if !ok || r.offer == nil {
		return nil
	}
	if c := r.built.Load(); c != nil {
		return c
	}
	c := a.joinCatalog(r.offer).For(r.nodeClass, r.classVersion, r.reservationsAt)
	r.built.Store(c)
	return c
}

// CatalogNames returns the NodeClasses with a catalogue, sorted; HasCatalog tells those whose content is
// known.
func (a *aws) CatalogNames() []string { return slices.Sorted(maps.Keys(a.catalogs)) }

// CatalogHash is the hash of the blob a NodeClass's catalogue came from; "" if there is none.
func (a *aws) CatalogHash(nodeClass string) string {
	if r, ok := a.catalogs[nodeClass]; ok {
		return r.hash
	}
	return ""
}

// HasCatalog reports that the content of a NodeClass's catalogue is known.
func (a *aws) HasCatalog(nodeClass string) bool {
	r, ok := a.catalogs[nodeClass]
	return ok && r.offer != nil
}

// lacksCatalog reports that the content of a catalogue in force is not known.
func (a *aws) lacksCatalog() bool {
	for _, r := range a.catalogs {
		if r.offer == nil {
			return true
		}
	}
	return false
}

// HoldsCatalog reports that the World has the content of a reference: its blob need not be read.
func (a *aws) HoldsCatalog(ref *events.CatalogRef) bool {
	return a.CatalogHash(ref.NodeClass) == ref.Hash && a.HasCatalog(ref.NodeClass)
}

// RawCatalog returns a catalogue as it was published, without prices; nil if none was observed.
func (a *aws) RawCatalog(nodeClass string) *events.Catalog {
	if r, ok := a.catalogs[nodeClass]; ok && r.offer != nil {
		return &events.Catalog{NodeClass: r.nodeClass, Generation: r.classVersion, ReservationsAt: r.reservationsAt,
			ZonalShifts: r.zonalShifts, InstanceTypes: r.offer.list.Published()}
	}
	return nil
}

// ZonalShifts returns the zones that a NodeClass's catalogue does not offer since traffic is shifted away
// from them, by zone id. They are shared.
func (a *aws) ZonalShifts(nodeClass string) []events.ZonalShift {
	if r, ok := a.catalogs[nodeClass]; ok {
		return r.zonalShifts
	}
	return nil
}

// AllZonalShifts are those of all NodeClasses, each zone once, by zone id.
func (a *aws) AllZonalShifts() []events.ZonalShift {
	var all []events.ZonalShift
	for _, name := range slices.Sorted(maps.Keys(a.catalogs)) {
		all = append(all, a.catalogs[name].zonalShifts...)
	}
	slices.SortStableFunc(all, func(x, y events.ZonalShift) int { return cmp.Compare(x.ZoneID, y.ZoneID) })
	return slices.CompactFunc(all, func(x, y events.ZonalShift) bool { return x.ZoneID == y.ZoneID })
}

// Price of an offering in micro USD per hour: the zone's own, else the one for every zone; 0 if unknown.
func (a *aws) Price(instanceType, capacityType, zone string) int64 {
	return a.prices.prices.Of(instanceType, capacityType, zone)
}
