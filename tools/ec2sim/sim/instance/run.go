package instance

import (
	"cmp"

	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/template"
	"millwright/tools/ec2sim/sim/wire"
)

// RunInstances launches without a fleet; its dry run is how callers check their permissions.
func (s *Service) RunInstances(c *wire.Call) (any, error) {
	l, count, err := s.readRun(c.Params)
	if err != nil {
		return nil, err
	}
	if c.Params.Bool("DryRun") {
		return nil, wire.DryRun()
	}
	return s.Once(c, func() (any, error) { return s.run(c, l, count) })
}

func (s *Service) readRun(p *wire.Params) (launchSpec, int, *wire.Error) {
	if !p.Has("MinCount") || !p.Has("MaxCount") {
		return launchSpec{}, 0, wire.MissingParameter("MinCount and MaxCount")
	}
	count, err := p.Int("MaxCount", 1)
	if err != nil {
		return launchSpec{}, 0, err
	}
	data, err := s.runData(p)
	if err != nil {
		return launchSpec{}, 0, err
	}
	l := launchSpec{data: data, capacityType: "on-demand"}
	if p.Str("InstanceMarketOptions.MarketType") == "spot" {
		l.capacityType = "spot"
	}
	if err := s.place(&l, p.Str("SubnetId"), p.Str("Placement.AvailabilityZone")); err != nil {
		return l, 0, err
	}
	return l, count, s.check(&l, s.Now())
}

// runData reads the request over the launch template it may name.
func (s *Service) runData(p *wire.Params) (template.Data, *wire.Error) {
	data, err := template.Read(p)
	if err != nil || !p.Has("LaunchTemplate") {
		return data, err
	}
	t, err := s.deps.Templates.Find(p.At("LaunchTemplate"))
	if err != nil {
		return data, err
	}
	number, err := t.Version(p.Str("LaunchTemplate.Version"))
	if err != nil {
		return data, err
	}
	base := t.Versions[number-1]
	base.ImageID = cmp.Or(data.ImageID, base.ImageID)
	base.InstanceType = cmp.Or(data.InstanceType, base.InstanceType)
	base.UserData = cmp.Or(data.UserData, base.UserData)
	if data.GroupID+data.GroupName != "" {
		base.GroupID, base.GroupName, base.Partition = data.GroupID, data.GroupName, data.Partition
	}
	base.Profile = cmp.Or(data.Profile, base.Profile)
	base.TagsByResource = mergedTags(base.TagsByResource, data.TagsByResource)
	if len(data.Groups)+len(data.Interfaces) > 0 {
		base.Groups, base.Interfaces = data.Groups, data.Interfaces
	}
	return base, nil
}

type runAnswer struct {
	ReservationID string        `xml:"reservationId"`
	Owner         string        `xml:"ownerId"`
	Instances     []xmlInstance `xml:"instancesSet>item"`
}

func (s *Service) run(c *wire.Call, l launchSpec, count int) (any, error) {
	now := s.Now()
	answer := runAnswer{Owner: s.Cfg.AccountID}
	least, err := c.Params.Int("MinCount", 1)
	if err != nil {
		return nil, err
	}
	used := newUsage(s, now)
	one := &candidate{launch: l}
	var refused *wire.Error
	var picks []launchSpec
	for len(picks) < count {
		var placed *candidate
		if placed, refused = s.admit(one, used); refused != nil {
			break
		}
		used.addCandidate(placed)
		picks = append(picks, placed.launch)
	}
	if len(picks) < least {
		s.Record(c, account.Entry{Outcome: "none", Errors: []string{refused.Code}})
		return nil, refused
	}
	var ids []string
	for _, placed := range picks {
		in, err := s.launch(c, placed, now)
		if err != nil {
			return nil, err
		}
		ids = append(ids, in.ID)
		answer.ReservationID = in.ReservationID
		answer.Instances = append(answer.Instances, s.xmlInstance(in, now))
	}
	s.Notify()
	s.Record(c, account.Entry{Outcome: "launched", Instances: ids, Tags: l.data.TagsByResource["instance"]})
	return answer, nil
}
