package overview

import (
	"strings"

	"millwright/planner"
	"millwright/store/audit"
	"millwright/store/audit/remedy"
)

// PodWaits says what would let a pod, NAMESPACE/NAME, run that was refused or not looked at yet; nothing for
// others. stop ends the search early; nil: it is not ended.
func PodWaits(s *planner.Snapshot, name string, stop func() bool) (lines []string) {
	if !strings.Contains(name, "/") {
		name = "default/" + name
	}
	for _, p := range s.World.PendingPods() {
		if p.Key() != name || !p.Active() {
			continue
		}
		if v := s.Ledger.Verdict(p.UID); v != nil && (v.Node != "" || v.Claim != "") {
			return nil
		}
		found := remedy.Of(s, p.UID, stop)
		for i := range found.Remedies {
			r := &found.Remedies[i]
			text := "now: to let it run, " + r.Text()
			if r.MicroUSDPerHour > 0 {
				text += " at " + audit.Price(r.MicroUSDPerHour)
			}
			lines = append(lines, text)
		}
		switch {
		case found.Fits:
			lines = append(lines, "now: there is a place for it, which the next round gives it")
		case found.Cut:
			lines = append(lines, "now: not every change was tried, for want of time")
		case len(lines) == 0:
			lines = append(lines, "now: neither one change nor two of a NodePool or of the pod would let it run")
		}
	}
	return lines
}
