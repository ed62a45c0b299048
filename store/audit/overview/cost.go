package overview

import (
	"fmt"
	"strings"
	"time"

	"millwright/planner/ledger"
)

// CostOf says what the instance behind a node, a NodeClaim or an instance of a story has cost over its
// life, by the price that it was launched at: until it was terminated, or until now. For a pod it is the
// instances that were made for it. Nothing for other subjects, for what was not launched here, and for
// what was only to be launched (mode shadow).
func CostOf(entries []ledger.Entry, logID, subject string, now time.Time) (lines []string) {
	kind, name, _ := strings.Cut(subject, "/")
	registered, ended, planned := map[string]string{}, map[string]time.Time{}, map[string]int{}
	for _, e := range entries {
		switch p := e.Payload.(type) {
		case *ledger.ClaimRegistered:
			registered[p.Claim] = p.Node
		case *ledger.InstanceTerminated:
			ended[p.InstanceID] = e.Time
		case *ledger.ProvisioningPlanned:
			plannedFor(planned, e.Seq, logID, name, p.Claims)
		case *ledger.CommandStarted:
			plannedFor(planned, e.Seq, logID, name, p.Replacements)
		}
	}
	one := func(e ledger.Entry, p *ledger.Launched) {
		if e.Mode == ledger.ModeShadow || p.Price <= 0 {
			return
		}
		if !(kind == "claim" && p.Claim == name || kind == "instance" && p.InstanceID == name || kind == "node" && registered[p.Claim] == name ||
			kind == "pod" && planned[p.Claim] > 0) {
			return
		}
		until, gone := ended[p.InstanceID]
		text := "over its life"
		if !gone {
			until, text = now, "so far"
		}
		life := max(0, until.Sub(e.Time))
		sum := float64(p.Price) / 1e6 * life.Hours()
		of := ""
		if kind == "pod" {
			of = fmt.Sprintf(", made for %d pod(s): $%.4f for each", planned[p.Claim], sum/float64(planned[p.Claim]))
		}
		lines = append(lines, fmt.Sprintf("cost %s: $%.4f, %s %s for %s at $%.4f/h%s", text, sum, p.InstanceType, p.CapacityType, life.Round(time.Second), float64(p.Price)/1e6, of))
	}
	for _, e := range entries {
		switch p := e.Payload.(type) {
		case *ledger.Launched:
			one(e, p)
		case *ledger.FleetAnswered:
			for i := range p.Launched {
				one(e, &p.Launched[i])
			}
		}
	}
	return lines
}

// plannedFor notes for how many pods each claim was planned of which a pod, NAMESPACE/NAME, is one.
func plannedFor(counts map[string]int, seq uint64, logID, name string, claims []ledger.PlannedClaim) {
	for i := range claims {
		for _, p := range claims[i].Pods {
			if p.Namespace+"/"+p.Name == name {
				counts[ledger.ClaimName(logID, claims[i].NodePool, seq, i)] = len(claims[i].Pods)
			}
		}
	}
}
