package instance

import (
	"strings"

	"millwright/tools/ec2sim/sim/tag"
	"millwright/tools/ec2sim/sim/template"
	"millwright/tools/ec2sim/sim/wire"
)

// CreateTags sets tags on instances, launch templates and their parts.
func (s *Service) CreateTags(c *wire.Call) (any, error) {
	return s.changeTags(c, false)
}

func (s *Service) DeleteTags(c *wire.Call) (any, error) {
	return s.changeTags(c, true)
}

type emptyAnswer struct {
	Return bool `xml:"return"`
}

func (s *Service) changeTags(c *wire.Call, remove bool) (any, error) {
	ids := c.Params.Strs("ResourceId")
	if len(ids) == 0 {
		return nil, wire.MissingParameter("ResourceId")
	}
	if !remove && len(c.Params.List("Tag")) == 0 {
		return nil, wire.MissingParameter("Tag")
	}
	if err := tag.Check(c.Params, "Tag"); err != nil {
		return nil, err
	}
	for _, id := range ids {
		if err := s.taggable(id); err != nil {
			return nil, err
		}
	}
	if c.Params.Bool("DryRun") {
		return nil, wire.DryRun()
	}
	for _, id := range ids {
		s.applyTags(id, c.Params.Tags("Tag"), remove)
	}
	return emptyAnswer{true}, nil
}

// TagsOf are the tags of an instance, or of a part of one, as they are now.
func (s *Service) TagsOf(id string) (tags map[string]string, ok bool) {
	if in := s.instances.get(id); in != nil {
		return in.Tags.At(s.Now()), true
	}
	if in := s.instances.partOf(id); in != nil {
		return in.PartTags[id].At(s.Now()), true
	}
	return nil, false
}

// taggable finds the resource or refuses with its kind's not-found code.
func (s *Service) taggable(id string) *wire.Error {
	switch {
	case strings.HasPrefix(id, "i-"):
		if s.instances.get(id) == nil {
			return unknownInstances([]string{id})
		}
	case strings.HasPrefix(id, "lt-"):
		if s.deps.Templates.ByID[id] == nil {
			return template.UnknownID(id)
		}
	case s.instances.partOf(id) == nil:
		return wire.Refuse("InvalidID", "The ID '%s' is not valid", id)
	}
	return nil
}

func (s *Service) applyTags(id string, tags map[string]string, remove bool) {
	now := s.Now()
	var events tag.History
	for _, e := range tag.New(tags, now) {
		e.Removed = remove
		events = append(events, e)
	}
	if t := s.deps.Templates.ByID[id]; t != nil {
		t.Tags = append(t.Tags, events...)
		s.deps.Templates.Save(t)
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
