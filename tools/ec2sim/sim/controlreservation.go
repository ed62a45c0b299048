package sim

import (
	"net/http"
	"slices"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/simclient"
)

// controlReservations makes, resizes and ends capacity reservations. It runs under the server's lock.
func (s *Server) controlReservations(r *http.Request, id string) (any, error) {
	switch {
	case r.Method == http.MethodGet && id == "":
		return s.reservationList(), nil
	case r.Method == http.MethodPost && id == "":
		return s.addReservation(r)
	}
	have := s.reservations[id]
	if have == nil {
		return nil, refuse("InvalidCapacityReservationId.NotFound", "The capacity reservation ID %s does not exist", id)
	}
	switch r.Method {
	case http.MethodGet:
	case http.MethodPatch:
		changed := simclient.ReservationChange{}
		if err := decode(r, &changed); err != nil {
			return nil, err
		}
		if changed.Count != nil {
			if *changed.Count < 0 {
				return nil, refuse("InvalidReservation", "count must not be negative")
			}
			have.Count = *changed.Count
		}
		if changed.EndTime != nil {
			have.EndTime = changed.EndTime
		}
	case http.MethodDelete:
		if have.EndedAt.IsZero() {
			have.EndedAt = s.now()
		}
	default:
		return nil, unknownControl(r)
	}
	s.keep("reservation", id, have)
	return s.reservationView(have), nil
}

func (s *Server) addReservation(r *http.Request) (any, error) {
	made := &reservation{Created: s.now()}
	if err := decode(r, &made.Reservation); err != nil {
		return nil, err
	}
	made.ID = orElse(made.ID, newID("cr"))
	made.OwnerID = orElse(made.OwnerID, s.cfg.AccountID)
	made.InstanceMatchCriteria = orElse(made.InstanceMatchCriteria, "targeted")
	made.ReservationType = orElse(made.ReservationType, "default")
	if err := s.checkReservation(made); err != nil {
		return nil, err
	}
	made.State, made.Used = "", 0
	s.reservations[made.ID] = made
	s.keep("reservation", made.ID, made)
	return s.reservationView(made), nil
}

func (s *Server) checkReservation(r *reservation) *Error {
	t := catalogue.Lookup(r.InstanceType)
	switch {
	case !validReservationID(r.ID) || s.reservations[r.ID] != nil:
		return refuse("InvalidReservation", "the id %q is malformed or in use", r.ID)
	case !validAccount(r.OwnerID):
		return refuse("InvalidReservation", "the owner %q is no account", r.OwnerID)
	case t == nil || !s.region.Offers(t, r.Zone):
		return refuse("InvalidReservation", "%q is not offered in %q", r.InstanceType, r.Zone)
	case r.Count < 0:
		return refuse("InvalidReservation", "count must not be negative")
	case !slices.Contains([]string{"open", "targeted"}, r.InstanceMatchCriteria):
		return refuse("InvalidReservation", "instanceMatchCriteria is open or targeted")
	case !slices.Contains([]string{"default", "capacity-block"}, r.ReservationType):
		return refuse("InvalidReservation", "reservationType is default or capacity-block")
	}
	return nil
}
