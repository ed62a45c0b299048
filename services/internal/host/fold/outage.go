package fold

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"millwright/events"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/services/internal/clock"
	"millwright/services/internal/service"
)

const (
	// busEvery is how often the bus is probed; busTimeout bounds a probe.
	busEvery   = time.Second
	busTimeout = 2 * time.Second
	// outageAfter is how long log or bus must have been silent to be called unreachable.
	outageAfter = 5 * time.Second
	// notifyEvery is how often it is checked whether there is something to publish.
	notifyEvery = 500 * time.Millisecond
)

// silence is when something last answered.
type silence struct {
	mu       sync.Mutex
	answered time.Time
}

func (s *silence) answer(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = at
}

// setBack takes in that the clock was set back, and that there was no answer since.
func (s *silence) setBack(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered.After(now) {
		s.answered = now
	}
}

func (s *silence) since() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered
}

// unreachable returns since when, or zero: what answered a moment ago is reachable.
func unreachable(answered, now time.Time) time.Time {
	if answered.IsZero() || now.Sub(answered) <= outageAfter {
		return time.Time{}
	}
	return answered
}

// Writes is whether the log takes records, as seen by those who try to append.
type Writes struct {
	mu    sync.Mutex
	tries int
	since time.Time
	why   error
}

// Refused takes in that the log takes no records since a time, for the reason given, until the function
// returned is called.
func (w *Writes) Refused(since time.Time, why error) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tries == 0 {
		w.since, w.why = since, why
	}
	w.tries++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.tries--
	}
}

// refused returns since when and why records are refused; zero and nil if they are not.
func (w *Writes) refused() (since time.Time, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tries == 0 {
		return time.Time{}, nil
	}
	return w.since, w.why
}

// LogUnreachable and BusUnreachable return since when log or bus have not answered; zero while they do.
func (s *State) LogUnreachable() time.Time {
	_, confirmed := s.control.view()
	return unreachable(confirmed, s.clock())
}

func (s *State) BusUnreachable() time.Time { return unreachable(s.bus.since(), s.clock()) }

// Probe makes Run probe the bus. It must be called before Run.
func (s *State) Probe(stream events.Stream) { s.probed = stream }

// watchBus probes the bus until ctx ends.
func (s *State) watchBus(ctx context.Context) error {
	if s.probed == nil {
		<-ctx.Done()
		return nil
	}
	s.bus.answer(s.clock())
	for ctx.Err() == nil {
		asking, cancel := context.WithTimeout(ctx, busTimeout)
		asked := s.clock()
		if _, err := s.probed.State(asking); err == nil {
			s.bus.answer(asked)
		} else {
			s.bus.setBack(s.clock())
		}
		cancel()
		_ = clock.Sleep(ctx, busEvery)
	}
	return nil
}

// Publisher accepts KubeEvents; kubeevent.Publisher is one.
type Publisher interface {
	Publish(service.KubeEvent)
}

// OutageNotifier tells users about stops, outages, clocks that are off and options that differ, by KubeEvents
// about one object.
type OutageNotifier struct {
	State  *State
	Events Publisher
	// Object that the events are about; Instance is who cannot reach what.
	Object   corev1.ObjectReference
	Instance string
	// Speaks says whether this process reports stops: one of all processes should.
	Speaks func() bool
	// Options of this process, to be compared with those of others.
	Options planner.Options
}

// Run publishes until ctx ends.
func (n *OutageNotifier) Run(ctx context.Context) error {
	logAway, busAway := outage{what: "Log", text: "event log"}, outage{what: "Bus", text: "observation stream"}
	readOnly := false
	var told ledger.Stop
	var unreliable error
	var differ string
	for ctx.Err() == nil {
		now := n.State.clock()
		n.publish(n.clock(unreliable))
		unreliable = n.fault()
		e, differing := n.options(differ)
		n.publish(e)
		differ = differing
		n.publish(logAway.eventDue(n.State.LogUnreachable(), now, n.Instance))
		n.publish(busAway.eventDue(n.State.BusUnreachable(), now, n.Instance))
		refused, why := n.State.Writes.refused()
		refused = unreachable(refused, now)
		if readOnly != !refused.IsZero() {
			readOnly = !readOnly
			n.publish(n.written(refused, why))
		}
		if stop, confirmed := n.State.control.view(); !confirmed.IsZero() && n.Speaks() && stop != told {
			n.publish(n.stopped(stop))
			told = stop
		}
		_ = clock.Sleep(ctx, notifyEvery)
	}
	return nil
}

func (n *OutageNotifier) publish(e *service.KubeEvent) {
	if e != nil {
		e.Object = n.Object
		n.Events.Publish(*e)
	}
}

// written is the event for a log that takes no records since a time, or takes them again if that is zero.
func (n *OutageNotifier) written(refused time.Time, why error) *service.KubeEvent {
	if refused.IsZero() {
		return &service.KubeEvent{Type: corev1.EventTypeNormal, Reason: "LogWritable", Message: "The event log takes records from " + n.Instance + " again"}
	}
	return &service.KubeEvent{Type: corev1.EventTypeWarning, Reason: "LogReadOnly",
		Message: fmt.Sprintf("The event log takes no records from %s since %s: %v", n.Instance, refused.UTC().Format(time.RFC3339), why)}
}

// stopped is the event for a level that is in force from now on.
func (n *OutageNotifier) stopped(stop ledger.Stop) *service.KubeEvent {
	c := n.State.control.last()
	if stop == ledger.StopNone {
		return &service.KubeEvent{Type: corev1.EventTypeNormal, Reason: "Resumed", Message: "Resumed by " + because(c)}
	}
	return &service.KubeEvent{Type: corev1.EventTypeWarning, Reason: "Stopped", Message: fmt.Sprintf("Stopped (%s) by %s", stop, because(c))}
}

func because(c ledger.ControlChanged) string {
	if c.Why == "" {
		return c.By
	}
	return c.By + ": " + c.Why
}

// outage of log or bus that was reported.
type outage struct {
	what, text string
	since      time.Time
}

// eventDue returns the event to publish, if any.
func (o *outage) eventDue(since, now time.Time, instance string) *service.KubeEvent {
	began := o.since
	o.since = since
	switch {
	case began.IsZero() && !since.IsZero():
		return &service.KubeEvent{Type: corev1.EventTypeWarning, Reason: o.what + "Unreachable",
			Message: fmt.Sprintf("The %s has not answered %s since %s", o.text, instance, since.UTC().Format(time.RFC3339))}
	case !began.IsZero() && since.IsZero():
		return &service.KubeEvent{Type: corev1.EventTypeNormal, Reason: o.what + "Reachable",
			Message: fmt.Sprintf("The %s answers %s again after %s", o.text, instance, now.Sub(began).Round(time.Second))}
	}
	return nil
}
