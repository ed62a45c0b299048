package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"millwright/api/conversion"
)

// document is one YAML document.
type document struct {
	source string
	// raw is the text as it was, without separators; separator is the line before it, "" for the first of a
	// file.
	raw, separator string
	root           *yaml.Node
	tree           any
	items          []*item
}

// separator between documents: at the start of a line, and no block scalar can have it there.
var separator = regexp.MustCompile(`(?m)^---([ \t].*)?\r?$\n?`)

// split parses a file. A document of comments alone has no tree and passes as it is.
func split(s Source) ([]*document, error) {
	text := string(s.Data)
	var out []*document
	start, sep := 0, ""
	for n, loc := range append(separator.FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
		raw := text[start:loc[0]]
		if n > 0 || strings.TrimSpace(raw) != "" {
			out = append(out, &document{source: s.Name, raw: raw, separator: sep})
		}
		start, sep = loc[1], text[loc[0]:loc[1]]
	}
	for n, d := range out {
		if err := d.parse(); err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", s.Name, n+1, err)
		}
	}
	return out, nil
}

func (d *document) parse() error {
	node, in := &yaml.Node{}, yaml.NewDecoder(strings.NewReader(d.raw))
	if err := in.Decode(node); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("parse YAML: %w", err)
	}
	// What follows would be lost: a document after "...", or where lines end in carriage returns alone.
	if err := in.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return errors.New(`there is more than one document in it: put lines of "---" between them`)
	}
	if len(node.Content) == 0 {
		return nil
	}
	d.root = node
	tree, err := treeOf(node.Content[0], 0)
	d.tree = tree
	return err
}

const depthMax = 100

// treeOf is the JSON of a node. Aliases and merge keys are written out.
func treeOf(n *yaml.Node, depth int) (any, error) {
	if depth > depthMax {
		return nil, fmt.Errorf("line %d: nested deeper than %d levels", n.Line, depthMax)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return treeOf(n.Alias, depth+1)
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, c := range n.Content {
			v, err := treeOf(c, depth+1)
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
		return out, nil
	case yaml.MappingNode:
		return mappingOf(n, depth)
	}
	return scalarOf(n)
}

func mappingOf(n *yaml.Node, depth int) (any, error) {
	out := conversion.Object{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		v, err := treeOf(value, depth+1)
		if err != nil {
			return nil, err
		}
		if key.Tag == "!!merge" {
			merged, ok := v.(conversion.Object)
			if !ok {
				return nil, fmt.Errorf("line %d: merge of what is no mapping", key.Line)
			}
			for k, v := range merged {
				if _, has := out[k]; !has {
					out[k] = v
				}
			}
			continue
		}
		if key.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d: a key must be a scalar", key.Line)
		}
		out[key.Value] = v
	}
	return out, nil
}

func scalarOf(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		err := n.Decode(&b)
		return b, err
	case "!!int":
		var i int64
		if err := n.Decode(&i); err == nil {
			return i, nil
		}
		return n.Value, nil
	case "!!float":
		var f float64
		err := n.Decode(&f)
		return f, err
	}
	return n.Value, nil
}

// write puts the documents together again.
func (r *run) write(docs []*document) ([]byte, error) {
	var out bytes.Buffer
	for n, d := range docs {
		text := d.raw
		if len(d.items) > 0 {
			converted, err := d.render()
			if err != nil {
				return nil, fmt.Errorf("%s: write: %w", d.source, err)
			}
			text = converted
		} else if r.opts.Workloads && d.root != nil {
			text = r.rename(d)
		}
		switch {
		case d.separator != "":
			out.WriteString(d.separator)
		case n > 0:
			out.WriteString("---\n")
		}
		out.WriteString(text)
		if len(text) > 0 && !strings.HasSuffix(text, "\n") {
			out.WriteByte('\n')
		}
	}
	return out.Bytes(), nil
}

// render writes the converted objects of a document: onto the old nodes, so that comments stay.
func (d *document) render() (string, error) {
	indent, compact := style(d.root)
	for _, i := range d.items {
		old := d.root.Content[0]
		if i.old["apiVersion"] != d.tree.(conversion.Object)["apiVersion"] || len(d.items) > 1 || d.tree.(conversion.Object)["kind"] == "List" {
			old = d.nodeOf(i)
		}
		newApplier(old).apply(old, i.new)
	}
	text, err := encode(d.root, indent, compact)
	if err != nil {
		return "", err
	}
	for _, i := range d.items {
		for _, o := range i.extra {
			n := &yaml.Node{}
			fill(n, o)
			more, err := encode(n, indent, compact)
			if err != nil {
				return "", err
			}
			text += "---\n" + more
		}
	}
	return text, nil
}

// nodeOf finds the node of an object inside a List.
func (d *document) nodeOf(want *item) *yaml.Node {
	top := d.root.Content[0]
	list := child(top, "items")
	values := d.tree.(conversion.Object)["items"].([]any)
	for n, v := range values {
		if o, ok := v.(conversion.Object); ok && fmt.Sprintf("%p", o) == fmt.Sprintf("%p", want.old) && n < len(list.Content) {
			return list.Content[n]
		}
	}
	return top
}

func encode(n *yaml.Node, indent int, compact bool) (string, error) {
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(indent)
	if compact {
		enc.CompactSeqIndent()
	}
	if err := enc.Encode(n); err != nil {
		return "", err
	}
	if err := enc.Close(); err != nil {
		return "", err
	}
	return buf.String(), nil
}

// style guesses indentation from the first nested mapping, and whether lists start at the column of their
// key.
func style(n *yaml.Node) (indent int, compact bool) {
	indent, compact = 2, true
	seenList, seenMap := false, false
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		if n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle == 0 {
			for i := 0; i+1 < len(n.Content); i += 2 {
				k, v := n.Content[i], n.Content[i+1]
				switch {
				case v.Style&yaml.FlowStyle != 0 || v.Line == k.Line:
				case v.Kind == yaml.SequenceNode && !seenList:
					seenList, compact = true, v.Column == k.Column
				case v.Kind == yaml.MappingNode && !seenMap && v.Column-k.Column >= 2:
					seenMap, indent = true, v.Column-k.Column
				}
			}
		}
		for _, c := range n.Content {
			walk(c)
		}
	}
	walk(n)
	return indent, compact
}
