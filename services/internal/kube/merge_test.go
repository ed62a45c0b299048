package kube

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// applied is RFC 7386, MergePatch.
func applied(target, patch map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range target {
		out[k] = v
	}
	for k, v := range patch {
		if v == nil {
			delete(out, k)
			continue
		}
		p, isMap := v.(map[string]any)
		if !isMap {
			out[k] = v
			continue
		}
		have, _ := out[k].(map[string]any)
		out[k] = applied(have, p)
	}
	return out
}

// drawTree draws a JSON object without nulls: objects never hold any once decoded from a typed value.
func drawTree(t *rapid.T, depth int) map[string]any {
	m := map[string]any{}
	for range rapid.IntRange(0, 4).Draw(t, "size") {
		key := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key")
		switch kind := rapid.IntRange(0, 2).Draw(t, "kind"); {
		case kind == 0 && depth > 0:
			m[key] = drawTree(t, depth-1)
		case kind == 1:
			m[key] = []any{rapid.SampledFrom([]string{"x", "y"}).Draw(t, "item")}
		default:
			m[key] = rapid.SampledFrom([]string{"1", "2"}).Draw(t, "value")
		}
	}
	return m
}

func TestMergeOfTurnsOneIntoTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawTree(t, 3), drawTree(t, 3)
		patch := mergeOf(a, b)
		data, err := json.Marshal(patch) // it has to survive the wire
		if err != nil {
			t.Fatal(err)
		}
		var sent map[string]any
		if err := json.Unmarshal(data, &sent); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(b, applied(a, sent)); diff != "" {
			t.Fatalf("a %v, b %v, patch %s: %s", a, b, data, diff)
		}
		if len(mergeOf(b, b)) != 0 {
			t.Fatal("equal trees differ")
		}
	})
}
