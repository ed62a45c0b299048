package overview

import (
	"fmt"
	"strings"
	"time"

	"millwright/planner/ledger"
)

// CostOf says what the instance behind a node, a NodeClaim or an instance of a story has cost over its
// life, by the price that it was launched at: until it was terminated, or until now. Nothing for other
// subjects, for what was not launched here, and for what was only to be launched (mode shadow).
func CostOf(entries []ledger.Entry, subject string, now time.Time) (lines []string) {
	kind, name, _ := strings.Cut(subject, "/")
	registered, ended := map[string]string{}, map[string]time.Time{}
	for _, e := range entries {
		switch p := e.Payload.(type) {
		case *ledger.ClaimRegistered:
			registered[p.Claim] = p.Node
		case *ledger.InstanceTerminated:
			ended[p.InstanceID] = e.Time
		}
	}
	for _, e := range entries {
		p, ok := e.Payload.(*ledger.Launched)
		if !ok || e.Mode == ledger.ModeShadow || p.Price <= 0 {
			continue
		}
		if !(kind == "claim" && p.Claim == name || kind == "instance" && p.InstanceID == name || kind == "node" && registered[p.Claim] == name) {
			continue
		}
		until, gone := ended[p.InstanceID]
		if !gone {
			until = now
		}
		life := max(0, until.Sub(e.Time))
		text := "so far"
		if gone {
			text = "over its life"
		}
		lines = append(lines, fmt.Sprintf("cost %s: $%.4f, %s %s for %s at $%.4f/h", text, float64(p.Price)/1e6*life.Hours(), p.InstanceType, p.CapacityType,
			life.Round(time.Second), float64(p.Price)/1e6))
	}
	return lines
}
