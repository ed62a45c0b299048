package cloud

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	karpv1 "millwright/api/karpenter/v1"
)

// Reservation of capacity. One that ends is a capacity block.
type Reservation struct {
	ID, InstanceType, Zone string
	Total                  int64
	// Ends is when a capacity block ends; zero for a reservation without an end.
	Ends time.Time
}

// BlockTaken is how long before its end EC2 begins to terminate the instances of a capacity block (reference:
// ec2 §2.5).
const BlockTaken = 30 * time.Minute

// IsTaken reports that EC2 launches nothing into the block any more.
func (r *Reservation) IsTaken(now time.Time) bool {
	return !r.Ends.IsZero() && !now.Before(r.Ends.Add(-BlockTaken))
}

// Reserve adds a capacity reservation to the account.
func (c *Cloud) Reserve(r *Reservation) { c.reservations = append(c.reservations, r) }

// Reservations of the account, in the order in which they were made.
func (c *Cloud) Reservations() []*Reservation { return c.reservations }

// InstancesIn are the instances of a reservation that EC2 counts: all until they are gone.
func (c *Cloud) InstancesIn(id string) (list []*Instance) {
	for _, i := range c.instances {
		if i.ReservationID == id && !i.Gone() {
			list = append(list, i)
		}
	}
	return list
}

// Free instances of a reservation, by EC2's own count.
func (c *Cloud) Free(r *Reservation) int64 { return r.Total - int64(len(c.InstancesIn(r.ID))) }

// targetOf is the reservation that a launch template targets; nil for none.
func (c *Cloud) targetOf(template string) *Reservation {
	spec := c.templates.byID[template].Data.CapacityReservationSpecification
	if spec == nil || spec.CapacityReservationTarget == nil {
		return nil
	}
	for _, r := range c.reservations {
		if r.ID == aws.ToString(spec.CapacityReservationTarget.CapacityReservationId) {
			return r
		}
	}
	return nil
}

// lacks is the code of the error that an override is refused with; "" if there is capacity.
func (c *Cloud) lacks(o override) string {
	switch r := o.reservation; {
	case r != nil && (r.InstanceType != o.InstanceType || r.Zone != o.Zone || r.IsTaken(c.clock.Now()) || c.Free(r) <= 0):
		return "ReservationCapacityExceeded"
	case r == nil && c.exhausted[o.Offering]:
		return "InsufficientInstanceCapacity"
	}
	return ""
}

// capacityTypeOf an override, as describe calls say it.
func capacityTypeOf(r *Reservation, target string) string {
	if r != nil {
		return karpv1.CapacityTypeReserved
	}
	return target
}
