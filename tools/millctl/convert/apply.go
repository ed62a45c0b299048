package convert

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"millwright/api/conversion"
)

// moves are fields that another version has elsewhere: their comments move with them. Each pair works in
// both directions.
var moves = [][2]string{
	{"spec.disruption.expireAfter", "spec.template.spec.expireAfter"},
	{"spec.ttlSecondsUntilExpired", "spec.template.spec.expireAfter"},
	{"spec.ttlSecondsUntilExpired", "spec.disruption.expireAfter"},
	{"spec.ttlSecondsAfterEmpty", "spec.disruption.consolidateAfter"},
	{"spec.consolidation", "spec.disruption"},
	{"spec.deprovisioning", "spec.disruption"},
	{"spec.requirements", "spec.template.spec.requirements"},
	{"spec.taints", "spec.template.spec.taints"},
	{"spec.startupTaints", "spec.template.spec.startupTaints"},
	{"spec.labels", "spec.template.metadata.labels"},
	{"spec.annotations", "spec.template.metadata.annotations"},
	{"spec.limits.resources", "spec.limits"},
	{"spec.providerRef", "spec.template.spec.nodeClassRef"},
	{"spec.kubeletConfiguration", "spec.template.spec.kubelet"},
	{"spec.template.spec.kubeletConfiguration", "spec.template.spec.kubelet"},
	{"spec.template.spec.nodeTemplateRef", "spec.template.spec.nodeClassRef"},
	{"spec.machineTemplateRef", "spec.nodeClassRef"},
	{"spec.nodeTemplateRef", "spec.nodeClassRef"},
	{"spec.subnetSelector", "spec.subnetSelectorTerms"},
	{"spec.securityGroupSelector", "spec.securityGroupSelectorTerms"},
	{"spec.amiSelector", "spec.amiSelectorTerms"},
}

// entry is a key of a mapping with its value.
type entry struct{ key, value *yaml.Node }

// applier writes a tree onto nodes. It remembers where everything was.
type applier struct {
	was map[string]entry
}

func newApplier(root *yaml.Node) *applier {
	a := &applier{was: map[string]entry{}}
	a.index(root, "")
	return a
}

func (a *applier) index(n *yaml.Node, path string) {
	if n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		p := strings.TrimPrefix(path+"."+n.Content[i].Value, ".")
		a.was[p] = entry{n.Content[i], n.Content[i+1]}
		a.index(n.Content[i+1], p)
	}
}

// apply makes a node express v, keeping what already does.
func (a *applier) apply(n *yaml.Node, v any) { a.at(n, "", v) }

func (a *applier) at(n *yaml.Node, path string, v any) {
	if have, err := treeOf(n, 0); err == nil && reflect.DeepEqual(have, v) {
		return
	}
	m, isMap := v.(conversion.Object)
	list, isList := v.([]any)
	switch {
	case isMap && n.Kind == yaml.MappingNode && !hasMerge(n):
		a.mapping(n, path, m)
	case isList && n.Kind == yaml.SequenceNode:
		a.list(n, path, list)
	default:
		fill(n, v)
	}
}

func hasMerge(n *yaml.Node) bool {
	return slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return c.Tag == "!!merge" })
}

func (a *applier) mapping(n *yaml.Node, path string, m conversion.Object) {
	var content []*yaml.Node
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		v, stays := m[key.Value]
		if !stays || seen[key.Value] {
			continue
		}
		seen[key.Value] = true
		a.at(value, join(path, key.Value), v)
		content = append(content, key, value)
	}
	for _, key := range slices.SortedFunc(maps.Keys(m), inOrder) {
		if !seen[key] {
			content = append(content, a.added(join(path, key), key, m[key])...)
		}
	}
	n.Content = content
	if len(m) == 0 {
		n.Style = yaml.FlowStyle
	}
}

func join(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

// added is a new entry; if the field was elsewhere, with the comments and the style it had there.
func (a *applier) added(path, name string, v any) []*yaml.Node {
	key, value := &yaml.Node{Kind: yaml.ScalarNode, Value: name}, &yaml.Node{}
	for _, m := range moves {
		for _, from := range []string{m[0], m[1]} {
			old, ok := a.was[from]
			if !ok || from == path || m[0] != path && m[1] != path {
				continue
			}
			key.HeadComment, key.LineComment, key.FootComment = old.key.HeadComment, old.key.LineComment, old.key.FootComment
			copied := *old.value
			value = &copied
			a.at(value, path, v)
			return []*yaml.Node{key, value}
		}
	}
	fill(value, v)
	if m, isMap := v.(conversion.Object); isMap { // what is new may hold what was elsewhere
		*value = yaml.Node{Kind: yaml.MappingNode}
		a.mapping(value, path, m)
	}
	return []*yaml.Node{key, value}
}

// list keeps the nodes of items that are equal, and changes the others in place as long as the number stays.
func (a *applier) list(n *yaml.Node, path string, items []any) {
	if len(items) == len(n.Content) {
		for i, v := range items {
			a.at(n.Content[i], path+"["+strconv.Itoa(i)+"]", v)
		}
		return
	}
	old := n.Content
	n.Content = nil
	for _, v := range items {
		at := slices.IndexFunc(old, func(o *yaml.Node) bool {
			have, err := treeOf(o, 0)
			return err == nil && reflect.DeepEqual(have, v)
		})
		if at >= 0 {
			n.Content = append(n.Content, old[at])
			old = slices.Delete(slices.Clone(old), at, at+1)
			continue
		}
		fresh := &yaml.Node{}
		fill(fresh, v)
		n.Content = append(n.Content, fresh)
	}
}

// fill makes a node express v, keeping only its comments.
func fill(n *yaml.Node, v any) {
	head, line, foot := n.HeadComment, n.LineComment, n.FootComment
	fresh := yaml.Node{}
	switch v := v.(type) {
	case conversion.Object:
		fresh.Kind = yaml.MappingNode
		for _, key := range slices.SortedFunc(maps.Keys(v), inOrder) {
			value := &yaml.Node{}
			fill(value, v[key])
			name := &yaml.Node{}
			name.SetString(key)
			fresh.Content = append(fresh.Content, name, value)
		}
	case []any:
		fresh.Kind = yaml.SequenceNode
		for _, item := range v {
			value := &yaml.Node{}
			fill(value, item)
			fresh.Content = append(fresh.Content, value)
		}
	default:
		if err := fresh.Encode(v); err != nil {
			fresh.SetString(err.Error())
		}
	}
	if len(fresh.Content) == 0 && fresh.Kind != yaml.ScalarNode {
		fresh.Style = yaml.FlowStyle
	}
	fresh.HeadComment, fresh.LineComment, fresh.FootComment = head, line, foot
	*n = fresh
}

// first are the keys that people write before the others.
var first = []string{"apiVersion", "kind", "metadata", "name", "spec", "template", "group", "key", "operator", "values"}

// inOrder sorts keys as people write them.
func inOrder(a, b string) int {
	x, y := slices.Index(first, a), slices.Index(first, b)
	switch {
	case x >= 0 && y >= 0:
		return x - y
	case x >= 0:
		return -1
	case y >= 0:
		return 1
	}
	return strings.Compare(a, b)
}
