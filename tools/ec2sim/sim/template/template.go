// Package template holds EC2 launch templates and their versions.
package template

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/tag"
	"millwright/tools/ec2sim/sim/wire"
)

// Template with its versions; version n is Versions[n-1].
type Template struct {
	ID        string      `json:"id"`
	Name      string      `json:"name"`
	CreatedAt time.Time   `json:"createdAt"`
	Versions  []Data      `json:"versions"`
	Default   int         `json:"default"`
	Tags      tag.History `json:"tags"`
	Deleted   bool        `json:"deleted,omitempty"`
}

// Templates are the account's launch templates, by id; deleted ones stay.
type Templates struct {
	*account.Account
	ByID map[string]*Template
}

// New returns no templates.
func New(a *account.Account) *Templates { return &Templates{a, map[string]*Template{}} }

// Save keeps a template's new value on disk.
func (s *Templates) Save(t *Template) { s.Keep("template", t.ID, t) }

type xmlTemplate struct {
	ID      string    `xml:"launchTemplateId"`
	Name    string    `xml:"launchTemplateName"`
	Created string    `xml:"createTime"`
	By      string    `xml:"createdBy"`
	Default int       `xml:"defaultVersionNumber"`
	Latest  int       `xml:"latestVersionNumber"`
	Tags    []tag.XML `xml:"tagSet>item"`
}

func (s *Templates) xmlTemplate(t *Template, at time.Time) xmlTemplate {
	return xmlTemplate{t.ID, t.Name, wire.Stamp(t.CreatedAt), s.Caller(), t.Default, len(t.Versions), tag.List(t.Tags.At(at))}
}

// UnknownID refuses a call that names a template that does not exist.
func UnknownID(id string) *wire.Error {
	if !strings.HasPrefix(id, "lt-") {
		return wire.Refuse("InvalidLaunchTemplateId.Malformed", "The specified launch template ID, %s, is not valid.", id)
	}
	return wire.Refuse("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
}

func unknownTemplateName(name string) *wire.Error {
	return wire.Refuse("InvalidLaunchTemplateName.NotFoundException",
		"At least one of the launch templates specified in the request does not exist: %s", name)
}

func (s *Templates) templateNamed(name string) *Template {
	for _, t := range s.ByID {
		if t.Name == name && !t.Deleted {
			return t
		}
	}
	return nil
}

// Find resolves the id or the name of a request.
func (s *Templates) Find(p *wire.Params) (*Template, *wire.Error) {
	id, name := p.Str("LaunchTemplateId"), p.Str("LaunchTemplateName")
	switch {
	case id != "" && name != "":
		return nil, wire.Refuse("InvalidParameterCombination", "You may specify either a launch template ID or a name, not both.")
	case id != "":
		if t := s.ByID[id]; t != nil && !t.Deleted {
			return t, nil
		}
		return nil, UnknownID(id)
	case name != "":
		if t := s.templateNamed(name); t != nil {
			return t, nil
		}
		return nil, unknownTemplateName(name)
	}
	return nil, wire.MissingParameter("LaunchTemplateId or LaunchTemplateName")
}

// Version resolves "3", "$Latest", "$Default" or "".
func (t *Template) Version(text string) (int, *wire.Error) {
	switch text {
	case "", "$Default":
		return t.Default, nil
	case "$Latest":
		return len(t.Versions), nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > len(t.Versions) {
		return 0, wire.Refuse("InvalidLaunchTemplateId.VersionNotFound",
			"Could not find the specified version %s for the launch template with ID %s.", text, t.ID)
	}
	return n, nil
}

func (s *Templates) CreateLaunchTemplate(c *wire.Call) (any, error) {
	name := c.Params.Str("LaunchTemplateName")
	if len(name) < 3 || len(name) > 128 {
		return nil, wire.Refuse("InvalidLaunchTemplateName.MalformedException", "Launch template names must be 3 to 128 characters long.")
	}
	if !c.Params.Has("LaunchTemplateData") {
		return nil, wire.MissingParameter("LaunchTemplateData")
	}
	data, err := Read(c.Params.At("LaunchTemplateData"))
	if err != nil {
		return nil, err
	}
	if c.Params.Bool("DryRun") {
		return nil, wire.DryRun()
	}
	return s.Once(c, func() (any, error) {
		if s.templateNamed(name) != nil {
			return nil, wire.Refuse("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
		}
		now := s.Now()
		t := &Template{ID: wire.NewID("lt"), Name: name, CreatedAt: now, Versions: []Data{data}, Default: 1,
			Tags: tag.New(c.Params.TagSpecifications()["launch-template"], now)}
		s.ByID[t.ID] = t
		s.Save(t)
		return s.createdTemplate(t), nil
	})
}

type templateAnswer struct {
	Template xmlTemplate `xml:"launchTemplate"`
}

func (s *Templates) createdTemplate(t *Template) templateAnswer {
	return templateAnswer{s.xmlTemplate(t, s.Now())}
}

func (s *Templates) CreateLaunchTemplateVersion(c *wire.Call) (any, error) {
	t, err := s.Find(c.Params)
	if err != nil {
		return nil, err
	}
	data, err := Read(c.Params.At("LaunchTemplateData"))
	if err != nil {
		return nil, err
	}
	if c.Params.Bool("DryRun") {
		return nil, wire.DryRun()
	}
	t.Versions = append(t.Versions, data)
	s.Save(t)
	return struct {
		Version xmlVersion `xml:"launchTemplateVersion"`
	}{s.xmlVersion(t, len(t.Versions))}, nil
}

func (s *Templates) DeleteLaunchTemplate(c *wire.Call) (any, error) {
	t, err := s.Find(c.Params)
	if err != nil {
		return nil, err
	}
	if c.Params.Bool("DryRun") {
		return nil, wire.DryRun()
	}
	t.Deleted = true
	s.Save(t)
	return s.createdTemplate(t), nil
}

var templateBounds = wire.PageBounds{Least: 1, Most: 200, Standard: 200}

func (s *Templates) DescribeLaunchTemplates(c *wire.Call) (any, error) {
	filters, seen := wire.ReadFilters(c.Params), s.Seen()
	ids, names := c.Params.Strs("LaunchTemplateId"), c.Params.Strs("LaunchTemplateName")
	var found []*Template
	for _, t := range s.ByID {
		named := len(ids)+len(names) == 0 || slices.Contains(ids, t.ID) || slices.Contains(names, t.Name)
		ok, err := wire.Matches(filters, t.Tags.At(seen), t.attributes)
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
	slices.SortFunc(found, func(a, b *Template) int { return cmp.Compare(a.ID, b.ID) })
	part, next, err := wire.Page(c, found, func(t *Template) string { return t.ID }, templateBounds)
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

func missingTemplates(found []*Template, ids, names []string) *wire.Error {
	for _, id := range ids {
		if !slices.ContainsFunc(found, func(t *Template) bool { return t.ID == id }) {
			return UnknownID(id)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(found, func(t *Template) bool { return t.Name == name }) {
			return unknownTemplateName(name)
		}
	}
	return nil
}

func (t *Template) attributes(name string) ([]string, bool) {
	switch name {
	case "launch-template-name":
		return []string{t.Name}, true
	case "create-time":
		return []string{wire.Stamp(t.CreatedAt)}, true
	}
	return nil, false
}

// Load puts a template of the journal back.
func (s *Templates) Load(l account.Entity) error { return account.LoadInto(l, s.ByID) }
