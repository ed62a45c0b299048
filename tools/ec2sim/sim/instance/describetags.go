package instance

import (
	"millwright/tools/ec2sim/sim/wire"
)

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

func (s *Service) DescribeTags(c *wire.Call) (any, error) {
	filters, seen := wire.ReadFilters(c.Params), s.Seen()
	var found []xmlTagRow
	for _, row := range s.tagRows(seen) {
		ok, err := wire.Matches(filters, map[string]string{row.Key: row.Value}, row.attributes)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, row)
		}
	}
	part, next, err := wire.Page(c, found, func(t xmlTagRow) string { return t.ID + "/" + t.Key }, wire.PageBounds{Least: 5, Most: 1000, Standard: 1000})
	if err != nil {
		return nil, err
	}
	return struct {
		Tags []xmlTagRow `xml:"tagSet>item"`
		Next string      `xml:"nextToken,omitempty"`
	}{part, next}, nil
}
