package catalog

import (
	"cmp"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/bitset"
	"millwright/planner/requirement"
	"millwright/planner/resource"
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

// indexPlaces takes the index of a catalogue whose types differ in no more than where they can be had, and indexes that.
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

// shapeID tells shapes apart.
type shapeID struct{ zone, zoneID, capacityType, reservation, rest string }

func shapeOf(o *Offering) shapeID {
	k := shapeID{o.Zone, o.ZoneID, o.CapacityType, o.Reservation, ""}
	if o.Reservation != "" { // else the rest follows from what stands before it
		k.rest = o.Requirements.String()
	}
	return k
}

func compareShapes(a, b shapeID) int {
	return cmp.Or(cmp.Compare(a.zone, b.zone), cmp.Compare(a.zoneID, b.zoneID), cmp.Compare(a.capacityType, b.capacityType),
		cmp.Compare(a.reservation, b.reservation), cmp.Compare(a.rest, b.rest))
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
			Reservation: o.Reservation, ReservationID: o.ReservationID, Offered: bitset.New(len(c.Types)),
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

// fitIndex answers which types can hold an amount: per resource the distinct allocatable amounts in
// ascending order, and for each the types that have at least that much.
type fitIndex struct {
	sound                  bitset.Set // types without a negative amount
	cpu, memory, disk, pod fitDimension
	extended               map[corev1.ResourceName]fitDimension
}

// fitDimension holds the sets of types for some of the amounts only if they are many: those that lie between them are few.
type fitDimension struct {
	amounts []int64
	// step is 1, or atLeast holds only every step-th amount's types; those of amount i alone are then order[ends[i-1]:ends[i]].
	step        int
	atLeast     []bitset.Set
	order, ends []uint16
}

// fitStep is how many amounts share one set of types if there are more than fitWhole.
const (
	fitStep  = 16
	fitWhole = 64
)

func newFitIndex(types []*InstanceType, like []*Catalog) fitIndex {
	f := fitIndex{sound: bitset.New(len(types)), extended: map[corev1.ResourceName]fitDimension{}}
	for i, t := range types {
		if (resource.Vector{}).Fits(t.Allocatable) {
			f.sound.Add(i)
		}
		for _, e := range t.Allocatable.Extended {
			f.extended[e.Name] = fitDimension{}
		}
	}
	dimension := func(name corev1.ResourceName) fitDimension {
		for _, o := range like {
			same := func(a, b *InstanceType) bool { return a.Allocatable.Get(name) == b.Allocatable.Get(name) }
			if d, ok := o.fit.dimension(name); ok && slices.EqualFunc(types, o.Types, same) {
				return d
			}
		}
		return newFitDimension(types, name)
	}
	f.cpu, f.memory = dimension(resource.CPU), dimension(resource.Memory)
	f.disk, f.pod = dimension(resource.EphemeralStorage), dimension(resource.Pods)
	for name := range f.extended {
		f.extended[name] = dimension(name)
	}
	return f
}

func (f *fitIndex) dimension(name corev1.ResourceName) (fitDimension, bool) {
	switch name {
	case resource.CPU:
		return f.cpu, true
	case resource.Memory:
		return f.memory, true
	case resource.EphemeralStorage:
		return f.disk, true
	case resource.Pods:
		return f.pod, true
	}
	d, ok := f.extended[name]
	return d, ok
}

func newFitDimension(types []*InstanceType, name corev1.ResourceName) fitDimension {
	var d fitDimension
	for _, t := range types {
		d.amounts = append(d.amounts, t.Allocatable.Get(name))
	}
	slices.Sort(d.amounts)
	d.amounts = slices.Clone(slices.Compact(d.amounts))
	d.step = 1
	if len(d.amounts) > fitWhole && len(types) <= math.MaxUint16 {
		d.step = fitStep
		d.sortTypes(types, name)
	}
	for at := 0; at < len(d.amounts); at += d.step {
		b := bitset.New(len(types))
		for i, t := range types {
			if t.Allocatable.Get(name) >= d.amounts[at] {
				b.Add(i)
			}
		}
		d.atLeast = append(d.atLeast, b)
	}
	d.atLeast = slices.Clip(d.atLeast)
	return d
}

// sortTypes lists the types by amount.
func (d *fitDimension) sortTypes(types []*InstanceType, name corev1.ResourceName) {
	d.order, d.ends = make([]uint16, len(types)), make([]uint16, len(d.amounts))
	for i := range d.order {
		d.order[i] = uint16(i)
	}
	slices.SortStableFunc(d.order, func(a, b uint16) int {
		return cmp.Compare(types[a].Allocatable.Get(name), types[b].Allocatable.Get(name))
	})
	n := 0
	for i, amount := range d.amounts {
		for n < len(d.order) && types[d.order[n]].Allocatable.Get(name) == amount {
			n++
		}
		d.ends[i] = uint16(n)
	}
}

// below are the types whose amounts are from the from-th on and below the to-th.
func (d *fitDimension) below(from, to int) []uint16 {
	if from >= to {
		return nil
	}
	first := uint16(0)
	if from > 0 {
		first = d.ends[from-1]
	}
	return d.order[first:d.ends[to-1]]
}

// narrow keeps in b the types that have at least n; false if none do. It takes the set of the amount at or below n that has one, and removes
// the few types between them.
func (d *fitDimension) narrow(b bitset.Set, n int64) bool {
	i, _ := slices.BinarySearch(d.amounts, n)
	switch {
	case i == len(d.amounts):
		clear(b)
		return false
	case i == 0:
		return true
	}
	at := i / d.step
	if at > 0 {
		b.And(d.atLeast[at])
	}
	for _, t := range d.below(at*d.step, i) {
		b.Remove(int(t))
	}
	return true
}

// any reports that a type in b, and in within unless that is nil, has at least the i-th amount: one of those of the next amount that has a
// set, or one of the few between them.
func (d *fitDimension) any(i int, b, within bitset.Set) bool {
	at := (i + d.step - 1) / d.step
	if at < len(d.atLeast) && d.atLeast[at].MeetsWithin(b, within) {
		return true
	}
	for _, t := range d.below(i, min(at*d.step, len(d.amounts))) {
		if b.Has(int(t)) && (within == nil || within.Has(int(t))) {
			return true
		}
	}
	return false
}

// Narrow keeps in b, in place, the types whose allocatable holds v.
func (c *Catalog) Narrow(b bitset.Set, v *resource.Vector) {
	b.And(c.fit.sound)
	ok := c.fit.cpu.narrow(b, v.MilliCPU) && c.fit.memory.narrow(b, v.Memory) &&
		c.fit.disk.narrow(b, v.EphemeralStorage) && c.fit.pod.narrow(b, v.Pods)
	if !ok {
		return
	}
	for _, e := range v.Extended {
		if e.Value <= 0 {
			continue
		}
		d := c.fit.extended[e.Name]
		if !d.narrow(b, e.Value) {
			return
		}
	}
}

// Largest returns the most of each resource, 0 at least, that a type's allocatable has: of those in b and, if within is not nil, in
// within too. Of extended resources it looks at those named, sorted.
func (c *Catalog) Largest(b, within bitset.Set, extended []corev1.ResourceName) resource.Vector {
	f := &c.fit
	v := resource.Vector{
		MilliCPU: f.cpu.largest(b, within), Memory: f.memory.largest(b, within),
		EphemeralStorage: f.disk.largest(b, within), Pods: f.pod.largest(b, within),
	}
	for _, name := range extended {
		if d, ok := f.extended[name]; ok {
			if n := d.largest(b, within); n > 0 {
				v.Extended = append(v.Extended, resource.Amount{Name: name, Value: n})
			}
		}
	}
	return v
}

// largest is the greatest amount that a type in b, and in within unless that is nil, has at least.
func (d *fitDimension) largest(b, within bitset.Set) int64 {
	low, high := 0, len(d.amounts) // the answer, if any, is in amounts[low:high]; those from high on are too much
	for low < high {
		mid := (low + high) / 2
		if d.any(mid, b, within) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == 0 {
		return 0
	}
	return max(0, d.amounts[low-1])
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
