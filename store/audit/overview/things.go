package overview

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	"millwright/planner/nodepool"
	"millwright/planner/world"
	"millwright/store/audit"
)

// ThingNow says what there is of a node, NodeClaim, instance, command, NodePool or EC2NodeClass, and what
// keeps it from being launched, used or taken; nothing of one that is not there. The kind is as in
// subjects of records.
func ThingNow(s *planner.Snapshot, kind, name string) []string {
	switch kind {
	case "node":
		return NodeNow(s, name)
	case "claim":
		return claimNow(s, name)
	case "instance":
		for _, c := range s.Ledger.Claims() {
			if c.Instance != nil && c.Instance.InstanceID == name {
				return claimNow(s, c.Name)
			}
		}
	case "command":
		return commandNow(s.Ledger, name)
	case "pool":
		return poolNow(s, name)
	case "nodeclass":
		return classNow(s, name)
	}
	return nil
}

// claimNow is of its node once that has joined, and before of its launch.
func claimNow(s *planner.Snapshot, name string) []string {
	n, c := s.StateNodeOfClaim(name), s.Ledger.Claim(name)
	if n != nil && (n.Node != nil || c != nil && c.Terminated) {
		return NodeNow(s, n.Name)
	}
	switch {
	case c == nil || c.Terminated:
		return nil
	case c.Doomed != nil:
		return []string{"now: it is being ended: " + c.Doomed.Reason}
	case c.Instance != nil:
		return []string{fmt.Sprintf("now: instance %s, %s %s in %s, is there; its node has not joined", c.Instance.InstanceID, c.Instance.InstanceType, c.Instance.CapacityType, c.Instance.Zone)}
	case c.Open != nil:
		return []string{fmt.Sprintf("now: not launched yet: attempt %d has no answer since %s", c.Attempt, stamp(c.OpenedAt))}
	case c.Failed != nil:
		return []string{"now: not launched: " + audit.Describe(ledger.Entry{Kind: ledger.KindLaunchFailed, Payload: c.Failed}, "") + "; it is tried again"}
	}
	return []string{"now: not launched: no attempt was made yet"}
}

func commandNow(l *ledger.Ledger, id string) []string {
	for _, c := range Commands(l) {
		if c.ID != id {
			continue
		}
		text := fmt.Sprintf("now: %s%s %s", strings.ToLower(c.State), began(c.State), stamp(c.At))
		switch {
		case c.State == "Proposed":
			text += fmt.Sprintf(": it waits for somebody to approve it, until %s", stamp(c.Until))
		case !c.Until.IsZero():
			text += fmt.Sprintf(", until %s", stamp(c.Until))
		}
		if c.By != "" {
			text += fmt.Sprintf("; %s: %s", c.By, c.Why)
		}
		return []string{text}
	}
	return nil
}

// began says what a command did when it began to be, in words between its state now and that time.
func began(state string) string {
	switch state {
	case "Proposed", "Started":
		return " since"
	case "Approved", "Rejected":
		return ", proposed at"
	}
	return ", started at"
}

// poolNow also says what keeps a NodePool from launching, and its nodes from going.
func poolNow(s *planner.Snapshot, name string) (lines []string) {
	pool := s.World.NodePool(name)
	if pool == nil {
		return nil
	}
	nodes, coming, price := 0, 0, int64(0)
	for _, n := range s.StateNodes() {
		if n.NodePool == name {
			nodes, price = nodes+1, price+disrupt.Price(s, n)
		}
	}
	for _, c := range s.InFlight() {
		if c.NodePool == name {
			coming++
		}
	}
	lines = append(lines, fmt.Sprintf("now (as seen at %s): %d node(s) for %s, %d to come", stamp(s.World.AsOf()), nodes, signed(price), coming))
	lines = append(lines, notReady("nothing is launched from it", pool.Status.Conditions)...)
	lines = append(lines, limitsNow(pool)...)
	switch d := &pool.Spec.Disruption; {
	case d.ConsolidateAfter.Duration == nil:
		lines = append(lines, "  nothing of it is consolidated: spec.disruption.consolidateAfter is Never")
	case d.ConsolidationPolicy == karpv1.ConsolidationPolicyWhenEmpty:
		lines = append(lines, "  only empty nodes of it are consolidated: spec.disruption.consolidationPolicy is WhenEmpty")
	}
	return append(append(lines, budgetsNow(s, pool)...), windowsNow(s, pool)...)
}

// notReady names the conditions that are not true, if Ready is not.
func notReady(consequence string, list []metav1.Condition) (lines []string) {
	i := slices.IndexFunc(list, func(c metav1.Condition) bool { return c.Type == "Ready" })
	if i < 0 || list[i].Status == metav1.ConditionTrue {
		return nil
	}
	for _, c := range list {
		if c.Status != metav1.ConditionTrue && (c.Type != "Ready" || len(list) == 1) {
			lines = append(lines, fmt.Sprintf("  %s: condition %s is %s (since %s): %s", consequence, c.Type, c.Status, stamp(c.LastTransitionTime.Time), strings.Trim(c.Reason+": "+c.Message, ": ")))
		}
	}
	return lines
}

func limitsNow(pool *karpv1.NodePool) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(pool.Spec.Limits)) {
		limit, used := pool.Spec.Limits[name], pool.Status.Resources[name]
		text := fmt.Sprintf("  limits.%s: %s of %s in use", name, used.String(), limit.String())
		if used.Cmp(limit) >= 0 {
			text += ": nothing more is launched"
		}
		lines = append(lines, text)
	}
	return lines
}

func budgetsNow(s *planner.Snapshot, pool *karpv1.NodePool) (lines []string) {
	for _, reason := range disrupt.Reasons {
		switch r := disrupt.Budgets(s, pool, reason); {
		case r.Invalid != "":
			lines = append(lines, fmt.Sprintf("  no node of it is disrupted for %s: spec.disruption.budgets: %s", reason, r.Invalid))
		case !r.Unlimited:
			text := fmt.Sprintf("  budgets let %d of its nodes go at once for %s, and %d more now", r.Allowed, reason, r.Remaining)
			if r.Remaining == 0 {
				text = fmt.Sprintf("  budgets let none of its nodes go now for %s: %d of %d allowed are going or not ready", reason, r.Consuming, r.Allowed)
			}
			lines = append(lines, text)
		}
	}
	if at := nodepool.NextChange(pool.Spec.Disruption.Budgets, s.Now); !at.IsZero() {
		lines = append(lines, "  budgets change at "+stamp(at))
	}
	return lines
}

func classNow(s *planner.Snapshot, name string) (lines []string) {
	class := s.World.NodeClass(name)
	if class == nil {
		return nil
	}
	used, nodes := map[string]bool{}, 0
	for _, p := range s.World.NodePools() {
		if ref := p.Spec.Template.Spec.NodeClassRef; ref != nil && ref.Name == name {
			used[p.Name] = true
		}
	}
	for _, c := range s.World.NodeClaims() {
		if ref := c.Spec.NodeClassRef; ref != nil && ref.Name == name {
			nodes++
		}
	}
	text := "no NodePool names it"
	if len(used) > 0 {
		text = "of NodePool " + strings.Join(slices.Sorted(maps.Keys(used)), ", ")
	}
	lines = append(lines, fmt.Sprintf("now (as seen at %s): %d NodeClaim(s); %s", stamp(s.World.AsOf()), nodes, text))
	lines = append(lines, notReady("nothing is launched with it", class.Status.Conditions)...)
	if zones := s.ClosedZones(name); len(zones) > 0 {
		lines = append(lines, "  its subnets have no addresses left in "+strings.Join(zones, ", "))
	}
	for _, a := range class.Status.AMIs {
		lines = append(lines, strings.TrimRight(fmt.Sprintf("  launches image %s %s", a.ID, a.Name), " "))
	}
	return lines[:min(len(lines), 2*presentMax)]
}

// PodCost says what a pod that runs costs: as much of its node as it requests of the resource that it
// requests most of. Nothing for pods that do not run, and nodes without a price.
func PodCost(s *planner.Snapshot, name string) []string {
	var pod *world.Pod
	for _, p := range s.World.Pods() {
		if p.Key() == name && p.NodeName != "" && p.Active() {
			pod = p
		}
	}
	if pod == nil {
		return nil
	}
	n := s.StateNode(pod.NodeName)
	if n == nil || n.Allocatable.MilliCPU <= 0 || n.Allocatable.Memory <= 0 {
		return nil
	}
	price := disrupt.Price(s, n)
	share := max(float64(pod.Class.Requests.MilliCPU)/float64(n.Allocatable.MilliCPU), float64(pod.Class.Requests.Memory)/float64(n.Allocatable.Memory))
	if price <= 0 || share <= 0 {
		return nil
	}
	life := max(0, s.Now.Sub(time.Unix(0, pod.Created)))
	mine := float64(price) / 1e6 * min(share, 1)
	return []string{fmt.Sprintf("cost so far: $%.4f, if it was always where it is: for %s it has requested %.0f%% of node %s, $%.4f/h of $%.4f/h", mine*life.Hours(),
		life.Round(time.Second), 100*share, n.Name, mine, float64(price)/1e6)}
}
