package ec2

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
)

// CapacityReservation as EC2 describes it; only active ones are asked for.
type CapacityReservation struct {
	ID, OwnerID, InstanceType, Zone string
	// MatchCriteria is open or targeted, Type default or capacity-block, in EC2's words.
	MatchCriteria, Type string
	Interruptible       bool
	// End is zero if it has none.
	End time.Time
}

const reservationPageSize = 1000

// DescribeCapacityReservations returns the active reservations that any of the terms selects, by id (ec2
// §2.5). Ids that do not exist, or can't, select nothing.
func (c *Client) DescribeCapacityReservations(ctx context.Context, terms []awsv1.CapacityReservationSelectorTerm) ([]CapacityReservation, error) {
	found := map[string]CapacityReservation{}
	for _, t := range terms {
		in := &awsec2.DescribeCapacityReservationsInput{Filters: []ec2types.Filter{filter("state", string(ec2types.CapacityReservationStateActive))}}
		if t.ID != "" {
			in.CapacityReservationIds = []string{t.ID}
		} else {
			in.MaxResults = aws.Int32(reservationPageSize)
			in.Filters = append(in.Filters, reservationFilters(t)...)
		}
		err := c.describeReservations(ctx, in, found)
		if err != nil && !(t.ID != "" && (IsNotFound(err) || Code(err) == "InvalidCapacityReservationId.Malformed")) {
			return nil, err
		}
	}
	return sortedValues(found, func(a, b CapacityReservation) int { return strings.Compare(a.ID, b.ID) }), nil
}

func reservationFilters(t awsv1.CapacityReservationSelectorTerm) []ec2types.Filter {
	filters := tagFilters(t.Tags)
	if t.OwnerID != "" {
		filters = append(filters, filter("owner-id", t.OwnerID))
	}
	if t.InstanceMatchCriteria != "" {
		filters = append(filters, filter("instance-match-criteria", t.InstanceMatchCriteria))
	}
	return filters
}

func (c *Client) describeReservations(ctx context.Context, in *awsec2.DescribeCapacityReservationsInput, found map[string]CapacityReservation) error {
	var pages Pages
	for p := awsec2.NewDescribeCapacityReservationsPaginator(c.ec2, in); p.HasMorePages(); {
		page, err := read(ctx, c, "ec2:DescribeCapacityReservations", p.NextPage)
		if err == nil {
			err = pages.Next("ec2:DescribeCapacityReservations", page.NextToken)
		}
		if err != nil {
			return err
		}
		for _, r := range page.CapacityReservations {
			if r.State != ec2types.CapacityReservationStateActive {
				continue
			}
			found[aws.ToString(r.CapacityReservationId)] = CapacityReservation{
				ID: aws.ToString(r.CapacityReservationId), OwnerID: aws.ToString(r.OwnerId), InstanceType: aws.ToString(r.InstanceType),
				Zone: aws.ToString(r.AvailabilityZone), MatchCriteria: string(r.InstanceMatchCriteria),
				Type: firstOf(string(r.ReservationType), string(ec2types.CapacityReservationTypeDefault)), Interruptible: aws.ToBool(r.Interruptible),
				End: aws.ToTime(r.EndDate).UTC(),
			}
		}
	}
	return nil
}

// Reserve sets for each instance and error of a fleet which capacity reservation it is about: the one that
// its launch template targets. templates are those of the request.
func (r *FleetResult) Reserve(templates []ledger.LaunchTemplateRef) {
	reservation := func(template string) string {
		i := slices.IndexFunc(templates, func(t ledger.LaunchTemplateRef) bool { return t.ID == template })
		if i < 0 && len(templates) == 1 {
			i = 0 // EC2 did not say which
		}
		if i < 0 {
			return ""
		}
		return templates[i].ReservationID
	}
	for i := range r.Instances {
		if id := reservation(r.Instances[i].LaunchTemplateID); id != "" {
			r.Instances[i].ReservationID, r.Instances[i].CapacityType = id, capacityTypeReserved
		}
	}
	for i := range r.Errors {
		if id := reservation(r.Errors[i].LaunchTemplateID); id != "" {
			r.Errors[i].ReservationID, r.Errors[i].CapacityType = id, capacityTypeReserved
		}
	}
}

const capacityTypeReserved = "reserved"

// reservationOf is the capacity reservation an instance was launched into; "" for one that only happens to
// match an open one.
func reservationOf(i ec2types.Instance) string {
	s := i.CapacityReservationSpecification
	if s == nil || s.CapacityReservationPreference != ec2types.CapacityReservationPreferenceCapacityReservationsOnly {
		return ""
	}
	return aws.ToString(i.CapacityReservationId)
}
