package garbage

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/providerid"
	"millwright/services/internal/ec2"
)

// Reservations asks EC2 about capacity reservations.
type Reservations interface {
	DescribeCapacityReservations(ctx context.Context, terms []awsv1.CapacityReservationSelectorTerm) ([]ec2.CapacityReservation, error)
}

const (
	// reservationsAsked bounds the reservations that one scan asks EC2 about, each of them a call.
	reservationsAsked = 10
	// reservationAnswer is how long an answer holds.
	reservationAnswer = 2 * time.Minute
)

// reservation is what EC2 said of one that instances are in and their EC2NodeClass does not list.
type reservation struct {
	at     time.Time
	active bool
}

// askReservations asks EC2 whether the reservations still run that instances are in and that their classes do
// not list any more: those that have ended make their nodes on-demand, the others make them drift (disruption
// §7). What EC2 does not answer stays unknown.
func (g *Collector) askReservations(ctx context.Context, l *listing) {
	if g.deps.Reservations == nil {
		return
	}
	now := g.host.Now()
	ids := g.found.reservationsToAsk(g.unlisted(l), now)
	if len(ids) == 0 {
		return
	}
	var terms []awsv1.CapacityReservationSelectorTerm
	for _, id := range ids {
		terms = append(terms, awsv1.CapacityReservationSelectorTerm{ID: id})
	}
	active, err := g.deps.Reservations.DescribeCapacityReservations(ctx, terms)
	if err != nil {
		g.deps.Logger.Warn().Err(err).Strs("reservations", ids).Msg("capacity reservations that no nodeclass lists could not be described")
		return
	}
	g.found.setReservations(ids, active, now)
}

// unlisted are the reservations, sorted, that instances of claims are in without the status of their class
// naming them.
func (g *Collector) unlisted(l *listing) []string {
	listed := map[string]map[string]bool{} // by class
	for _, nc := range g.deps.Cache.NodeClasses() {
		ids := map[string]bool{}
		for _, r := range nc.Status.CapacityReservations {
			ids[r.ID] = true
		}
		listed[nc.Name] = ids
	}
	in := map[string]string{} // reservation by instance
	for _, i := range l.instances {
		if i.ReservationID != "" && !i.Ending() {
			in[i.ID] = i.ReservationID
		}
	}
	found := map[string]bool{}
	for _, c := range l.claims {
		id := in[providerid.InstanceID(c.Status.ProviderID)]
		if id == "" || c.Spec.NodeClassRef == nil || c.Labels[karpv1.CapacityTypeLabelKey] != karpv1.CapacityTypeReserved {
			continue
		}
		if class, known := listed[c.Spec.NodeClassRef.Name]; known && !class[id] {
			found[id] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// reservationsToAsk forgets all others, and returns those whose answer is too old, the oldest first.
func (f *Findings) reservationsToAsk(unlisted []string, now time.Time) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := map[string]reservation{}
	var due []string
	for _, id := range unlisted {
		r, known := f.reservations[id]
		if known {
			kept[id] = r
		}
		if !known || now.Sub(r.at).Abs() >= reservationAnswer {
			due = append(due, id)
		}
	}
	f.reservations = kept
	slices.SortStableFunc(due, func(a, b string) int { return cmp.Or(kept[a].at.Compare(kept[b].at), cmp.Compare(a, b)) })
	return due[:min(len(due), reservationsAsked)]
}

func (f *Findings) setReservations(asked []string, active []ec2.CapacityReservation, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range asked {
		f.reservations[id] = reservation{now, slices.ContainsFunc(active, func(r ec2.CapacityReservation) bool { return r.ID == id })}
	}
}

// Running reports that EC2, asked about that one reservation, said that it is active; false while it was not
// asked, which it is only about those that their class does not list.
func (f *Findings) Running(reservationID string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reservations[reservationID].active
}
