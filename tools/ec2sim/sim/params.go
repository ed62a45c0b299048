package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// params is a query-protocol request as a tree: "Filter.1.Value.2" becomes nested nodes. All methods work
// on nil, which is an absent parameter.
type params struct {
	value string
	set   bool
	kids  map[string]*params
}

func parseParams(form url.Values) *params {
	root := &params{}
	for key, values := range form {
		if len(values) == 0 {
			continue
		}
		n := root
		for part := range strings.SplitSeq(key, ".") {
			if n.kids == nil {
				n.kids = map[string]*params{}
			}
			if n.kids[part] == nil {
				n.kids[part] = &params{}
			}
			n = n.kids[part]
		}
		n.value, n.set = values[0], true
	}
	return root
}

// at descends a dotted path.
func (p *params) at(path string) *params {
	for part := range strings.SplitSeq(path, ".") {
		if p == nil {
			return nil
		}
		p = p.kids[part]
	}
	return p
}

// str returns the value at a path, "" if there is none.
func (p *params) str(path string) string {
	if n := p.at(path); n != nil {
		return n.value
	}
	return ""
}

func (p *params) has(path string) bool { return p.at(path) != nil }

func (p *params) bool(path string) bool { return p.str(path) == "true" }

// list returns the numbered children of a path, in order of their numbers.
func (p *params) list(path string) []*params {
	n := p.at(path)
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
	out := make([]*params, len(numbers))
	for i, number := range numbers {
		out[i] = n.kids[strconv.Itoa(number)]
	}
	return out
}

// strs returns a list of plain values.
func (p *params) strs(path string) []string {
	var out []string
	for _, n := range p.list(path) {
		out = append(out, n.value)
	}
	return out
}

// int parses an integer parameter; absent is the fallback.
func (p *params) int(path string, fallback int) (int, *Error) {
	text := p.str(path)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, invalidValue("Invalid value '%s' for %s. It must be an integer.", text, path)
	}
	return n, nil
}

// time parses a timestamp parameter; absent is the zero time.
func (p *params) time(path string) (time.Time, *Error) {
	text := p.str(path)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, invalidValue("Invalid value '%s' for %s. It must be a timestamp.", text, path)
	}
	return at, nil
}

// tags reads "Tag.1.Key" pairs below a node.
func (p *params) tags(path string) map[string]string {
	out := map[string]string{}
	for _, n := range p.list(path) {
		out[n.str("Key")] = n.str("Value")
	}
	return out
}

// tagSpecifications reads TagSpecification entries: tags by resource type.
func (p *params) tagSpecifications() map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, n := range p.list("TagSpecification") {
		kind := n.str("ResourceType")
		if out[kind] == nil {
			out[kind] = map[string]string{}
		}
		for k, v := range n.tags("Tag") {
			out[kind][k] = v
		}
	}
	return out
}

// digest identifies a request's parameters: equal bytes on the wire give equal digests. The token is left
// out, since it is what the digest is stored under.
func digest(form url.Values) string {
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
