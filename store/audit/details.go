package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	"millwright/planner/provision"
)

// listedMax bounds lists in details.
const listedMax = 8

// claimDetails are the options of a planned claim: what was chosen, what was next, what was passed over.
func claimDetails(e ledger.Entry, index int, c *ledger.PlannedClaim) []string {
	if len(c.InstanceTypes) == 0 {
		return nil // a static NodePool's: nothing was weighed
	}
	lines := []string{
		"chosen: " + offering(c.Cheapest),
		"instance types by price: " + listed(c.InstanceTypes),
	}
	x, ok := provisionExplanation(e)
	if !ok {
		return lines
	}
	for i := range x.Claims {
		if x.Claims[i].Index == index {
			lines = append(lines, alternatives(&x.Claims[i])...)
		}
	}
	if x.LowerBound > 0 {
		lines = append(lines, fmt.Sprintf("all new claims of the round: %s, no plan below %s", Price(x.PricePerHour), Price(x.LowerBound)))
	}
	for _, p := range x.Pools {
		lines = append(lines, fmt.Sprintf("NodePool %s left out: %s", p.NodePool, p.Message))
	}
	for _, id := range slices.Sorted(maps.Keys(x.Reservations)) {
		lines = append(lines, fmt.Sprintf("capacity reservation %s: %d free before the round", id, x.Reservations[id]))
	}
	if n := len(x.Unavailable); n > 0 {
		var names []string
		for _, k := range x.Unavailable {
			names = append(names, k.String())
		}
		lines = append(lines, fmt.Sprintf("%d offerings marked unavailable: %s", n, listed(names)))
	}
	if n := len(x.Unproven); n > 0 {
		var names []string
		for _, k := range x.Unproven {
			names = append(names, k.String())
		}
		lines = append(lines, fmt.Sprintf("%d offerings lacked capacity when asked last, one claim at a time tries them: %s", n, listed(names)))
	}
	if n := len(x.FullSubnets); n > 0 {
		lines = append(lines, fmt.Sprintf("%d subnets without free addresses: %s", n, listed(x.FullSubnets)))
	}
	return lines
}

// bufferDetails say, in the story of a CapacityBuffer, where its capacity is after a round.
func (st *story) bufferDetails(e ledger.Entry) (lines []string) {
	name, ok := strings.CutPrefix(st.subject, "capacitybuffer/")
	if !ok {
		return nil
	}
	x, _ := provisionExplanation(e)
	for _, b := range x.Buffers {
		if b.Buffer == name {
			lines = append(lines, fmt.Sprintf("of %d pods %d fit on nodes, %d on claims that are not nodes yet, %d on new claims, %d nowhere", b.Replicas, b.Nodes, b.Claims, b.NewClaims, b.Refused))
		}
	}
	return lines
}

// widenedDetails are what was chosen before and after.
func widenedDetails(e ledger.Entry, w *ledger.WidenedClaim) []string {
	lines := []string{
		"chosen: " + offering(w.Content.Cheapest),
		"instance types by price: " + listed(w.Content.InstanceTypes),
	}
	x, _ := provisionExplanation(e)
	for _, c := range x.Widened {
		if c.Claim == w.Claim {
			lines = append(lines, fmt.Sprintf("widened by %d pods; before: %s", c.Added, offering(c.Before)))
		}
	}
	return lines
}

func provisionExplanation(e ledger.Entry) (x provision.Explanation, ok bool) {
	return x, len(e.Explanation) > 0 && json.Unmarshal(e.Explanation, &x) == nil
}

func alternatives(c *provision.ClaimExplanation) []string {
	var lines []string
	for _, a := range c.Alternatives {
		lines = append(lines, "rejected as dearer: "+offering(a))
	}
	return append(lines, refusals(c.PoolsRejected)...)
}

// refusals are one line per NodePool.
func refusals(reasons []ledger.Refusal) []string {
	var lines []string
	for _, r := range reasons {
		text := "rejected: "
		if r.NodePool != "" {
			text = fmt.Sprintf("rejected NodePool %s: ", r.NodePool)
		}
		text += fmt.Sprintf("%s (%s)", r.Message, r.Constraint)
		if len(r.Eliminated) > 0 {
			text += ", instance types eliminated by " + counts(r.Eliminated)
		}
		if r.Closest != "" {
			text += ", closest: " + r.Closest
		}
		lines = append(lines, text)
	}
	return lines
}

func counts(m map[string]int) string {
	var parts []string
	for _, k := range unionKeys(m, nil) {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}

func listed(names []string) string {
	if len(names) <= listedMax {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:listedMax], ", "), len(names)-listedMax)
}

// explained are the details of a disruption: the budget, and the nodes of the pool that stay.
func explained(e ledger.Entry) []string {
	var x disrupt.Explanation
	if len(e.Explanation) == 0 || json.Unmarshal(e.Explanation, &x) != nil || x.Budget.NodePool == "" {
		return nil
	}
	b := x.Budget
	allowed := fmt.Sprint(b.Allowed)
	if b.Unlimited {
		allowed = "any number"
	}
	lines := []string{fmt.Sprintf("budget of NodePool %s for %s: %s of %d nodes allowed, %d going or not ready", b.NodePool, b.Reason, allowed, b.Nodes, b.Consuming)}
	if r := x.Preferred; r != nil {
		lines = append(lines, fmt.Sprintf("DisruptionPolicy %s returns it from %s to %s, there for %s", r.Policy, r.From, strings.Join(r.To, ", "), r.AvailableFor))
	}
	if s := x.Searched; s != nil {
		lines = append(lines, fmt.Sprintf("the pass came to %d of %d nodes, the next one goes on with the others", s.Candidates-s.Left, s.Candidates))
	}
	for _, n := range x.Taken {
		if n.QuietSince.IsZero() {
			continue
		}
		state := "quiet"
		if b.Reason == karpv1.DisruptionReasonEmpty {
			state = "empty and quiet"
		}
		lines = append(lines, fmt.Sprintf("node %s: %s since %s%s", n.Node, state, n.QuietSince.UTC().Format("15:04:05"), suffix(", consolidateAfter ", x.ConsolidateAfter)))
	}
	for _, n := range x.Blocked[:min(len(x.Blocked), listedMax)] {
		lines = append(lines, stays(n))
	}
	return lines
}

func stays(n disrupt.NodeReport) string {
	name := n.Node
	if name == "" {
		name = n.Claim
	}
	if n.Blocked == nil {
		return fmt.Sprintf("node %s could go too: left for the next command", name)
	}
	return fmt.Sprintf("node %s stays: %s%s", name, n.Blocked.Cause, suffix(", ", n.Blocked.Message))
}
