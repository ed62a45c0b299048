package reservation

import (
	"cmp"
	"net/http"
	"slices"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/sim/wire"
	"millwright/tools/ec2sim/simclient"
)

// Control makes, resizes and ends capacity reservations. It runs under the server's lock.
func (s *Reservations) Control(r *http.Request, id string) (any, error) {
	switch {
	case r.Method == http.MethodGet && id == "":
		return s.reservationList(), nil
	case r.Method == http.MethodPost && id == "":
		return s.addReservation(r)
	}
	have := s.byID[id]
	if have == nil {
		return nil, wire.Refuse("InvalidCapacityReservationId.NotFound", "The capacity reservation ID %s does not exist", id)
	}
	switch r.Method {
	case http.MethodGet:
	case http.MethodPatch:
		changed := simclient.ReservationChange{}
		if err := wire.DecodeControl(r, &changed); err != nil {
			return nil, err
		}
		if changed.Count != nil {
			if *changed.Count < 0 {
				return nil, wire.Refuse("InvalidReservation", "count must not be negative")
			}
			have.Count = *changed.Count
		}
		if changed.EndTime != nil {
			have.EndTime = changed.EndTime
		}
	case http.MethodDelete:
		if have.EndedAt.IsZero() {
			have.EndedAt = s.Now()
		}
	default:
		return nil, wire.UnknownControl(r)
	}
	s.Keep("reservation", id, have)
	return s.reservationView(have), nil
}

func (s *Reservations) addReservation(r *http.Request) (any, error) {
	made := &reservation{Created: s.Now()}
	if err := wire.DecodeControl(r, &made.Reservation); err != nil {
		return nil, err
	}
	made.ID = cmp.Or(made.ID, wire.NewID("cr"))
	made.OwnerID = cmp.Or(made.OwnerID, s.Cfg.AccountID)
	made.InstanceMatchCriteria = cmp.Or(made.InstanceMatchCriteria, "targeted")
	made.ReservationType = cmp.Or(made.ReservationType, "default")
	if err := s.checkReservation(made); err != nil {
		return nil, err
	}
	made.State, made.Used = "", 0
	s.byID[made.ID] = made
	s.Keep("reservation", made.ID, made)
	return s.reservationView(made), nil
}

func (s *Reservations) checkReservation(r *reservation) *wire.Error {
	t := catalogue.Lookup(r.InstanceType)
	switch {
	case !validReservationID(r.ID) || s.byID[r.ID] != nil:
		return wire.Refuse("InvalidReservation", "the id %q is malformed or in use", r.ID)
	case !validAccount(r.OwnerID):
		return wire.Refuse("InvalidReservation", "the owner %q is no account", r.OwnerID)
	case t == nil || !s.Region.Offers(t, r.Zone):
		return wire.Refuse("InvalidReservation", "%q is not offered in %q", r.InstanceType, r.Zone)
	case r.Count < 0:
		return wire.Refuse("InvalidReservation", "count must not be negative")
	case !slices.Contains([]string{"open", "targeted"}, r.InstanceMatchCriteria):
		return wire.Refuse("InvalidReservation", "instanceMatchCriteria is open or targeted")
	case !slices.Contains([]string{"default", "capacity-block"}, r.ReservationType):
		return wire.Refuse("InvalidReservation", "reservationType is default or capacity-block")
	}
	return nil
}
