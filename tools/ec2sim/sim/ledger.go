package sim

import (
	"maps"
	"strconv"

	"millwright/tools/ec2sim/simclient"
)

// entry is what an operation tells the ledger; the rest comes from its call.
type entry struct {
	outcome   string
	fleetID   string
	instances []string
	tags      map[string]string
	errors    []fleetError
}

// record appends to the ledger. Calls other than launches and terminations are not recorded.
func (s *Server) record(c *call, e entry) {
	switch c.action {
	case "CreateFleet", "RunInstances", "TerminateInstances", "SpotInterruption":
	default:
		return
	}
	row := &simclient.Entry{Seq: uint64(len(s.ledger) + 1), Time: s.now(), RequestID: c.id, Call: c.action, Outcome: e.outcome,
		FleetID: e.fleetID, Instances: e.instances, Tags: maps.Clone(e.tags)}
	if c.form != nil {
		row.Token, row.Request = c.params.str("ClientToken"), digest(c.form)
	}
	for _, err := range e.errors {
		o := err.Source.Overrides
		text := err.Code
		if o.InstanceType != "" {
			text += " " + o.InstanceType + " " + o.AvailabilityZone + " " + err.Lifecycle
		}
		row.Errors = append(row.Errors, text)
	}
	if e.outcome == "repeated" {
		s.recall(row)
	}
	s.ledger = append(s.ledger, row)
	s.keepEntry(row)
}

// recall copies what the first answer to a token told.
func (s *Server) recall(row *simclient.Entry) {
	for _, first := range s.ledger {
		if first.Token == row.Token && first.Call == row.Call && first.Outcome != "mismatch" {
			row.FleetID, row.Instances, row.Tags = first.FleetID, first.Instances, first.Tags
			return
		}
	}
}

// markUnanswered notes that the caller will not get the answer of a call that took effect.
func (s *Server) markUnanswered(requestID string, f *simclient.Fault) {
	if !f.Drop && f.Code == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, row := range s.ledger {
		if row.RequestID == requestID {
			row.Unanswered = true
			s.keepEntry(row)
		}
	}
}

func (s *Server) keepEntry(row *simclient.Entry) {
	s.keep("ledger", strconv.FormatUint(row.Seq, 10), row)
}

// Ledger returns the entries after a sequence number.
func (s *Server) Ledger(since uint64) []simclient.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []simclient.Entry{}
	for _, row := range s.ledger {
		if row.Seq > since {
			out = append(out, *row)
		}
	}
	return out
}

// Instances returns all instances as they are now, in order of launch.
func (s *Server) Instances() []simclient.Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetOld()
	now, out := s.now(), []simclient.Instance{}
	for _, in := range s.instances.all() {
		out = append(out, in.view(now))
	}
	return out
}

// Calls returns how often each action was called, by outcome.
func (s *Server) Calls() simclient.Calls {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := simclient.Calls{}
	for action, outcomes := range s.calls {
		out[action] = maps.Clone(outcomes)
	}
	return out
}
