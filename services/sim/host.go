package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/ledger/compact"
	"millwright/services/internal/host/step"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
	"millwright/store"
	"millwright/store/audit"
)

// effectsMax bounds the effects of each lane that run at a time: so few that lanes are full at times.
const effectsMax = 8

// appendPatience is how long an append in order takes at most.
const appendPatience = 10 * time.Millisecond

// errEffectTimeout ends the context of an effect that took too long.
var errEffectTimeout = errors.New("effect timed out")

var _ service.Host = (*process)(nil)

// Now is the clock of the process.
func (p *process) Now() time.Time { return p.machine.checked.Now() }

// LogID of the event log.
func (p *process) LogID() string { return p.sim.Log.ID() }

// Name of the service.
func (p *process) Name() string { return p.name }

// Folded is up to which message and which record the process knows.
func (p *process) Folded() (messages, records uint64) { return p.streamAt, p.ledger.Seq() }

// Mode is the one the process was started in.
func (p *process) Mode() ledger.Mode { return p.mode }

// Snapshot is as of the process's own folds.
func (p *process) Snapshot(need service.Freshness, fn func(*planner.Snapshot) error) error {
	if err := p.reliable(); err != nil {
		return err
	}
	if err := p.ownFolded(); err != nil {
		return err
	}
	snapshot := planner.NewSnapshot(p.world, p.ledger, p.Now())
	if reason, err := step.Invalid(snapshot, need, p.LogID()); err != nil {
		return fmt.Errorf("%w: %s: %w", service.ErrNotReady, reason, err)
	}
	return fn(snapshot)
}

// Ledger is as of the process's own fold.
func (p *process) Ledger(fn func(*ledger.Ledger) error) error {
	if err := p.ownFolded(); err != nil {
		return err
	}
	return fn(p.ledger)
}

func (p *process) ownFolded() error {
	switch {
	case p.uncertain > 0 && !p.shut:
		return fmt.Errorf("%w: it is not known whether an append was stored", service.ErrNotReady)
	case p.ledger.Seq() < p.ownSeq:
		return fmt.Errorf("%w: own record %d is not folded yet", service.ErrNotReady, p.ownSeq)
	}
	return nil
}

// Decide appends a decision; in shadow mode only one that differs from the last, and it takes nothing.
func (p *process) Decide(ctx context.Context, basis planner.Basis, d planner.Decision) (store.Record, error) {
	if err := p.reliable(); err != nil {
		return store.Record{}, err
	}
	return p.decide(ctx, basis, d)
}

func (p *process) decide(ctx context.Context, basis planner.Basis, d planner.Decision) (store.Record, error) {
	short := d
	short.Payload = compact.Payload(d.Payload)
	draft, err := audit.DecisionDraft(basis, short)
	if err != nil {
		return store.Record{}, err
	}
	if p.mode == ledger.ModeActive {
		return p.append(ctx, draft, p.sim.judge.Decision(p, basis.Position, d.Payload))
	}
	if p.ledger.Shadowed(p.name, d.Kind, d.Subjects, d.Payload) {
		return store.Record{}, nil
	}
	draft.Expects, draft.Advances = nil, nil
	return p.append(ctx, draft, nil)
}

// Outcome appends an outcome; nothing in shadow mode.
func (p *process) Outcome(ctx context.Context, o service.Outcome) (store.Record, error) {
	if p.mode != ledger.ModeActive {
		return store.Record{}, nil
	}
	p.sim.judge.Marks.CheckOutcome(p, o.Payload)
	return p.record(ctx, o)
}

func (p *process) record(ctx context.Context, o service.Outcome) (store.Record, error) {
	draft, err := audit.OutcomeDraft(o)
	if err != nil {
		return store.Record{}, err
	}
	return p.append(ctx, draft, nil)
}

// append stores the draft and folds up to it; stored is called when it is in the log.
func (p *process) append(ctx context.Context, draft store.Draft, stored func(store.Record)) (store.Record, error) {
	if !p.leads() {
		return store.Record{}, fmt.Errorf("append: not leading: %w", store.ErrFenced)
	}
	draft.Time, draft.Service, draft.Lease = p.Now(), p.name, p.lead.Lease()
	if draft.Mode == "" {
		draft.Mode = string(p.mode)
	}
	var rec store.Record
	var err error
	kind := ledger.Kind(draft.Kind)
	head, since := len(p.sim.Entries), p.sim.Clock.Now()
	lost := p.call(ctx, toLog, "append "+kind.String(), nil, func() {
		if len(p.sim.Entries) != head && p.sim.Clock.Now().Sub(since) > appendPatience {
			return // the transaction names the head, and nobody is left to chain it again
		}
		if len(draft.Expects) > 0 && p.sim.Happens(p.sim.Faults.AppendConflict) {
			err = fmt.Errorf("others were faster: %w", store.ErrConflict)
			return
		}
		if err = p.sim.starved.refusal(p.sim, "append "); err != nil {
			return
		}
		if rec, err = p.sim.store(draft); err != nil {
			return
		}
		p.sim.stored(p, rec)
		if stored != nil {
			stored(rec)
		}
	})
	if lost != nil {
		p.lookUp()
		return store.Record{}, fmt.Errorf("append %s: %w", kind, lost)
	}
	switch {
	case errors.Is(err, store.ErrConflict):
		p.sim.Stats.Conflicts++
		p.foldLog(uint64(len(p.sim.Entries)))
		return rec, fmt.Errorf("append %s: %w", kind, err)
	case errors.Is(err, store.ErrFenced):
		p.cancel(store.ErrFenced)
		p.after(0, p.depose)
		return rec, fmt.Errorf("append %s: %w", kind, err)
	case errors.Is(err, store.ErrRefused):
		p.awaitWrites()
		return rec, fmt.Errorf("append %s: %w", kind, err)
	case err != nil:
		return rec, fmt.Errorf("append %s: %w", kind, err)
	}
	p.sim.Acknowledged[rec.Seq] = rec.Hash
	p.ownSeq = max(p.ownSeq, rec.Seq)
	p.foldLog(rec.Seq)
	return rec, nil
}

// store appends to the log.
func (s *Sim) store(draft store.Draft) (store.Record, error) {
	if s.cfg.Wrap.Append != nil {
		return s.cfg.Wrap.Append(s.Log, draft)
	}
	return s.Log.Append(context.Background(), draft)
}

// lookUp moves the head of the log as soon as that is reachable, so that an append in flight can no longer be
// stored; until then there are no Snapshots.
func (p *process) lookUp() {
	p.uncertain++
	p.moveHeadSoon(func() { p.uncertain-- })
}

// awaitWrites counts the log as away until it takes records again.
func (p *process) awaitWrites() {
	if !p.shut {
		p.shut = true
		p.moveHeadSoon(func() { p.shut = false })
	}
}

// moveHeadSoon moves the head of the log as soon as that can be done.
func (p *process) moveHeadSoon(moved func()) {
	p.after(p.sim.Millis(10, 1500), func() { p.moveHead(moved) })
}

func (p *process) moveHead(moved func()) {
	if away := p.sim.away[toLog].Sub(p.sim.Clock.Now()); away > 0 {
		p.after(away, func() { p.moveHead(moved) })
		return
	}
	if p.sim.starved.refusal(p.sim, "append ") != nil {
		p.awaitWrites()
		p.moveHeadSoon(moved)
		return
	}
	draft, err := audit.OutcomeDraft(audit.Outcome{Kind: ledger.KindModeChanged, Payload: &ledger.ModeChanged{Service: p.name, Mode: p.mode}})
	if err != nil {
		p.sim.Violate("the head can be moved", "%v", err)
		return
	}
	draft.Time, draft.Service, draft.Mode, draft.Lease = p.Now(), p.name, string(ledger.ModeActive), p.lead.Lease()
	rec, err := p.sim.store(draft)
	if err != nil {
		p.cancel(store.ErrFenced)
		p.after(0, p.depose)
		return
	}
	p.sim.stored(p, rec)
	moved()
	p.ownSeq = max(p.ownSeq, rec.Seq)
	p.foldLog(rec.Seq)
	p.poke()
}

// Effect runs fn as a coroutine, now or in its turn, unless one of this key runs or waits, or in shadow mode.
func (p *process) Effect(key string, l lane.Lane, timeout time.Duration, fn func(ctx context.Context) error) bool {
	return p.mode == ledger.ModeActive && p.effect(key, l, timeout, fn)
}

func (p *process) effect(key string, l lane.Lane, timeout time.Duration, fn func(ctx context.Context) error) bool {
	if !p.leads() || p.reliable() != nil || p.standsDown {
		return false
	}
	run := func() { p.startEffect(key, l, timeout, fn) }
	start, taken := p.lanes.Offer(l, key, run)
	if start {
		run()
	}
	return taken
}

func (p *process) startEffect(key string, l lane.Lane, timeout time.Duration, fn func(ctx context.Context) error) {
	ctx, cancel := context.WithCancelCause(p.ctx)
	c := newCoroutine(func() {
		err := p.reliable() // it may have waited
		if err == nil {
			err = fn(ctx)
		}
		delete(p.running, key)
		if _, next, ok := p.lanes.End(key); ok && p.leads() {
			next()
		}
		cancel(context.Canceled)
		if err != nil {
			p.sim.Trace("%s: effect %s: %v", p, key, err)
		}
		p.after(0, p.poke)
	})
	c.cancel, c.fenced = cancel, l.Fenced()
	p.running[key] = c
	p.sim.Stats.Effects++
	p.after(p.sim.Millis(0, 8), func() { p.sim.resume(c) })
	p.after(timeout, func() {
		if p.running[key] == c {
			cancel(errEffectTimeout)
			p.sim.wake(c, c.pause)
		}
	})
}

// Event is counted only.
func (p *process) Event(service.KubeEvent) { p.sim.Stats.KubeEvents++ }

// awaitHead folds the log as it stands when the process begins to lead: it reports whether the log could be
// read. If not it pauses, as clients of etcd do.
func (p *process) awaitHead() bool {
	var head uint64
	if p.call(p.ctx, toLog, "read head", nil, func() { head = uint64(len(p.sim.Entries)) }) != nil {
		p.pause(p.sim.Millis(50, 500))
		return p.ctx.Err() != nil
	}
	p.ownSeq = max(p.ownSeq, head)
	p.foldLog(head)
	return true
}

// announce records the options if they are not in force; it reports that they are.
func (p *process) announce() bool {
	const aggregate = "options"
	options := planner.EncodeOptions(p.sim.Options)
	if bytes.Equal(p.ledger.Options(), options) {
		return true
	}
	return p.appendOutcome(service.Outcome{Kind: ledger.KindOptionsSet, Payload: &ledger.OptionsSet{Options: options},
		Expects: []planner.Expectation{{Aggregate: aggregate, Seq: p.ledger.Aggregate(aggregate)}}, Advances: []string{aggregate}})
}

// announceMode records the mode if it is not in force; it reports that it is.
func (p *process) announceMode() bool {
	return p.ledger.Mode(p.name) == p.mode ||
		p.appendOutcome(service.Outcome{Kind: ledger.KindModeChanged, Payload: &ledger.ModeChanged{Service: p.name, Mode: p.mode}})
}

// retire makes lifecycle forget aggregates of what no longer exists, far more often than in a real cluster.
func (p *process) retire() {
	const every, age = 15, 5
	if p.name != ledger.ServiceLifecycle || p.ownFolded() != nil || p.reliable() != nil || p.ledger.Seq() < p.ledger.Aggregate(ledger.RetiredAggregate)+every {
		return
	}
	drafts, err := audit.RetirementDrafts(p.ledger, p.ledger.Seq()-age, 1)
	if err != nil {
		p.sim.Violate("aggregates can be retired", "%v", err)
	}
	for _, d := range drafts {
		if _, err := p.append(p.ctx, d, nil); err != nil {
			return // a later step tries again
		}
	}
}

// appendOutcome appends a record that counts in any mode. It reports that trying again is useless.
func (p *process) appendOutcome(o service.Outcome) bool {
	draft, err := audit.OutcomeDraft(o)
	if err == nil {
		err = p.reliable()
	}
	if err == nil {
		draft.Mode = string(ledger.ModeActive)
		_, err = p.append(p.ctx, draft, nil)
	}
	if err != nil {
		p.pause(p.sim.Millis(50, 500))
		p.foldLog(uint64(len(p.sim.Entries)))
	}
	return p.ctx.Err() != nil
}
