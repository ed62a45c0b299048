package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"millwright/tools/ec2sim/simclient"
)

// reservation is a capacity reservation: instances of one type in one zone that are paid for, used or not. It is made and
// changed over the control interface only.
type reservation struct {
	simclient.Reservation
	Created time.Time `json:"created"`
	// EndedAt is when it was cancelled; zero while it was not.
	EndedAt time.Time `json:"endedAt,omitzero"`
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

// inReservation counts the live instances that ran in a reservation at a time.
func (f *fleet) inReservation(id string, at time.Time) int {
	n := 0
	for _, in := range f.byID {
		if in.CapacityReservationID == id && !in.LaunchTime.After(at) && in.live(at) {
			n++
		}
	}
	return n
}

// reservationOf is the reservation an instance runs in at a time; "" once it has ended, for then the instance is a plain
// on-demand one.
func (s *Server) reservationOf(in *Instance, at time.Time) string {
	if r := s.reservations[in.CapacityReservationID]; r != nil && r.state(at) == "active" {
		return in.CapacityReservationID
	}
	return ""
}

// reservationError says why a reservation cannot take one more instance beside those of the same fleet.
func (s *Server) reservationError(l *launchSpec, u *usage, now time.Time) *Error {
	r := s.reservations[l.data.ReservationID]
	if r == nil {
		return refuse("InvalidCapacityReservationId.NotFound", "The capacity reservation ID %s does not exist", l.data.ReservationID)
	}
	if r.state(now) != "active" || r.InstanceType != l.instanceType.Name || r.Zone != l.subnet.Zone.Name || u.reserved[r.ID] >= r.Count {
		return refuse("ReservationCapacityExceeded",
			"Requested reservation does not have sufficient compatible and available capacity for this request.")
	}
	return nil
}

type xmlCapacityReservation struct {
	ID            string   `xml:"capacityReservationId"`
	Owner         string   `xml:"ownerId"`
	ARN           string   `xml:"capacityReservationArn"`
	InstanceType  string   `xml:"instanceType"`
	Platform      string   `xml:"instancePlatform"`
	Zone          string   `xml:"availabilityZone"`
	Tenancy       string   `xml:"tenancy"`
	Total         int      `xml:"totalInstanceCount"`
	Available     int      `xml:"availableInstanceCount"`
	State         string   `xml:"state"`
	Start         string   `xml:"startDate"`
	End           string   `xml:"endDate,omitempty"`
	EndKind       string   `xml:"endDateType"`
	Criteria      string   `xml:"instanceMatchCriteria"`
	Created       string   `xml:"createDate"`
	Kind          string   `xml:"reservationType"`
	Interruptible bool     `xml:"interruptible"`
	Tags          []xmlTag `xml:"tagSet>item"`
}

func (s *Server) xmlCapacityReservation(r *reservation, at time.Time) xmlCapacityReservation {
	x := xmlCapacityReservation{
		ID: r.ID, Owner: r.OwnerID, ARN: "arn:aws:ec2:" + s.region.Name + ":" + r.OwnerID + ":capacity-reservation/" + r.ID,
		InstanceType: r.InstanceType, Platform: "Linux/UNIX", Zone: r.Zone, Tenancy: "default", Total: r.Count,
		Available: max(0, r.Count-s.instances.inReservation(r.ID, at)), State: r.state(at), Start: stamp(r.Created), EndKind: "unlimited",
		Criteria: r.InstanceMatchCriteria, Created: stamp(r.Created), Kind: r.ReservationType, Interruptible: r.Interruptible,
		Tags: xmlTags(r.Tags),
	}
	if r.EndTime != nil {
		x.End, x.EndKind = stamp(*r.EndTime), "limited"
	}
	if x.State != "active" {
		x.Available = 0
	}
	return x
}

func (s *Server) describesReservation(r *reservation, at time.Time) attributes {
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

// describeCapacityReservations tells of the reservations that exist. One unknown id fails the whole call.
func describeCapacityReservations(s *Server, c *call) (any, error) {
	filters, ids, seen := readFilters(c.params), c.params.strs("CapacityReservationId"), s.seen()
	for _, id := range ids {
		if s.reservations[id] == nil {
			return nil, refuse("InvalidCapacityReservationId.NotFound", "The capacity reservation ID %s does not exist", id)
		}
	}
	if err := checkFilters(filters, s.describesReservation(&reservation{}, seen)); err != nil {
		return nil, err
	}
	var found []*reservation
	for _, id := range sortedKeys(s.reservations) {
		r := s.reservations[id]
		ok, err := matches(filters, r.Tags, s.describesReservation(r, seen))
		if err != nil {
			return nil, err
		}
		if ok && !r.Created.After(seen) && (len(ids) == 0 || slices.Contains(ids, id)) {
			found = append(found, r)
		}
	}
	if c.params.bool("DryRun") {
		return nil, dryRun()
	}
	part, next, err := page(c, found, func(r *reservation) string { return r.ID }, pageBounds{1, 1000, 1000})
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
func (s *Server) reservationView(r *reservation) simclient.Reservation {
	now := s.now()
	v := r.Reservation
	v.State, v.Used = r.state(now), s.instances.inReservation(r.ID, now)
	return v
}

func (s *Server) reservationList() []simclient.Reservation {
	out := []simclient.Reservation{}
	for _, id := range sortedKeys(s.reservations) {
		out = append(out, s.reservationView(s.reservations[id]))
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
