package claims

import (
	"fmt"
	"math"
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/catalog"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/planner/requirement"
	"millwright/services/internal/service"
	"millwright/services/lifecycle/launch"
)

// freeReserved counts the instances of a catalogue's capacity reservations that another launch may ask for,
// by id: those that are free, less what open attempts may still take. awaited are the ids of which nothing is
// left only because of such attempts: the answer to one of them may free it again. Of a capacity block that
// the NodeClass says is about to end, nothing is free.
func freeReserved(l *ledger.Ledger, cat *catalog.Catalog, nc *awsv1.EC2NodeClass, now time.Time) (free map[string]int64, awaited []string) {
	free = launch.FreeReserved(cat, l)
	for id := range free {
		if claim.BlockLeaves(claim.BlockEnds(nc, id), now) {
			free[id] = 0
		}
	}
	if len(free) == 0 {
		return free, nil
	}
	for id, n := range attempted(l) {
		have, offered := free[id]
		if !offered || have == math.MaxInt64 {
			continue
		}
		if free[id] = max(0, have-n); have > 0 && free[id] == 0 {
			awaited = append(awaited, id)
		}
	}
	slices.Sort(awaited)
	return free, awaited
}

// attempted counts the instances that open attempts may take of each capacity reservation, by id. One that
// names several counts for each of them: which it takes is known with its answer.
func attempted(l *ledger.Ledger) map[string]int64 {
	counts := map[string]int64{}
	for _, c := range l.Claims() {
		if c.Open == nil || c.Open.Lead != "" {
			continue // the claim that leads the attempt stands for all of them
		}
		for _, id := range reservationsOf(c.Open.LaunchTemplates) {
			counts[id] += int64(len(c.Open.Members()))
		}
	}
	return counts
}

// reservationsOf are the capacity reservations that launch templates target, each once, sorted.
func reservationsOf(templates []ledger.LaunchTemplateRef) (ids []string) {
	for _, t := range templates {
		if t.ReservationID != "" {
			ids = append(ids, t.ReservationID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// reservationAggregates of a request: whoever opens an attempt advances them, so that of two that saw the
// same free instance only one is recorded.
func reservationAggregates(templates []ledger.LaunchTemplateRef) (names []string) {
	for _, id := range reservationsOf(templates) {
		names = append(names, ledger.ReservationAggregate(id))
	}
	return names
}

// awaitReserved is ErrNotReady if the claim may have capacity of which nothing is left only because other
// attempts are open: it waits for their answers instead of being given up.
func awaitReserved(v *claimView, awaited []string) error {
	if len(awaited) == 0 || v.object == nil {
		return nil
	}
	reqs, err := requirement.FromClaim(v.object.Spec.Requirements)
	if err != nil || !reqs.Get(karpv1.CapacityTypeLabelKey).Has(karpv1.CapacityTypeReserved) {
		return nil // building the request says what is wrong
	}
	ids := reqs.Get(awsv1.LabelCapacityReservationID)
	if i := slices.IndexFunc(awaited, ids.Has); i >= 0 {
		return fmt.Errorf("%w: other launches may take what is free of capacity reservation %s", service.ErrNotReady, awaited[i])
	}
	return nil
}
