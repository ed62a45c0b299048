package catalog

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner/requirement"
	"millwright/planner/resource"
)

// InstanceType as planners see it.
type InstanceType struct {
	Name string
	// Index is its place in Catalog.Types and its number in Bits.
	Index int
	// Requirements are the labels its nodes may get; zone and capacity type span its offerings.
	Requirements requirement.Set
	// Allocatable = Capacity − Overhead, memory also less huge pages.
	Capacity, Overhead, Allocatable resource.Vector
	// Offerings by zone, then capacity type, then reservation.
	Offerings []Offering
}

// Offering is where and how a type can be had.
type Offering struct {
	Zone, ZoneID, CapacityType string
	// Price in micro USD per hour. Rank orders equal prices: the price in pico USD if it is reserved.
	Price, Rank int64
	// Reservation names the capacity reservation within the catalogue, "" if there is none; ReservationID is
	// its id, which may be unknown. Free counts its instances.
	Reservation, ReservationID string
	ReservationType            string
	Free                       int64
	// Available: EC2 and the NodeClass allow it, and its price is known.
	Available    bool
	Requirements requirement.Set
	// Shape is the number of its Requirements in Catalog.Shapes.
	Shape int
}

// Shape is what offerings of several types have in common: all but type, price and availability.
type Shape struct {
	Zone, ZoneID, CapacityType string
	Requirements               requirement.Set
	// Reservation and ReservationID as in Offering.
	Reservation, ReservationID string
	// Offered holds the types with an available offering of this shape.
	Offered Bits
}

// Catalog of one NodeClass.
type Catalog struct {
	NodeClass  string
	Generation int64
	// ReservationsAt is when EC2 said how much reserved capacity is free; zero if it was not asked.
	ReservationsAt time.Time
	Types          []*InstanceType // by name
	Shapes         []Shape         // by zone, zone id, capacity type
	keys           map[string]*keyIndex
	fit            fitIndex
}

// PriceKey names a price. Zone is "" for a price that holds in every zone.
type PriceKey struct{ InstanceType, CapacityType, Zone string }

// Prices in micro USD per hour.
type Prices map[PriceKey]int64

// Of returns the price of an offering: the zone's own, else the one for every zone. 0 means unknown.
func (p Prices) Of(instanceType, capacityType, zone string) int64 {
	if v := p[PriceKey{instanceType, capacityType, zone}]; v > 0 {
		return v
	}
	return p[PriceKey{instanceType, capacityType, ""}]
}

// New interns c with the given prices. Neither is kept or changed. nil is an empty catalogue.
func New(c *events.Catalog, prices Prices) *Catalog {
	cat := &Catalog{}
	if c == nil {
		return cat.indexed()
	}
	cat.NodeClass, cat.Generation, cat.ReservationsAt = c.NodeClass, c.Generation, c.ReservationsAt
	source := slices.Clone(c.InstanceTypes)
	slices.SortStableFunc(source, func(a, b events.CatalogInstanceType) int { return cmp.Compare(a.Name, b.Name) })
	source = slices.CompactFunc(source, func(a, b events.CatalogInstanceType) bool { return a.Name == b.Name })
	for i := range source {
		cat.Types = append(cat.Types, newType(&source[i], prices))
	}
	return cat.indexed()
}

// FromTypes makes a catalogue of types made by hand; it sets Index, Shape and Allocatable.
func FromTypes(nodeClass string, types ...*InstanceType) *Catalog {
	cat := &Catalog{NodeClass: nodeClass, Types: slices.Clone(types)}
	slices.SortFunc(cat.Types, func(a, b *InstanceType) int { return cmp.Compare(a.Name, b.Name) })
	for _, t := range cat.Types {
		t.finish()
	}
	return cat.indexed()
}

func newType(src *events.CatalogInstanceType, prices Prices) *InstanceType {
	t := &InstanceType{Name: src.Name, Capacity: resource.FromInt64(src.Capacity), Overhead: resource.FromInt64(src.Overhead)}
	reqs := make([]requirement.Requirement, 0, len(src.Requirements))
	for _, k := range slices.Sorted(maps.Keys(src.Requirements)) {
		reqs = append(reqs, requirement.In(k, src.Requirements[k]...))
	}
	for _, o := range src.Others {
		reqs = append(reqs, requirement.New(o.Key, corev1.NodeSelectorOperator(o.Operator), o.Values...))
	}
	t.Requirements = requirement.NewSet(reqs...)
	for _, o := range src.Offerings {
		if o.CapacityType == karpv1.CapacityTypeReserved {
			t.Offerings = append(t.Offerings, reservedOffering(src.Name, &o, prices))
			continue
		}
		price := prices.Of(src.Name, o.CapacityType, o.Zone)
		t.Offerings = append(t.Offerings, Offering{
			Zone: o.Zone, ZoneID: o.ZoneID, CapacityType: o.CapacityType, Price: price, Available: o.Available && price > 0,
		})
	}
	t.finish()
	return t
}

// finish derives what follows from the rest: order of offerings, requirements, allocatable.
func (t *InstanceType) finish() {
	slices.SortStableFunc(t.Offerings, func(a, b Offering) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType), cmp.Compare(a.Reservation, b.Reservation))
	})
	for i := range t.Offerings {
		t.Offerings[i].Requirements = offeringRequirements(&t.Offerings[i])
	}
	t.define(corev1.LabelInstanceTypeStable, []string{t.Name})
	t.define(corev1.LabelTopologyZone, t.collect(func(o *Offering) string { return o.Zone }))
	t.define(awsv1.LabelTopologyZoneID, t.collect(func(o *Offering) string { return o.ZoneID }))
	t.define(karpv1.CapacityTypeLabelKey, t.collect(func(o *Offering) string { return o.CapacityType }))
	t.Allocatable = allocatable(t.Capacity, t.Overhead)
}

func (t *InstanceType) collect(f func(*Offering) string) []string {
	var values []string
	for i := range t.Offerings {
		if v := f(&t.Offerings[i]); v != "" {
			values = append(values, v)
		}
	}
	return values
}

// define adds a requirement the source did not give.
func (t *InstanceType) define(key string, values []string) {
	if len(values) > 0 && !t.Requirements.Has(key) {
		t.Requirements = t.Requirements.Add(requirement.In(key, values...))
	}
}

func offeringRequirements(o *Offering) requirement.Set {
	s := requirement.NewSet(
		requirement.In(corev1.LabelTopologyZone, o.Zone),
		requirement.In(karpv1.CapacityTypeLabelKey, o.CapacityType),
	)
	if o.ZoneID != "" {
		s = s.Add(requirement.In(awsv1.LabelTopologyZoneID, o.ZoneID))
	}
	if o.CapacityType != karpv1.CapacityTypeReserved {
		return s.Add(
			requirement.DoesNotExist(awsv1.LabelCapacityReservationID),
			requirement.DoesNotExist(awsv1.LabelCapacityReservationType),
			requirement.DoesNotExist(awsv1.LabelCapacityReservationInterruptible),
		)
	}
	id := requirement.DoesNotExist(awsv1.LabelCapacityReservationID)
	if o.ReservationID != "" {
		id = requirement.In(awsv1.LabelCapacityReservationID, o.ReservationID)
	}
	s = s.Add(id)
	if o.ReservationType != "" {
		s = s.Add(
			requirement.In(awsv1.LabelCapacityReservationType, o.ReservationType),
			requirement.In(awsv1.LabelCapacityReservationInterruptible, "false"), // others are not offered
		)
	}
	return s
}

func allocatable(capacity, overhead resource.Vector) resource.Vector {
	a := capacity.Sub(overhead)
	for _, e := range capacity.Extended {
		if strings.HasPrefix(string(e.Name), corev1.ResourceHugePagesPrefix) {
			a.Memory = max(0, a.Memory-e.Value)
		}
	}
	return a
}

// Type returns the type with the name, nil if there is none.
func (c *Catalog) Type(name string) *InstanceType {
	i, ok := slices.BinarySearchFunc(c.Types, name, func(t *InstanceType, n string) int { return cmp.Compare(t.Name, n) })
	if !ok {
		return nil
	}
	return c.Types[i]
}

// All returns a new set of all types.
func (c *Catalog) All() Bits { return Full(len(c.Types)) }
