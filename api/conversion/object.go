package conversion

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Object is decoded JSON. Whole numbers are int64, others json.Number or float64.
type Object = map[string]any

// Field returns what stands at a path in an object, shared; nil if there is nothing.
func Field(o Object, path ...string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(o, path...)
	return v
}

// node is an Object with its path, for errors that name the field.
type node struct {
	path   string
	fields Object
}

// FieldError names the field an object cannot be converted for.
type FieldError struct {
	Path, Problem string
}

func (e *FieldError) Error() string { return e.Path + ": " + e.Problem }

func (n node) at(key string) string {
	if n.path == "" {
		return key
	}
	return n.path + "." + key
}

func (n node) fault(key, format string, args ...any) error {
	return &FieldError{n.at(key), fmt.Sprintf(format, args...)}
}

// child returns the object under a key; ok is false if it is absent or null.
func (n node) child(key string) (c node, ok bool, err error) {
	v := n.fields[key]
	if v == nil {
		return node{path: n.at(key)}, false, nil
	}
	m, isMap := v.(Object)
	if !isMap {
		return node{}, false, n.fault(key, "must be an object, is %s", kindOf(v))
	}
	return node{n.at(key), m}, true, nil
}

// required is child, but absence is an error.
func (n node) required(key string) (node, error) {
	c, ok, err := n.child(key)
	if err == nil && !ok {
		err = n.fault(key, "is required")
	}
	return c, err
}

// ensure is child, and makes an empty object where there is none.
func (n node) ensure(key string) (node, error) {
	c, ok, err := n.child(key)
	if err == nil && !ok {
		c.fields = Object{}
		n.fields[key] = c.fields
	}
	return c, err
}

// text returns the string under a key; "" if it is absent or null.
func (n node) text(key string) (string, error) {
	v := n.fields[key]
	if v == nil {
		return "", nil
	}
	s, ok := v.(string)
	if !ok {
		return "", n.fault(key, "must be a string, is %s", kindOf(v))
	}
	return s, nil
}

// list returns the objects of the list under a key; null counts as an empty one.
func (n node) list(key string) ([]node, error) {
	v := n.fields[key]
	if v == nil {
		return nil, nil
	}
	items, ok := v.([]any)
	if !ok {
		return nil, n.fault(key, "must be a list, is %s", kindOf(v))
	}
	out := make([]node, len(items))
	for i, item := range items {
		path := n.at(key) + "[" + strconv.Itoa(i) + "]"
		m, ok := item.(Object)
		if !ok && item != nil {
			return nil, &FieldError{path, "must be an object, is " + kindOf(item)}
		}
		out[i] = node{path, m}
	}
	return out, nil
}

// move takes the value under a key of one object to a key of another; nothing if there is none.
func move(from node, fromKey string, to node, toKey string) {
	if v, ok := from.fields[fromKey]; ok {
		delete(from.fields, fromKey)
		to.fields[toKey] = v
	}
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case int64, float64, json.Number:
		return "a number"
	case []any:
		return "a list"
	}
	return "an object"
}

// clone copies a value deeply.
func clone(v any) any {
	switch v := v.(type) {
	case Object:
		out := make(Object, len(v))
		for k := range v {
			out[k] = clone(v[k])
		}
		return out
	case []any:
		if v == nil {
			return v
		}
		out := make([]any, len(v))
		for i := range v {
			out[i] = clone(v[i])
		}
		return out
	}
	return v
}

// annotations of an object while it is converted: an empty map is never left behind where there was none.
type annotations struct {
	meta      node
	keepEmpty bool
	m         Object
}

func annotationsOf(root node) (*annotations, error) {
	meta, err := root.required("metadata")
	if err != nil {
		return nil, err
	}
	a, ok, err := meta.child("annotations")
	if err != nil {
		return nil, err
	}
	for _, k := range slices.Sorted(maps.Keys(a.fields)) {
		if _, isText := a.fields[k].(string); !isText {
			return nil, &FieldError{a.path + "[" + k + "]", "must be a string, is " + kindOf(a.fields[k])}
		}
	}
	if !ok {
		a.fields = Object{}
	}
	return &annotations{meta: meta, keepEmpty: ok && len(a.fields) == 0, m: a.fields}, nil
}

func (a *annotations) path(key string) string { return "metadata.annotations[" + key + "]" }

func (a *annotations) get(key string) (string, bool) {
	s, ok := a.m[key].(string)
	return s, ok
}

func (a *annotations) set(key, value string) { a.m[key] = value }

// take returns an annotation and removes it.
func (a *annotations) take(key string) (string, bool) {
	s, ok := a.get(key)
	delete(a.m, key)
	return s, ok
}

func (a *annotations) store() {
	if len(a.m) == 0 && !a.keepEmpty {
		delete(a.meta.fields, "annotations")
		return
	}
	a.meta.fields["annotations"] = a.m
}
