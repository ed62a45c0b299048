package catalog

import (
	"cmp"
	"maps"
	"slices"

	"millwright/planner/bitset"
	"millwright/planner/requirement"
)

// keyIndex says, for one label key, which types may have which value.
type keyIndex struct {
	values []string     // sorted: every value some type lists
	having []bitset.Set // by value
	absent bitset.Set   // types that say nothing of the key: they conflict with nothing
	never  bitset.Set   // types with DoesNotExist
	other  []int        // types with a complement or bounds: looked at one by one
}

// indexed completes the catalogue. What is the same in one of like is shared.
func (c *Catalog) indexed(like []*Catalog) *Catalog {
	for i, t := range c.Types {
		t.Index = i
	}
	c.indexShapes()
	c.indexKeys(like)
	c.fit = newFitIndex(c.Types, like)
	return c
}

func (c *Catalog) indexKeys(like []*Catalog) {
	for _, o := range like {
		if slices.EqualFunc(c.Types, o.Types, func(a, b *InstanceType) bool { return a.Requirements.Same(b.Requirements) }) {
			c.keys = o.keys
			return
		}
	}
	if c.places != nil && c.indexPlaces(like) {
		return
	}
	c.keys = map[string]*keyIndex{}
	for i, t := range c.Types {
		for _, r := range t.Requirements.Requirements() {
			c.indexKey(i, r)
		}
	}
}

// indexPlaces takes the index of a catalogue whose types differ in no more than where they can be had, and
// indexes that.
func (c *Catalog) indexPlaces(like []*Catalog) bool {
	for _, o := range like {
		if o.places == nil || !slices.EqualFunc(c.Types, o.Types, func(a, b *InstanceType) bool { return a.Hardware.Requirements.Same(b.Hardware.Requirements) }) {
			continue
		}
		c.keys = maps.Clone(o.keys)
		for _, key := range placeKeys {
			delete(c.keys, key)
		}
		for i, p := range c.places {
			for _, r := range p.requirements.Requirements() {
				c.indexKey(i, r)
			}
		}
		return true
	}
	return false
}

func (c *Catalog) indexKey(i int, r requirement.Requirement) {
	k := c.keys[r.Key()]
	if k == nil {
		k = &keyIndex{absent: c.All(), never: bitset.New(len(c.Types))}
		c.keys[r.Key()] = k
	}
	k.absent.Remove(i)
	switch {
	case r.Complement():
		k.other = append(k.other, i)
	case len(r.Values()) == 0:
		k.never.Add(i)
	}
	if r.Complement() {
		return
	}
	for _, v := range r.Values() {
		at, found := slices.BinarySearch(k.values, v)
		if !found {
			k.values = slices.Insert(k.values, at, v)
			k.having = slices.Insert(k.having, at, bitset.New(len(c.Types)))
		}
		k.having[at].Add(i)
	}
}

// Matching returns a new set of the types whose requirement on r's key can be satisfied together with r.
func (c *Catalog) Matching(r requirement.Requirement) bitset.Set {
	k := c.keys[r.Key()]
	if k == nil {
		return c.All()
	}
	res := k.absent.Clone()
	if r.Negative() {
		res.Or(k.never)
	}
	for i, v := range k.values {
		if r.Has(v) {
			res.Or(k.having[i])
		}
	}
	for _, i := range k.other {
		if requirement.Satisfiable(c.Types[i].Requirements.Get(r.Key()), r) {
			res.Add(i)
		}
	}
	return res
}

// MatchingSet returns a new set of the types whose requirements Intersect s.
func (c *Catalog) MatchingSet(s requirement.Set) bitset.Set {
	res := c.All()
	for _, r := range s.Requirements() {
		if c.keys[r.Key()] != nil {
			res.And(c.Matching(r))
		}
	}
	return res
}

// Knows reports that some type has a requirement on key.
func (c *Catalog) Knows(key string) bool { return c.keys[key] != nil }

// Values returns every value some type lists for key, sorted, shared.
func (c *Catalog) Values(key string) []string {
	if k := c.keys[key]; k != nil {
		return k.values
	}
	return nil
}

// Having returns the types that list value for key; shared; nil if none.
func (c *Catalog) Having(key, value string) bitset.Set {
	k := c.keys[key]
	if k == nil {
		return nil
	}
	if i, ok := slices.BinarySearch(k.values, value); ok {
		return k.having[i]
	}
	return nil
}

// shapeID distinguishes shapes.
type shapeID struct{ zone, zoneID, capacityType, reservation, group, rest string }

func shapeOf(o *Offering) shapeID {
	k := shapeID{o.Zone, o.ZoneID, o.CapacityType, o.Reservation, o.Group(), ""}
	if o.Reservation != "" { // else the rest follows from what stands before it
		k.rest = o.Requirements.String()
	}
	return k
}

func compareShapes(a, b shapeID) int {
	return cmp.Or(cmp.Compare(a.zone, b.zone), cmp.Compare(a.zoneID, b.zoneID), cmp.Compare(a.capacityType, b.capacityType),
		cmp.Compare(a.reservation, b.reservation), cmp.Compare(a.group, b.group), cmp.Compare(a.rest, b.rest))
}

// indexShapes numbers the shapes of the offerings.
func (c *Catalog) indexShapes() {
	byID := map[shapeID]*Offering{}
	for _, t := range c.Types {
		for i := range t.Offerings {
			o := &t.Offerings[i]
			if id := shapeOf(o); byID[id] == nil {
				byID[id] = o
				c.shapes = append(c.shapes, id)
			}
		}
	}
	slices.SortFunc(c.shapes, compareShapes)
	number := map[shapeID]int32{}
	for n, id := range c.shapes {
		number[id] = int32(n)
		o := byID[id]
		c.Shapes = append(c.Shapes, Shape{
			Zone: o.Zone, ZoneID: o.ZoneID, CapacityType: o.CapacityType, Requirements: o.Requirements,
			Reservation: o.Reservation, ReservationID: o.ReservationID, Group: o.Group(), Offered: bitset.New(len(c.Types)),
		})
	}
	for _, t := range c.Types {
		for i := range t.Offerings {
			o := &t.Offerings[i]
			o.Shape = number[shapeOf(o)]
			if o.Available {
				c.Shapes[o.Shape].Offered.Add(t.Index)
			}
		}
	}
}

// Offered returns a new set of the types with an available offering whose shape is Compatible with s.
// available holds, by shape, the types to count; the compatible shapes are appended to shapes.
func (c *Catalog) Offered(s requirement.Set, available []bitset.Set, shapes *[]int) bitset.Set {
	offered := bitset.New(len(c.Types))
	for i := range c.Shapes {
		if s.CompatibleSet(c.Shapes[i].Requirements, requirement.AllKnown) {
			*shapes = append(*shapes, i)
			offered.Or(available[i])
		}
	}
	return offered
}
