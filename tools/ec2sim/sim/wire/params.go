package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Params is a query-protocol request as a tree: "Filter.1.Value.2" becomes nested nodes. All methods work
// on nil, which is an absent parameter.
type Params struct {
	value string
	set   bool
	kids  map[string]*Params
}

func parseParams(form url.Values) *Params {
	root := &Params{}
	for key, values := range form {
		if len(values) == 0 {
			continue
		}
		n := root
		for part := range strings.SplitSeq(key, ".") {
			if n.kids == nil {
				n.kids = map[string]*Params{}
			}
			if n.kids[part] == nil {
				n.kids[part] = &Params{}
			}
			n = n.kids[part]
		}
		n.value, n.set = values[0], true
	}
	return root
}

// At descends a dotted path.
func (p *Params) At(path string) *Params {
	for part := range strings.SplitSeq(path, ".") {
		if p == nil {
			return nil
		}
		p = p.kids[part]
	}
	return p
}

// Str returns the value at a path, "" if there is none.
func (p *Params) Str(path string) string {
	if n := p.At(path); n != nil {
		return n.value
	}
	return ""
}

// Has reports whether there is a parameter at or below a path.
func (p *Params) Has(path string) bool { return p.At(path) != nil }

// Bool parses a boolean parameter; absent is false.
func (p *Params) Bool(path string) bool { return p.Str(path) == "true" }

// List returns the numbered children of a path, in order of their numbers.
func (p *Params) List(path string) []*Params {
	n := p.At(path)
	if n == nil {
		return nil
	}
	var numbers []int
	for key := range n.kids {
		if i, err := strconv.Atoi(key); err == nil {
			numbers = append(numbers, i)
		}
	}
	slices.Sort(numbers)
	out := make([]*Params, len(numbers))
	for i, number := range numbers {
		out[i] = n.kids[strconv.Itoa(number)]
	}
	return out
}

// Strs returns a list of plain values.
func (p *Params) Strs(path string) []string {
	var out []string
	for _, n := range p.List(path) {
		out = append(out, n.value)
	}
	return out
}

// Int parses an integer parameter; absent is the fallback.
func (p *Params) Int(path string, fallback int) (int, *Error) {
	text := p.Str(path)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, InvalidValue("Invalid value '%s' for %s. It must be an integer.", text, path)
	}
	return n, nil
}

// Time parses a timestamp parameter; absent is the zero time.
func (p *Params) Time(path string) (time.Time, *Error) {
	text := p.Str(path)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, InvalidValue("Invalid value '%s' for %s. It must be a timestamp.", text, path)
	}
	return at, nil
}

// Tags reads "Tag.1.Key" pairs below a node.
func (p *Params) Tags(path string) map[string]string {
	out := map[string]string{}
	for _, n := range p.List(path) {
		out[n.Str("Key")] = n.Str("Value")
	}
	return out
}

// TagSpecifications reads TagSpecification entries: tags by resource type.
func (p *Params) TagSpecifications() map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, n := range p.List("TagSpecification") {
		kind := n.Str("ResourceType")
		if out[kind] == nil {
			out[kind] = map[string]string{}
		}
		for k, v := range n.Tags("Tag") {
			out[kind][k] = v
		}
	}
	return out
}

// Digest identifies a request's parameters: equal bytes on the wire give equal digests. The token is left
// out, since it is what the digest is stored under.
func Digest(form url.Values) string {
	keys := make([]string, 0, len(form))
	for key := range form {
		if key != "ClientToken" {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	h := sha256.New()
	for _, key := range keys {
		h.Write([]byte(url.QueryEscape(key) + "=" + url.QueryEscape(form.Get(key)) + "&"))
	}
	return hex.EncodeToString(h.Sum(nil))
}
