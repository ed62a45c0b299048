package nodeclass

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/ec2"
)

const (
	reservationsInterval = time.Minute
	// expiresBefore is how long before its end a capacity block takes no more instances (ec2 §2.5).
	expiresBefore = 40 * time.Minute
)

// reservations fills status.capacityReservations, by id. None is fine, too.
func (p *pass) reservations(ctx context.Context, faults []Fault) (time.Duration, error) {
	terms := p.nc.Spec.CapacityReservationSelectorTerms
	if bad := faultsOf(faults, fieldReservations); bad != "" {
		p.nc.Status.CapacityReservations = nil
		p.conditions.False(awsv1.ConditionTypeCapacityReservationsReady, reasonInvalid, bad)
		return retrySoon, nil
	}
	var found []ec2.CapacityReservation
	if len(terms) > 0 {
		var err error
		found, err = p.caches.reservations.get(key(terms), func() ([]ec2.CapacityReservation, error) {
			return p.cfg.Cloud.DescribeCapacityReservations(ctx, terms)
		})
		if err != nil {
			return retrySoon, fmt.Errorf("resolve capacity reservations: %w", err)
		}
	}
	p.nc.Status.CapacityReservations = nil
	again := reservationsInterval
	if len(terms) == 0 {
		again = 0
	}
	now := p.cfg.Now()
	for _, r := range found {
		if !r.End.IsZero() && !r.End.After(now) {
			continue
		}
		if !knownReservation(r) {
			p.notes = append(p.notes, fmt.Sprintf("capacity reservation %s is skipped: match criteria %q or type %q are not known", r.ID, r.MatchCriteria, r.Type))
			continue
		}
		if !r.End.IsZero() {
			again = min(again, r.End.Sub(now))
		}
		p.nc.Status.CapacityReservations = append(p.nc.Status.CapacityReservations, statusOf(r, now))
	}
	p.conditions.True(awsv1.ConditionTypeCapacityReservationsReady)
	return again, nil
}

func knownReservation(r ec2.CapacityReservation) bool {
	return (r.MatchCriteria == "open" || r.MatchCriteria == "targeted") && (r.Type == awsv1.ReservationTypeDefault || r.Type == awsv1.ReservationTypeCapacityBlock)
}

func statusOf(r ec2.CapacityReservation, now time.Time) awsv1.CapacityReservation {
	s := awsv1.CapacityReservation{
		ID: r.ID, InstanceType: r.InstanceType, AvailabilityZone: r.Zone, InstanceMatchCriteria: r.MatchCriteria, OwnerID: r.OwnerID,
		ReservationType: r.Type, State: "active", Interruptible: r.Interruptible,
	}
	if !r.End.IsZero() {
		end := metav1.NewTime(r.End)
		s.EndTime = &end
		if r.Type == awsv1.ReservationTypeCapacityBlock && !now.Before(r.End.Add(-expiresBefore)) {
			s.State = "expiring"
		}
	}
	return s
}
