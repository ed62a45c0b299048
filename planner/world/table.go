package world

import (
	"k8s.io/apimachinery/pkg/types"

	"millwright/events"
	"millwright/planner/version"
	wire "millwright/proto/checkpoint"
)

// folder is a table without its type.
type folder interface {
	fold(owner *version.Owner, o events.Observation, generation uint32)
	dropBelow(owner *version.Owner, generation uint32)
	sum() events.Sum
	// each calls fn with the rows by name as a checkpoint holds them; restore takes one back.
	each(kind events.Kind, generation uint32, fn func(object) error) error
	restore(owner *version.Owner, o *wire.Object, generation uint32) error
	// decode reads a table of a checkpoint of an earlier program.
	decode(owner *version.Owner, d *decoder, generation uint32) error
}

// table holds the objects of one kind by name. Rows are never changed, only replaced.
type table[T any] struct {
	rows  version.Table[string, *row[T], T]
	codec codec[T]
}

type row[T any] struct {
	value      T
	uid        types.UID
	version    string
	generation uint32
}

func newTable[T any](c codec[T]) table[T] {
	return table[T]{rows: version.NewTable[string](func(r *row[T]) (T, bool) { return r.value, true }), codec: c}
}

// fold of an upsert stores an object; for an object of another type or an unreadable one it drops the row,
// because what was known no longer holds.
func (t *table[T]) fold(owner *version.Owner, o events.Observation, generation uint32) {
	if v, ok := o.Object.(T); ok && o.Op == events.OpUpsert && !isNil(v) {
		t.put(owner, o.Name, v, o, generation)
		return
	}
	t.remove(owner, o.Name, o.UID)
}

func (t *table[T]) put(owner *version.Owner, name string, v T, o events.Observation, generation uint32) {
	t.rows.Set(owner, name, &row[T]{value: v, uid: o.UID, version: o.ResourceVersion, generation: generation})
}

// remove drops an object unless another one of the same name has replaced it.
func (t *table[T]) remove(owner *version.Owner, name string, uid types.UID) {
	r, ok := t.rows.Get(name)
	if !ok || uid != "" && r.uid != "" && uid != r.uid {
		return
	}
	t.rows.Delete(owner, name)
}

func (t *table[T]) dropBelow(owner *version.Owner, generation uint32) {
	for _, name := range t.rows.Keys() {
		if r, _ := t.rows.Get(name); r.generation < generation {
			t.rows.Delete(owner, name)
		}
	}
}

func (t *table[T]) get(name string) (v T) {
	if r, ok := t.rows.Get(name); ok {
		return r.value
	}
	return v
}

func (t *table[T]) list() []T { return t.rows.List() }
