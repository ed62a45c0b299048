package sim

import (
	"slices"
	"strings"
	"time"
)

// tagRows lists the tags of instances, their parts and launch templates, by resource and key.
func (s *Server) tagRows(at time.Time) []xmlTagRow {
	var out []xmlTagRow
	add := func(id, kind string, h tagHistory) {
		for _, t := range xmlTags(h.at(at)) {
			out = append(out, xmlTagRow{id, kind, t.Key, t.Value})
		}
	}
	for _, in := range s.instances.all() {
		add(in.ID, "instance", in.Tags)
		for _, part := range sortedKeys(in.PartTags) {
			prefix, _, _ := strings.Cut(part, "-")
			if s.instances.partOf(part) == in {
				add(part, kinds[prefix], in.PartTags[part])
			}
		}
	}
	for _, id := range sortedKeys(s.templates) {
		if !s.templates[id].Deleted {
			add(id, "launch-template", s.templates[id].Tags)
		}
	}
	slices.SortFunc(out, func(a, b xmlTagRow) int { return strings.Compare(a.ID+"/"+a.Key, b.ID+"/"+b.Key) })
	return out
}
