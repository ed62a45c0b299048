// Package bitset holds sets of small numbers, as bits of words: instance types by index, domains of a
// topology key, places of a plan.
//
// Set has a fixed number of words, chosen when it is made; its operations work in place and allocate nothing.
// Growing has no upper bound. Neither checks ranges beyond what slices do: sets that are combined must have
// been made for the same number of members.
package bitset

import (
	"iter"
	"math/bits"
	"slices"
)

// Word is the number of members that one word of a set holds.
const Word = 64

// Set of the numbers from 0 up to the number of members it was made for. Sets that are combined have equal
// length.
type Set []uint64

// New returns an empty set for n members.
func New(n int) Set { return make(Set, (n+Word-1)/Word) }

// Full returns the set of all n members.
func Full(n int) Set {
	s := New(n)
	for i := range n {
		s.Add(i)
	}
	return s
}

// Add puts i into s, in place.
func (s Set) Add(i int) { s[i/Word] |= 1 << (i % Word) }

// Remove takes i out of s, in place.
func (s Set) Remove(i int) { s[i/Word] &^= 1 << (i % Word) }

// Has reports that i is in s.
func (s Set) Has(i int) bool { return s[i/Word]&(1<<(i%Word)) != 0 }

// And keeps in s what is in o too, in place.
func (s Set) And(o Set) {
	for i := range s {
		s[i] &= o[i]
	}
}

// Or adds o to s, in place.
func (s Set) Or(o Set) {
	for i := range s {
		s[i] |= o[i]
	}
}

// Subtract takes the members of o out of s, in place; nil is empty.
func (s Set) Subtract(o Set) {
	for i, w := range o {
		s[i] &^= w
	}
}

// Clone copies s.
func (s Set) Clone() Set { return slices.Clone(s) }

// Any reports that s is not empty.
func (s Set) Any() bool {
	for _, w := range s {
		if w != 0 {
			return true
		}
	}
	return false
}

// Meets reports that s and o share a member.
func (s Set) Meets(o Set) bool {
	for i, w := range s {
		if w&o[i] != 0 {
			return true
		}
	}
	return false
}

// MeetsWithin reports that all three share a member; nil for within stands for all.
func (s Set) MeetsWithin(o, within Set) bool {
	if within == nil {
		return s.Meets(o)
	}
	for i, w := range s {
		if w&o[i]&within[i] != 0 {
			return true
		}
	}
	return false
}

// Count returns the number of members.
func (s Set) Count() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// Equal reports that both have the same members.
func (s Set) Equal(o Set) bool {
	for i, w := range s {
		if w != o[i] {
			return false
		}
	}
	return true
}

// Single returns the only member; ok is false if there is not exactly one.
func (s Set) Single() (member int, ok bool) {
	member = -1
	for i, w := range s {
		if w == 0 {
			continue
		}
		if member >= 0 || w&(w-1) != 0 {
			return 0, false
		}
		member = i*Word + bits.TrailingZeros64(w)
	}
	return member, member >= 0
}

// Members yields the members, ascending.
func (s Set) Members() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s {
			for ; w != 0; w &= w - 1 {
				if !yield(i*Word + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// Growing is a set of numbers without an upper bound; the zero value is empty.
type Growing []uint64

// Has reports that i is in g.
func (g Growing) Has(i int) bool { return i/Word < len(g) && g[i/Word]&(1<<(i%Word)) != 0 }

// Add puts i into g.
func (g *Growing) Add(i int) {
	for i/Word >= len(*g) {
		*g = append(*g, 0)
	}
	(*g)[i/Word] |= 1 << (i % Word)
}

// Remove takes i out of g.
func (g *Growing) Remove(i int) {
	if i/Word < len(*g) {
		(*g)[i/Word] &^= 1 << (i % Word)
	}
}

// Truncate removes all numbers from n on.
func (g *Growing) Truncate(n int) {
	if n/Word >= len(*g) {
		return
	}
	(*g)[n/Word] &= 1<<(n%Word) - 1
	*g = (*g)[:n/Word+1]
}

// Bits is the w-th word: the members from 64w on.
func (g Growing) Bits(w int) uint64 {
	if w < len(g) {
		return g[w]
	}
	return 0
}
