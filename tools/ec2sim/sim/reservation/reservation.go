// Package reservation holds capacity reservations.
package reservation

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/tag"
	"millwright/tools/ec2sim/sim/wire"
	"millwright/tools/ec2sim/simclient"
)

// reservation is a capacity reservation: instances of one type in one zone that are paid for, used or not. It
// is made and changed over the control interface only.
type reservation struct {
	simclient.Reservation
	Created time.Time `json:"created"`
	// EndedAt is when it was cancelled; zero while it was not.
	EndedAt time.Time `json:"endedAt,omitzero"`
}

// Reservations are the account's capacity reservations, by id; those that ended stay.
type Reservations struct {
	*account.Account
	byID map[string]*reservation
	// Used counts the live instances that ran in a reservation at a time.
	Used func(id string, at time.Time) int
}

// New returns no reservations.
func New(a *account.Account) *Reservations {
	return &Reservations{Account: a, byID: map[string]*reservation{}}
}

// Active reports whether a reservation exists at a time. Once it has ended, the instances in it are plain
// on-demand ones.
func (s *Reservations) Active(id string, at time.Time) bool {
	r := s.byID[id]
	return r != nil && r.state(at) == "active"
}

// takenBefore is how long before the end of a capacity block EC2 begins to terminate its instances.
const takenBefore = 30 * time.Minute

// Market is the market type that a launch into a reservation has to name; "" for a plain one, and for one
// that does not exist.
func (s *Reservations) Market(id string) string {
	switch r := s.byID[id]; {
	case r == nil:
		return ""
	case r.ReservationType == "capacity-block":
		return "capacity-block"
	case r.Interruptible:
		return "interruptible-capacity-reservation"
	}
	return ""
}

// TakenAt is when EC2 terminates the instances of a capacity block; zero for another reservation.
func (s *Reservations) TakenAt(id string) time.Time {
	r := s.byID[id]
	if r == nil || r.ReservationType != "capacity-block" || r.EndTime == nil {
		return time.Time{}
	}
	return r.EndTime.Add(-takenBefore)
}

// Refusal says why a reservation cannot take one more instance of a type and zone beside those it has.
func (s *Reservations) Refusal(id, instanceType, zone string, taken int, now time.Time) *wire.Error {
	r := s.byID[id]
	if r == nil {
		return wire.Refuse("InvalidCapacityReservationId.NotFound", "The capacity reservation ID %s does not exist", id)
	}
	if r.state(now) != "active" || r.InstanceType != instanceType || r.Zone != zone || taken >= r.Count {
		return wire.Refuse("ReservationCapacityExceeded",
			"Requested reservation does not have sufficient compatible and available capacity for this request.")
	}
	return nil
}

// state of the reservation at a time, in EC2's words.
func (r *reservation) state(at time.Time) string {
	switch {
	case !r.EndedAt.IsZero() && !at.Before(r.EndedAt):
		return "cancelled"
	case r.EndTime != nil && !at.Before(*r.EndTime):
		return "expired"
	}
	return "active"
}

type xmlCapacityReservation struct {
	ID            string    `xml:"capacityReservationId"`
	Owner         string    `xml:"ownerId"`
	ARN           string    `xml:"capacityReservationArn"`
	InstanceType  string    `xml:"instanceType"`
	Platform      string    `xml:"instancePlatform"`
	Zone          string    `xml:"availabilityZone"`
	Tenancy       string    `xml:"tenancy"`
	Total         int       `xml:"totalInstanceCount"`
	Available     int       `xml:"availableInstanceCount"`
	State         string    `xml:"state"`
	Start         string    `xml:"startDate"`
	End           string    `xml:"endDate,omitempty"`
	EndKind       string    `xml:"endDateType"`
	Criteria      string    `xml:"instanceMatchCriteria"`
	Created       string    `xml:"createDate"`
	Kind          string    `xml:"reservationType"`
	Interruptible bool      `xml:"interruptible"`
	Tags          []tag.XML `xml:"tagSet>item"`
}

func (s *Reservations) xmlCapacityReservation(r *reservation, at time.Time) xmlCapacityReservation {
	x := xmlCapacityReservation{
		ID: r.ID, Owner: r.OwnerID, ARN: "arn:aws:ec2:" + s.Region.Name + ":" + r.OwnerID + ":capacity-reservation/" + r.ID,
		InstanceType: r.InstanceType, Platform: "Linux/UNIX", Zone: r.Zone, Tenancy: "default", Total: r.Count,
		Available: max(0, r.Count-s.Used(r.ID, at)), State: r.state(at), Start: wire.Stamp(r.Created), EndKind: "unlimited",
		Criteria: r.InstanceMatchCriteria, Created: wire.Stamp(r.Created), Kind: r.ReservationType, Interruptible: r.Interruptible,
		Tags: tag.List(r.Tags),
	}
	if r.EndTime != nil {
		x.End, x.EndKind = wire.Stamp(*r.EndTime), "limited"
	}
	if x.State != "active" {
		x.Available = 0
	}
	return x
}

func (s *Reservations) describesReservation(r *reservation, at time.Time) wire.Attributes {
	x := s.xmlCapacityReservation(r, at)
	return func(name string) ([]string, bool) {
		value, ok := map[string]string{
			"instance-type": x.InstanceType, "owner-id": x.Owner, "instance-platform": x.Platform, "availability-zone": x.Zone,
			"tenancy": x.Tenancy, "state": x.State, "start-date": x.Start, "end-date": x.End, "end-date-type": x.EndKind,
			"instance-match-criteria": x.Criteria,
		}[name]
		return []string{value}, ok
	}
}

// DescribeCapacityReservations returns the reservations that exist. One unknown id fails the whole call.
func (s *Reservations) DescribeCapacityReservations(c *wire.Call) (any, error) {
	filters, ids, seen := wire.ReadFilters(c.Params), c.Params.Strs("CapacityReservationId"), s.Seen()
	for _, id := range ids {
		if s.byID[id] == nil {
			return nil, wire.Refuse("InvalidCapacityReservationId.NotFound", "The capacity reservation ID %s does not exist", id)
		}
	}
	if err := wire.CheckFilters(filters, s.describesReservation(&reservation{}, seen)); err != nil {
		return nil, err
	}
	var found []*reservation
	for _, id := range slices.Sorted(maps.Keys(s.byID)) {
		r := s.byID[id]
		ok, err := wire.Matches(filters, r.Tags, s.describesReservation(r, seen))
		if err != nil {
			return nil, err
		}
		if ok && !r.Created.After(seen) && (len(ids) == 0 || slices.Contains(ids, id)) {
			found = append(found, r)
		}
	}
	if c.Params.Bool("DryRun") {
		return nil, wire.DryRun()
	}
	part, next, err := wire.Page(c, found, func(r *reservation) string { return r.ID }, wire.PageBounds{Least: 1, Most: 1000, Standard: 1000})
	if err != nil {
		return nil, err
	}
	answer := struct {
		Reservations []xmlCapacityReservation `xml:"capacityReservationSet>item"`
		Next         string                   `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, r := range part {
		answer.Reservations = append(answer.Reservations, s.xmlCapacityReservation(r, seen))
	}
	return answer, nil
}

// reservationView is a reservation as the control interface shows it.
func (s *Reservations) reservationView(r *reservation) simclient.Reservation {
	now := s.Now()
	v := r.Reservation
	v.State, v.Used = r.state(now), s.Used(r.ID, now)
	return v
}

func (s *Reservations) reservationList() []simclient.Reservation {
	out := []simclient.Reservation{}
	for _, id := range slices.Sorted(maps.Keys(s.byID)) {
		out = append(out, s.reservationView(s.byID[id]))
	}
	return out
}

func validReservationID(id string) bool {
	rest, ok := strings.CutPrefix(id, "cr-")
	return ok && rest != "" && strings.Trim(rest, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}

func validAccount(id string) bool {
	_, err := strconv.ParseUint(id, 10, 64)
	return err == nil && len(id) == 12
}

// Load puts a reservation of the journal back.
func (s *Reservations) Load(l account.Entity) error { return account.LoadInto(l, s.byID) }
