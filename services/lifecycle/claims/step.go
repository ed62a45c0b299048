package claims

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
	"millwright/services/lifecycle/effects"
	"millwright/store"
)

const (
	// movesMax bounds the moves of one effect; what is left comes with the next step.
	movesMax = 12
	// showPause lets the cache show what was written.
	showPause = 100 * time.Millisecond
	// terminatingTriesMax bounds the tries to say that an instance is terminating.
	terminatingTriesMax = 3
	// keptPause is how often a Node is looked at that somebody else's finalizer keeps.
	keptPause = 2 * time.Second
	// unsettledEvery is how often a claim is looked at that something is still to be done about: some facts
	// change by time alone.
	unsettledEvery = time.Second
)

// carry carries out a move. more says that another look may show the next one already; otherwise the service
// waits for a change.
type carry func(ctx context.Context, v *claimView, a claim.Action) (more bool, err error)

// Stepper carries claims on.
type Stepper struct {
	host    service.Host
	deps    Deps
	effects *effects.Effects
	mem     *memory
	metrics *metrics
	report  *report
	moves   map[claim.Move]carry
	// started is the time of the first step, idle when nothing was to be launched last, in Unix nanoseconds.
	started time.Time
	idle    atomic.Int64
	counts  counts
	// gathering are the claims that are about to be launched.
	gathering *gathering
}

// New returns a stepper. It does nothing before the first step.
func New(host service.Host, e *effects.Effects, deps Deps) *Stepper {
	s := &Stepper{
		host: host, deps: deps, effects: e, mem: newMemory(e.Retries, deps.Claims), metrics: newMetrics(deps.Registerer),
		report: &report{host, deps.Cache, deps.Logger}, gathering: newGathering(),
	}
	s.moves = map[claim.Move]carry{
		claim.Adopt: s.adopt, claim.Withdraw: s.withdraw, claim.Create: s.create, claim.RecordCreated: s.recordCreated,
		claim.Find: s.findNodeClaim, claim.Delete: s.delete, claim.Guard: s.guard, claim.Seek: s.seek, claim.Launch: launcher{s}.build,
		claim.Register: s.register, claim.Initialize: s.initialize,
		claim.Stamp: s.stamp, claim.DeleteNodes: s.deleteNodes, claim.Terminate: s.terminate, claim.Confirm: s.confirm,
		claim.Release: s.release, claim.Close: s.close,
	}
	return s
}

// Begin says when the service took its first step. It is called before any other.
func (s *Stepper) Begin(now time.Time) { s.started = now }

// claimEffect starts an effect about a claim, and has the claim looked at again once it ended.
func (s *Stepper) claimEffect(name, key string, l lane.Lane, fn func(ctx context.Context) error) {
	s.effects.StartThen(key, l, fn, func() { s.deps.Agenda.LookAt(name) })
}

// Step decides about one claim, or starts the effect that brings it further. It returns when to look again.
func (s *Stepper) Step(ctx context.Context, name string) (time.Time, error) {
	v, err := s.gatherFacts(name)
	if err != nil {
		return time.Time{}, err
	}
	if v.ledger == nil && (v.object == nil || !claim.Managed(v.object)) {
		return time.Time{}, nil // nothing is left of it, or it is none of ours
	}
	s.deps.Agenda.NoteInstance(v.name, providerID(v.ledger, v.own()))
	s.deps.Breaker.NotePaced(v.input)
	s.report.tellInterruptions(v, s.mem)
	s.report.tellBlocked(v)
	stepBoot(s, v)
	stepUnreserve(s, v)
	stepPartition(s, v)
	launcher{s}.stepUnnamed(v)
	a, tags := next(v.input)
	if a.Move == claim.Doom {
		if err := s.doom(ctx, v, a); err != nil || s.host.Mode() != ledger.ModeActive {
			return time.Time{}, ignoreConflict(err)
		}
		if v, err = s.gatherFacts(name); err != nil {
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
	again := effects.Earliest(a.At, v.input.Now.Add(unsettledEvery))
	switch {
	case a.Move == claim.Resolve:
		launcher{s}.stepResolve(v)
		return again, nil
	case a.Move == claim.Launch && s.gathering.has(name, v.input.Now):
		return again, nil // StepLaunches
	}
	if a.Move != claim.Wait && !s.mayWrite(name, a.Move, "") {
		return again, nil
	}
	l := laneOf(a.Move, v.input)
	s.claimEffect(name, claimKey(name), l, func(ctx context.Context) error { return s.drive(ctx, name, l) })
	return again, nil
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
func (s *Stepper) stepTag(name string) {
	key := tagKey(name)
	if !s.effects.Retries.Due(key, s.host.Now()) || !s.mayWrite(name, claim.Tag, "") {
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
		s.effects.Retries.Succeeded(key)
		return s.noteWrite(name, claim.Tag, "")
	})
}

func tagKey(name string) string { return "tag/" + name }

// statusKey is of what is written to the object of a claim whose launch has failed: it waits for the next
// try, and says meanwhile why.
func statusKey(name string) string { return "status/" + name }

// ignoreConflict: the facts have moved; the step that follows sees the new ones.
func ignoreConflict(err error) error {
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}

// laneOf is where a move is made: by what it calls beside the API server and the log. A claim that never had
// an instance may get one from a successor that this process does not know of yet, so only who surely leads
// lets it go.
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

// drive carries out moves until the claim has to wait, or until a move belongs to another lane. It decides
// nothing.
func (s *Stepper) drive(ctx context.Context, name string, in lane.Lane) error {
	for range movesMax {
		v, err := s.lookAnew(ctx, name)
		if err != nil {
			return s.effects.PutOff(claimKey(name), err)
		}
		a, _ := next(v.input)
		if l := laneOf(a.Move, v.input); a.Move == claim.Doom || a.Move == claim.Resolve || l != in && l != lane.Converge {
			return nil
		}
		if a.Move != claim.Wait && !s.mayWrite(name, a.Move, "") {
			return nil
		}
		more, err := s.carryOut(ctx, v, a)
		if errors.Is(err, errUndone) {
			return err // which holds up no other move
		}
		if err != nil && a.Move == claim.Wait && v.input.Failure != nil {
			return s.effects.PutOff(statusKey(name), err)
		}
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
func (s *Stepper) lookAnew(ctx context.Context, name string) (*claimView, error) {
	v, err := s.gatherFacts(name)
	if err != nil || !s.isOutdated(v) {
		return v, err
	}
	if err := s.readAnew(ctx, v); err != nil {
		return nil, err
	}
	return s.gatherFacts(name)
}

func (s *Stepper) carryOut(ctx context.Context, v *claimView, a claim.Action) (bool, error) {
	if a.Move == claim.Wait {
		return s.syncStatus(ctx, v)
	}
	more, err := s.moves[a.Move](ctx, v, a)
	if err != nil {
		return false, fmt.Errorf("%s nodeclaim %s: %w", a.Move, v.name, err)
	}
	if more {
		s.effects.Retries.Succeeded(claimKey(v.name))
		return true, s.noteWrite(v.name, a.Move, "")
	}
	return false, nil
}

// Prune forgets what is about objects that are gone; those given are there, or named by one that is.
func (s *Stepper) Prune(names map[string]bool, claims map[types.UID]bool, classes map[string]bool, now time.Time) {
	s.mem.prune(names, claims, classes, now)
	s.gathering.retain(names)
}

// ReleaseNode takes our finalizer off a Node and has it deleted.
func (s *Stepper) ReleaseNode(ctx context.Context, n *corev1.Node) error {
	_, err := s.releaseNode(ctx, n)
	return err
}

// SetMarks takes in what a look at the claim's drift and quiet time said, and has the claim looked at if that
// is new.
func (s *Stepper) SetMarks(name string, marks claim.Marks) {
	if s.mem.setMarks(name, marks) {
		s.deps.Agenda.LookAt(name)
	}
}

// Len counts what is remembered of objects.
func (s *Stepper) Len() int { return s.mem.len() + s.gathering.len() }
