package sim

// runInstances launches without a fleet; its dry run is how callers check their permissions.
func runInstances(s *Server, c *call) (any, error) {
	l, count, err := s.readRun(c.params)
	if err != nil {
		return nil, err
	}
	if c.params.bool("DryRun") {
		return nil, dryRun()
	}
	return s.once(c, func() (any, error) { return s.run(c, l, count) })
}

func (s *Server) readRun(p *params) (launchSpec, int, *Error) {
	if !p.has("MinCount") || !p.has("MaxCount") {
		return launchSpec{}, 0, missingParameter("MinCount and MaxCount")
	}
	count, err := p.int("MaxCount", 1)
	if err != nil {
		return launchSpec{}, 0, err
	}
	data, err := s.runData(p)
	if err != nil {
		return launchSpec{}, 0, err
	}
	l := launchSpec{data: data, capacityType: "on-demand"}
	if p.str("InstanceMarketOptions.MarketType") == "spot" {
		l.capacityType = "spot"
	}
	if err := s.place(&l, p.str("SubnetId"), p.str("Placement.AvailabilityZone")); err != nil {
		return l, 0, err
	}
	return l, count, s.check(&l, s.now())
}

// runData reads the request over the launch template it may name.
func (s *Server) runData(p *params) (templateData, *Error) {
	data, err := readTemplateData(p)
	if err != nil || !p.has("LaunchTemplate") {
		return data, err
	}
	t, err := s.findTemplate(p.at("LaunchTemplate"))
	if err != nil {
		return data, err
	}
	number, err := t.version(p.str("LaunchTemplate.Version"))
	if err != nil {
		return data, err
	}
	base := t.Versions[number-1]
	base.ImageID = orElse(data.ImageID, base.ImageID)
	base.InstanceType = orElse(data.InstanceType, base.InstanceType)
	base.UserData = orElse(data.UserData, base.UserData)
	base.Profile = orElse(data.Profile, base.Profile)
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

func (s *Server) run(c *call, l launchSpec, count int) (any, error) {
	now := s.now()
	answer := runAnswer{Owner: s.cfg.AccountID}
	least, err := c.params.int("MinCount", 1)
	if err != nil {
		return nil, err
	}
	picked, used := 0, newUsage(s, now)
	one := &candidate{launch: l}
	var refused *Error
	for picked < count {
		if refused = s.admit(one, used); refused != nil {
			break
		}
		used.add(one)
		picked++
	}
	if picked < least {
		s.record(c, entry{outcome: "none", errors: []fleetError{{Code: refused.Code, Message: refused.Message}}})
		return nil, refused
	}
	var ids []string
	for range picked {
		in, err := s.launch(c, l, now)
		if err != nil {
			return nil, err
		}
		ids = append(ids, in.ID)
		answer.ReservationID = in.ReservationID
		answer.Instances = append(answer.Instances, s.xmlInstance(in, now))
	}
	s.notify()
	s.record(c, entry{outcome: "launched", instances: ids, tags: l.data.TagsByResource["instance"]})
	return answer, nil
}
