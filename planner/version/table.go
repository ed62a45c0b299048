package version

import (
	"cmp"
	"iter"
	"slices"
	"sync/atomic"
)

// Table is a Map that can also be listed by key. A list is made when first asked for and kept as long as
// nothing changes; after a few changes the next one is derived from it. Versions share lists. Create one with
// NewTable or NewTableFunc.
type Table[K comparable, R, V any] struct {
	rows    Map[K, R]
	compare func(a, b K) int
	view    func(R) (V, bool)
	// list is nil as long as the Table is empty.
	list *list[K, V]
}

// list is the content of a version in order, or how to compute it.
type list[K comparable, V any] struct {
	owner *Owner
	// base is the content at an earlier time, nil if there is none; changed are the keys that may have
	// changed since.
	base    *run[K, V]
	changed []K
	// made is the content, nil until somebody asked.
	made atomic.Pointer[run[K, V]]
}

// run is sorted by key; both slices are equally long.
type run[K comparable, V any] struct {
	keys   []K
	values []V
}

// NewTable returns an empty Table with texts as keys. view says what List shows for a row, and whether it
// shows it at all.
func NewTable[K ~string, R, V any](view func(R) (V, bool)) Table[K, R, V] {
	return NewTableFunc(String[K], cmp.Compare[K], view)
}

// NewTableFunc returns an empty Table with any keys.
func NewTableFunc[K comparable, R, V any](hash func(K) uint64, compare func(a, b K) int, view func(R) (V, bool)) Table[K, R, V] {
	return Table[K, R, V]{rows: NewMap[K, R](hash), compare: compare, view: view}
}

// Whole is the view of a Table that lists its rows as they are.
func Whole[R any](r R) (R, bool) { return r, true }

// Len is the number of rows.
func (t *Table[K, R, V]) Len() int { return t.rows.n }

// Get returns the row of a key; false if there is none.
func (t *Table[K, R, V]) Get(k K) (R, bool) { return t.rows.Get(k) }

// All returns the rows in no particular order.
func (t *Table[K, R, V]) All() iter.Seq2[K, R] { return t.rows.All() }

// Keys returns the keys of all rows in order.
func (t *Table[K, R, V]) Keys() []K {
	keys := make([]K, 0, t.rows.n)
	for k := range t.rows.All() {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, t.compare)
	return keys
}

// Set gives a key a row.
func (t *Table[K, R, V]) Set(o *Owner, k K, r R) {
	t.rows.Set(o, k, r)
	t.noteChanged(o, k)
}

// SetUnlisted gives a key a row for which List shows the same as for the one before.
func (t *Table[K, R, V]) SetUnlisted(o *Owner, k K, r R) { t.rows.Set(o, k, r) }

// Delete drops a row.
func (t *Table[K, R, V]) Delete(o *Owner, k K) {
	t.rows.Delete(o, k)
	t.noteChanged(o, k)
}

// List returns what is shown of the rows, by key. The caller must not change it.
func (t *Table[K, R, V]) List() []V {
	l := t.list
	if l == nil {
		return []V{}
	}
	made := l.made.Load()
	if made == nil {
		made = t.make(l)
		l.made.Store(made)
	}
	return made.values
}

// noteChanged notes that a key changed.
func (t *Table[K, R, V]) noteChanged(o *Owner, k K) {
	l := t.list
	switch {
	case l == nil:
		l = &list[K, V]{owner: o}
	case l.made.Load() != nil:
		l = &list[K, V]{owner: o, base: l.made.Load()}
	case l.owner != o:
		l = &list[K, V]{owner: o, base: l.base, changed: slices.Clip(l.changed)}
	}
	t.list = l
	if l.base == nil {
		return
	}
	l.changed = append(l.changed, k)
	if len(l.changed) > changedMin+len(l.base.keys)/changedPart {
		l.base, l.changed = nil, nil
	}
}

// After changes to more than changedMin keys and to one in changedPart of a list's keys, the next list is
// made from the rows.
const (
	changedMin  = 16
	changedPart = 8
)

func (t *Table[K, R, V]) make(l *list[K, V]) *run[K, V] {
	if l.base == nil {
		return t.sorted()
	}
	changed := slices.Clone(l.changed)
	slices.SortFunc(changed, t.compare)
	room := len(l.base.keys) + len(changed)
	next := &run[K, V]{keys: make([]K, 0, room), values: make([]V, 0, room)}
	from := 0
	for _, k := range slices.Compact(changed) {
		n, found := slices.BinarySearchFunc(l.base.keys[from:], k, t.compare)
		next.keys = append(next.keys, l.base.keys[from:from+n]...)
		next.values = append(next.values, l.base.values[from:from+n]...)
		if from += n; found {
			from++
		}
		t.appendShown(next, k)
	}
	next.keys = append(next.keys, l.base.keys[from:]...)
	next.values = append(next.values, l.base.values[from:]...)
	if slices.Equal(next.keys, l.base.keys) { // the usual case: objects change, none is added or removed
		next.keys = l.base.keys
	}
	return next
}

func (t *Table[K, R, V]) sorted() *run[K, V] {
	keys := t.Keys()
	next := &run[K, V]{keys: make([]K, 0, len(keys)), values: make([]V, 0, len(keys))}
	for _, k := range keys {
		t.appendShown(next, k)
	}
	return next
}

// appendShown adds a key's row to the end of a list, if it is to be shown.
func (t *Table[K, R, V]) appendShown(list *run[K, V], k K) {
	r, ok := t.rows.Get(k)
	if !ok {
		return
	}
	if v, shown := t.view(r); shown {
		list.keys, list.values = append(list.keys, k), append(list.values, v)
	}
}
