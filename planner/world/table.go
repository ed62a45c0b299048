package world

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"millwright/events"
)

// folder is a table without its type.
type folder interface {
	fold(o events.Observation, generation uint32)
	dropBelow(generation uint32)
	sum() events.Sum
	encode(e *encoder, generation uint32)
	decode(d *decoder, generation uint32) error
}

// table holds the objects of one kind by name.
type table[T any] struct {
	rows  map[string]*row[T]
	codec codec[T]
	// sorted caches the values by name; nil when stale.
	sorted atomic.Pointer[[]T]
}

type row[T any] struct {
	value      T
	uid        types.UID
	version    string
	generation uint32
}

func newTable[T any](c codec[T]) *table[T] {
	return &table[T]{rows: map[string]*row[T]{}, codec: c}
}

// fold of an upsert stores an object; an object of another type or an unreadable one is dropped, for what
// was known of it holds no longer.
func (t *table[T]) fold(o events.Observation, generation uint32) {
	if v, ok := o.Object.(T); ok && o.Op == events.OpUpsert && !isNil(v) {
		t.put(o.Name, v, o, generation)
		return
	}
	t.remove(o.Name, o.UID)
}

func (t *table[T]) put(name string, v T, o events.Observation, generation uint32) {
	t.rows[name] = &row[T]{value: v, uid: o.UID, version: o.ResourceVersion, generation: generation}
	t.sorted.Store(nil)
}

// remove drops an object unless another of the same name has taken its place.
func (t *table[T]) remove(name string, uid types.UID) {
	r, ok := t.rows[name]
	if !ok || uid != "" && r.uid != "" && uid != r.uid {
		return
	}
	delete(t.rows, name)
	t.sorted.Store(nil)
}

func (t *table[T]) dropBelow(generation uint32) {
	maps.DeleteFunc(t.rows, func(_ string, r *row[T]) bool { return r.generation < generation })
	t.sorted.Store(nil)
}

func (t *table[T]) get(name string) (v T) {
	if r, ok := t.rows[name]; ok {
		return r.value
	}
	return v
}

func (t *table[T]) list() []T {
	if p := t.sorted.Load(); p != nil {
		return *p
	}
	values := make([]T, 0, len(t.rows))
	for _, name := range sortedKeys(t.rows) {
		values = append(values, t.rows[name].value)
	}
	t.sorted.Store(&values)
	return values
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}
