package overview

import (
	"fmt"
	"strings"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner"
	"millwright/planner/disrupt"
)

// windowsNow are the next openings of the windows of each DisruptionPolicy that selects a NodePool, or what
// of the policy can't be read.
func windowsNow(s *planner.Snapshot, pool *karpv1.NodePool) (lines []string) {
	for _, p := range s.World.DisruptionPolicies() {
		selected, openings, fault := disrupt.PolicyStatus(p, []*karpv1.NodePool{pool}, s.Now)
		switch {
		case selected == 0:
		case fault != "":
			lines = append(lines, fmt.Sprintf("  no node of it is disrupted: DisruptionPolicy %s can't be read: %s", p.Name, fault))
		default:
			for i := range openings {
				text := "  " + openingText(p.Name, &openings[i])
				if !openings[i].From.After(s.Now) {
					text += ", open now"
				}
				lines = append(lines, text)
			}
		}
	}
	return lines
}

func openingText(policy string, o *mwv1alpha1.Opening) string {
	verb, reasons := "allows", "every reason"
	if o.Action == mwv1alpha1.WindowDeny {
		verb = "denies"
	}
	if len(o.Reasons) > 0 {
		var names []string
		for _, r := range o.Reasons {
			names = append(names, string(r))
		}
		reasons = strings.Join(names, ", ")
	}
	return fmt.Sprintf("DisruptionPolicy %s %s disruption for %s from %s to %s", policy, verb, reasons, stamp(o.From.Time), stamp(o.Until.Time))
}
