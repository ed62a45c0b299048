package convert

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"millwright/api/conversion"
)

// renames of labels, annotations and taints (reference: api §6).
var renames = map[string]string{
	"karpenter.sh/provisioner-name":       "karpenter.sh/nodepool",
	"karpenter.sh/provisioner-hash":       "karpenter.sh/nodepool-hash",
	"karpenter.k8s.aws/nodetemplate-hash": "karpenter.k8s.aws/ec2nodeclass-hash",
	"karpenter.sh/do-not-evict":           "karpenter.sh/do-not-disrupt",
	"karpenter.sh/do-not-consolidate":     "karpenter.sh/do-not-disrupt",
	"karpenter.sh/disruption":             "karpenter.sh/disrupted",
}

// renamed returns the present name of a label, annotation or taint.
func renamed(name string) (string, bool) {
	if to, ok := renames[name]; ok {
		return to, true
	}
	if rest, ok := strings.CutPrefix(name, "compute.k8s.aws/"); ok && !strings.HasPrefix(rest, "v1") {
		return "karpenter.k8s.aws/" + rest, true
	}
	return name, false
}

// renameMeta renames in labels, annotations and requirements of an object of ours.
func renameMeta(o conversion.Object) {
	for _, path := range [][]string{{"metadata", "labels"}, {"metadata", "annotations"},
		{"spec", "template", "metadata", "labels"}, {"spec", "template", "metadata", "annotations"}} {
		if m, ok := conversion.Field(o, path...).(conversion.Object); ok {
			for _, name := range slices.Sorted(maps.Keys(m)) {
				if to, is := renamed(name); is {
					if _, both := m[to]; !both {
						m[to] = m[name]
					}
					delete(m, name)
				}
			}
		}
	}
	for _, path := range [][]string{{"spec", "requirements"}, {"spec", "template", "spec", "requirements"}} {
		list, _ := conversion.Field(o, path...).([]any)
		for _, v := range list {
			if m, ok := v.(conversion.Object); ok {
				if name, ok := m["key"].(string); ok {
					m["key"], _ = renamed(name)
				}
			}
		}
	}
}

// place is a name in the text of a document.
type place struct {
	line, column int
	from, to     string
}

// rename changes names of earlier versions in the text of a document, and nothing else.
func (r *run) rename(d *document) string {
	var places []place
	o, _ := d.tree.(conversion.Object)
	r.findPlaces(&item{source: d.source, old: o}, d.root, &places)
	lines := strings.SplitAfter(d.raw, "\n")
	for n := len(places) - 1; n >= 0; n-- { // from the end: columns before stay true
		p := places[n]
		if p.line > len(lines) {
			continue
		}
		runes := []rune(lines[p.line-1])
		if p.column > len(runes) {
			continue
		}
		before, after := string(runes[:p.column-1]), string(runes[p.column-1:])
		lines[p.line-1] = before + strings.Replace(after, p.from, p.to, 1)
	}
	return strings.Join(lines, "")
}

// findPlaces collects keys of mappings, and values under key and topologyKey, that are old names.
func (r *run) findPlaces(i *item, n *yaml.Node, places *[]place) {
	if n.Kind != yaml.MappingNode {
		for _, c := range n.Content {
			r.findPlaces(i, c, places)
		}
		return
	}
	for k := 0; k+1 < len(n.Content); k += 2 {
		name, value := n.Content[k], n.Content[k+1]
		if to, is := renamed(name.Value); is {
			if child(n, to) != nil {
				r.addNote(i, name.Value, "stands beside %s: remove it", to)
			} else {
				*places = append(*places, place{name.Line, name.Column, name.Value, to})
			}
		}
		if to, is := renamed(value.Value); is && value.Kind == yaml.ScalarNode && (name.Value == "key" || name.Value == "topologyKey") {
			*places = append(*places, place{value.Line, value.Column, value.Value, to})
			if op := child(n, "operator"); op != nil && op.Value == "DoesNotExist" {
				r.addNote(i, value.Value, "with DoesNotExist: while nodes of both versions run, the pod needs both this and %s", to)
			}
		}
		r.findPlaces(i, value, places)
	}
}

// child returns the value of a key; nil if there is none.
func child(n *yaml.Node, name string) *yaml.Node {
	for k := 0; k+1 < len(n.Content); k += 2 {
		if n.Content[k].Value == name {
			return n.Content[k+1]
		}
	}
	return nil
}
