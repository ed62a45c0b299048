package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
	"millwright/services/lifecycle/effects"
	"millwright/services/lifecycle/garbage"
	"millwright/services/lifecycle/status"
	"millwright/store"
)

const (
	// movesMax bounds the moves of one effect; what is left comes with the next step.
	movesMax = 12
	// showPause lets the cache show what was written.
	showPause = 100 * time.Millisecond
	// idleMax is how long no step is asked for at most.
	idleMax = 10 * time.Second
)

// Service is the lifecycle service.
type Service struct {
	host    service.Host
	deps    Deps
	mem     *memory
	metrics *metrics
	effects *effects.Effects
	found   *garbage.Findings
	garbage *garbage.Collector
	breaker *garbage.Breaker
	// started is the time of the first step.
	started time.Time
	moves   map[claim.Move]carry
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

// carry carries out a move. more says that another look may show the next one already; otherwise the
// service waits for a change.
type carry func(ctx context.Context, v *claimView, a claim.Action) (more bool, err error)

// New returns the service. It does nothing before the first Step.
func New(host service.Host, deps Deps) *Service {
	e, found := effects.New(host), garbage.NewFindings()
	mem := newMemory(e.Retries)
	deps.Kube, deps.EC2 = freshKube{stoppedKube{deps.Kube, host}, mem, host.Now}, stoppedEC2{deps.EC2, host}
	alarms := garbage.NewAlarms(host, deps.Logger, deps.Registerer)
	s := &Service{host: host, deps: deps, mem: mem, metrics: newMetrics(deps.Registerer), agenda: newAgenda(), effects: e, found: found, breaker: garbage.NewBreaker(host, alarms)}
	s.garbage = garbage.New(host, e, alarms, found, garbage.Deps{
		Cluster: deps.Cluster, Cache: deps.Cache, Kube: deps.Kube, EC2: deps.EC2, Templates: deps.Templates, Profiles: deps.Profiles,
		Listener: listener{s}, Logger: deps.Logger, Registerer: deps.Registerer, Claims: mem.claims, Nodes: mem.nodes, Outdated: mem.outdated,
	})
	s.registrations = status.NewRegistrations()
	s.status = status.New(host, e, s.registrations, status.Deps{
		Cache: deps.Cache, Kube: deps.Kube, Classes: deps.Classes, Placements: found, Listener: listener{s}, Hasher: deps.Hasher,
		Claims: mem.claims, Outdated: mem.outdated,
	})
	s.moves = map[claim.Move]carry{
		claim.Adopt: s.adopt, claim.Withdraw: s.withdraw, claim.Create: s.create, claim.RecordCreated: s.recordCreated,
		claim.Find: s.find, claim.Delete: s.delete, claim.Guard: s.guard, claim.Seek: s.seek, claim.Launch: s.launch, claim.Resolve: s.resolve,
		claim.Register: s.register, claim.Initialize: s.initialize,
		claim.Stamp: s.stamp, claim.DeleteNodes: s.deleteNodes, claim.Terminate: s.terminate, claim.Confirm: s.confirm,
		claim.Release: s.release, claim.Close: s.close,
	}
	return s
}

// Name is the service's name in records.
func (s *Service) Name() string { return ledger.ServiceLifecycle }

// Step brings every claim one move further and starts what is due: the scan, the poll, NodePools, NodeClasses.
func (s *Service) Step(ctx context.Context) (time.Duration, error) {
	now := s.host.Now()
	if s.started.IsZero() {
		s.started = now
		s.garbage.Begin(now)
	}
	if !s.deps.Cache.Synced() {
		return time.Second, nil
	}
	s.breaker.See(now)
	view, err := s.view()
	if err != nil {
		return 0, err
	}
	if !s.effects.Ended() && s.agenda.silent() && view.same(&s.agenda.seen) && now.Before(s.wake) {
		return s.wake.Sub(now), nil // only the World moved, which decides nothing that cannot wait a moment
	}
	s.listen(view)
	s.status.StepMarks(now)
	names, err := s.todo(now)
	if err != nil {
		return 0, err
	}
	errs := s.stepClaims(ctx, now, names)
	s.wake = effects.Earliest(now.Add(idleMax), s.agenda.wakes.next())
	for _, part := range []func(time.Time) time.Time{
		s.garbage.StepScan, s.garbage.StepPoll, s.garbage.StepNodes, s.status.StepPools, s.status.StepClasses, s.status.StepOverlays, s.garbage.StepTidy,
	} {
		s.wake = effects.Earliest(s.wake, part(now))
	}
	return max(s.wake.Sub(now), time.Millisecond), errors.Join(errs...)
}

// stepClaims looks at claims, and remembers when to look at each again.
func (s *Service) stepClaims(ctx context.Context, now time.Time, names []string) (errs []error) {
	s.looks += len(names)
	for _, name := range names {
		at, err := s.stepClaim(ctx, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("step nodeclaim %s: %w", name, err))
			s.agenda.hear(name)
		}
		s.agenda.wakes.set(name, at)
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

// same reports that nothing has changed between two looks.
func (v *seen) same(was *seen) bool {
	return v.cache == was.cache && v.ledger == was.ledger && v.stop == was.stop && v.logAway == was.logAway && v.timeless == was.timeless
}

// claimEffect starts an effect about a claim, and has the claim looked at again once it ended.
func (s *Service) claimEffect(name, key string, l lane.Lane, fn func(ctx context.Context) error) {
	s.effects.StartThen(key, l, fn, func() { s.agenda.hear(name) })
}

// stepClaim decides about one claim, or starts the effect that brings it further. It returns when to look again.
func (s *Service) stepClaim(ctx context.Context, name string) (time.Time, error) {
	v, err := s.look(name)
	if err != nil {
		return time.Time{}, err
	}
	if v.ledger == nil && (v.object == nil || !claim.Managed(v.object)) {
		return time.Time{}, nil // nothing is left of it, or it is none of ours
	}
	s.agenda.note(v)
	s.breaker.NotePaced(v.input)
	a, tags := next(v.input)
	if a.Move == claim.Doom {
		if err := s.doom(ctx, v, a); err != nil || s.host.Mode() != ledger.ModeActive {
			return time.Time{}, ignoreConflict(err)
		}
		if v, err = s.look(name); err != nil {
			return time.Time{}, err
		}
		a, tags = next(v.input)
	}
	if tags {
		s.stepTag(name)
	}
	if a.Move == claim.Wait && !s.statusStale(v) {
		if !tags && v.settled() {
			return a.At, nil
		}
		return effects.Earliest(a.At, v.input.Now.Add(unsettledEvery)), nil
	}
	l := laneOf(a.Move, v.input)
	s.claimEffect(name, claimKey(name), l, func(ctx context.Context) error { return s.drive(ctx, name, l) })
	return effects.Earliest(a.At, v.input.Now.Add(unsettledEvery)), nil
}

// settled: nothing is to be done about the claim but what something heard or its expiry asks for.
func (v *claimView) settled() bool {
	return v.ledger != nil && v.ledger.State == ledger.ClaimInitializedState && v.ledger.Doomed == nil &&
		v.object != nil && v.object.DeletionTimestamp.IsZero() && len(v.nodes) == 1 && v.nodes[0].DeletionTimestamp.IsZero()
}

// next is the claim's next move. Tags are written beside all others, which EC2 must not hold up.
func next(in claim.Input) (a claim.Action, tags bool) {
	if a = claim.Next(in); a.Move != claim.Tag {
		return a, false
	}
	tagged := *in.Object
	tagged.Tagged = true
	in.Object = &tagged
	return claim.Next(in), true
}

// stepTag starts to tag the claim's instance, unless that failed a moment ago.
func (s *Service) stepTag(name string) {
	key := tagKey(name)
	if !s.mem.retries.Due(key, s.host.Now()) {
		return
	}
	s.claimEffect(name, key, lane.Tag, func(ctx context.Context) error {
		v, err := s.lookAnew(ctx, name)
		if err != nil || claim.Next(v.input).Move != claim.Tag {
			return err
		}
		if err := s.tag(ctx, v); err != nil {
			return s.effects.PutOff(key, fmt.Errorf("%s nodeclaim %s: %w", claim.Tag, name, err))
		}
		s.mem.retries.Succeeded(key)
		return nil
	})
}

func tagKey(name string) string { return "tag/" + name }

// ignoreConflict: the facts have moved; the step that follows sees the new ones.
func ignoreConflict(err error) error {
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}

// laneOf is where a move is made: by what it calls beside the API server and the log. A claim that never had an instance may get
// one from a successor that this process does not know of yet, so only who surely leads lets it go.
func laneOf(m claim.Move, in claim.Input) lane.Lane {
	switch m {
	case claim.Release:
		if in.Ledger != nil && in.Ledger.InstanceID == "" {
			return lane.Release
		}
	case claim.Create, claim.Launch, claim.Resolve:
		return lane.Create
	case claim.Terminate:
		return lane.Terminate
	case claim.Seek:
		return lane.Seek
	}
	return lane.Converge
}

// drive carries out moves until the claim has to wait, or until a move belongs to another lane. It decides nothing.
func (s *Service) drive(ctx context.Context, name string, in lane.Lane) error {
	for range movesMax {
		v, err := s.lookAnew(ctx, name)
		if err != nil {
			return s.effects.PutOff(claimKey(name), err)
		}
		a, _ := next(v.input)
		if l := laneOf(a.Move, v.input); a.Move == claim.Doom || l != in && l != lane.Converge {
			return nil
		}
		more, err := s.carryOut(ctx, v, a)
		if err != nil {
			return s.effects.PutOff(claimKey(name), err)
		}
		if !more {
			return nil
		}
	}
	return nil
}

// lookAnew gathers the facts about a claim from objects of which no newer version is known.
func (s *Service) lookAnew(ctx context.Context, name string) (*claimView, error) {
	v, err := s.look(name)
	if err != nil || !s.isOutdated(v) {
		return v, err
	}
	if err := s.readAnew(ctx, v); err != nil {
		return nil, err
	}
	return s.look(name)
}

func (s *Service) carryOut(ctx context.Context, v *claimView, a claim.Action) (bool, error) {
	if a.Move == claim.Wait {
		return s.syncStatus(ctx, v)
	}
	more, err := s.moves[a.Move](ctx, v, a)
	if err != nil {
		return false, fmt.Errorf("%s nodeclaim %s: %w", a.Move, v.name, err)
	}
	if more {
		s.mem.retries.Succeeded(claimKey(v.name))
	}
	return more, nil
}

// listener carries on with what garbage collection and status found.
type listener struct{ *Service }

func (l listener) HearAll()                   { l.agenda.hearAll() }
func (l listener) HearOf(instances ...string) { l.agenda.hearOf(instances...) }

func (l listener) Prune(p garbage.Present, now time.Time) {
	l.mem.prune(p, now)
	l.status.Prune(p.Pools, p.Classes)
}

func (l listener) ReleaseNode(ctx context.Context, n *corev1.Node) error {
	return l.releaseNode(ctx, n)
}

func (l listener) SetMarks(name string, m claim.Marks) {
	if l.mem.setMarks(name, m) {
		l.agenda.hear(name)
	}
}
