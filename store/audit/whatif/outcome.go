package whatif

import (
	"cmp"
	"fmt"
	"strings"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/store/audit"
)

// Outcome is what a decision, or the commands of one pass, come to.
type Outcome struct {
	// Kinds of the decisions, each once; empty if nothing is decided.
	Kinds []string `json:"kinds,omitempty"`
	// Nodes that are to be made, and that are to be taken away.
	Made  int `json:"made"`
	Taken int `json:"taken"`
	// MicroUSDPerHour is by how much the nodes cost more per hour; negative: less.
	MicroUSDPerHour int64 `json:"microUSDPerHour"`
	// Evictions are pods that are moved, Refused those that fit nowhere.
	Evictions int `json:"evictions"`
	Refused   int `json:"refused"`
	// Text says it in words.
	Text string `json:"text"`
}

// add counts another one.
func (o *Outcome) add(x Outcome) {
	o.Made, o.Taken, o.MicroUSDPerHour = o.Made+x.Made, o.Taken+x.Taken, o.MicroUSDPerHour+x.MicroUSDPerHour
	o.Evictions, o.Refused = o.Evictions+x.Evictions, o.Refused+x.Refused
}

// nothing is the Text of an Outcome without decisions.
const nothing = "nothing"

// decided is one decision, recorded or planned.
type decided struct {
	kind    ledger.Kind
	payload any
}

func plannedOnes(list []*planner.Decision) (out []decided) {
	for _, d := range list {
		out = append(out, decided{d.Kind, d.Payload})
	}
	return out
}

// outcomeOf sums decisions up. The Snapshot says what a widened claim was to cost before.
func outcomeOf(list []decided, s *planner.Snapshot) Outcome {
	sum := Outcome{Text: nothing}
	var texts []string
	for _, d := range list {
		one, text := d.outcome(s)
		sum.add(one)
		texts = append(texts, text)
		if name := d.kind.String(); len(sum.Kinds) == 0 || sum.Kinds[len(sum.Kinds)-1] != name {
			sum.Kinds = append(sum.Kinds, name)
		}
	}
	if len(texts) > 0 {
		sum.Text = strings.Join(texts, "; ")
	}
	return sum
}

func (d decided) outcome(s *planner.Snapshot) (Outcome, string) {
	switch p := d.payload.(type) {
	case *ledger.ProvisioningPlanned:
		return planned(p, s)
	case *ledger.CommandStarted:
		return command(p)
	case *ledger.CommandProposed:
		o, text := command(&p.Command)
		return o, "to be approved: " + text
	case *ledger.ClaimWithdrawn:
		o := Outcome{Taken: 1}
		if c := s.Ledger.Claim(p.Claim); c != nil {
			o.MicroUSDPerHour = -c.Planned.Cheapest.MicroUSDPerHour
		}
		return o, "NodeClaim " + p.Claim + " withdrawn"
	}
	return Outcome{}, audit.Describe(ledger.Entry{Kind: d.kind, Payload: d.payload, Mode: ledger.ModeActive}, s.Ledger.LogID())
}

func planned(p *ledger.ProvisioningPlanned, s *planner.Snapshot) (o Outcome, text string) {
	o.Made, o.Taken = len(p.Claims), len(p.Excess)
	texts := grouped(p.Claims)
	for i := range p.Claims {
		o.MicroUSDPerHour += p.Claims[i].Cheapest.MicroUSDPerHour
	}
	for i := range p.Widened {
		w := &p.Widened[i]
		o.MicroUSDPerHour += w.Content.Cheapest.MicroUSDPerHour
		if c := s.Ledger.Claim(w.Claim); c != nil {
			o.MicroUSDPerHour -= c.Planned.Cheapest.MicroUSDPerHour
		}
		texts = append(texts, "widens "+w.Claim+" to "+offering(w.Content.Cheapest))
	}
	pods := 0
	for _, t := range p.Placements {
		pods += len(t.Pods)
	}
	if pods > 0 {
		texts = append(texts, fmt.Sprintf("%s on what is there", count(pods, "pod")))
	}
	for i := range p.Refused {
		o.Refused += len(p.Refused[i].Pods)
	}
	if o.Refused > 0 {
		texts = append(texts, fmt.Sprintf("%s refused", count(o.Refused, "pod")))
	}
	if len(p.Excess) > 0 {
		texts = append(texts, fmt.Sprintf("%s too many", count(len(p.Excess), "NodeClaim")))
	}
	if len(texts) == 0 {
		texts = []string{"no node"}
	}
	return o, strings.Join(texts, ", ")
}

// grouped says which nodes are made, equal ones once.
func grouped(claims []ledger.PlannedClaim) (texts []string) {
	type kind struct{ pool, offering string }
	number, pods, order := map[kind]int{}, map[kind]int{}, []kind{}
	for i := range claims {
		k := kind{claims[i].NodePool, offering(claims[i].Cheapest)}
		if number[k] == 0 {
			order = append(order, k)
		}
		number[k]++
		pods[k] += len(claims[i].Pods)
	}
	for _, k := range order {
		text := fmt.Sprintf("%s for %s", k.offering, count(pods[k], "pod"))
		if number[k] > 1 {
			text = fmt.Sprintf("%d× %s", number[k], text)
		}
		texts = append(texts, cmp.Or(k.pool, "?")+": "+text)
	}
	return texts
}

func offering(o ledger.OfferingPrice) string {
	if o.InstanceType == "" {
		return "a static node"
	}
	return o.InstanceType + " " + o.CapacityType + " " + o.Zone
}

func command(p *ledger.CommandStarted) (Outcome, string) {
	o := Outcome{Made: len(p.Replacements), Taken: len(p.Candidates), MicroUSDPerHour: p.PriceAfter - p.PriceBefore, Evictions: p.Evictions}
	if p.PriceBefore == 0 && p.PriceAfter == 0 { // records of emptiness name only the candidates' prices
		for i := range p.Candidates {
			o.MicroUSDPerHour -= p.Candidates[i].Price
		}
		for i := range p.Replacements {
			o.MicroUSDPerHour += p.Replacements[i].Cheapest.MicroUSDPerHour
		}
	}
	const shown = 3
	var names []string
	for i := range p.Candidates[:min(shown, len(p.Candidates))] {
		names = append(names, cmp.Or(p.Candidates[i].Node, p.Candidates[i].Claim))
	}
	if len(p.Candidates) > shown {
		names = append(names, "…")
	}
	text := fmt.Sprintf("%s takes %s (%s)", p.Reason, count(len(p.Candidates), "node"), strings.Join(names, ", "))
	if len(p.Replacements) > 0 {
		text += " for " + strings.Join(grouped(p.Replacements), ", ")
	}
	return o, text
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
