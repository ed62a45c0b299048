package catalog

import (
	"iter"
	"math/bits"
)

// Bits is a set of instance types by their Index. Sets of one Catalog have equal length.
type Bits []uint64

const word = 64

// NewBits returns an empty set for n members.
func NewBits(n int) Bits { return make(Bits, (n+word-1)/word) }

// Full returns the set of all n members.
func Full(n int) Bits {
	b := NewBits(n)
	for i := range n {
		b.Add(i)
	}
	return b
}

// Add puts i into b, in place.
func (b Bits) Add(i int) { b[i/word] |= 1 << (i % word) }

// Remove takes i out of b, in place.
func (b Bits) Remove(i int) { b[i/word] &^= 1 << (i % word) }

// Has reports that i is in b.
func (b Bits) Has(i int) bool { return b[i/word]&(1<<(i%word)) != 0 }

// And keeps in b what is in o too, in place.
func (b Bits) And(o Bits) {
	for i := range b {
		b[i] &= o[i]
	}
}

// Or adds o to b, in place.
func (b Bits) Or(o Bits) {
	for i := range b {
		b[i] |= o[i]
	}
}

// Subtract takes the members of o out of b, in place; nil is empty.
func (b Bits) Subtract(o Bits) {
	for i, w := range o {
		b[i] &^= w
	}
}

// Clone copies b.
func (b Bits) Clone() Bits { return append(Bits(nil), b...) }

// Any reports that b is not empty.
func (b Bits) Any() bool {
	for _, w := range b {
		if w != 0 {
			return true
		}
	}
	return false
}

// Meets reports that b and o share a member.
func (b Bits) Meets(o Bits) bool {
	for i, w := range b {
		if w&o[i] != 0 {
			return true
		}
	}
	return false
}

// meetsBoth reports that all three share a member; nil for within stands for all.
func (b Bits) meetsBoth(o, within Bits) bool {
	if within == nil {
		return b.Meets(o)
	}
	for i, w := range b {
		if w&o[i]&within[i] != 0 {
			return true
		}
	}
	return false
}

// Count returns the number of members.
func (b Bits) Count() int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

// Equal reports that both have the same members.
func (b Bits) Equal(o Bits) bool {
	for i, w := range b {
		if w != o[i] {
			return false
		}
	}
	return true
}

// Members yields the members, ascending.
func (b Bits) Members() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range b {
			for ; w != 0; w &= w - 1 {
				if !yield(i*word + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}
