package instance

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/sim/placement"
	"millwright/tools/ec2sim/sim/pricing"
	"millwright/tools/ec2sim/sim/wire"
)

// candidate is one override that could be launched: a pool (type, zone) in a subnet.
type candidate struct {
	launch   launchSpec
	source   fleetSource
	key      string
	price    int64 // micro USD per hour
	depth    float64
	priority float64
}

// pick is a candidate chosen for one instance.
type pick = *candidate

func (c *candidate) failed(err *wire.Error) fleetError {
	return fleetError{Code: err.Code, Message: err.Message, Lifecycle: c.launch.lifecycle(), Source: c.source}
}

// allocate orders the candidates as the strategy says and takes from each pool in turn what it has, until the
// target is met. A pool that had nothing to give is an error entry, even if the fleet is fulfilled elsewhere.
func (s *Service) allocate(r *fleetRequest, now time.Time) (picks []pick, errs []fleetError) {
	candidates, errs := s.candidates(r, now)
	slices.SortStableFunc(candidates, byStrategy(r.strategy))
	taken := newUsage(s, now)
	for _, c := range candidates {
		if len(picks) == r.total {
			break
		}
		for len(picks) < r.total {
			placed, err := s.admit(c, taken)
			if err != nil {
				errs = append(errs, c.failed(err))
				break
			}
			taken.addCandidate(placed)
			picks = append(picks, placed)
		}
	}
	if len(picks) < r.least {
		return nil, errs
	}
	return picks, errs
}

// candidates checks each override separately; those that can never launch become errors at once.
func (s *Service) candidates(r *fleetRequest, now time.Time) (out []*candidate, errs []fleetError) {
	for _, config := range r.configs {
		for _, override := range config.overrides {
			c := newCandidate(r.capacityType, config, override)
			err := config.missing
			if err == nil {
				err = s.resolve(c, config, override, now)
			}
			if err != nil {
				errs = append(errs, c.failed(err))
				continue
			}
			out = append(out, c)
		}
	}
	return out, errs
}

// newCandidate echoes the override; resolve fills in what it stands for.
func newCandidate(capacityType string, config fleetConfig, override *wire.Params) *candidate {
	c := &candidate{launch: launchSpec{capacityType: capacityType}, priority: math.MaxFloat64}
	c.source = fleetSource{config.echo, fleetOverride{override.Str("InstanceType"), override.Str("SubnetId"),
		override.Str("AvailabilityZone"), override.Str("ImageId"), override.Str("Priority"), override.Str("MaxPrice")}}
	if p, err := strconv.ParseFloat(override.Str("Priority"), 64); err == nil {
		c.priority = p
	}
	return c
}

func (s *Service) resolve(c *candidate, config fleetConfig, override *wire.Params, now time.Time) *wire.Error {
	data := config.template.Versions[config.version-1]
	echo := &c.source.Overrides
	data.ImageID = cmp.Or(echo.ImageID, data.ImageID)
	data.InstanceType = cmp.Or(echo.InstanceType, data.InstanceType)
	echo.InstanceType = data.InstanceType
	c.launch.data = data
	if err := s.place(&c.launch, echo.SubnetID, echo.AvailabilityZone); err != nil {
		return err
	}
	echo.SubnetID, echo.AvailabilityZone = c.launch.subnet.ID, c.launch.subnet.Zone.Name
	if err := s.check(&c.launch, now); err != nil {
		return err
	}
	if arn := c.launch.subnet.OutpostARN; arn != "" {
		if c.launch.capacityType == "spot" || !slices.Contains(s.deps.VPC.Outposts[arn], c.launch.instanceType.Name) {
			return wire.Refuse("Unsupported", "Your requested instance type (%s) is not supported in the requested Outpost (%s).", c.launch.instanceType.Name, arn)
		}
	}
	if z := c.launch.subnet.Zone; c.launch.capacityType == "spot" && !z.HasSpot() {
		return wire.Refuse("Unsupported", "Spot Instances are not supported in the zone %s.", z.Name)
	}
	t, zone := c.launch.instanceType, c.launch.subnet.Zone.Name
	c.key = t.Name + "/" + c.launch.subnet.ID + "/" + data.ImageID + "/" + data.ReservationID + "/" + data.GroupID + placement.Number(data.Partition)
	c.price, c.depth = s.deps.Prices.Price(t, c.launch.capacityType, zone, now), s.Spot.Depth(t, zone)
	return checkMaxPrice(echo.MaxPrice, c.price)
}

func checkMaxPrice(limit string, price int64) *wire.Error {
	if limit == "" {
		return nil
	}
	usd, err := strconv.ParseFloat(limit, 64)
	if err != nil {
		return wire.InvalidValue("Invalid value '%s' for MaxPrice.", limit)
	}
	if float64(price) > usd*1e6 {
		return wire.Refuse("SpotMaxPriceTooLow", "Your Spot request price of %s is lower than the minimum required Spot request fulfillment price of %s.",
			limit, pricing.UsdText(price))
	}
	return nil
}

// byStrategy compares candidates: which pool is used first. Type and subnet decide ties.
func byStrategy(strategy string) func(a, b *candidate) int {
	return func(a, b *candidate) int {
		var order int
		switch strategy {
		case "prioritized":
			order = cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.price, b.price))
		case "capacity-optimized":
			order = cmp.Compare(b.depth, a.depth)
		case "capacity-optimized-prioritized":
			order = cmp.Or(cmp.Compare(math.Round(4*b.depth), math.Round(4*a.depth)), cmp.Compare(a.priority, b.priority))
		case "price-capacity-optimized":
			order = cmp.Compare(a.weighed(), b.weighed())
		default:
			order = cmp.Compare(a.price, b.price)
		}
		return cmp.Or(order, cmp.Compare(a.key, b.key))
	}
}

// weighed is the price with up to a fifth added for a shallow pool.
func (c *candidate) weighed() float64 { return float64(c.price) * (1 + 0.2*(1-c.depth)) }

// usage counts what live instances and earlier picks of the same fleet take from capacity rules and subnets.
type usage struct {
	pools    []poolUse
	subnets  map[string]int
	reserved map[string]int
	members  []placement.Member
	vcpus    map[quotaKey]int
}

type poolUse struct{ instanceType, zone, capacityType, group string }

func newUsage(s *Service, now time.Time) *usage {
	u := &usage{subnets: map[string]int{}, reserved: map[string]int{}, vcpus: map[quotaKey]int{}}
	for _, in := range s.instances.all() {
		if in.usesQuota(now) {
			u.addQuota(catalogue.Lookup(in.Type), in.CapacityType)
		}
		if in.live(now) {
			u.subnets[in.SubnetID] += in.Data.Addresses()
			if in.PlacementGroup != "" {
				u.members = append(u.members, placement.Member{Group: in.PlacementGroup, Zone: in.Zone, Partition: in.Partition})
			}
			if id := s.reservationOf(in, now); id != "" {
				u.reserved[id]++ // its capacity is its own, no rule counts it
				continue
			}
			u.pools = append(u.pools, poolUse{in.Type, in.Zone, in.CapacityType, in.PlacementGroup})
		}
	}
	return u
}

func (u *usage) addCandidate(c *candidate) {
	u.addQuota(c.launch.instanceType, c.launch.capacityType)
	u.subnets[c.launch.subnet.ID] += c.launch.data.Addresses()
	if g := c.launch.group; g != nil {
		u.members = append(u.members, placement.Member{Group: g.ID, Zone: c.launch.subnet.Zone.Name, Partition: c.launch.partition})
	}
	if id := c.launch.data.ReservationID; id != "" {
		u.reserved[id]++
		return
	}
	u.pools = append(u.pools, poolUse{c.launch.instanceType.Name, c.launch.subnet.Zone.Name, c.launch.capacityType, c.launch.groupID()})
}

// admit returns the candidate in its place of the placement group, if the pool, the subnet and the group have
// room for one more.
func (s *Service) admit(c *candidate, u *usage) (*candidate, *wire.Error) {
	if err := s.hasRoom(c, u); err != nil {
		return nil, err
	}
	g := c.launch.group
	if g == nil {
		return c, nil
	}
	members := slices.DeleteFunc(slices.Clone(u.members), func(m placement.Member) bool { return m.Group != g.ID })
	partition, err := g.Place(c.launch.subnet.Zone.Name, c.launch.data.Partition, members)
	if err != nil {
		return nil, err
	}
	placed := *c
	placed.launch.partition = partition
	return &placed, nil
}

// groupID of the placement group; "" for none.
func (l *launchSpec) groupID() string {
	if l.group == nil {
		return ""
	}
	return l.group.ID
}

func (s *Service) hasRoom(c *candidate, u *usage) *wire.Error {
	t, zone := c.launch.instanceType, c.launch.subnet.Zone.Name
	if u.subnets[c.launch.subnet.ID]+c.launch.data.Addresses() > c.launch.subnet.Limit() {
		return wire.Refuse("InsufficientFreeAddressesInSubnet",
			"There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", c.launch.subnet.ID)
	}
	if id := c.launch.data.ReservationID; id != "" {
		if market := s.deps.Reservations.Market(id); market != c.launch.data.Market || market != marketOf(c.launch.capacityType) {
			return wire.Refuse("InvalidParameterCombination",
				"The capacity reservation %s cannot be used by a launch of the market type '%s' for the target capacity type '%s'.", id, c.launch.data.Market, c.launch.capacityType)
		}
		return s.deps.Reservations.Refusal(id, t.Name, zone, u.reserved[id], s.Now())
	}
	if err := s.quotaError(c, u); err != nil {
		return err
	}
	return s.capacityError(poolUse{t.Name, zone, c.launch.capacityType, c.launch.groupID()}, u)
}

// marketOf is the kind of reservation that a target capacity type of a fleet stands for; "" for a plain one.
func marketOf(target string) string {
	switch target {
	case "capacity-block":
		return target
	case "reserved-capacity":
		return "interruptible-capacity-reservation"
	}
	return ""
}

// lifecycle of the instances, in EC2's words.
func (l *launchSpec) lifecycle() string { return cmp.Or(l.data.Market, l.capacityType) }
