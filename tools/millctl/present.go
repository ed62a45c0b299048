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
	cost := overview.CostOf(entries, s.log.ID(), kind+"/"+name, time.Now())
	if kind == "pool" {
		cost = s.poolCost(ctx, name)
	}
	if kind == "capacitybuffer" || s.nats == nil && s.target.natsURL == "" {
		return cost
	}
	stream, err := s.stream(ctx)
	if err != nil {
		return append(cost, fmt.Sprintf("now: not known: %v", err))
	}
	w, l, err := audit.Present(ctx, s.log, stream)
	if err != nil {
		if len(entries) == 0 && kind != "node" && kind != "pod" {
			return cost // there is no such thing as far as is known
		}
		return append(cost, fmt.Sprintf("now: not known: %v", err))
	}
	if kind == "pod" {
		at := planner.NewSnapshot(w, l, time.Now())
		cost = append(cost, overview.PodCost(at, name)...)
		return append(append(cost, overview.Successors(w, name, entries)...), overview.PodWaits(at, name, nil)...)
	}
	return append(cost, overview.ThingNow(planner.SnapshotAt(w, l, w.AsOf()), kind, name)...)
}

// costRecordsMax bounds the log that is read as a whole for the cost of a NodePool: a few seconds.
const costRecordsMax = 200_000

// poolCost adds up the whole log, unless it is long: the console has added it up already.
func (s *session) poolCost(ctx context.Context, name string) []string {
	head, err := s.log.Head(ctx)
	if err == nil && head.Seq > costRecordsMax {
		return []string{fmt.Sprintf("cost over its life: not added up, for the log has %d records; the console knows it", head.Seq)}
	}
	past, err := s.history(ctx)
	if err != nil {
		return []string{fmt.Sprintf("cost: not known: %v", err)}
	}
	return past.Cost(name, time.Now())
}
