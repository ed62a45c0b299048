package version

import (
	"cmp"
	"iter"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Owner identifies who may change rows in place: those that were made for it. A new one is new(Owner).
type Owner struct{ _ byte }

// Map is a hash map of which versions are taken by copying the struct. Create one with NewMap.
//
// It is a tree by the bits of the key's hash, from the lowest: inner nodes have a child for each value of the
// next four bits, leaves hold a few entries. With 150,000 entries there are about four inner nodes above a
// leaf, and a change copies those.
type Map[K comparable, V any] struct {
	hash func(K) uint64
	root child[K, V]
	n    int
}

const (
	fanBits = 4
	fan     = 1 << fanBits
	// A leaf is full with leafMax entries; an inner node whose leaves together hold no more than leafMin
	// becomes one.
	leafMax = 12
	leafMin = 6
)

// child is an inner node, a leaf, or nothing.
type child[K comparable, V any] struct {
	inner *inner[K, V]
	leaf  *leaf[K, V]
}

type inner[K comparable, V any] struct {
	owner    *Owner
	children [fan]child[K, V]
}

type leaf[K comparable, V any] struct {
	owner   *Owner
	entries []entry[K, V]
}

type entry[K comparable, V any] struct {
	hash  uint64
	key   K
	value V
}

// NewMap returns an empty Map whose keys are hashed by hash. Its lowest bits count most.
func NewMap[K comparable, V any](hash func(K) uint64) Map[K, V] { return Map[K, V]{hash: hash} }

// String hashes a text.
func String[K ~string](k K) uint64 { return xxhash.Sum64String(string(k)) }

// Strings combines the hashes of two texts.
func Strings(a, b string) uint64 {
	return xxhash.Sum64String(a)*0x9e3779b97f4a7c15 ^ xxhash.Sum64String(b)
}

// Len is the number of entries.
func (m *Map[K, V]) Len() int { return m.n }

// Get returns the value of a key; false if there is none.
func (m *Map[K, V]) Get(k K) (v V, ok bool) {
	h := m.hash(k)
	at := &m.root
	for bits := h; at.inner != nil; bits >>= fanBits {
		at = &at.inner.children[bits%fan]
	}
	if at.leaf == nil {
		return v, false
	}
	for i := range at.leaf.entries {
		if e := &at.leaf.entries[i]; e.hash == h && e.key == k {
			return e.value, true
		}
	}
	return v, false
}

// Has reports that there is a value for a key.
func (m *Map[K, V]) Has(k K) bool {
	_, ok := m.Get(k)
	return ok
}

// Set gives a key a value.
func (m *Map[K, V]) Set(o *Owner, k K, v V) {
	h := m.hash(k)
	at, depth := m.descend(o, h)
	if at.leaf == nil {
		at.leaf = &leaf[K, V]{owner: o}
	}
	if i := at.leaf.findKey(h, k); i >= 0 {
		at.leaf = at.leaf.ownedBy(o, 0)
		at.leaf.entries[i].value = v
		return
	}
	l := at.leaf.ownedBy(o, 1)
	at.leaf = l
	l.entries = append(l.entries, entry[K, V]{h, k, v})
	m.n++
	at.split(o, depth)
}

// Delete drops a key.
func (m *Map[K, V]) Delete(o *Owner, k K) {
	if !m.Has(k) {
		return
	}
	h := m.hash(k)
	at, depth := m.descend(o, h)
	l := at.leaf.ownedBy(o, 0)
	at.leaf = l
	l.entries = slices.DeleteFunc(l.entries, func(e entry[K, V]) bool { return e.hash == h && e.key == k })
	m.n--
	if len(l.entries) == 0 {
		at.leaf = nil
	}
	if len(l.entries) <= leafMin {
		m.merge(o, h, depth)
	}
}

// descend gives the owner its own copies of the inner nodes on the way to a hash, and returns the child below
// them and their number.
func (m *Map[K, V]) descend(o *Owner, h uint64) (at *child[K, V], depth int) {
	at = &m.root
	for ; at.inner != nil; depth++ {
		if at.inner.owner != o {
			n := *at.inner
			n.owner = o
			at.inner = &n
		}
		at = &at.inner.children[h>>(depth*fanBits)%fan]
	}
	return at, depth
}

// depthMax is where the hash has no bits left: a leaf there holds all keys with equal hashes, however many.
const depthMax = 64 / fanBits

// split turns a leaf that is too full into an inner node.
func (c *child[K, V]) split(o *Owner, depth int) {
	if len(c.leaf.entries) <= leafMax || depth >= depthMax {
		return
	}
	n := &inner[K, V]{owner: o}
	for _, e := range c.leaf.entries {
		at := &n.children[e.hash>>(depth*fanBits)%fan]
		if at.leaf == nil {
			at.leaf = &leaf[K, V]{owner: o}
		}
		at.leaf.entries = append(at.leaf.entries, e)
	}
	c.inner, c.leaf = n, nil
	for i := range n.children {
		if at := &n.children[i]; at.leaf != nil {
			at.split(o, depth+1)
		}
	}
}

// merge turns inner nodes on the way to a hash into leaves, from the lowest, as long as they hold few
// entries.
func (m *Map[K, V]) merge(o *Owner, h uint64, depth int) {
	for ; depth > 0; depth-- {
		at := &m.root
		for i := range depth - 1 {
			at = &at.inner.children[h>>(i*fanBits)%fan]
		}
		if !at.collapse(o) {
			return
		}
	}
}

// collapse turns an inner node into a leaf if it has only leaves with few entries.
func (c *child[K, V]) collapse(o *Owner) bool {
	sum := 0
	for i := range c.inner.children {
		at := &c.inner.children[i]
		if at.inner != nil {
			return false
		}
		if at.leaf != nil {
			sum += len(at.leaf.entries)
		}
	}
	if sum > leafMin {
		return false
	}
	var joined *leaf[K, V]
	if sum > 0 {
		joined = &leaf[K, V]{owner: o, entries: make([]entry[K, V], 0, sum)}
		for i := range c.inner.children {
			if l := c.inner.children[i].leaf; l != nil {
				joined.entries = append(joined.entries, l.entries...)
			}
		}
	}
	c.inner, c.leaf = nil, joined
	return true
}

// ownedBy returns the leaf, or its copy with room for some more entries.
func (l *leaf[K, V]) ownedBy(o *Owner, room int) *leaf[K, V] {
	if l.owner == o {
		return l
	}
	entries := make([]entry[K, V], len(l.entries), len(l.entries)+room)
	copy(entries, l.entries)
	return &leaf[K, V]{owner: o, entries: entries}
}

func (l *leaf[K, V]) findKey(h uint64, k K) int {
	for i := range l.entries {
		if l.entries[i].hash == h && l.entries[i].key == k {
			return i
		}
	}
	return -1
}

// All returns the entries in no particular order.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { m.root.each(yield) }
}

func (c *child[K, V]) each(yield func(K, V) bool) bool {
	if c.inner != nil {
		for i := range c.inner.children {
			if !c.inner.children[i].each(yield) {
				return false
			}
		}
	}
	if c.leaf != nil {
		for i := range c.leaf.entries {
			if !yield(c.leaf.entries[i].key, c.leaf.entries[i].value) {
				return false
			}
		}
	}
	return true
}

// Keys returns the keys in order.
func Keys[K cmp.Ordered, V any](m *Map[K, V]) []K {
	keys := make([]K, 0, m.n)
	for k := range m.All() {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
