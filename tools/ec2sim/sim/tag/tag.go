// Package tag holds the tags of a resource over time, since Describe* calls return those of a moment ago.
package tag

import (
	"maps"
	"slices"
	"strings"
	"time"

	"millwright/tools/ec2sim/sim/wire"
)

// tagEvent is a tag being set or removed. Resources keep the events, so that a Describe* call can return the
// tags of a moment ago.
type tagEvent struct {
	Key     string    `json:"key"`
	Value   string    `json:"value,omitempty"`
	At      time.Time `json:"at"`
	Removed bool      `json:"removed,omitempty"`
}

// History is in order of time.
type History []tagEvent

// New is the history of tags set at one time.
func New(tags map[string]string, at time.Time) History {
	var h History
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		h = append(h, tagEvent{Key: key, Value: tags[key], At: at})
	}
	return h
}

// At returns the tags of a moment.
func (h History) At(t time.Time) map[string]string {
	out := map[string]string{}
	for _, e := range h {
		switch {
		case e.At.After(t):
			return out
		case e.Removed:
			delete(out, e.Key)
		default:
			out[e.Key] = e.Value
		}
	}
	return out
}

// XML is a tag on the wire.
type XML struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

// List puts tags on the wire, by key.
func List(tags map[string]string) []XML {
	var out []XML
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, XML{key, tags[key]})
	}
	return out
}

// Check applies EC2's rules to tags of a request.
func Check(p *wire.Params, path string) *wire.Error {
	seen := map[string]bool{}
	for _, n := range p.List(path) {
		key, value := n.Str("Key"), n.Str("Value")
		switch {
		case key == "":
			return wire.InvalidValue("Tag key cannot be empty.")
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			return wire.InvalidValue("Value ( %s ) for parameter key is invalid. Tag keys starting with 'aws:' are reserved for internal use", key)
		case len(key) > 128 || len(value) > 256:
			return wire.InvalidValue("Tag key or value exceeds the maximum length (128 and 256).")
		case seen[key]:
			return wire.InvalidValue("Duplicate tag key '%s' specified.", key)
		}
		seen[key] = true
	}
	if len(seen) > 50 {
		return wire.Refuse("TagLimitExceeded", "The maximum number of tags per resource is 50.")
	}
	return nil
}
