package account

import (
	"maps"
	"strconv"

	"millwright/tools/ec2sim/sim/wire"
	"millwright/tools/ec2sim/simclient"
)

// Entry is what an operation passes to the ledger; the rest comes from its call.
type Entry struct {
	Outcome   string
	FleetID   string
	Instances []string
	Tags      map[string]string
	Errors    []string
}

// Record appends to the ledger. Calls other than launches and terminations are not recorded.
func (s *Account) Record(c *wire.Call, e Entry) {
	switch c.Action {
	case "CreateFleet", "RunInstances", "TerminateInstances", "SpotInterruption":
	default:
		return
	}
	row := &simclient.Entry{Seq: uint64(len(s.ledger) + 1), Time: s.Now(), RequestID: c.ID, Call: c.Action, Outcome: e.Outcome,
		FleetID: e.FleetID, Instances: e.Instances, Tags: maps.Clone(e.Tags), Errors: e.Errors}
	if c.Form != nil {
		row.Token, row.Request = c.Params.Str("ClientToken"), wire.Digest(c.Form)
	}
	if e.Outcome == "repeated" {
		s.recall(row)
	}
	s.ledger = append(s.ledger, row)
	s.keepEntry(row)
}

// recall copies what the first answer to a token contained.
func (s *Account) recall(row *simclient.Entry) {
	for _, first := range s.ledger {
		if first.Token == row.Token && first.Call == row.Call && first.Outcome != "mismatch" {
			row.FleetID, row.Instances, row.Tags = first.FleetID, first.Instances, first.Tags
			return
		}
	}
}

// MarkUnanswered notes that the caller will not get the answer of a call that took effect.
func (s *Account) MarkUnanswered(requestID string, f *simclient.Fault) {
	if !f.Drop && f.Code == "" {
		return
	}
	s.Lock()
	defer s.Unlock()
	for _, row := range s.ledger {
		if row.RequestID == requestID {
			row.Unanswered = true
			s.keepEntry(row)
		}
	}
}

func (s *Account) keepEntry(row *simclient.Entry) {
	s.Keep("ledger", strconv.FormatUint(row.Seq, 10), row)
}

// Ledger returns the entries after a sequence number.
func (s *Account) Ledger(since uint64) []simclient.Entry {
	s.Lock()
	defer s.Unlock()
	out := []simclient.Entry{}
	for _, row := range s.ledger {
		if row.Seq > since {
			out = append(out, *row)
		}
	}
	return out
}

// LoadLedger puts an entry of the journal back.
func (s *Account) LoadLedger(l Entity) error { return LoadOnto(l, &s.ledger) }
