package catalog

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/bitset"
	"millwright/planner/resource"
)

// fitIndex answers which types can hold an amount: per resource the distinct allocatable amounts in
// ascending order, and for each the types that have at least that much.
type fitIndex struct {
	sound bitset.Set // types without a negative amount
	// main are CPU, memory, ephemeral storage and pods.
	main     [mainResources]fitDimension
	extended map[corev1.ResourceName]fitDimension
}

// mainResources is how many resources every type has.
const mainResources = 4

var mainNames = [mainResources]corev1.ResourceName{resource.CPU, resource.Memory, resource.EphemeralStorage, resource.Pods}

// mainAmounts of a vector, in the order of mainNames.
func mainAmounts(v *resource.Vector) [mainResources]int64 {
	return [mainResources]int64{v.MilliCPU, v.Memory, v.EphemeralStorage, v.Pods}
}

// fitDimension holds the sets of types for some of the amounts only if they are many: those that lie between
// them are few.
type fitDimension struct {
	amounts []int64
	// step is 1, or atLeast holds only every step-th amount's types.
	step    int
	atLeast []bitset.Set
	// order lists the types by amount; those of amount i alone are order[ends[i-1]:ends[i]].
	order, ends []int32
}

// fitStep is how many amounts share one set of types if there are more than fitWhole.
const (
	fitStep  = 16
	fitWhole = 64
)

// Extent is what is known of a set of types that only shrinks, so that what is asked of it again and again
// need not look at the whole index: for each resource, how many of the least amounts none of its types has,
// and how many types are gone from the end of the order. The zero value knows nothing.
//
// Of types with 1, 2, 4 and 8 CPU, in a set that has lost the first and the last:
//
//	low  1  a request up to 2 CPU removes none
//	high 1  the largest is looked for from the type with 4 CPU on, downwards
type Extent struct{ low, high [mainResources]int32 }

// Restart forgets what is known of the largest amounts, before they are asked for in a set that has grown.
func (e *Extent) Restart() { e.high = [mainResources]int32{} }

// MeetLow keeps what is known of the least amounts in both.
func (e *Extent) MeetLow(o *Extent) {
	for k := range e.low {
		e.low[k] = min(e.low[k], o.low[k])
	}
}

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
	for k, name := range mainNames {
		f.main[k] = dimension(name)
	}
	for name := range f.extended {
		f.extended[name] = dimension(name)
	}
	return f
}

func (f *fitIndex) dimension(name corev1.ResourceName) (fitDimension, bool) {
	if k := slices.Index(mainNames[:], name); k >= 0 {
		return f.main[k], true
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
	if len(d.amounts) > fitWhole {
		d.step = fitStep
	}
	d.sortTypes(types, name)
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
	d.order, d.ends = make([]int32, len(types)), make([]int32, len(d.amounts))
	for i := range d.order {
		d.order[i] = int32(i)
	}
	slices.SortStableFunc(d.order, func(a, b int32) int {
		return cmp.Compare(types[a].Allocatable.Get(name), types[b].Allocatable.Get(name))
	})
	n := 0
	for i, amount := range d.amounts {
		for n < len(d.order) && types[d.order[n]].Allocatable.Get(name) == amount {
			n++
		}
		d.ends[i] = int32(n)
	}
}

// start is where the types with the i-th amount begin in the order.
func (d *fitDimension) start(i int) int {
	if i == 0 {
		return 0
	}
	return int(d.ends[i-1])
}

// nearSteps is how far what is looked for is looked for one by one.
const nearSteps = 8

// above is the first amount that is at least n, from low on.
func (d *fitDimension) above(n int64, low int) int {
	if low > 0 {
		for end := min(low+nearSteps, len(d.amounts)); low < end; low++ {
			if d.amounts[low] >= n {
				return low
			}
		}
	}
	rest, _ := slices.BinarySearch(d.amounts[low:], n)
	return low + rest
}

// narrow keeps in b, which has no type with an amount before low, the types that have at least n, and returns
// the first amount of those. It takes the set of the amount at or below n that has one, and removes the few
// types between them.
func (d *fitDimension) narrow(b bitset.Set, n int64, low int) int {
	i := d.above(n, low)
	if i == len(d.amounts) {
		clear(b)
		return i
	}
	if at := i / d.step; at*d.step > low {
		b.And(d.atLeast[at])
		low = at * d.step
	}
	if low < i {
		for _, t := range d.order[d.start(low):d.ends[i-1]] {
			b.Remove(int(t))
		}
	}
	return i
}

// Narrow keeps in b, in place, the types whose allocatable holds v.
func (c *Catalog) Narrow(b bitset.Set, v *resource.Vector) { c.NarrowWithin(b, v, &Extent{}) }

// NarrowWithin is Narrow of a set of which something is known, and notes what is known of it after that.
func (c *Catalog) NarrowWithin(b bitset.Set, v *resource.Vector, e *Extent) {
	b.And(c.fit.sound)
	for k, n := range mainAmounts(v) {
		d := &c.fit.main[k]
		if low := e.low[k]; int(low) < len(d.amounts) && n > d.amounts[low] {
			e.low[k] = int32(d.narrow(b, n, int(low)))
		}
	}
	for _, x := range v.Extended {
		if x.Value <= 0 {
			continue
		}
		d := c.fit.extended[x.Name]
		d.narrow(b, x.Value, 0)
	}
}

// Largest returns the most of each resource, 0 at least, that a type's allocatable has: of those in b and, if
// within is not nil, in within too. Of extended resources it looks at those named, sorted.
func (c *Catalog) Largest(b, within bitset.Set, extended []corev1.ResourceName) resource.Vector {
	return c.LargestWithin(b, within, extended, &Extent{})
}

// LargestWithin is Largest of a set of which something is known, and notes what is known of it after that.
func (c *Catalog) LargestWithin(b, within bitset.Set, extended []corev1.ResourceName, e *Extent) resource.Vector {
	f := &c.fit
	var v resource.Vector
	if t := f.main[0].largest(b, within, &e.high[0]); t >= 0 {
		v.MilliCPU = max(0, c.Types[t].Allocatable.MilliCPU)
	}
	if t := f.main[1].largest(b, within, &e.high[1]); t >= 0 {
		v.Memory = max(0, c.Types[t].Allocatable.Memory)
	}
	if t := f.main[2].largest(b, within, &e.high[2]); t >= 0 {
		v.EphemeralStorage = max(0, c.Types[t].Allocatable.EphemeralStorage)
	}
	if t := f.main[3].largest(b, within, &e.high[3]); t >= 0 {
		v.Pods = max(0, c.Types[t].Allocatable.Pods)
	}
	for _, name := range extended {
		if d, ok := f.extended[name]; ok {
			if t := d.largest(b, within, new(int32)); t >= 0 && c.Types[t].Allocatable.Get(name) > 0 {
				v.Extended = append(v.Extended, resource.Amount{Name: name, Value: c.Types[t].Allocatable.Get(name)})
			}
		}
	}
	return v
}

// largest is, of the types in b, and in within unless that is nil, the one with the greatest amount; negative
// if there is none. gone is how many types of the end of the order are known not to be among them, before and
// after.
func (d *fitDimension) largest(b, within bitset.Set, gone *int32) int {
	end := len(d.order) - int(*gone)
	at := d.lastOf(b, within, max(0, end-nearSteps), end)
	if at < 0 && end > nearSteps {
		n, high := 0, len(d.atLeast) // so many of the sets have one of them
		for n < high {
			mid := (n + high) / 2
			if d.atLeast[mid].MeetsWithin(b, within) {
				n = mid + 1
			} else {
				high = mid
			}
		}
		if n > 0 {
			at = d.lastOf(b, within, d.start((n-1)*d.step), min(end, d.start(min(n*d.step, len(d.amounts)))))
		}
	}
	*gone = int32(len(d.order) - 1 - at)
	if at < 0 {
		return at
	}
	return int(d.order[at])
}

// lastOf is the last place of the order, from one on and before an end, with a type in b and in within;
// negative if there is none.
func (d *fitDimension) lastOf(b, within bitset.Set, from, end int) int {
	for at := end - 1; at >= from; at-- {
		if t := int(d.order[at]); b.Has(t) && (within == nil || within.Has(t)) {
			return at
		}
	}
	return -1
}
