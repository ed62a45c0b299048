package overview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt/stay"
	"millwright/planner/ledger"
	"millwright/planner/resource"
	"millwright/planner/world"
	"millwright/store/audit"
)

// presentMax bounds the lines of one list.
const presentMax = 10

// NodeNow reports what keeps a node, and what removing it would take; nothing if there is no such node.
func NodeNow(s *planner.Snapshot, name string) []string {
	x := stay.Of(s, name)
	if x == nil {
		return nil
	}
	if n := s.StateNode(name); n.Ledger != nil && n.Ledger.Terminated {
		return []string{fmt.Sprintf("now (as seen at %s): its instance is terminated%s", stamp(s.Now), keptText(n))}
	}
	lines := []string{fmt.Sprintf("now (as seen at %s): %s %s in %s, NodePool %s; without it %s less", stamp(s.Now), x.InstanceType, x.CapacityType, x.Zone, x.NodePool,
		audit.PriceOf(ledger.OfferingPrice{CapacityType: x.CapacityType, MicroUSDPerHour: x.MicroUSDPerHour}))}
	if x.Command != "" {
		lines = append(lines, fmt.Sprintf("  goes by command %s", x.Command))
	}
	if x.Pods == 0 {
		lines = append(lines, "  no pod on it would need another place")
	} else {
		lines = append(lines, fmt.Sprintf("  %d pod(s) would need another place: %s", x.Pods, amounts(x.Requests)))
	}
	if x.DrainsOut != "" {
		lines = append(lines, "  "+x.DrainsOut+since(x.DrainsOutSince))
	}
	for _, b := range x.Blockers[:min(len(x.Blockers), presentMax)] {
		lines = append(lines, "  stays: "+blockerText(&b))
	}
	if more := len(x.Blockers) - presentMax; more > 0 {
		lines = append(lines, fmt.Sprintf("  and for %d more reason(s)", more))
	}
	return append(lines, withoutText(x)...)
}

// keptText names the finalizers of others, for which Node and NodeClaim stay.
func keptText(n *planner.StateNode) string {
	var text string
	kept := func(what string, finalizers []string) {
		if others := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == karpv1.TerminationFinalizer }); len(others) > 0 {
			text += fmt.Sprintf("; its %s stays until others take their finalizers off: %s", what, strings.Join(others, ", "))
		}
	}
	if n.Node != nil {
		kept("Node", n.Node.Object.Finalizers)
	}
	if n.Claim != nil {
		kept("NodeClaim", n.Claim.Finalizers)
	}
	return text
}

func since(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return " (since " + stamp(at) + ")"
}

func blockerText(b *stay.Blocker) string {
	text := strings.Join(b.Reasons(), "; ")
	var times []string
	if !b.Since.IsZero() {
		times = append(times, "since "+stamp(b.Since))
	}
	if !b.Until.IsZero() {
		times = append(times, "until "+stamp(b.Until))
	}
	if len(times) > 0 {
		text += " (" + strings.Join(times, ", ") + ")"
	}
	if b.Note != "" {
		text += "; " + b.Note
	}
	return text
}

// withoutText describes where the node's pods would go.
func withoutText(x *stay.Stay) (lines []string) {
	w := x.Without
	if w == nil {
		return nil
	}
	if w.Elsewhere > 0 {
		lines = append(lines, fmt.Sprintf("  nodes that stay would take %d of its pods", w.Elsewhere))
	}
	for _, u := range w.Unplaced[:min(len(w.Unplaced), presentMax)] {
		lines = append(lines, "  nothing would take "+u)
	}
	if len(w.Claims) == 0 {
		if w.Reason != "" {
			lines = append(lines, "  stays: "+w.Reason)
		}
		return lines
	}
	var claims []string
	for i := range w.Claims {
		c := &w.Claims[i]
		claims = append(claims, fmt.Sprintf("%s %s at %s", c.Cheapest.InstanceType, c.Cheapest.CapacityType, audit.PriceOf(c.Cheapest)))
	}
	price, short := x.Instead()
	text := fmt.Sprintf("  cheapest alternative: %s; saves %s", strings.Join(claims, ", "), signed(x.MicroUSDPerHour-price))
	if short > 0 {
		text += fmt.Sprintf(", %s more are needed", audit.Price(short))
	}
	if lines = append(lines, text); w.Reason != "" {
		lines = append(lines, "  stays: "+w.Reason)
	}
	return lines
}

// signed writes a price that may be 0 or below.
func signed(micro int64) string {
	switch {
	case micro < 0:
		return "-" + audit.Price(-micro)
	case micro == 0:
		return "nothing"
	}
	return audit.Price(micro)
}

func amounts(v resource.Vector) string {
	list := v.List()
	var parts []string
	for name, q := range list {
		if name != "pods" && !q.IsZero() {
			parts = append(parts, fmt.Sprintf("%s %s", name, q.String()))
		}
	}
	slices.Sort(parts)
	if len(parts) == 0 {
		return "nothing requested"
	}
	return strings.Join(parts, ", ")
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Successors are the pods that run in the place of one that a command moved: of the same name, or of the same
// owner and created since.
func Successors(w *world.World, name string, entries []ledger.Entry) (lines []string) {
	if !strings.Contains(name, "/") {
		name = "default/" + name
	}
	since := movedAt(entries, name)
	if since.IsZero() {
		return nil
	}
	namespace, pod, _ := strings.Cut(name, "/")
	owner := pod
	if i := strings.LastIndex(pod, "-"); i > 0 {
		owner = pod[:i]
	}
	for _, p := range w.Pods() {
		if p.Namespace != namespace || p.Name != pod && (p.Class.OwnerName != owner || time.Unix(0, p.Created).Before(since)) {
			continue
		}
		where := "waits for a node"
		if p.NodeName != "" {
			where = "on node " + p.NodeName
		}
		lines = append(lines, fmt.Sprintf("now: pod %s, created %s, %s", p.Key(), stamp(time.Unix(0, p.Created)), where))
	}
	if more := len(lines) - presentMax; more > 0 {
		lines = append(lines[:presentMax], fmt.Sprintf("now: and %d more created since by %s", more, owner))
	}
	return lines
}

// movedAt is when a command that moves the pod was last started; zero if none was. Times of pods have whole
// seconds.
func movedAt(entries []ledger.Entry, name string) (at time.Time) {
	for _, e := range entries {
		p, ok := e.Payload.(*ledger.CommandStarted)
		if !ok || e.Mode == ledger.ModeShadow {
			continue
		}
		for _, c := range p.Candidates {
			if slices.ContainsFunc(c.Pods, func(r ledger.PodRef) bool { return r.Namespace+"/"+r.Name == name }) {
				at = e.Time.Truncate(time.Second)
			}
		}
	}
	return at
}
