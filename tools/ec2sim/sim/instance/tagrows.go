package instance

import (
	"maps"
	"slices"
	"strings"
	"time"

	"millwright/tools/ec2sim/sim/tag"
)

// tagRows lists the tags of instances, their parts and launch templates, by resource and key.
func (s *Service) tagRows(at time.Time) []xmlTagRow {
	var out []xmlTagRow
	add := func(id, kind string, h tag.History) {
		for _, t := range tag.List(h.At(at)) {
			out = append(out, xmlTagRow{id, kind, t.Key, t.Value})
		}
	}
	for _, in := range s.instances.all() {
		add(in.ID, "instance", in.Tags)
		for _, part := range slices.Sorted(maps.Keys(in.PartTags)) {
			prefix, _, _ := strings.Cut(part, "-")
			if s.instances.partOf(part) == in {
				add(part, kinds[prefix], in.PartTags[part])
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.deps.Templates.ByID)) {
		if !s.deps.Templates.ByID[id].Deleted {
			add(id, "launch-template", s.deps.Templates.ByID[id].Tags)
		}
	}
	slices.SortFunc(out, func(a, b xmlTagRow) int { return strings.Compare(a.ID+"/"+a.Key, b.ID+"/"+b.Key) })
	return out
}
