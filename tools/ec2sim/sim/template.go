package sim

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// launchTemplate with its versions; version n is Versions[n-1].
type launchTemplate struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	CreatedAt time.Time      `json:"createdAt"`
	Versions  []templateData `json:"versions"`
	Default   int            `json:"default"`
	Tags      tagHistory     `json:"tags"`
	Deleted   bool           `json:"deleted,omitempty"`
}

type xmlTemplate struct {
	ID      string   `xml:"launchTemplateId"`
	Name    string   `xml:"launchTemplateName"`
	Created string   `xml:"createTime"`
	By      string   `xml:"createdBy"`
	Default int      `xml:"defaultVersionNumber"`
	Latest  int      `xml:"latestVersionNumber"`
	Tags    []xmlTag `xml:"tagSet>item"`
}

func (s *Server) xmlTemplate(t *launchTemplate, at time.Time) xmlTemplate {
	return xmlTemplate{t.ID, t.Name, stamp(t.CreatedAt), s.caller(), t.Default, len(t.Versions), xmlTags(t.Tags.at(at))}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func unknownTemplateID(id string) *Error {
	if !strings.HasPrefix(id, "lt-") {
		return refuse("InvalidLaunchTemplateId.Malformed", "The specified launch template ID, %s, is not valid.", id)
	}
	return refuse("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
}

func unknownTemplateName(name string) *Error {
	return refuse("InvalidLaunchTemplateName.NotFoundException",
		"At least one of the launch templates specified in the request does not exist: %s", name)
}

func (s *Server) templateNamed(name string) *launchTemplate {
	for _, t := range s.templates {
		if t.Name == name && !t.Deleted {
			return t
		}
	}
	return nil
}

// findTemplate resolves the id or the name of a request.
func (s *Server) findTemplate(p *params) (*launchTemplate, *Error) {
	id, name := p.str("LaunchTemplateId"), p.str("LaunchTemplateName")
	switch {
	case id != "" && name != "":
		return nil, refuse("InvalidParameterCombination", "You may specify either a launch template ID or a name, not both.")
	case id != "":
		if t := s.templates[id]; t != nil && !t.Deleted {
			return t, nil
		}
		return nil, unknownTemplateID(id)
	case name != "":
		if t := s.templateNamed(name); t != nil {
			return t, nil
		}
		return nil, unknownTemplateName(name)
	}
	return nil, missingParameter("LaunchTemplateId or LaunchTemplateName")
}

// version resolves "3", "$Latest", "$Default" or "".
func (t *launchTemplate) version(text string) (int, *Error) {
	switch text {
	case "", "$Default":
		return t.Default, nil
	case "$Latest":
		return len(t.Versions), nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > len(t.Versions) {
		return 0, refuse("InvalidLaunchTemplateId.VersionNotFound",
			"Could not find the specified version %s for the launch template with ID %s.", text, t.ID)
	}
	return n, nil
}

func createLaunchTemplate(s *Server, c *call) (any, error) {
	name := c.params.str("LaunchTemplateName")
	if len(name) < 3 || len(name) > 128 {
		return nil, refuse("InvalidLaunchTemplateName.MalformedException", "Launch template names must be 3 to 128 characters long.")
	}
	if !c.params.has("LaunchTemplateData") {
		return nil, missingParameter("LaunchTemplateData")
	}
	data, err := readTemplateData(c.params.at("LaunchTemplateData"))
	if err != nil {
		return nil, err
	}
	if c.params.bool("DryRun") {
		return nil, dryRun()
	}
	return s.once(c, func() (any, error) {
		if s.templateNamed(name) != nil {
			return nil, refuse("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
		}
		now := s.now()
		t := &launchTemplate{ID: newID("lt"), Name: name, CreatedAt: now, Versions: []templateData{data}, Default: 1,
			Tags: newTags(c.params.tagSpecifications()["launch-template"], now)}
		s.templates[t.ID] = t
		s.keepTemplate(t)
		return s.createdTemplate(t), nil
	})
}

type templateAnswer struct {
	Template xmlTemplate `xml:"launchTemplate"`
}

func (s *Server) createdTemplate(t *launchTemplate) templateAnswer {
	return templateAnswer{s.xmlTemplate(t, s.now())}
}

func createLaunchTemplateVersion(s *Server, c *call) (any, error) {
	t, err := s.findTemplate(c.params)
	if err != nil {
		return nil, err
	}
	data, err := readTemplateData(c.params.at("LaunchTemplateData"))
	if err != nil {
		return nil, err
	}
	if c.params.bool("DryRun") {
		return nil, dryRun()
	}
	t.Versions = append(t.Versions, data)
	s.keepTemplate(t)
	return struct {
		Version xmlVersion `xml:"launchTemplateVersion"`
	}{s.xmlVersion(t, len(t.Versions))}, nil
}

func deleteLaunchTemplate(s *Server, c *call) (any, error) {
	t, err := s.findTemplate(c.params)
	if err != nil {
		return nil, err
	}
	if c.params.bool("DryRun") {
		return nil, dryRun()
	}
	t.Deleted = true
	s.keepTemplate(t)
	return s.createdTemplate(t), nil
}

var templateBounds = pageBounds{1, 200, 200}

func describeLaunchTemplates(s *Server, c *call) (any, error) {
	filters, seen := readFilters(c.params), s.seen()
	ids, names := c.params.strs("LaunchTemplateId"), c.params.strs("LaunchTemplateName")
	var found []*launchTemplate
	for _, t := range s.templates {
		named := len(ids)+len(names) == 0 || slices.Contains(ids, t.ID) || slices.Contains(names, t.Name)
		ok, err := matches(filters, t.Tags.at(seen), t.attributes)
		if err != nil {
			return nil, err
		}
		if named && ok && !t.Deleted && !t.CreatedAt.After(seen) {
			found = append(found, t)
		}
	}
	if err := missingTemplates(found, ids, names); err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b *launchTemplate) int { return cmp.Compare(a.ID, b.ID) })
	part, next, err := page(c, found, func(t *launchTemplate) string { return t.ID }, templateBounds)
	if err != nil {
		return nil, err
	}
	answer := struct {
		Templates []xmlTemplate `xml:"launchTemplates>item"`
		Next      string        `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, t := range part {
		answer.Templates = append(answer.Templates, s.xmlTemplate(t, seen))
	}
	return answer, nil
}

func missingTemplates(found []*launchTemplate, ids, names []string) *Error {
	for _, id := range ids {
		if !slices.ContainsFunc(found, func(t *launchTemplate) bool { return t.ID == id }) {
			return unknownTemplateID(id)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(found, func(t *launchTemplate) bool { return t.Name == name }) {
			return unknownTemplateName(name)
		}
	}
	return nil
}

func (t *launchTemplate) attributes(name string) ([]string, bool) {
	switch name {
	case "launch-template-name":
		return []string{t.Name}, true
	case "create-time":
		return []string{stamp(t.CreatedAt)}, true
	}
	return nil, false
}
