package main

import (
	"context"
	"fmt"
	"time"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/store/audit"
	"millwright/store/audit/overview"
)

// present reports the current state of an object as the system sees it, in addition to its history. Where the
// present is unknown because the stream cannot be read, it says so in one line.
func (s *session) present(ctx context.Context, kind, name string, entries []ledger.Entry) []string {
	if kind == "offering" {
		l, err := currentLedger(ctx, s.log)
		if err != nil {
			return []string{fmt.Sprintf("now: not known: %v", err)}
		}
		return overview.OfferingNow(l, name, time.Now())
	}
	cost := overview.CostOf(entries, kind+"/"+name, time.Now())
	if kind != "node" && kind != "pod" || s.nats == nil && s.target.natsURL == "" {
		return cost
	}
	stream, err := s.stream(ctx)
	if err != nil {
		return append(cost, fmt.Sprintf("now: not known: %v", err))
	}
	w, l, err := audit.Present(ctx, s.log, stream)
	if err != nil {
		return append(cost, fmt.Sprintf("now: not known: %v", err))
	}
	if kind == "pod" {
		return append(overview.Successors(w, name, entries), overview.PodWaits(planner.NewSnapshot(w, l, time.Now()), name, nil)...)
	}
	return append(cost, overview.NodeNow(planner.SnapshotAt(w, l, w.AsOf()), name)...)
}
