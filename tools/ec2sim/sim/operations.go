package sim

var ec2Operations = map[string]operation{
	"CreateFleet":                    createFleet,
	"RunInstances":                   runInstances,
	"DescribeInstances":              describeInstances,
	"DescribeInstanceStatus":         describeInstanceStatus,
	"TerminateInstances":             terminateInstances,
	"CreateTags":                     createTags,
	"DeleteTags":                     deleteTags,
	"DescribeTags":                   describeTags,
	"CreateLaunchTemplate":           createLaunchTemplate,
	"CreateLaunchTemplateVersion":    createLaunchTemplateVersion,
	"DeleteLaunchTemplate":           deleteLaunchTemplate,
	"DescribeLaunchTemplates":        describeLaunchTemplates,
	"DescribeLaunchTemplateVersions": describeLaunchTemplateVersions,
	"DescribeSubnets":                describeSubnets,
	"DescribeSecurityGroups":         describeSecurityGroups,
	"DescribeAvailabilityZones":      describeAvailabilityZones,
	"DescribeImages":                 describeImages,
	"DescribeInstanceTypes":          describeInstanceTypes,
	"DescribeInstanceTypeOfferings":  describeInstanceTypeOfferings,
	"DescribeSpotPriceHistory":       describeSpotPriceHistory,
	"DescribeCapacityReservations":   describeCapacityReservations,
	"DescribePlacementGroups":        describePlacementGroups,
}

// describePlacementGroups: the account has none.
func describePlacementGroups(s *Server, c *call) (any, error) {
	if names := append(c.params.strs("GroupName"), c.params.strs("GroupId")...); len(names) > 0 {
		return nil, refuse("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", names[0])
	}
	return struct{}{}, nil
}

type xmlTagRow struct {
	ID    string `xml:"resourceId"`
	Kind  string `xml:"resourceType"`
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

func (t xmlTagRow) attributes(name string) ([]string, bool) {
	value, ok := map[string]string{"resource-id": t.ID, "resource-type": t.Kind, "key": t.Key, "value": t.Value}[name]
	return []string{value}, ok
}

// kinds of resources by the prefix of their id.
var kinds = map[string]string{"eni": "network-interface", "vol": "volume", "fleet": "fleet", "sir": "spot-instances-request"}

func describeTags(s *Server, c *call) (any, error) {
	filters, seen := readFilters(c.params), s.seen()
	var found []xmlTagRow
	for _, row := range s.tagRows(seen) {
		ok, err := matches(filters, map[string]string{row.Key: row.Value}, row.attributes)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, row)
		}
	}
	part, next, err := page(c, found, func(t xmlTagRow) string { return t.ID + "/" + t.Key }, pageBounds{5, 1000, 1000})
	if err != nil {
		return nil, err
	}
	return struct {
		Tags []xmlTagRow `xml:"tagSet>item"`
		Next string      `xml:"nextToken,omitempty"`
	}{part, next}, nil
}
