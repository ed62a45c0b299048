package api

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"millwright/planner/ledger"
)

// Commands are listed by page, so that none is left out silently.
func TestCommandsByPage(t *testing.T) {
	r := newRig(t)
	const more = limitMax
	for i := range more {
		name := fmt.Sprintf("n%03d", i)
		r.console.Propose(ledger.CommandProposed{Command: ledger.CommandStarted{Reason: "Empty", Method: "emptiness", Candidates: []ledger.Candidate{{Node: name, Claim: name + "-claim", NodePool: "p"}}}})
	}
	for query, sizes := range map[string][]int{"?": {limitMax, 1}, "?state=proposed&limit=200": {200, 200, 101}} {
		seen, cursor := map[string]bool{}, ""
		for _, size := range sizes {
			page := r.want(http.StatusOK, "viewer", http.MethodGet, "/commands"+query+"&cursor="+url.QueryEscape(cursor), "").(*Commands)
			if len(page.Items) != size || page.Total != more+1 {
				t.Fatalf("%s: %d of %d, want %d of %d", query, len(page.Items), page.Total, size, more+1)
			}
			for _, c := range page.Items {
				seen[c.ID] = true
			}
			cursor = page.Next
		}
		if len(seen) != more+1 || cursor != "" {
			t.Errorf("%s: %d commands in all, and then %q", query, len(seen), cursor)
		}
	}
	r.want(http.StatusBadRequest, "viewer", http.MethodGet, "/commands?cursor=last", "")
}
