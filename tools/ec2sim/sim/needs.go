package sim

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"millwright/tools/ec2sim/sim/policy"
	"millwright/tools/ec2sim/sim/template"
	"millwright/tools/ec2sim/sim/wire"
)

// needs are the permissions that a call needs (Service Authorization Reference of each service). Of what does
// not exist nothing is asked: the operation itself refuses that. The caller holds the account's lock.
func (s *Server) needs(c *wire.Call) []policy.Question {
	switch c.Service {
	case "ec2":
		return s.ec2Needs(c)
	case "iam":
		return s.profileNeeds(c)
	case "sqs":
		return []policy.Question{question("sqs:"+strings.TrimSuffix(c.Action, "Batch"), s.arn("sqs", s.account.Cfg.AccountID, queueOf(c)))}
	case "ssm":
		return []policy.Question{question("ssm:"+c.Action, s.parameterARN(c))}
	case "eks":
		return []policy.Question{question("eks:"+c.Action, s.arn("eks", s.account.Cfg.AccountID, "cluster/"+wire.LastSegment(c.Path)))}
	case "arc-zonal-shift":
		q := question("arc-zonal-shift:"+c.Action, "*")
		q.Context["arc-zonal-shift:ResourceIdentifier"] = []string{strings.TrimPrefix(c.Path, "/managedresources/")}
		return []policy.Question{q}
	case "pricing":
		return []policy.Question{question("pricing:"+c.Action, "*")}
	}
	return nil // anybody may ask who he is
}

func question(action, resource string) policy.Question {
	return policy.Question{Action: action, Resource: resource, Context: map[string][]string{}}
}

func (s *Server) arn(service, account, name string) string {
	return "arn:aws:" + service + ":" + s.account.Region.Name + ":" + account + ":" + name
}

// ec2ARN is the ARN of something of the account.
func (s *Server) ec2ARN(name string) string { return s.arn("ec2", s.account.Cfg.AccountID, name) }

func queueOf(c *wire.Call) string {
	var input struct{ QueueName, QueueUrl string }
	_ = wire.ReadJSON(c, &input) // what cannot be read names no queue
	return cmp.Or(input.QueueName, wire.LastSegment(input.QueueUrl))
}

func (s *Server) parameterARN(c *wire.Call) string {
	var input struct{ Name string }
	_ = wire.ReadJSON(c, &input)
	account := s.account.Cfg.AccountID
	if strings.HasPrefix(input.Name, "/aws/") {
		account = ""
	}
	return s.arn("ssm", account, "parameter/"+strings.TrimPrefix(input.Name, "/"))
}

// tagged adds tags to the context of a question, under a prefix such as aws:RequestTag/.
func tagged(q policy.Question, prefix string, tags map[string]string) policy.Question {
	for key, value := range tags {
		q.Context[prefix+key] = []string{value}
	}
	if prefix == requestTag && len(tags) > 0 {
		q.Context["aws:TagKeys"] = slices.Sorted(maps.Keys(tags))
	}
	return q
}

const (
	requestTag  = "aws:RequestTag/"
	resourceTag = "aws:ResourceTag/"
)

func (s *Server) ec2Needs(c *wire.Call) []policy.Question {
	switch c.Action {
	case "CreateFleet":
		return s.fleetNeeds(c)
	case "RunInstances":
		d, err := template.Read(c.Params)
		if err != nil {
			return nil
		}
		d.TagsByResource = c.Params.TagSpecifications()
		return s.launchNeeds(c, d, []string{c.Params.Str("SubnetId")})
	case "CreateLaunchTemplate":
		return s.madeNeeds(c, "launch-template", c.Params.TagSpecifications()["launch-template"])
	case "CreateTags", "DeleteTags":
		return s.existing(c, c.Params.Strs("ResourceId"), c.Params.Tags("Tag"))
	case "TerminateInstances", "GetConsoleOutput":
		return s.existing(c, append(c.Params.Strs("InstanceId"), one(c.Params.Str("InstanceId"))...), nil)
	case "DeleteLaunchTemplate", "CreateLaunchTemplateVersion":
		if t, err := s.templates.Find(c.Params); err == nil {
			return s.existing(c, []string{t.ID}, nil)
		}
		return nil
	}
	return []policy.Question{question("ec2:"+c.Action, "*")}
}

func one(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// existing asks about instances and launch templates by their ids.
func (s *Server) existing(c *wire.Call, ids []string, set map[string]string) []policy.Question {
	var out []policy.Question
	for _, id := range ids {
		kind, tags, ok := s.tagsOf(id)
		if !ok {
			continue
		}
		q := question("ec2:"+c.Action, s.ec2ARN(kind+"/"+id))
		out = append(out, tagged(tagged(q, resourceTag, tags), requestTag, set))
	}
	return out
}

// tagsOf are the kind and the tags of an instance, a part of one, or a launch template.
func (s *Server) tagsOf(id string) (kind string, tags map[string]string, ok bool) {
	if t := s.templates.ByID[id]; t != nil {
		return "launch-template", t.Tags.At(s.account.Now()), !t.Deleted
	}
	if tags, ok = s.instances.TagsOf(id); !ok {
		return "", nil, false
	}
	for prefix, kind := range map[string]string{"i-": "instance", "vol-": "volume", "eni-": "network-interface", "sir-": "spot-instances-request"} {
		if strings.HasPrefix(id, prefix) {
			return kind, tags, true
		}
	}
	return "fleet", tags, true
}

// madeNeeds asks for something new of a kind, and for its tags.
func (s *Server) madeNeeds(c *wire.Call, kind string, tags map[string]string) []policy.Question {
	resource := s.ec2ARN(kind + "/*")
	out := []policy.Question{tagged(question("ec2:"+c.Action, resource), requestTag, tags)}
	if len(tags) > 0 {
		q := tagged(question("ec2:CreateTags", resource), requestTag, tags)
		q.Context["ec2:CreateAction"] = []string{c.Action}
		out = append(out, q)
	}
	return out
}

// fleetNeeds asks for what a fleet is made of, template by template.
func (s *Server) fleetNeeds(c *wire.Call) []policy.Question {
	tags := c.Params.TagSpecifications()
	out := s.madeNeeds(c, "fleet", tags["fleet"])
	for _, n := range c.Params.List("LaunchTemplateConfigs") {
		spec := n.At("LaunchTemplateSpecification")
		t, err := s.templates.Find(spec)
		if err != nil {
			continue
		}
		version, err := t.Version(spec.Str("Version"))
		if err != nil {
			continue
		}
		for _, action := range []string{"ec2:CreateFleet", "ec2:RunInstances"} {
			out = append(out, tagged(question(action, s.ec2ARN("launch-template/"+t.ID)), resourceTag, t.Tags.At(s.account.Now())))
		}
		d := t.Versions[version-1]
		d.TagsByResource = maps.Clone(d.TagsByResource)
		if d.TagsByResource == nil {
			d.TagsByResource = map[string]map[string]string{}
		}
		maps.Copy(d.TagsByResource, tags)
		if c.Params.Str("TargetCapacitySpecification.DefaultTargetCapacityType") == "spot" {
			out = append(out, s.madeNeeds(c, "spot-instances-request", d.TagsByResource["spot-instances-request"])...)
		}
		var subnets []string
		for _, o := range n.List("Overrides") {
			subnets = append(subnets, o.Str("SubnetId"))
			d.ImageID = cmp.Or(o.Str("ImageId"), d.ImageID)
		}
		out = append(out, s.launchNeeds(c, d, subnets)...)
	}
	return out
}

// launchNeeds asks for the instances that data describes: what they are made from, and what is made. A fleet
// runs instances in the caller's name.
func (s *Server) launchNeeds(c *wire.Call, d template.Data, subnets []string) []policy.Question {
	account := s.account.Cfg.AccountID
	from := []string{s.arn("ec2", "", "image/"+d.ImageID), s.arn("ec2", "", "snapshot/*")}
	for _, group := range d.PrimaryGroups() {
		from = append(from, s.ec2ARN("security-group/"+group))
	}
	for _, i := range d.Interfaces {
		subnets = append(subnets, i.SubnetID)
	}
	slices.Sort(subnets)
	for _, subnet := range slices.Compact(subnets) {
		if subnet != "" {
			from = append(from, s.ec2ARN("subnet/"+subnet))
		}
	}
	if d.ReservationID != "" {
		from = append(from, s.ec2ARN("capacity-reservation/"+d.ReservationID))
	}
	if g, _ := s.groups.Find(d.GroupID, d.GroupName); g != nil {
		from = append(from, s.ec2ARN("placement-group/"+g.Name))
	}
	var out []policy.Question
	for _, resource := range from {
		out = append(out, question("ec2:RunInstances", resource))
	}
	for _, kind := range []string{"instance", "volume", "network-interface"} {
		run := *c
		run.Action = "RunInstances"
		out = append(out, s.madeNeeds(c, kind, d.TagsByResource[kind])...)
		out = append(out, s.madeNeeds(&run, kind, d.TagsByResource[kind])[0])
	}
	if role := s.profiles.RoleOf(d.Profile); role != "" {
		q := question("iam:PassRole", "arn:aws:iam::"+account+":role/"+role)
		q.Context["iam:PassedToService"] = []string{"ec2.amazonaws.com"}
		out = append(out, q)
	}
	return out
}

// profileNeeds asks about instance profiles.
func (s *Server) profileNeeds(c *wire.Call) []policy.Question {
	name := c.Params.Str("InstanceProfileName")
	q := question("iam:"+c.Action, s.profiles.ProfileARN(name))
	switch c.Action {
	case "ListInstanceProfiles":
		q.Resource = s.profiles.ProfileARN("")
		return []policy.Question{q}
	case "CreateInstanceProfile":
		path := strings.TrimPrefix(cmp.Or(c.Params.Str("Path"), "/"), "/")
		q.Resource = "arn:aws:iam::" + s.account.Cfg.AccountID + ":instance-profile/" + path + name
		tags := c.Params.Tags("Tags.member")
		out := []policy.Question{tagged(q, requestTag, tags)}
		if len(tags) > 0 {
			out = append(out, tagged(question("iam:TagInstanceProfile", q.Resource), requestTag, tags))
		}
		return out
	case "TagInstanceProfile":
		tagged(q, requestTag, c.Params.Tags("Tags.member"))
	}
	out := []policy.Question{tagged(q, resourceTag, s.profiles.TagsOf(name))}
	if c.Action == "AddRoleToInstanceProfile" {
		pass := question("iam:PassRole", "arn:aws:iam::"+s.account.Cfg.AccountID+":role/"+c.Params.Str("RoleName"))
		pass.Context["iam:PassedToService"] = []string{"ec2.amazonaws.com"}
		out = append(out, pass)
	}
	return out
}
