package audit

import (
	"fmt"
	"strings"

	"millwright/planner/ledger"
	"millwright/store"
)

// ServiceConsole is the service named in records of what the console observed. It decides nothing.
const ServiceConsole = "console"

// SharesDraft is the draft of what the console observed.
func SharesDraft(s *ledger.SharesObserved) (store.Draft, error) {
	d, err := OutcomeDraft(Outcome{Kind: ledger.KindSharesObserved, Payload: s})
	d.Service, d.Mode = ServiceConsole, string(ledger.ModeActive)
	return d, err
}

func describeShares(p *ledger.SharesObserved) string {
	var parts []string
	if !p.Hour.IsZero() {
		parts = append(parts, fmt.Sprintf("what spot instances saved in the hour from %s is for %d NodePools, namespaces and teams", p.Hour.UTC().Format("2006-01-02 15:04 UTC"), len(p.Spot)))
	}
	if len(p.Moved) > 0 {
		parts = append(parts, fmt.Sprintf("teams of the pods on %d nodes that commands take, by label %s", len(p.Moved), p.Label))
	}
	if len(parts) == 0 {
		return "no shares of savings were observed"
	}
	return strings.Join(parts, "; ")
}
