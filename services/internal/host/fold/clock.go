package fold

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"millwright/services/internal/clock"
	"millwright/services/internal/service"
)

// A process whose clock cannot be relied on (DESIGN §2, "Time has witnesses") decides nothing and records
// nothing but the outcomes of what is in flight; it starts no effect, and acts as if everything were stopped.
// process.Unit.Fit lets others lead.

// ErrClock is wrapped by refusals because the clock of this process cannot be relied on.
var ErrClock = errors.New("this process stands down")

// ClockFault returns why the clock of the process cannot be relied on, as users are told; nil while it can.
func (s *State) ClockFault() error { return s.reliable() }

// Reliable returns why the clock of the process cannot be relied on; nil while it can.
func (s *State) Reliable() error {
	if err := s.reliable(); err != nil {
		return fmt.Errorf("%w: %w", ErrClock, err)
	}
	return nil
}

// clock returns the event to publish about the clock, if any; before is the reason not to rely on it at the
// last check.
func (n *OutageNotifier) clock(before error) *service.KubeEvent {
	now := n.fault()
	switch {
	case now != nil && before == nil:
		return &service.KubeEvent{Type: corev1.EventTypeWarning, Reason: "ClockUnreliable",
			Message: fmt.Sprintf("%s leads, decides and begins nothing: %s", n.Instance, now)}
	case now == nil && before != nil:
		return &service.KubeEvent{Type: corev1.EventTypeNormal, Reason: "ClockReliable",
			Message: fmt.Sprintf("The clock of %s can be relied on again", n.Instance)}
	}
	return nil
}

// fault returns why the clock of the process cannot be relied on. That nobody has been asked yet, as in the
// first moments of every process, is no fault to report.
func (n *OutageNotifier) fault() error {
	if err := n.State.reliable(); !errors.Is(err, clock.ErrUnwitnessed) {
		return err
	}
	return nil
}
