package sim

import (
	"maps"
	"slices"
	"strings"
	"time"
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

// nodeRole is the role that exists for the cluster's nodes.
func (s *Server) nodeRole() string { return "KarpenterNodeRole-" + s.cfg.ClusterName }

// nodeProfile is the profile that exists for NodeClasses that name one.
func (s *Server) nodeProfile() string { return "KarpenterNodeInstanceProfile-" + s.cfg.ClusterName }

func (s *Server) addDefaultProfile() {
	s.profiles[s.nodeProfile()] = &instanceProfile{Name: s.nodeProfile(), Path: "/", ID: fixedID("AIPA", s.nodeProfile()),
		Role: s.nodeRole()}
}

func (s *Server) hasRole(name string) bool {
	return name == s.nodeRole() || slices.Contains(s.cfg.Roles, name)
}

func (s *Server) caller() string { return "arn:aws:iam::" + s.cfg.AccountID + ":root" }

func (s *Server) profileARN(name string) string {
	path := "/"
	if p := s.profiles[name]; p != nil {
		path = p.Path
	}
	return "arn:aws:iam::" + s.cfg.AccountID + ":instance-profile" + path + name
}

// checkProfile is EC2's view of a profile: it learns of new ones with a delay.
func (s *Server) checkProfile(name string, now time.Time) *Error {
	if name == "" {
		return nil
	}
	p := s.profiles[name]
	if p == nil || p.Created.Add(time.Duration(s.settings.IAM)).After(now) {
		return invalidValue("Value (%s) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", name)
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

func (s *Server) xmlProfile(p *instanceProfile) xmlProfile {
	x := xmlProfile{Name: p.Name, Path: p.Path, ID: p.ID, ARN: s.profileARN(p.Name), Created: p.Created.UTC().Format(time.RFC3339)}
	if p.Role != "" {
		x.Roles = []xmlRole{{"/", p.Role, fixedID("AROA", p.Role), "arn:aws:iam::" + s.cfg.AccountID + ":role/" + p.Role,
			time.Unix(0, 0).UTC().Format(time.RFC3339)}}
	}
	for _, t := range xmlTags(p.Tags) {
		x.Tags = append(x.Tags, xmlIAMTag(t))
	}
	return x
}

var iamOperations = map[string]operation{
	"GetInstanceProfile":            withProfile(getInstanceProfile),
	"CreateInstanceProfile":         createInstanceProfile,
	"AddRoleToInstanceProfile":      withProfile(addRole),
	"RemoveRoleFromInstanceProfile": withProfile(removeRole),
	"DeleteInstanceProfile":         withProfile(deleteInstanceProfile),
	"TagInstanceProfile":            withProfile(tagInstanceProfile),
	"UntagInstanceProfile":          withProfile(untagInstanceProfile),
	"ListInstanceProfiles":          listInstanceProfiles,
}

type profileAnswer struct {
	Profile xmlProfile `xml:"InstanceProfile"`
}

func noSuchEntity(format string, args ...any) *Error {
	e := refuse("NoSuchEntity", format, args...)
	e.Status = 404
	return e
}

// withProfile looks the named profile up for an operation.
func withProfile(op func(s *Server, c *call, p *instanceProfile) (any, error)) operation {
	return func(s *Server, c *call) (any, error) {
		name := c.params.str("InstanceProfileName")
		if name == "" {
			return nil, refuse("ValidationError", "1 validation error detected: Value null at 'instanceProfileName'")
		}
		p := s.profiles[name]
		if p == nil {
			return nil, noSuchEntity("Instance Profile %s cannot be found.", name)
		}
		return op(s, c, p)
	}
}

func getInstanceProfile(s *Server, c *call, p *instanceProfile) (any, error) {
	return profileAnswer{s.xmlProfile(p)}, nil
}

func createInstanceProfile(s *Server, c *call) (any, error) {
	name := c.params.str("InstanceProfileName")
	switch {
	case name == "" || len(name) > 128:
		return nil, refuse("ValidationError", "The instance profile name must be 1 to 128 characters long.")
	case s.profiles[name] != nil:
		e := refuse("EntityAlreadyExists", "Instance Profile %s already exists.", name)
		e.Status = 409
		return nil, e
	}
	p := &instanceProfile{Name: name, Path: orElse(c.params.str("Path"), "/"), ID: "AIPA" + strings.ToUpper(randomHex(8)),
		Created: s.now(), Tags: c.params.tags("Tags.member")}
	s.profiles[name] = p
	s.keep("profile", name, p)
	return profileAnswer{s.xmlProfile(p)}, nil
}

func addRole(s *Server, c *call, p *instanceProfile) (any, error) {
	role := c.params.str("RoleName")
	switch {
	case !s.hasRole(role):
		return nil, noSuchEntity("The role with name %s cannot be found.", role)
	case p.Role != "":
		e := refuse("LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1")
		e.Status = 409
		return nil, e
	}
	p.Role = role
	s.keep("profile", p.Name, p)
	return struct{}{}, nil
}

func removeRole(s *Server, c *call, p *instanceProfile) (any, error) {
	role := c.params.str("RoleName")
	if p.Role != role {
		return nil, noSuchEntity("The role with name %s cannot be found.", role)
	}
	p.Role = ""
	s.keep("profile", p.Name, p)
	return struct{}{}, nil
}

func deleteInstanceProfile(s *Server, c *call, p *instanceProfile) (any, error) {
	if p.Role != "" {
		e := refuse("DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.")
		e.Status = 409
		return nil, e
	}
	delete(s.profiles, p.Name)
	s.drop("profile", p.Name)
	return struct{}{}, nil
}

func tagInstanceProfile(s *Server, c *call, p *instanceProfile) (any, error) {
	if p.Tags == nil {
		p.Tags = map[string]string{}
	}
	maps.Copy(p.Tags, c.params.tags("Tags.member"))
	s.keep("profile", p.Name, p)
	return struct{}{}, nil
}

func untagInstanceProfile(s *Server, c *call, p *instanceProfile) (any, error) {
	for _, key := range c.params.strs("TagKeys.member") {
		delete(p.Tags, key)
	}
	s.keep("profile", p.Name, p)
	return struct{}{}, nil
}

func listInstanceProfiles(s *Server, c *call) (any, error) {
	prefix := orElse(c.params.str("PathPrefix"), "/")
	most, err := c.params.int("MaxItems", 100)
	if err != nil {
		return nil, err
	}
	after := ""
	if marker := c.params.str("Marker"); marker != "" {
		if after, err = readPageToken(marker); err != nil {
			return nil, err
		}
	}
	answer := struct {
		Profiles  []xmlProfile `xml:"InstanceProfiles>member"`
		Truncated bool         `xml:"IsTruncated"`
		Marker    string       `xml:"Marker,omitempty"`
	}{}
	for _, name := range sortedKeys(s.profiles) {
		p := s.profiles[name]
		if !strings.HasPrefix(p.Path, prefix) || name <= after {
			continue
		}
		if len(answer.Profiles) == most {
			answer.Truncated, answer.Marker = true, pageToken(answer.Profiles[most-1].Name)
			break
		}
		answer.Profiles = append(answer.Profiles, s.xmlProfile(p))
	}
	return answer, nil
}

func getCallerIdentity(s *Server, c *call) (any, error) {
	return struct {
		ARN     string `xml:"Arn"`
		UserID  string `xml:"UserId"`
		Account string `xml:"Account"`
	}{s.caller(), s.cfg.AccountID, s.cfg.AccountID}, nil
}
