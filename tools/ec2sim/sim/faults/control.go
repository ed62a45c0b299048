package faults

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/wire"
	"millwright/tools/ec2sim/simclient"
)

// ControlFaults adds and removes faults over the control interface.
func (s *Faults) ControlFaults(r *http.Request, id string) (any, error) {
	switch r.Method {
	case http.MethodGet:
		return append([]*simclient.Fault{}, s.list...), nil
	case http.MethodPost:
		f := &simclient.Fault{}
		if err := wire.DecodeControl(r, f); err != nil {
			return nil, err
		}
		if f.Action == "" || f.Rate < 0 || f.Rate > 1 || f.Count < 0 {
			return nil, wire.Refuse("InvalidFault", "a fault needs an action (or *), a rate within 0 and 1 and a count not below 0")
		}
		f.ID = cmp.Or(f.ID, "fault-"+wire.RandomHex(4))
		s.list = append(s.list, f)
		s.Keep("fault", f.ID, f)
		return f, nil
	case http.MethodDelete:
		s.list = slices.DeleteFunc(s.list, func(f *simclient.Fault) bool {
			gone := id == "" || f.ID == id
			if gone {
				s.Drop("fault", f.ID)
			}
			return gone
		})
		return append([]*simclient.Fault{}, s.list...), nil
	}
	return nil, wire.UnknownControl(r)
}

// ControlLimits throttles actions over the control interface.
func (s *Faults) ControlLimits(r *http.Request) (any, error) {
	limits := []simclient.Limit{}
	switch r.Method {
	case http.MethodGet:
		return append(limits, s.limits...), nil
	case http.MethodPost:
		limits = Published()
	case http.MethodPut:
		if err := wire.DecodeControl(r, &limits); err != nil {
			return nil, err
		}
	case http.MethodDelete:
	default:
		return nil, wire.UnknownControl(r)
	}
	s.setLimits(limits)
	s.Keep("limits", "limits", limits)
	return limits, nil
}

func (s *Faults) setLimits(limits []simclient.Limit) {
	s.limits, s.buckets = limits, map[string]*bucket{}
}

// LoadLimits puts the throttles of the journal back.
func (s *Faults) LoadLimits(l account.Entity) error {
	var limits []simclient.Limit
	err := json.Unmarshal(l.Value, &limits)
	s.setLimits(limits)
	return err
}

// Load puts a fault of the journal back.
func (s *Faults) Load(l account.Entity) error { return account.LoadOnto(l, &s.list) }
