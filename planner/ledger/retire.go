package ledger

import (
	"cmp"
	"slices"
	"strings"

	"millwright/planner/version"
)

// RetiredAggregate is advanced by each AggregatesRetired. An aggregate at 0 was either never advanced or has
// been retired since, so a decision that expects 0 of an aggregate that can be retired also expects this one
// (planner.Expect): otherwise a plan made while a name was new could be appended after the name had been used
// and retired.
const RetiredAggregate = "ledger/retired"

// AggregatesRetired says which aggregates are at 0 again: those of claims, commands and nodes that no longer
// exist. Its writer expected each at the record that last advanced it, and the log forgets them in the same
// step.
type AggregatesRetired struct {
	Aggregates []string `json:"aggregates,omitempty"`
	// Shadow: what was last said in shadow mode is forgotten too; it may be recorded once more.
	Shadow bool `json:"shadow,omitempty"`
}

// Retirable reports that an aggregate is of a kind that new members are added to without end: claims,
// commands, nodes and capacity reservations.
func Retirable(aggregate string) bool {
	kind, _, _ := strings.Cut(aggregate, "/")
	return kind == "claim" || kind == "command" || kind == "node" || kind == "reservation"
}

// Dead returns the aggregates that no record after through advanced and that belong to nothing open, oldest
// first.
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

// open reports that an aggregate is of an open claim, command or proposal, or of a node that has one or a
// drain.
func (l *state) open(aggregate string, nodes map[string]bool) bool {
	kind, name, _ := strings.Cut(aggregate, "/")
	switch kind {
	case "claim":
		return l.Claim(name) != nil
	case "command":
		return l.Command(name) != nil || l.Proposal(name) != nil
	case "reservation":
		return false // attempts that name it are counted, whatever its sequence
	}
	return nodes[name] || l.Drain(name) != nil
}

// ShadowBytes is the approximate size of what the Ledger keeps of shadow records.
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
