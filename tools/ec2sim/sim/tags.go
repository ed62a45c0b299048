package sim

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// tagEvent is a tag being set or removed. Resources keep the events, so that a Describe* call can tell the
// tags of a moment ago.
type tagEvent struct {
	Key     string    `json:"key"`
	Value   string    `json:"value,omitempty"`
	At      time.Time `json:"at"`
	Removed bool      `json:"removed,omitempty"`
}

// tagHistory is in order of time.
type tagHistory []tagEvent

func newTags(tags map[string]string, at time.Time) tagHistory {
	var h tagHistory
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		h = append(h, tagEvent{Key: key, Value: tags[key], At: at})
	}
	return h
}

func (h tagHistory) at(t time.Time) map[string]string {
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

type xmlTag struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

func xmlTags(tags map[string]string) []xmlTag {
	var out []xmlTag
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, xmlTag{key, tags[key]})
	}
	return out
}

// checkTags applies EC2's rules to tags of a request.
func checkTags(p *params, path string) *Error {
	seen := map[string]bool{}
	for _, n := range p.list(path) {
		key, value := n.str("Key"), n.str("Value")
		switch {
		case key == "":
			return invalidValue("Tag key cannot be empty.")
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			return invalidValue("Value ( %s ) for parameter key is invalid. Tag keys starting with 'aws:' are reserved for internal use", key)
		case len(key) > 128 || len(value) > 256:
			return invalidValue("Tag key or value exceeds the maximum length (128 and 256).")
		case seen[key]:
			return invalidValue("Duplicate tag key '%s' specified.", key)
		}
		seen[key] = true
	}
	if len(seen) > 50 {
		return refuse("TagLimitExceeded", "The maximum number of tags per resource is 50.")
	}
	return nil
}

// createTags sets tags on instances, launch templates and their parts.
func createTags(s *Server, c *call) (any, error) {
	return s.changeTags(c, false)
}

func deleteTags(s *Server, c *call) (any, error) {
	return s.changeTags(c, true)
}

type emptyAnswer struct {
	Return bool `xml:"return"`
}

func (s *Server) changeTags(c *call, remove bool) (any, error) {
	ids := c.params.strs("ResourceId")
	if len(ids) == 0 {
		return nil, missingParameter("ResourceId")
	}
	if !remove && len(c.params.list("Tag")) == 0 {
		return nil, missingParameter("Tag")
	}
	if err := checkTags(c.params, "Tag"); err != nil {
		return nil, err
	}
	for _, id := range ids {
		if err := s.taggable(id); err != nil {
			return nil, err
		}
	}
	if c.params.bool("DryRun") {
		return nil, dryRun()
	}
	for _, id := range ids {
		s.applyTags(id, c.params.tags("Tag"), remove)
	}
	return emptyAnswer{true}, nil
}

// taggable finds the resource or refuses with its kind's not-found code.
func (s *Server) taggable(id string) *Error {
	switch {
	case strings.HasPrefix(id, "i-"):
		if s.instances.get(id) == nil {
			return unknownInstances([]string{id})
		}
	case strings.HasPrefix(id, "lt-"):
		if s.templates[id] == nil {
			return unknownTemplateID(id)
		}
	case s.instances.partOf(id) == nil:
		return refuse("InvalidID", "The ID '%s' is not valid", id)
	}
	return nil
}

func (s *Server) applyTags(id string, tags map[string]string, remove bool) {
	now := s.now()
	var events tagHistory
	for _, e := range newTags(tags, now) {
		e.Removed = remove
		events = append(events, e)
	}
	if t := s.templates[id]; t != nil {
		t.Tags = append(t.Tags, events...)
		s.keepTemplate(t)
		return
	}
	in := s.instances.get(id)
	if in != nil {
		in.Tags = append(in.Tags, events...)
	} else {
		in = s.instances.partOf(id)
		in.PartTags[id] = append(in.PartTags[id], events...)
	}
	s.keepInstance(in)
}
