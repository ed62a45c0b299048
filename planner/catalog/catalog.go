package catalog

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner/bitset"
	"millwright/planner/requirement"
)

// InstanceType as planners see it.
type InstanceType struct {
	// Hardware is shared with other catalogues.
	*Hardware
	// Requirements are the labels its nodes may get; zone and capacity type span its offerings.
	Requirements requirement.Set
	// Index is its place in Catalog.Types and its number in sets of types.
	Index int
	// Offerings by zone, then capacity type, then reservation, then partition; shared with other catalogues.
	Offerings []Offering
}

// Offering is where and how a type can be had.
type Offering struct {
	// Where is shared with the offerings of other types and catalogues: replace it, never change it.
	*Where
	// Price in micro USD per hour.
	Price int64
	// Shape is the number of its Requirements in Catalog.Shapes.
	Shape int32
	// Available: EC2 and the NodeClass allow it, and its price is known.
	Available bool
}

// Where is all of an offering but its price and whether it is available.
type Where struct {
	Zone, ZoneID, CapacityType string
	// Reservation names the capacity reservation within the catalogue, "" if there is none; ReservationID is
	// its id, which may be unknown. Free counts its instances.
	Reservation, ReservationID string
	ReservationType            string
	// Interruptible: the owner of the reservation may take its instances back.
	Interruptible bool
	Free          int64
	// Rank orders equal prices: the price in pico USD if it is reserved.
	Rank int64
	// PlacementGroup is the id of the group that instances are launched into, Partition the number of one of
	// its partitions; "" and 0 without.
	PlacementGroup string
	Partition      int32
	Requirements   requirement.Set
}

// Group names the placement group and the partition as ledger.OfferingKey does; "" for none.
func (w *Where) Group() string {
	if w.Partition == 0 {
		return w.PlacementGroup
	}
	return w.PlacementGroup + "/" + strconv.Itoa(int(w.Partition))
}

// Shape is what offerings of several types have in common: all but type, price and availability.
type Shape struct {
	Zone, ZoneID, CapacityType string
	Requirements               requirement.Set
	// Reservation and ReservationID as in Offering.
	Reservation, ReservationID string
	// Group as Where.Group.
	Group string
	// Offered holds the types with an available offering of this shape.
	Offered bitset.Set
}

// Catalog of one NodeClass.
type Catalog struct {
	NodeClass  string
	Generation int64
	// ReservationsAt is when EC2 said how much reserved capacity is free; zero if it was not asked.
	ReservationsAt time.Time
	Types          []*InstanceType // by name
	Shapes         []Shape         // by zone, zone id, capacity type
	shapes         []shapeID       // by the same index
	keys           map[string]*keyIndex
	fit            fitIndex
	// offers and places, by the index of Types, that the types were made from; nil for types made by hand.
	offers []*offers
	places []*place
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

// New joins c with the given prices. Neither is kept or changed. nil is an empty catalogue.
func New(c *events.Catalog, prices Prices) *Catalog {
	if c == nil {
		return NewList(nil).Join(prices)
	}
	cat := NewList(c.InstanceTypes).Join(prices)
	cat.NodeClass, cat.Generation, cat.ReservationsAt = c.NodeClass, c.Generation, c.ReservationsAt
	return cat
}

// For returns the catalogue of another NodeClass of which EC2 makes the same. They share all else.
func (c *Catalog) For(nodeClass string, generation int64, reservationsAt time.Time) *Catalog {
	other := *c
	other.NodeClass, other.Generation, other.ReservationsAt = nodeClass, generation, reservationsAt
	return &other
}

// FromTypes makes a catalogue of types made by hand; it sets Index, Shape and Allocatable, and sorts their
// offerings.
func FromTypes(nodeClass string, types ...*InstanceType) *Catalog {
	cat := &Catalog{NodeClass: nodeClass, Types: slices.Clone(types)}
	slices.SortFunc(cat.Types, func(a, b *InstanceType) int { return cmp.Compare(a.Name, b.Name) })
	for _, t := range cat.Types {
		t.finish()
	}
	return cat.indexed(nil)
}

// With returns the catalogue with other types in the places of their Index. They may differ from those there
// in prices and amounts, and in nothing else; all the rest is shared. amounts says that some differ in
// amounts: it does not show of types that another catalogue was given before.
func (c *Catalog) With(changed []*InstanceType, amounts bool) *Catalog {
	other := *c
	other.Types, other.offers, other.places = slices.Clone(c.Types), nil, nil
	for _, t := range changed {
		if a := allocatable(t.Capacity, t.Overhead); !a.Equal(t.Allocatable) {
			h := *t.Hardware
			h.Allocatable = a
			t.Hardware, amounts = &h, true
		}
		other.Types[t.Index] = t
	}
	if amounts {
		other.fit = newFitIndex(other.Types, []*Catalog{c})
	}
	return &other
}

// finish derives what follows from the rest: order of offerings, requirements, allocatable. The Hardware may
// be shared: it is replaced, not changed.
func (t *InstanceType) finish() {
	sortOfferings(t.Offerings)
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.Requirements.Len() == 0 {
			w := *o.Where
			w.Requirements = offeringRequirements(&w)
			o.Where = &w
		}
	}
	if t.Requirements.Len() == 0 {
		t.Requirements = t.Hardware.Requirements
	}
	t.Requirements, _ = derive(t.Requirements, [...][]string{
		{t.Name}, t.offeringValues(func(o *Offering) string { return o.Zone }), t.offeringValues(func(o *Offering) string { return o.ZoneID }),
		t.offeringValues(func(o *Offering) string { return o.CapacityType }),
	})
	if a := allocatable(t.Capacity, t.Overhead); !a.Equal(t.Allocatable) {
		h := *t.Hardware
		h.Allocatable = a
		t.Hardware = &h
	}
}

// offeringValues lists what f says of each offering, without empty values.
func (t *InstanceType) offeringValues(f func(*Offering) string) []string {
	var values []string
	for i := range t.Offerings {
		if v := f(&t.Offerings[i]); v != "" {
			values = append(values, v)
		}
	}
	return values
}

func sortOfferings(list []Offering) {
	slices.SortStableFunc(list, func(a, b Offering) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType), cmp.Compare(a.Reservation, b.Reservation),
			cmp.Compare(a.Partition, b.Partition))
	})
}

func offeringRequirements(o *Where) requirement.Set {
	s := requirement.NewSet(
		requirement.In(corev1.LabelTopologyZone, o.Zone),
		requirement.In(karpv1.CapacityTypeLabelKey, o.CapacityType),
	)
	if o.ZoneID != "" {
		s = s.Add(requirement.In(awsv1.LabelTopologyZoneID, o.ZoneID))
	}
	s = s.Add(groupRequirements(o)...)
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
			requirement.In(awsv1.LabelCapacityReservationInterruptible, strconv.FormatBool(o.Interruptible)),
		)
	}
	return s
}

// groupRequirements are those on the labels of a placement group. A group without partitions has no label of
// one.
func groupRequirements(o *Where) []requirement.Requirement {
	id, partition := requirement.DoesNotExist(awsv1.LabelPlacementGroupID), requirement.DoesNotExist(awsv1.LabelPlacementGroupPartition)
	if o.PlacementGroup != "" {
		id = requirement.In(awsv1.LabelPlacementGroupID, o.PlacementGroup)
	}
	if o.Partition != 0 {
		partition = requirement.In(awsv1.LabelPlacementGroupPartition, strconv.Itoa(int(o.Partition)))
	}
	return []requirement.Requirement{id, partition}
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
func (c *Catalog) All() bitset.Set { return bitset.Full(len(c.Types)) }
