package ledger

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Stop is how far operators have stopped the services (DESIGN §5).
type Stop string

const (
	StopNone Stop = ""
	// StopVoluntary: no new command; commands that have not removed anything yet are rolled back, others
	// pause.
	StopVoluntary Stop = "voluntary"
	// StopAll: also nothing is created, evicted or terminated. Registration, status and finalizers go on.
	StopAll Stop = "all"
)

// Stops are the levels, each stopping more than the one before.
var Stops = []Stop{StopNone, StopVoluntary, StopAll}

// Known reports that s is one of Stops.
func (s Stop) Known() bool { return slices.Contains(Stops, s) }

// AtLeast returns the stricter of the two.
func (s Stop) AtLeast(other Stop) Stop {
	if slices.Index(Stops, s) < slices.Index(Stops, other) {
		return other
	}
	return s
}

// ControlAggregate is advanced by every ControlChanged; SwitchStop names the switch that is set with it.
const (
	ControlAggregate = "control"
	SwitchStop       = "stop"
)

// ServiceOperator is the service named in records of an operator's command.
const ServiceOperator = "millctl"

// Stop is how far the services are stopped by the last ControlChanged. A level this version does not know is
// the strictest.
func (l *state) Stop() Stop {
	switch {
	case l.control == nil:
		return StopNone
	case !l.control.Stop.Known():
		return StopAll
	}
	return l.control.Stop
}

// TakenVoluntarily reports that a command took, or is about to take, the claim only to improve the cluster:
// nothing else asks for its end.
func (l *state) TakenVoluntarily(claim string, uid types.UID) bool {
	return l.TakenBy(claim, uid) != ""
}

// TakenBy is the command of TakenVoluntarily; "" if there is none.
func (l *state) TakenBy(claim string, uid types.UID) string {
	if c := l.Claim(claim); c != nil && c.Doomed != nil {
		return c.TakenBy
	}
	for _, cmd := range l.Commands() {
		for _, candidate := range cmd.Started.Candidates {
			if candidate.Claim == claim && (uid == "" || candidate.ClaimUID == uid) {
				return cmd.ID
			}
		}
	}
	return ""
}
