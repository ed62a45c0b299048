// Package placement holds placement groups, and says where an instance may be placed in one.
package placement

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/tag"
	"millwright/tools/ec2sim/sim/wire"
)

// EC2's strategies.
const (
	Cluster   = "cluster"
	Partition = "partition"
	Spread    = "spread"
)

// EC2's limits, of a group and in each zone.
const (
	partitionsMax = 7
	spreadMax     = 7
	// partitions of a group that does not say how many.
	partitions = 2
)

// Group of instances.
type Group struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Strategy   string            `json:"strategy"`
	Partitions int               `json:"partitions,omitempty"`
	Tags       map[string]string `json:"tags,omitempty"`
	Created    time.Time         `json:"created"`
}

// Member is an instance in a group.
type Member struct {
	Group, Zone string
	Partition   int
}

// Groups are the account's placement groups, by id.
type Groups struct {
	*account.Account
	byID map[string]*Group
	// Members are the instances that take a place in a group at a time.
	Members func(id string, at time.Time) []Member
}

// New returns no groups.
func New(a *account.Account) *Groups { return &Groups{Account: a, byID: map[string]*Group{}} }

// Load puts a group of the journal back.
func (s *Groups) Load(l account.Entity) error { return account.LoadInto(l, s.byID) }

func (s *Groups) named(name string) *Group {
	for _, g := range s.byID {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// Find returns the group that a launch names by id or by name; nil if it names none.
func (s *Groups) Find(id, name string) (*Group, *wire.Error) {
	if id == "" && name == "" {
		return nil, nil
	}
	g := s.byID[id]
	if id == "" {
		g = s.named(name)
	}
	if g == nil {
		return nil, unknown(cmp.Or(id, name))
	}
	return g, nil
}

func unknown(group string) *wire.Error {
	return wire.Refuse("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", group)
}

// Check says why a launch into the group is never possible: strategies are those that the instance type
// supports, partition is the number that the launch names, 0 if it names none.
func (g *Group) Check(instanceType string, strategies []string, partition int) *wire.Error {
	switch {
	case !slices.Contains(strategies, g.Strategy):
		return wire.Refuse("InvalidParameterCombination", "%s placement groups are not supported by the '%s' instance type.", capital(g.Strategy), instanceType)
	case partition != 0 && g.Strategy != Partition:
		return wire.Refuse("InvalidParameterCombination", "The partition number may only be specified for placement groups with the strategy partition.")
	case partition < 0 || partition > g.Partitions:
		return wire.InvalidValue("Value (%d) for parameter partitionNumber is invalid. The placement group '%s' has %d partitions.", partition, g.Name, g.Partitions)
	}
	return nil
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// Place returns the partition of one more instance in a zone beside the members that there are, 0 if the
// group has no partitions, or why there is no place for it. EC2 puts instances evenly into partitions.
func (g *Group) Place(zone string, partition int, members []Member) (int, *wire.Error) {
	inZone := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.Zone != zone })
	switch g.Strategy {
	case Cluster:
		if len(members) > len(inZone) {
			return 0, wire.Refuse("InsufficientInstanceCapacity",
				"There is not enough capacity to fulfill your request for the placement group '%s', whose instances are in another Availability Zone.", g.Name)
		}
	case Spread:
		if len(inZone) >= spreadMax {
			return 0, wire.Refuse("PlacementGroupLimitExceeded", "You have reached the limit of instances in this spread placement group in the Availability Zone '%s'.", zone)
		}
	case Partition:
		return cmp.Or(partition, g.emptiest(inZone)), nil
	}
	return 0, nil
}

// emptiest is the partition with the fewest members, the first of several.
func (g *Group) emptiest(members []Member) int {
	count := make([]int, g.Partitions)
	for _, m := range members {
		count[m.Partition-1]++
	}
	return slices.Index(count, slices.Min(count)) + 1
}

type xmlGroup struct {
	Name       string    `xml:"groupName"`
	ID         string    `xml:"groupId"`
	ARN        string    `xml:"groupArn"`
	State      string    `xml:"state"`
	Strategy   string    `xml:"strategy"`
	Partitions int       `xml:"partitionCount,omitempty"`
	Level      string    `xml:"spreadLevel,omitempty"`
	Tags       []tag.XML `xml:"tagSet>item"`
}

func (s *Groups) xmlGroup(g *Group) xmlGroup {
	x := xmlGroup{
		Name: g.Name, ID: g.ID, ARN: "arn:aws:ec2:" + s.Region.Name + ":" + s.Cfg.AccountID + ":placement-group/" + g.Name,
		State: "available", Strategy: g.Strategy, Partitions: g.Partitions, Tags: tag.List(g.Tags),
	}
	if g.Strategy == Spread {
		x.Level = "rack"
	}
	return x
}

func (g *Group) attributes(name string) ([]string, bool) {
	value, ok := map[string]string{
		"group-name": g.Name, "group-arn": "", "state": "available", "strategy": g.Strategy, "spread-level": map[bool]string{true: "rack"}[g.Strategy == Spread],
	}[name]
	return []string{value}, ok
}

// CreatePlacementGroup makes a group.
func (s *Groups) CreatePlacementGroup(c *wire.Call) (any, error) {
	g := &Group{ID: wire.NewID("pg"), Name: c.Params.Str("GroupName"), Strategy: cmp.Or(c.Params.Str("Strategy"), Cluster), Created: s.Now()}
	g.Tags = c.Params.TagSpecifications()["placement-group"]
	if g.Name == "" {
		return nil, wire.MissingParameter("groupName")
	}
	if !slices.Contains([]string{Cluster, Partition, Spread}, g.Strategy) {
		return nil, wire.InvalidValue("Value (%s) for parameter strategy is invalid.", g.Strategy)
	}
	asked, err := c.Params.Int("PartitionCount", 0)
	if err != nil {
		return nil, err
	}
	switch {
	case asked != 0 && g.Strategy != Partition:
		return nil, wire.Refuse("InvalidParameterCombination", "PartitionCount may only be specified for the strategy partition.")
	case asked < 0 || asked > partitionsMax:
		return nil, wire.InvalidValue("Value (%d) for parameter partitionCount is invalid. It must be between 1 and %d.", asked, partitionsMax)
	case g.Strategy == Partition:
		g.Partitions = cmp.Or(asked, partitions)
	}
	if s.named(g.Name) != nil {
		return nil, wire.Refuse("InvalidPlacementGroup.Duplicate", "The Placement Group '%s' already exists.", g.Name)
	}
	if c.Params.Bool("DryRun") {
		return nil, wire.DryRun()
	}
	s.byID[g.ID] = g
	s.Keep("placement-group", g.ID, g)
	return struct {
		Return bool     `xml:"return"`
		Group  xmlGroup `xml:"placementGroup"`
	}{true, s.xmlGroup(g)}, nil
}

// DeletePlacementGroup deletes a group without instances.
func (s *Groups) DeletePlacementGroup(c *wire.Call) (any, error) {
	g := s.named(c.Params.Str("GroupName"))
	switch {
	case g == nil:
		return nil, unknown(c.Params.Str("GroupName"))
	case len(s.Members(g.ID, s.Now())) > 0:
		return nil, wire.Refuse("InvalidPlacementGroup.InUse", "The placement group %s is in use and may not be deleted.", g.Name)
	case c.Params.Bool("DryRun"):
		return nil, wire.DryRun()
	}
	delete(s.byID, g.ID)
	s.Drop("placement-group", g.ID)
	return struct {
		Return bool `xml:"return"`
	}{true}, nil
}

// DescribePlacementGroups returns the groups that exist. One unknown name or id fails the whole call.
func (s *Groups) DescribePlacementGroups(c *wire.Call) (any, error) {
	filters, names, ids, seen := wire.ReadFilters(c.Params), c.Params.Strs("GroupName"), c.Params.Strs("GroupId"), s.Seen()
	for _, name := range names {
		if s.named(name) == nil {
			return nil, unknown(name)
		}
	}
	for _, id := range ids {
		if !strings.HasPrefix(id, "pg-") {
			return nil, wire.Refuse("InvalidPlacementGroupId.Malformed", `Invalid id: "%s" (expecting "pg-...")`, id)
		}
		if s.byID[id] == nil {
			return nil, unknown(id)
		}
	}
	if err := wire.CheckFilters(filters, (&Group{}).attributes); err != nil {
		return nil, err
	}
	var answer struct {
		Groups []xmlGroup `xml:"placementGroupSet>item"`
	}
	for _, id := range slices.Sorted(maps.Keys(s.byID)) {
		g := s.byID[id]
		ok, err := wire.Matches(filters, g.Tags, g.attributes)
		if err != nil {
			return nil, err
		}
		wanted := len(names)+len(ids) == 0 || slices.Contains(names, g.Name) || slices.Contains(ids, g.ID)
		if ok && wanted && !g.Created.After(seen) {
			answer.Groups = append(answer.Groups, s.xmlGroup(g))
		}
	}
	return answer, nil
}

// Number is a partition in EC2's words; "" for none.
func Number(partition int) string {
	if partition == 0 {
		return ""
	}
	return strconv.Itoa(partition)
}
