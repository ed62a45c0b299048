package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/services/internal/service"
	"millwright/services/lifecycle/claims"
	"millwright/services/lifecycle/effects"
	"millwright/services/lifecycle/garbage"
	"millwright/services/lifecycle/recent"
	"millwright/services/lifecycle/status"
)

// idleMax is how long no step is asked for at most.
const idleMax = 10 * time.Second

// Service is the lifecycle service.
type Service struct {
	host    service.Host
	deps    Deps
	effects *effects.Effects
	found   *garbage.Findings
	claims  *claims.Stepper
	garbage *garbage.Collector
	breaker *garbage.Breaker
	// interruptions are the messages about instances.
	interruptions *interruptions
	// started is the time of the first step.
	started time.Time
	// agenda says which claims a step looks at; wake is when the last one wanted the next.
	agenda *agenda
	wake   time.Time
	// looks counts the claims that steps have looked at.
	looks int
	// status keeps what is off the path of moves.
	status *status.Keeper
	// registrations are what claims say of their NodePools.
	registrations *status.Registrations
}

// New returns the service. It does nothing before the first Step.
func New(host service.Host, deps Deps) *Service {
	e, found, registrations := effects.New(host), garbage.NewFindings(), status.NewRegistrations()
	objects, nodes, outdated := recent.NewObjects[*karpv1.NodeClaim](), recent.NewObjects[*corev1.Node](), recent.NewOutdated()
	deps.Kube, deps.EC2 = freshKube{stoppedKube{deps.Kube, host}, objects, nodes, outdated, host.Now}, stoppedEC2{deps.EC2, host}
	alarms := garbage.NewAlarms(host, deps.Logger, deps.Registerer)
	s := &Service{host: host, deps: deps, interruptions: &interruptions{}, agenda: newAgenda(), effects: e, found: found, registrations: registrations, breaker: garbage.NewBreaker(host, alarms)}
	s.garbage = garbage.New(host, e, alarms, found, garbage.Deps{
		Cluster: deps.Cluster, Cache: deps.Cache, Kube: deps.Kube, EC2: deps.EC2, Reservations: deps.Reservations, Templates: deps.Templates, Profiles: deps.Profiles,
		Listener: listener{s}, Logger: deps.Logger, Registerer: deps.Registerer, Claims: objects, Nodes: nodes, Outdated: outdated,
	})
	s.status = status.New(host, e, registrations, status.Deps{
		Cache: deps.Cache, Kube: deps.Kube, Classes: deps.Classes, Placements: found, Listener: listener{s}, Hasher: deps.Hasher,
		Claims: objects, Outdated: outdated,
	})
	s.claims = claims.New(host, e, claims.Deps{
		Cluster: deps.Cluster, Cache: deps.Cache, Kube: deps.Kube, EC2: deps.EC2, Launcher: deps.Launcher, TemplatesScarce: s.garbage.TemplatesScarce,
		Boots: deps.Boots, Findings: found, Interruptions: s.interruptions, Breaker: s.breaker, Registrations: registrations, Agenda: s.agenda, Hasher: deps.Hasher,
		Logger: deps.Logger, Registerer: deps.Registerer, Claims: objects, Nodes: nodes, Outdated: outdated,
	})
	return s
}

// Name is the service's name in records.
func (s *Service) Name() string { return ledger.ServiceLifecycle }

// Step brings every claim one move further and starts what is due: the scan, the poll, NodePools,
// NodeClasses.
func (s *Service) Step(ctx context.Context) (time.Duration, error) {
	now := s.host.Now()
	if s.started.IsZero() {
		s.started = now
		s.garbage.Begin(now)
		s.claims.Begin(now)
	}
	if !s.deps.Cache.Synced() {
		return time.Second, nil
	}
	s.breaker.See(now)
	s.hearInterruptions(now)
	view, err := s.view()
	if err != nil {
		return 0, err
	}
	if rest := s.wake.Sub(now); !s.effects.Ended() && s.agenda.silent() && view.sameAs(&s.agenda.seen) && rest > 0 && rest <= idleMax {
		return rest, nil // only the World moved, which decides nothing that cannot wait a moment
	}
	s.lookAtChanged(view)
	marked := s.status.StepMarks(ctx, now)
	names, err := s.todo(now)
	if err != nil {
		return 0, err
	}
	errs := append(s.stepClaims(ctx, now, names), marked)
	s.wake = effects.Earliest(now.Add(idleMax), s.agenda.wakes.next())
	for _, part := range []func(time.Time) time.Time{
		s.claims.StepLaunches, s.garbage.StepScan, s.garbage.StepPoll, s.garbage.StepNodes, s.status.StepPools, s.status.StepClasses, s.status.StepOverlays, s.status.StepBuffers, s.garbage.StepTidy,
	} {
		s.wake = effects.Earliest(s.wake, part(now))
	}
	return max(s.wake.Sub(now), time.Millisecond), errors.Join(errs...)
}

// stepClaims looks at claims, and remembers when to look at each again.
func (s *Service) stepClaims(ctx context.Context, now time.Time, names []string) (errs []error) {
	s.looks += len(names)
	for _, name := range names {
		at, err := s.claims.Step(ctx, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("step nodeclaim %s: %w", name, err))
			s.agenda.LookAt(name)
		}
		s.agenda.wakes.setWake(name, at)
	}
	s.breaker.Tell(ctx)
	return errs
}

// view reads how far Ledger and cache are, before anything else is read of them.
func (s *Service) view() (seen, error) {
	v := seen{cache: s.deps.Cache.Version(), stop: s.host.Stop(), logAway: s.host.LogAway(), timeless: s.breaker.Timeless()}
	err := s.host.Ledger(func(l *ledger.Ledger) error { v.ledger = l.Version(); return nil })
	if err != nil {
		return v, fmt.Errorf("read ledger: %w", err)
	}
	return v, nil
}

// sameAs reports that nothing has changed between two looks.
func (v *seen) sameAs(was *seen) bool {
	return v.cache == was.cache && v.ledger == was.ledger && v.stop == was.stop && v.logAway == was.logAway && v.timeless == was.timeless
}

// listener carries on with what garbage collection and status found.
type listener struct{ *Service }

func (l listener) HearAll()                   { l.agenda.lookAtAll() }
func (l listener) HearOf(instances ...string) { l.agenda.hearOf(instances...) }

func (l listener) Prune(p garbage.Present, now time.Time) {
	l.claims.Prune(p.Names, p.Claims, p.ClassesInUse, now)
	l.status.Prune(p.Pools, p.Classes, p.Claims)
}

func (l listener) ReleaseNode(ctx context.Context, n *corev1.Node) error {
	return l.claims.ReleaseNode(ctx, n)
}

func (l listener) SetMarks(name string, m claim.Marks) { l.claims.SetMarks(name, m) }
