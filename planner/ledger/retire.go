package ledger

import (
	"cmp"
	"slices"
	"strings"

	"millwright/planner/version"
)

// RetiredAggregate stands at the last AggregatesRetired. What stands at 0 was either never advanced or was retired since it was, so a
// decision that expects 0 of an aggregate that can be retired expects this one too (planner.Expect): without it, what was planned when
// a name was new could be appended after the name was used, and retired.
const RetiredAggregate = "ledger/retired"

// AggregatesRetired says which aggregates stand at 0 again: those of claims, commands and nodes that are no more. Who wrote it expected
// each at the record that advanced it last, and the log forgets them in the same step.
type AggregatesRetired struct {
	Aggregates []string `json:"aggregates,omitempty"`
	// Shadow: what was last said in shadow mode is forgotten too; it may be recorded once more.
	Shadow bool `json:"shadow,omitempty"`
}

// Retirable reports that an aggregate is of a kind that comes without end: claims, commands and nodes.
func Retirable(aggregate string) bool {
	kind, _, _ := strings.Cut(aggregate, "/")
	return kind == "claim" || kind == "command" || kind == "node"
}

// Dead returns the aggregates that no record after through advanced and that belong to nothing that is open, oldest first.
func (l *state) Dead(through uint64) []string {
	nodes := map[string]bool{}
	for _, c := range l.claims.All() {
		nodes[c.Node] = true
	}
	type dead struct {
		seq  uint64
		name string
	}
	var list []dead
	for name, seq := range l.aggregates.All() {
		if seq <= through && Retirable(name) && !l.open(name, nodes) {
			list = append(list, dead{seq, name})
		}
	}
	slices.SortFunc(list, func(a, b dead) int { return cmp.Or(cmp.Compare(a.seq, b.seq), strings.Compare(a.name, b.name)) })
	names := make([]string, len(list))
	for i, d := range list {
		names[i] = d.name
	}
	return names
}

// open reports that an aggregate is of an open claim, command or proposal, or of a node that has one or a drain.
func (l *state) open(aggregate string, nodes map[string]bool) bool {
	kind, name, _ := strings.Cut(aggregate, "/")
	switch kind {
	case "claim":
		return l.Claim(name) != nil
	case "command":
		return l.Command(name) != nil || l.Proposal(name) != nil
	}
	return nodes[name] || l.Drain(name) != nil
}

// ShadowBytes is about what the Ledger keeps of shadow records.
func (l *state) ShadowBytes() int {
	n := 0
	for key, digest := range l.shadow.All() {
		n += len(key) + len(digest)
	}
	return n
}

func (l *Ledger) foldRetired(p *AggregatesRetired) {
	for _, name := range p.Aggregates {
		l.aggregates.Delete(l.owner, name)
	}
	if p.Shadow {
		l.shadow = version.NewMap[string, string](version.String[string])
	}
}
