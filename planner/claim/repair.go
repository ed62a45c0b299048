package claim

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner"
)

// UnhealthyOf is the condition of a claim's only Node whose toleration ends first (reference: lifecycle §10);
// nil if it has none.
func UnhealthyOf(nodes []*corev1.Node, policies []planner.RepairPolicy) *Unhealthy {
	if len(nodes) != 1 {
		return nil
	}
	var first *Unhealthy
	for _, p := range policies {
		for _, c := range nodes[0].Status.Conditions {
			if string(c.Type) != p.Condition || string(c.Status) != p.Status {
				continue
			}
			u := Unhealthy{Condition: p.Condition, Status: p.Status, Reason: c.Reason, Since: c.LastTransitionTime.UTC(), Until: c.LastTransitionTime.Add(p.Toleration).UTC()}
			if first == nil || u.Until.Before(first.Until) {
				first = &u
			}
		}
	}
	return first
}

// IsUnhealthy reports that a Node has a condition of the policies, however long.
func IsUnhealthy(n *corev1.Node, policies []planner.RepairPolicy) bool {
	for _, p := range policies {
		for _, c := range n.Status.Conditions {
			if string(c.Type) == p.Condition && string(c.Status) == p.Status {
				return true
			}
		}
	}
	return false
}

// RepairsAllowed reports that so few of the nodes are unhealthy that these may be replaced: a fifth, rounded
// up. More is no fault of single nodes.
func RepairsAllowed(unhealthy, nodes int) bool {
	return unhealthy <= (nodes+4)/5
}

// unhealthy: a condition of the Node has been there for longer than is tolerated. It ends the claim, or the
// wait for the pods of one that is going.
func (v view) unhealthy() bool {
	if v.Unhealthy == nil || v.Unhealthy.Blocked != "" || !passed(v.certain(), v.Unhealthy.Until) {
		return false
	}
	return v.timely(ReasonUnhealthy) || undated(v) && !v.drained() && !v.certain().Before(v.Paced[ReasonUnhealthy])
}

func (v view) unhealthyText() string {
	u := v.Unhealthy
	text := fmt.Sprintf("%s is %s", u.Condition, u.Status)
	if u.Reason != "" {
		text += " (" + u.Reason + ")"
	}
	return cut(fmt.Sprintf("%s since %s, which is tolerated for %s%s", text, u.Since.UTC().Format(time.RFC3339), u.Until.Sub(u.Since), v.onText()))
}

// onText names what a failed instance ran on.
func (v view) onText() string {
	o := v.Offering
	if o == nil {
		return ""
	}
	return fmt.Sprintf("; instance %s: %s %s in %s, image %s", v.Ledger.InstanceID, o.CapacityType, o.InstanceType, o.Zone, o.ImageID)
}
