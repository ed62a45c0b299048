package policy

import (
	"slices"
	"time"

	"millwright/planner/ledger"
)

// Approval is what the policies of a command's nodes demand.
type Approval struct {
	Policies []string
	Life     time.Duration
}

// proposalLife is how long a proposal waits if its policy says nothing.
const proposalLife = 24 * time.Hour

// ApprovalFor returns nil if a command may start without asking.
func ApprovalFor(byPool map[string][]*Policy, started *ledger.CommandStarted) *Approval {
	var a *Approval
	for _, taken := range started.Candidates {
		for _, rule := range byPool[taken.NodePool] {
			want := rule.Spec.Approval
			if want == nil || len(want.Reasons) > 0 && !slices.Contains(want.Reasons, started.Reason) {
				continue
			}
			life := proposalLife
			if want.ExpireAfter != nil {
				life = want.ExpireAfter.Duration
			}
			if a == nil {
				a = &Approval{Life: life}
			}
			a.Life = min(a.Life, life)
			if !slices.Contains(a.Policies, rule.Name) {
				a.Policies = append(a.Policies, rule.Name)
			}
		}
	}
	if a != nil {
		slices.Sort(a.Policies)
	}
	return a
}
