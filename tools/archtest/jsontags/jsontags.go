// Package jsontags finds the fields of persisted types that name their JSON key only by their Go name:
// whoever renames such a field changes what is stored, and makes what was stored unreadable.
//
// It is for tests. It walks pointers, slices, maps and structs of this module; types of other modules, and
// those that encode themselves, answer for their own form.
package jsontags

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// Missing lists the exported fields without a key in a json tag, as Type.Field, sorted: of the types of the
// values, and of all types that these are made of.
func Missing(values ...any) []string {
	w := walk{seen: map[reflect.Type]bool{}}
	for _, v := range values {
		w.visit(reflect.TypeOf(v))
	}
	slices.Sort(w.missing)
	return w.missing
}

type walk struct {
	seen    map[reflect.Type]bool
	missing []string
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// encodesItself reports that a type, or a pointer to it, has a method that encodes it.
func encodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(jsonMarshaler) || p.Implements(textMarshaler)
}

func (w *walk) visit(t reflect.Type) {
	if t == nil || w.seen[t] {
		return
	}
	w.seen[t] = true
	if t.Name() != "" && encodesItself(t) {
		return
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		w.visit(t.Elem())
	case reflect.Map:
		w.visit(t.Key())
		w.visit(t.Elem())
	case reflect.Struct:
		if t.PkgPath() == "" || strings.HasPrefix(t.PkgPath(), "millwright/") {
			w.fields(t)
		}
	}
}

func (w *walk) fields(t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		key, options, _ := strings.Cut(tag, ",")
		embedded := f.Anonymous && key == "" // its fields stand among those of t
		switch {
		case tag == "-" || !f.IsExported() && !embedded:
			continue
		case key == "" && !embedded && options != "inline":
			w.missing = append(w.missing, t.String()+"."+f.Name)
		}
		w.visit(f.Type)
	}
}
