package script

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	karpv1 "millwright/api/karpenter/v1"
)

// pair splits K=V.
func pair(text string) (key, value string) {
	key, value, _ = strings.Cut(text, "=")
	return key, value
}

// set puts K=V into a map, which it makes if there is none.
func set(m *map[string]string, text string) {
	if *m == nil {
		*m = map[string]string{}
	}
	k, v := pair(text)
	(*m)[k] = v
}

func (a *Args) number(text string) int {
	a.c.T.Helper()
	n, err := strconv.Atoi(text)
	a.c.Check(err)
	return n
}

// Duration of a text.
func (a *Args) Duration(text string) time.Duration {
	a.c.T.Helper()
	d, err := time.ParseDuration(text)
	a.c.Check(err)
	return d
}

func (a *Args) quantity(text string) resource.Quantity {
	a.c.T.Helper()
	q, err := resource.ParseQuantity(text)
	a.c.Check(err)
	return q
}

// taintOf reads K=V:Effect.
func taintOf(text string) corev1.Taint {
	kv, effect, _ := strings.Cut(text, ":")
	k, v := pair(kv)
	return corev1.Taint{Key: k, Value: v, Effect: corev1.TaintEffect(effect)}
}

// tolerationOf reads K, K=V:Effect or *.
func tolerationOf(text string) corev1.Toleration {
	kv, effect, _ := strings.Cut(text, ":")
	k, v, equal := strings.Cut(kv, "=")
	t := corev1.Toleration{Key: k, Value: v, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffect(effect)}
	if equal {
		t.Operator = corev1.TolerationOpEqual
	}
	if k == "*" {
		t.Key = ""
	}
	return t
}

// requirement reads OPERATOR [V,V] [min=N] after a key.
func (a *Args) requirement(key string) karpv1.NodeSelectorRequirementWithMinValues {
	a.c.T.Helper()
	r := karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOperator(a.Next())}
	if r.Operator != corev1.NodeSelectorOpExists && r.Operator != corev1.NodeSelectorOpDoesNotExist {
		r.Values = strings.Split(a.Next(), ",")
	}
	if len(a.words) > 0 && strings.HasPrefix(a.words[0], "min=") {
		n := a.number(strings.TrimPrefix(a.Next(), "min="))
		r.MinValues = &n
	}
	return r
}

func (a *Args) selectorRequirement(key string) corev1.NodeSelectorRequirement {
	a.c.T.Helper()
	r := a.requirement(key)
	return corev1.NodeSelectorRequirement{Key: r.Key, Operator: r.Operator, Values: r.Values}
}

// domain is the label that a word stands for.
func domain(word string) string {
	switch word {
	case "zone":
		return corev1.LabelTopologyZone
	case "host":
		return corev1.LabelHostname
	}
	return word
}

// Over lays a block of YAML over an object, and returns what came of it.
func Over[T any](c *Case, object *T, block []string) *T {
	c.T.Helper()
	if len(block) == 0 {
		return object
	}
	raw, err := json.Marshal(object)
	c.Check(err)
	var base, top map[string]any
	c.Check(json.Unmarshal(raw, &base))
	c.Check(yaml.UnmarshalStrict([]byte(strings.Join(block, "\n")), &top))
	merge(base, top)
	raw, err = json.Marshal(base)
	c.Check(err)
	out := new(T)
	c.Check(yaml.UnmarshalStrict(raw, out))
	return out
}

// merge lays a map over another: null takes away, maps are merged, all else is replaced.
func merge(base, top map[string]any) {
	for k, v := range top {
		below, isMap := v.(map[string]any)
		old, wasMap := base[k].(map[string]any)
		switch {
		case v == nil:
			delete(base, k)
		case isMap && wasMap:
			merge(old, below)
		case isMap:
			base[k] = withoutNull(below)
		default:
			base[k] = v
		}
	}
}

func withoutNull(m map[string]any) map[string]any {
	maps.DeleteFunc(m, func(_ string, v any) bool { return v == nil })
	return m
}
