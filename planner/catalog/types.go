package catalog

import (
	"iter"

	"millwright/events"
)

// Types numbers the instance types and the places of several Lists, each once, in the order in which they come.
type Types struct {
	hardware []*Hardware
	byName   map[string][]uint32
	places   []*offers
	byKey    map[string]uint32
}

// Numbers of a type in a List.
type Numbers struct{ Type, Places uint32 }

// NewTypes numbers nothing yet.
func NewTypes() *Types {
	return &Types{byName: map[string][]uint32{}, byKey: map[string]uint32{}}
}

// Add returns the numbers of a List's types, by name.
func (t *Types) Add(l *List) []Numbers {
	numbers := make([]Numbers, len(l.hardware))
	for i, h := range l.hardware {
		numbers[i] = Numbers{t.numberOf(h), t.placesOf(l.offers[i])}
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

func (t *Types) placesOf(o *offers) uint32 {
	n, known := t.byKey[o.key]
	if !known {
		n = uint32(len(t.places))
		t.places, t.byKey[o.key] = append(t.places, o), n
	}
	return n
}

// Published yields the types by their numbers, without the places: with those a NewList of them is equal to the List that was added.
func (t *Types) Published() iter.Seq2[int, events.CatalogInstanceType] {
	return func(yield func(int, events.CatalogInstanceType) bool) {
		for i, h := range t.hardware {
			if !yield(i, h.published()) {
				return
			}
		}
	}
}

// Places by their numbers; shared.
func (t *Types) Places() iter.Seq2[int, []events.CatalogOffering] {
	return func(yield func(int, []events.CatalogOffering) bool) {
		for i, o := range t.places {
			if !yield(i, o.list) {
				return
			}
		}
	}
}
