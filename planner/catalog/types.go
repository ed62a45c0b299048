package catalog

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"millwright/events"
)

// Types numbers the instance types and the places of several Lists, each once, in the order in which they are
// added.
type Types struct {
	hardware []*Hardware
	byName   map[string][]uint32
	places   []placed
	byKey    map[string]uint32
}

// placed says where a type is available.
type placed struct {
	*place
	*offers
}

// Numbers of a type in a List.
type Numbers struct{ Type, Places uint32 }

// NewTypes returns one without any types.
func NewTypes() *Types {
	return &Types{byName: map[string][]uint32{}, byKey: map[string]uint32{}}
}

// Add returns the numbers of a List's types, by name.
func (t *Types) Add(l *List) []Numbers {
	numbers := make([]Numbers, len(l.hardware))
	for i, h := range l.hardware {
		numbers[i] = Numbers{t.numberOf(h), t.placesOf(placed{l.places[i], l.offers[i]})}
	}
	return numbers
}

func (t *Types) numberOf(h *Hardware) uint32 {
	for _, n := range t.byName[h.Name] {
		if h.equal(t.hardware[n]) {
			return n
		}
	}
	n := uint32(len(t.hardware))
	t.hardware = append(t.hardware, h)
	t.byName[h.Name] = append(t.byName[h.Name], n)
	return n
}

func (t *Types) placesOf(p placed) uint32 {
	key := fmt.Sprintf("%d %s%s", len(p.place.key), p.place.key, p.offers.key)
	n, known := t.byKey[key]
	if !known {
		n = uint32(len(t.places))
		t.places, t.byKey[key] = append(t.places, p), n
	}
	return n
}

// Published yields the types by their numbers, as At takes them.
func (t *Types) Published() iter.Seq2[int, events.CatalogInstanceType] {
	return func(yield func(int, events.CatalogInstanceType) bool) {
		for i, h := range t.hardware {
			if !yield(i, h.published()) {
				return
			}
		}
	}
}

// Places yields the places by their numbers, as types of which only the offerings are set.
func (t *Types) Places() iter.Seq2[int, events.CatalogInstanceType] {
	return func(yield func(int, events.CatalogInstanceType) bool) {
		for i, p := range t.places {
			out := events.CatalogInstanceType{Requirements: map[string][]string{}, Offerings: p.offers.list}
			publish(&out, p.place.requirements, p.place.derived)
			if !yield(i, out) {
				return
			}
		}
	}
}

// At combines a type that Published yielded with places that Places yielded: a NewList of such types equals
// the List that was added.
func At(t, places events.CatalogInstanceType) events.CatalogInstanceType {
	requirements := make(map[string][]string, len(t.Requirements)+len(places.Requirements))
	maps.Copy(requirements, t.Requirements)
	maps.Copy(requirements, places.Requirements)
	t.Requirements, t.Others, t.Offerings = requirements, slices.Concat(t.Others, places.Others), places.Offerings
	return t
}
