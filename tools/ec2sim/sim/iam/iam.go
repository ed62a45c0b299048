// Package iam holds instance profiles, and answers who a caller is (STS).
package iam

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/tag"
	"millwright/tools/ec2sim/sim/wire"
)

// instanceProfile of IAM. Added is when it got its present role: EC2 refuses it for a while after.
type instanceProfile struct {
	Name    string            `json:"name"`
	Path    string            `json:"path"`
	ID      string            `json:"id"`
	Role    string            `json:"role,omitempty"`
	Created time.Time         `json:"created"`
	Tags    map[string]string `json:"tags,omitempty"`
}

// NodeRole is the role that exists for the cluster's nodes.
func (s *Profiles) NodeRole() string { return "KarpenterNodeRole-" + s.Cfg.ClusterName }

// NodeProfile is the profile that exists for NodeClasses that name one.
func (s *Profiles) NodeProfile() string { return "KarpenterNodeInstanceProfile-" + s.Cfg.ClusterName }

// Profiles are IAM's instance profiles, by name.
type Profiles struct {
	*account.Account
	byName map[string]*instanceProfile
}

// New holds the profile of the cluster's nodes.
func New(a *account.Account) *Profiles {
	s := &Profiles{a, map[string]*instanceProfile{}}
	s.byName[s.NodeProfile()] = &instanceProfile{Name: s.NodeProfile(), Path: "/", ID: wire.FixedID("AIPA", s.NodeProfile()),
		Role: s.NodeRole()}
	return s
}

func (s *Profiles) hasRole(name string) bool {
	return name == s.NodeRole() || slices.Contains(s.Cfg.Roles, name)
}

// ProfileARN names a profile as EC2 does.
func (s *Profiles) ProfileARN(name string) string {
	path := "/"
	if p := s.byName[name]; p != nil {
		path = p.Path
	}
	return "arn:aws:iam::" + s.Cfg.AccountID + ":instance-profile" + path + name
}

// RoleOf is the role of a profile; "" if it has none.
func (s *Profiles) RoleOf(name string) string {
	if p := s.byName[name]; p != nil {
		return p.Role
	}
	return ""
}

// TagsOf are the tags of a profile.
func (s *Profiles) TagsOf(name string) map[string]string {
	if p := s.byName[name]; p != nil {
		return p.Tags
	}
	return nil
}

// CheckProfile is EC2's view of a profile: it learns of new ones with a delay.
func (s *Profiles) CheckProfile(name string, now time.Time) *wire.Error {
	if name == "" {
		return nil
	}
	p := s.byName[name]
	if p == nil || p.Created.Add(time.Duration(s.Settings.IAM)).After(now) {
		return wire.InvalidValue("Value (%s) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", name)
	}
	return nil
}

type xmlProfile struct {
	Name    string      `xml:"InstanceProfileName"`
	Path    string      `xml:"Path"`
	ID      string      `xml:"InstanceProfileId"`
	ARN     string      `xml:"Arn"`
	Created string      `xml:"CreateDate"`
	Roles   []xmlRole   `xml:"Roles>member"`
	Tags    []xmlIAMTag `xml:"Tags>member"`
}

type xmlRole struct {
	Path    string `xml:"Path"`
	Name    string `xml:"RoleName"`
	ID      string `xml:"RoleId"`
	ARN     string `xml:"Arn"`
	Created string `xml:"CreateDate"`
}

type xmlIAMTag struct {
	Key   string `xml:"Key"`
	Value string `xml:"Value"`
}

func (s *Profiles) xmlProfile(p *instanceProfile) xmlProfile {
	x := xmlProfile{Name: p.Name, Path: p.Path, ID: p.ID, ARN: s.ProfileARN(p.Name), Created: p.Created.UTC().Format(time.RFC3339)}
	if p.Role != "" {
		x.Roles = []xmlRole{{"/", p.Role, wire.FixedID("AROA", p.Role), "arn:aws:iam::" + s.Cfg.AccountID + ":role/" + p.Role,
			time.Unix(0, 0).UTC().Format(time.RFC3339)}}
	}
	for _, t := range tag.List(p.Tags) {
		x.Tags = append(x.Tags, xmlIAMTag(t))
	}
	return x
}

// Operations are IAM's calls, by action.
func (s *Profiles) Operations() map[string]wire.Operation {
	return map[string]wire.Operation{
		"GetInstanceProfile":            s.withProfile(s.getInstanceProfile),
		"CreateInstanceProfile":         s.createInstanceProfile,
		"AddRoleToInstanceProfile":      s.withProfile(s.addRole),
		"RemoveRoleFromInstanceProfile": s.withProfile(s.removeRole),
		"DeleteInstanceProfile":         s.withProfile(s.deleteInstanceProfile),
		"TagInstanceProfile":            s.withProfile(s.tagInstanceProfile),
		"UntagInstanceProfile":          s.withProfile(s.untagInstanceProfile),
		"ListInstanceProfiles":          s.listInstanceProfiles,
	}
}

type profileAnswer struct {
	Profile xmlProfile `xml:"InstanceProfile"`
}

func noSuchEntity(format string, args ...any) *wire.Error {
	e := wire.Refuse("NoSuchEntity", format, args...)
	e.Status = 404
	return e
}

// withProfile looks the named profile up for an operation.
func (s *Profiles) withProfile(op func(c *wire.Call, p *instanceProfile) (any, error)) wire.Operation {
	return func(c *wire.Call) (any, error) {
		name := c.Params.Str("InstanceProfileName")
		if name == "" {
			return nil, wire.Refuse("ValidationError", "1 validation error detected: Value null at 'instanceProfileName'")
		}
		p := s.byName[name]
		if p == nil {
			return nil, noSuchEntity("Instance Profile %s cannot be found.", name)
		}
		return op(c, p)
	}
}

func (s *Profiles) getInstanceProfile(c *wire.Call, p *instanceProfile) (any, error) {
	return profileAnswer{s.xmlProfile(p)}, nil
}

func (s *Profiles) createInstanceProfile(c *wire.Call) (any, error) {
	name := c.Params.Str("InstanceProfileName")
	switch {
	case name == "" || len(name) > 128:
		return nil, wire.Refuse("ValidationError", "The instance profile name must be 1 to 128 characters long.")
	case s.byName[name] != nil:
		e := wire.Refuse("EntityAlreadyExists", "Instance Profile %s already exists.", name)
		e.Status = 409
		return nil, e
	}
	p := &instanceProfile{Name: name, Path: cmp.Or(c.Params.Str("Path"), "/"), ID: "AIPA" + strings.ToUpper(wire.RandomHex(8)),
		Created: s.Now(), Tags: c.Params.Tags("Tags.member")}
	s.byName[name] = p
	s.Keep("profile", name, p)
	return profileAnswer{s.xmlProfile(p)}, nil
}

func (s *Profiles) addRole(c *wire.Call, p *instanceProfile) (any, error) {
	role := c.Params.Str("RoleName")
	switch {
	case !s.hasRole(role):
		return nil, noSuchEntity("The role with name %s cannot be found.", role)
	case p.Role != "":
		e := wire.Refuse("LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1")
		e.Status = 409
		return nil, e
	}
	p.Role = role
	s.Keep("profile", p.Name, p)
	return struct{}{}, nil
}

func (s *Profiles) removeRole(c *wire.Call, p *instanceProfile) (any, error) {
	role := c.Params.Str("RoleName")
	if p.Role != role {
		return nil, noSuchEntity("The role with name %s cannot be found.", role)
	}
	p.Role = ""
	s.Keep("profile", p.Name, p)
	return struct{}{}, nil
}

func (s *Profiles) deleteInstanceProfile(c *wire.Call, p *instanceProfile) (any, error) {
	if p.Role != "" {
		e := wire.Refuse("DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.")
		e.Status = 409
		return nil, e
	}
	delete(s.byName, p.Name)
	s.Drop("profile", p.Name)
	return struct{}{}, nil
}

func (s *Profiles) tagInstanceProfile(c *wire.Call, p *instanceProfile) (any, error) {
	if p.Tags == nil {
		p.Tags = map[string]string{}
	}
	maps.Copy(p.Tags, c.Params.Tags("Tags.member"))
	s.Keep("profile", p.Name, p)
	return struct{}{}, nil
}

func (s *Profiles) untagInstanceProfile(c *wire.Call, p *instanceProfile) (any, error) {
	for _, key := range c.Params.Strs("TagKeys.member") {
		delete(p.Tags, key)
	}
	s.Keep("profile", p.Name, p)
	return struct{}{}, nil
}

func (s *Profiles) listInstanceProfiles(c *wire.Call) (any, error) {
	prefix := cmp.Or(c.Params.Str("PathPrefix"), "/")
	most, err := c.Params.Int("MaxItems", 100)
	if err != nil {
		return nil, err
	}
	after := ""
	if marker := c.Params.Str("Marker"); marker != "" {
		if after, err = wire.ReadPageToken(marker); err != nil {
			return nil, err
		}
	}
	answer := struct {
		Profiles  []xmlProfile `xml:"InstanceProfiles>member"`
		Truncated bool         `xml:"IsTruncated"`
		Marker    string       `xml:"Marker,omitempty"`
	}{}
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		p := s.byName[name]
		if !strings.HasPrefix(p.Path, prefix) || name <= after {
			continue
		}
		if len(answer.Profiles) == most {
			answer.Truncated, answer.Marker = true, wire.PageToken(answer.Profiles[most-1].Name)
			break
		}
		answer.Profiles = append(answer.Profiles, s.xmlProfile(p))
	}
	return answer, nil
}

// GetCallerIdentity is STS's call.
func (s *Profiles) GetCallerIdentity(c *wire.Call) (any, error) {
	return struct {
		ARN     string `xml:"Arn"`
		UserID  string `xml:"UserId"`
		Account string `xml:"Account"`
	}{s.Caller(), s.Cfg.AccountID, s.Cfg.AccountID}, nil
}

// Load puts a profile of the journal back.
func (s *Profiles) Load(l account.Entity) error { return account.LoadInto(l, s.byName) }
