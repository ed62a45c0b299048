package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"millwright/services/internal/kube/kubetest"
)

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
		if diff := cmp.Diff(b, *kubetest.Patched(&a, patch)); diff != "" {
			t.Fatalf("a %v, b %v, patch %v: %s", a, b, patch, diff)
		}
		if len(mergeOf(b, b)) != 0 {
			t.Fatal("equal trees differ")
		}
	})
}
