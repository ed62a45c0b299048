package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"millwright/api/reading"
)

// refused is a value that its type does not take: where it is, as in spec.containers[1].name, and why.
type refused struct {
	path string
	err  error
}

// decodeWhole decodes a JSON object, or says which value its type does not take first. It parses no quantity
// for hours: no API server has seen these.
func decodeWhole(raw []byte, into any, empty func() any) *refused {
	safe := reading.WithNoQuantity(raw)
	if len(safe) != len(raw) || !bytes.Equal(safe, raw) {
		if r := findRefused(safe, func(b []byte) error { return json.Unmarshal(b, empty()) }); r != nil {
			return r
		}
	}
	err := json.Unmarshal(raw, into)
	if err == nil {
		return nil
	}
	if r := findRefused(raw, func(b []byte) error { return json.Unmarshal(b, empty()) }); r != nil {
		return r
	}
	return &refused{err: err}
}

// findRefused returns the first value that take refuses; nil if it refuses none. Decoders that types bring
// along, such as that of quantities, do not say where they failed; so each value is tried alone, in an object
// that holds nothing else.
func findRefused(raw []byte, take func([]byte) error) *refused {
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return nil
	}
	return descend(v, "", func(v any) any { return v }, take)
}

// descend looks below a value; wrap puts a value in its place into the object.
func descend(v any, path string, wrap func(any) any, take func([]byte) error) *refused {
	try := func(v any) error {
		b, err := json.Marshal(wrap(v))
		if err != nil {
			return err
		}
		return take(b)
	}
	err := try(v)
	if err == nil {
		return nil
	}
	here := &refused{path, err}
	switch v := v.(type) {
	case map[string]any:
		if try(map[string]any{}) != nil {
			return here // no mapping may stand here
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			below := func(x any) any { return wrap(map[string]any{k: x}) }
			if r := descend(v[k], join(path, k), below, take); r != nil {
				return r
			}
		}
	case []any:
		if try([]any{}) != nil {
			return here
		}
		for i, x := range v {
			below := func(x any) any { return wrap([]any{x}) }
			if r := descend(x, fmt.Sprintf("%s[%d]", path, i), below, take); r != nil {
				return r
			}
		}
	case string:
		if v == reading.NoQuantity {
			here.err = errQuantity
		}
	}
	return here
}

var errQuantity = errors.New("is a number that takes too long to read: they may have at most 256 characters, and exponents of at most 3 digits")

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
