package migrate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"millwright/api/conversion"
)

// Finding is one thing to clean.
type Finding struct {
	// Object is kind and name, Field the field of it, Problem what is wrong and what to do.
	Object  string `json:"object"`
	Field   string `json:"field"`
	Problem string `json:"problem"`
	// Blocking findings break something once v1beta1 is gone; the others are untidy only.
	Blocking bool `json:"blocking"`
}

func (f Finding) String() string {
	severity := "must"
	if !f.Blocking {
		severity = "may"
	}
	return fmt.Sprintf("%-4s  %s: %s: %s", severity, f.Object, f.Field, f.Problem)
}

// Definition is the part of a CRD that matters here.
type Definition struct {
	Name           string
	StoredVersions []string
	// Storage is the version that is written now.
	Storage string
}

// Cluster is what was read: objects at v1.
type Cluster struct {
	Definitions []Definition
	Objects     []conversion.Object
}

// Inspect returns what must and what may be cleaned, blocking findings first.
func Inspect(c Cluster) []Finding {
	var out []Finding
	for _, d := range c.Definitions {
		out = append(out, definition(d)...)
	}
	for _, o := range c.Objects {
		out = append(out, object(o)...)
	}
	out = append(out, shared(c.Objects)...)
	slices.SortStableFunc(out, func(a, b Finding) int {
		if a.Blocking != b.Blocking {
			if a.Blocking {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Field, b.Field))
	})
	return out
}

func definition(d Definition) []Finding {
	name := "CustomResourceDefinition " + d.Name
	if d.Storage != conversion.V1 {
		return []Finding{{name, "spec.versions", d.Storage + " is the storage version: install CRDs that store v1", true}}
	}
	if i := slices.IndexFunc(d.StoredVersions, func(v string) bool { return v != conversion.V1 }); i >= 0 {
		return []Finding{{name, "status.storedVersions", fmt.Sprintf("has %s: write every object once at v1, then set it to [v1]", d.StoredVersions[i]), true}}
	}
	return nil
}

// texts say what each annotation means once v1beta1 is gone.
var texts = map[string]struct {
	problem  string
	blocking bool
}{
	conversion.KubeletAnnotation:            {"v1 does not read it: move the kubelet block to spec.kubelet of the EC2NodeClass, then remove the annotation", true},
	conversion.UbuntuAnnotation:             {"v1 has no family Ubuntu: give the class terms and volumes of its own, then remove the annotation", true},
	conversion.ConsolidateAfterAnnotation:   {"consolidation was off in v1beta1 and is on in v1: set spec.disruption.consolidateAfter, then remove the annotation", true},
	conversion.NodeClassReferenceAnnotation: {"is of no use without v1beta1: remove the annotation", false},
	conversion.AliasVersionAnnotation:       {"is of no use without v1beta1: remove the annotation", false},
}

func object(o conversion.Object) []Finding {
	var out []Finding
	name := conversion.Name(o)
	for _, key := range conversion.CompatibilityAnnotations() {
		if _, has := annotation(o, key); !has {
			continue
		}
		t := texts[key]
		// NodeClaims cannot be edited and go with their nodes: nothing reads what they carry.
		out = append(out, Finding{name, "metadata.annotations[" + key + "]", t.problem, t.blocking && o["kind"] != "NodeClaim"})
	}
	for _, path := range [][]string{{"spec", "template", "spec", "nodeClassRef"}, {"spec", "nodeClassRef"}} {
		ref, ok := conversion.Field(o, path...).(conversion.Object)
		for _, key := range []string{"group", "kind"} {
			if text, _ := ref[key].(string); ok && text == "" {
				out = append(out, Finding{name, strings.Join(path, ".") + "." + key, "is empty: fill it in", true})
			}
		}
	}
	return out
}

// shared finds classes whose NodePools have different kubelet blocks: v1 has one block per class.
func shared(objects []conversion.Object) []Finding {
	pools := map[string][]conversion.Object{}
	for _, o := range objects {
		if name, ok := conversion.Field(o, "spec", "template", "spec", "nodeClassRef", "name").(string); ok {
			pools[name] = append(pools[name], o)
		}
	}
	var out []Finding
	for _, o := range objects {
		name, _ := conversion.Field(o, "metadata", "name").(string)
		of := pools[name]
		if o["kind"] != "EC2NodeClass" || !slices.ContainsFunc(of, func(p conversion.Object) bool { return !reflect.DeepEqual(kubelet(p), kubelet(of[0])) }) {
			continue
		}
		var names []string
		for _, p := range of {
			names = append(names, strings.TrimPrefix(conversion.Name(p), "NodePool "))
		}
		slices.Sort(names)
		out = append(out, Finding{conversion.Name(o), "spec.kubelet", fmt.Sprintf("the NodePools %s share this class and have different kubelet blocks: give each block its own class",
			strings.Join(names, ", ")), true})
	}
	return out
}

// kubelet is the block of a NodePool's annotation; nil if it has none.
func kubelet(pool conversion.Object) any {
	text, ok := annotation(pool, conversion.KubeletAnnotation)
	if !ok {
		return nil
	}
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	return v
}

func annotation(o conversion.Object, key string) (string, bool) {
	text, ok := conversion.Field(o, "metadata", "annotations", key).(string)
	return text, ok
}
