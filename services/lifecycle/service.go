package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/services/internal/kube"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
	"millwright/store"
)

const (
	// movesMax bounds the moves of one effect; what is left comes with the next step.
	movesMax = 12
	// effectTimeout bounds one effect. A launch is the longest: templates, then CreateFleet.
	effectTimeout = time.Minute
	// showPause lets the cache show what was written.
	showPause = 100 * time.Millisecond
	// stopPause is how often what an operator stopped is looked at.
	stopPause = time.Second
	// idleMax is how long no step is asked for at most.
	idleMax = 10 * time.Second
)

// Service is the lifecycle service.
type Service struct {
	host    service.Host
	deps    Deps
	mem     *memory
	metrics *metrics
	breaker breaker
	// started is the time of the first step.
	started time.Time
	moves   map[claim.Move]carry
	// touched: an effect ended or could not be started since the last step looked.
	touched atomic.Bool
	// last is what the last complete step saw, and when it wanted the next one.
	last looked
	// pools are by name.
	pools map[string]readPool
	// marked is the last NodeClaim that got other marks.
	marked string
}

// looked is all that the outcome of a step depends on, beside effects and time.
type looked struct {
	ledger, cache uint64
	stop          ledger.Stop
	logAway       bool
	wake          time.Time
}

// carry carries out a move. more says that another look may show the next one already; otherwise the
// service waits for a change.
type carry func(ctx context.Context, v *sight, a claim.Action) (more bool, err error)

// New returns the service. It does nothing before the first Step.
func New(host service.Host, deps Deps) *Service {
	mem := newMemory()
	deps.Kube, deps.EC2 = freshKube{stoppedKube{deps.Kube, host}, mem, host.Now}, stoppedEC2{deps.EC2, host}
	s := &Service{host: host, deps: deps, mem: mem, metrics: newMetrics(deps.Registerer)}
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
	}
	if !s.deps.Cache.Synced() {
		return time.Second, nil
	}
	view, err := s.view()
	if err != nil {
		return 0, err
	}
	if !s.touched.Swap(false) && view == s.last.unchanged() && now.Before(s.last.wake) {
		return s.last.wake.Sub(now), nil // only the World moved, which decides nothing that cannot wait a moment
	}
	names, err := s.names()
	if err != nil {
		return 0, err
	}
	s.seeTime(now)
	s.stepMarks(now)
	wake := now.Add(idleMax)
	var errs []error
	for _, name := range names {
		at, err := s.stepClaim(ctx, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("step nodeclaim %s: %w", name, err))
		}
		wake = earliest(wake, at)
	}
	s.stepBreaker(ctx)
	for _, part := range []func(time.Time) time.Time{s.stepScan, s.stepPoll, s.stepNodes, s.stepPools, s.stepClasses, s.stepOverlays, s.stepTidy} {
		wake = earliest(wake, part(now))
	}
	view.wake = wake
	s.last = view
	if len(errs) > 0 {
		s.last = looked{}
	}
	return max(wake.Sub(now), time.Millisecond), errors.Join(errs...)
}

// unchanged is what a step sees that has nothing new to look at.
func (l looked) unchanged() looked {
	l.wake = time.Time{}
	return l
}

// view reads how far Ledger and cache are, before anything else is read of them.
func (s *Service) view() (looked, error) {
	v := looked{cache: s.deps.Cache.Version(), stop: s.host.Stop(), logAway: s.host.LogAway()}
	err := s.host.Ledger(func(l *ledger.Ledger) error { v.ledger = l.Seq(); return nil })
	if err != nil {
		return v, fmt.Errorf("read ledger: %w", err)
	}
	return v, nil
}

// effect starts an effect and has the next step look at everything once it ended.
func (s *Service) effect(key string, l lane.Lane, fn func(ctx context.Context) error) {
	started := s.host.Effect(key, l, effectTimeout, func(ctx context.Context) error {
		defer s.touched.Store(true)
		return fn(ctx)
	})
	if !started && s.host.Mode() == ledger.ModeActive {
		s.touched.Store(true)
	}
}

// stepClaim decides about one claim, or starts the effect that brings it further. It returns when to look again.
func (s *Service) stepClaim(ctx context.Context, name string) (time.Time, error) {
	v, err := s.look(name)
	if err != nil {
		return time.Time{}, err
	}
	s.breaker.notePaced(v.input)
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
	at := a.At
	if tags {
		at = earliest(at, s.stepTag(name))
	}
	if a.Move == claim.Wait && !s.untold(v) {
		return at, nil
	}
	l := laneOf(a.Move)
	s.effect(claimKey(name), l, func(ctx context.Context) error { return s.drive(ctx, name, l) })
	return at, nil
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

// stepTag starts to tag the claim's instance, and returns when to look again if it may not yet.
func (s *Service) stepTag(name string) time.Time {
	key := tagKey(name)
	if at := s.mem.retries.At(key); s.host.Now().Before(at) {
		return at
	}
	s.effect(key, lane.Tag, func(ctx context.Context) error {
		v, err := s.lookAnew(ctx, name)
		if err != nil || claim.Next(v.input).Move != claim.Tag {
			return err
		}
		if err := s.tag(ctx, v); err != nil {
			return s.putOff(key, fmt.Errorf("%s nodeclaim %s: %w", claim.Tag, name, err))
		}
		s.mem.retries.Succeeded(key)
		return nil
	})
	return time.Time{}
}

func tagKey(name string) string { return "tag/" + name }

// ignoreConflict: the facts have moved; the step that follows sees the new ones.
func ignoreConflict(err error) error {
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}

// laneOf is where a move is made: by what it calls beside the API server and the log.
func laneOf(m claim.Move) lane.Lane {
	switch m {
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
			return s.putOff(claimKey(name), err)
		}
		a, _ := next(v.input)
		if l := laneOf(a.Move); a.Move == claim.Doom || l != in && l != lane.Converge {
			return nil
		}
		more, err := s.carryOut(ctx, v, a)
		if err != nil {
			return s.putOff(claimKey(name), err)
		}
		if !more {
			return nil
		}
	}
	return nil
}

// lookAnew gathers the facts about a claim from objects of which no newer version is known.
func (s *Service) lookAnew(ctx context.Context, name string) (*sight, error) {
	v, err := s.look(name)
	if err != nil || !s.isOutdated(v) {
		return v, err
	}
	if err := s.readAnew(ctx, v); err != nil {
		return nil, err
	}
	return s.look(name)
}

func (s *Service) carryOut(ctx context.Context, v *sight, a claim.Action) (bool, error) {
	if a.Move == claim.Wait {
		return s.tell(ctx, v)
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

// putOff decides when an effect is tried again. A conflict is no failure, nor is a stop, nor a Snapshot that can't be had
// for a moment.
func (s *Service) putOff(key string, err error) error {
	switch now := s.host.Now(); {
	case errors.Is(err, service.ErrStopped):
		s.hold(key, stopPause)
		return nil
	case kube.IsConflict(err), errors.Is(err, store.ErrConflict), errors.Is(err, service.ErrNotReady):
		s.mem.retries.Conflicted(key, now)
		return nil
	default:
		s.mem.retries.Failed(key, now)
		return err
	}
}

// hold keeps a key from being tried for a while, which is no failure.
func (s *Service) hold(key string, d time.Duration) {
	now := s.host.Now()
	s.mem.retries.Hold(key, now.Add(d), now)
}

// earliest returns the earlier one that is set.
func earliest(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}
