package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// locate names the first value of a JSON object that its type does not take, as in spec.containers[1].name.
// Decoders that types bring along, such as that of quantities, do not say where they failed; so each value is
// tried alone, in an object that holds nothing else.
func locate(raw []byte, empty func() metav1.Object) string {
	path, _ := findRefused(raw, func(b []byte) bool { return json.Unmarshal(b, empty()) == nil })
	return path
}

// findRefused returns the path of the first value that taken refuses.
func findRefused(raw []byte, taken func([]byte) bool) (path string, found bool) {
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return "", false
	}
	return descend(v, "", func(v any) any { return v }, taken)
}

// descend looks below a value; wrap puts a value in its place into the object.
func descend(v any, path string, wrap func(any) any, taken func([]byte) bool) (string, bool) {
	b, err := json.Marshal(wrap(v))
	if err != nil || taken(b) {
		return "", false
	}
	refused := func(shape any) bool {
		b, err := json.Marshal(wrap(shape))
		return err != nil || !taken(b)
	}
	switch v := v.(type) {
	case map[string]any:
		if refused(map[string]any{}) {
			return path, true // no mapping may stand here
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			below := func(x any) any { return wrap(map[string]any{k: x}) }
			if p, found := descend(v[k], join(path, k), below, taken); found {
				return p, true
			}
		}
	case []any:
		if refused([]any{}) {
			return path, true
		}
		for i, x := range v {
			below := func(x any) any { return wrap([]any{x}) }
			if p, found := descend(x, fmt.Sprintf("%s[%d]", path, i), below, taken); found {
				return p, true
			}
		}
	}
	return path, true
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
