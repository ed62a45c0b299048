package cluster

import (
	"maps"
	"slices"

	"millwright/events"
)

// tables are objects by kind and key. Objects are shared.
type tables struct {
	objects map[events.Kind]map[string]Object
	sorted  map[events.Kind][]Object // what all returned, until something changes
}

func newTables(kinds []events.Kind) *tables {
	t := &tables{objects: map[events.Kind]map[string]Object{}, sorted: map[events.Kind][]Object{}}
	for _, kind := range kinds {
		t.objects[kind] = map[string]Object{}
	}
	return t
}

// copied returns tables of some of the kinds.
func (t *tables) copied(kinds []events.Kind) *tables {
	c := newTables(nil)
	for _, kind := range kinds {
		c.objects[kind] = maps.Clone(t.objects[kind])
	}
	return c
}

// hasKind reports that objects of the kind are held.
func (t *tables) hasKind(kind events.Kind) bool { return t.objects[kind] != nil }

// get returns the object; nil if there is none.
func (t *tables) get(kind events.Kind, key string) Object { return t.objects[kind][key] }

func (t *tables) setObject(kind events.Kind, key string, o Object) {
	t.objects[kind][key] = o
	delete(t.sorted, kind)
}

func (t *tables) deleteObject(kind events.Kind, key string) {
	delete(t.objects[kind], key)
	delete(t.sorted, kind)
}

// all returns the objects of a kind by key. The slice is shared.
func (t *tables) all(kind events.Kind) []Object {
	if list, ok := t.sorted[kind]; ok {
		return list
	}
	list := []Object{}
	for _, key := range slices.Sorted(maps.Keys(t.objects[kind])) {
		list = append(list, t.objects[kind][key])
	}
	t.sorted[kind] = list
	return list
}

// listed is all, in a slice of the caller's.
func listed[T Object](t *tables, kind events.Kind) []T {
	all := t.all(kind)
	list := make([]T, len(all))
	for i, o := range all {
		list[i] = o.(T)
	}
	return list
}

// got returns the object; nil if there is none.
func got[T Object](t *tables, kind events.Kind, key string) (none T) {
	if o := t.get(kind, key); o != nil {
		return o.(T)
	}
	return none
}
