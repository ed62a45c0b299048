package ec2

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	karpv1 "millwright/api/karpenter/v1"
	karpawsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/services/internal/ec2"
)

const reservationsPage = 1000

// reserved is how many instances of each active capacity reservation are free, and when EC2 was asked. It
// never changes.
type reserved struct {
	free map[string]int64
	at   time.Time
}

// pollReservations learns how much reserved capacity is free, and makes the catalogues that offer some be
// published again. While no NodeClass has any, EC2 is not asked.
func (p *Poller) pollReservations(ctx context.Context) error {
	if !slices.ContainsFunc(p.cfg.Classes(), func(nc *karpawsv1.EC2NodeClass) bool { return len(nc.Status.CapacityReservations) > 0 }) {
		p.reserved.Store(nil)
		return nil
	}
	now := &reserved{free: map[string]int64{}, at: p.cfg.Clock().UTC()} // taken before the answer: what comes in between counts as after it
	in := &awsec2.DescribeCapacityReservationsInput{
		MaxResults: aws.Int32(reservationsPage),
		Filters:    []ec2types.Filter{{Name: aws.String("state"), Values: []string{string(ec2types.CapacityReservationStateActive)}}},
	}
	var answer ec2.Pages
	for pages := awsec2.NewDescribeCapacityReservationsPaginator(p.cfg.EC2, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err == nil {
			err = answer.Next("ec2:DescribeCapacityReservations", page.NextToken)
		}
		if err != nil {
			return fmt.Errorf("describe capacity reservations: %w", err)
		}
		for _, r := range page.CapacityReservations {
			now.free[aws.ToString(r.CapacityReservationId)] = int64(aws.ToInt32(r.AvailableInstanceCount))
		}
	}
	p.reserved.Store(now)
	p.ClassesChanged()
	return nil
}

// countReserved says what is free of reservations that are new to a NodeClass, lest others be bought beside
// them. EC2 is not waited for longer than for prices: until it answers, nothing is free.
func (p *Poller) countReserved(ctx context.Context) *reserved {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := p.pollReservations(ctx); err != nil {
		p.task("capacity_reservations").soon() // which says why
	}
	return p.reserved.Load()
}

// counts says whether EC2 has said of each of these reservations what is free of it.
func (r *reserved) counts(ids []string) bool {
	if r == nil {
		return len(ids) == 0
	}
	return !slices.ContainsFunc(ids, func(id string) bool { _, counted := r.free[id]; return !counted })
}

// reservationsOf are the capacity reservations of a NodeClass that may be offered, by id: not the capacity
// blocks that are about to end.
func reservationsOf(nc *karpawsv1.EC2NodeClass) []karpawsv1.CapacityReservation {
	list := slices.DeleteFunc(slices.Clone(nc.Status.CapacityReservations), func(r karpawsv1.CapacityReservation) bool {
		return r.State == "expiring"
	})
	slices.SortFunc(list, func(a, b karpawsv1.CapacityReservation) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// addReserved adds the offerings of capacity reservations to a type, and their possible values to its labels.
// Instances count as free only if EC2 said so.
func addReserved(t *events.CatalogInstanceType, list []karpawsv1.CapacityReservation, now *reserved, zones []zone, offered func(zone string) bool) {
	l := labels(t.Requirements)
	for _, r := range list {
		at := slices.IndexFunc(zones, func(z zone) bool { return z.name == r.AvailabilityZone })
		if r.InstanceType != t.Name || at < 0 {
			continue
		}
		var free int64
		if now != nil {
			free = now.free[r.ID]
		}
		t.Offerings = append(t.Offerings, events.CatalogOffering{
			Zone: r.AvailabilityZone, ZoneID: zones[at].id, CapacityType: karpv1.CapacityTypeReserved, Available: offered(r.AvailabilityZone),
			Reservation: &events.CatalogReservation{ID: r.ID, Type: cmp.Or(r.ReservationType, karpawsv1.ReservationTypeDefault), Interruptible: r.Interruptible, Free: &free},
		})
		l.several(karpv1.CapacityTypeLabelKey, append(slices.Clone(l[karpv1.CapacityTypeLabelKey]), karpv1.CapacityTypeReserved))
		for key, value := range map[string]string{
			karpawsv1.LabelCapacityReservationID:            r.ID,
			karpawsv1.LabelCapacityReservationType:          cmp.Or(r.ReservationType, karpawsv1.ReservationTypeDefault),
			karpawsv1.LabelCapacityReservationInterruptible: strconv.FormatBool(r.Interruptible),
		} {
			l.several(key, append(slices.Clone(l[key]), value))
		}
	}
}
