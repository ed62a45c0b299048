// Package orders records what people order of a running Millwright: stop and resume, and answers to proposed
// commands. Each order names who gave it and why.
//
// Guarantees: an order is recorded once and together with what it changes, or not at all; it was not
// overtaken by another one that its giver had not seen. Not guaranteed: that services have acted on it when
// the call returns.
package orders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
)

// triesMax bounds how often another operator may be faster.
const triesMax = 5

var (
	// ErrUnknown: there is no such proposal. The error's text says what to do.
	ErrUnknown = errors.New("not proposed")
	// ErrAnswered: somebody else's answer came first.
	ErrAnswered = errors.New("answered already")
)

// refusal has a text of its own, and is one of the errors above.
type refusal struct {
	text string
	kind error
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.kind }

func refuse(kind error, format string, args ...any) error {
	return &refusal{text: fmt.Sprintf(format, args...), kind: kind}
}

// Rejection counts from its record's time; Until is for services that do not know For yet.
func Rejection(id string, life time.Duration, now time.Time) ledger.ProposalAnswered {
	return ledger.ProposalAnswered{ID: id, For: life, Until: now.Add(life).UTC()}
}

// Answer records an answer to a proposed command. It returns ErrUnknown or ErrAnswered for an id that is not
// proposed, or was answered already.
func Answer(ctx context.Context, log store.Log, a ledger.ProposalAnswered, now time.Time) (store.Record, error) {
	aggregate := ledger.CommandAggregate(a.ID)
	seen, err := log.Aggregate(ctx, aggregate) // first: if another answer comes between, it has moved
	if err != nil {
		return store.Record{}, fmt.Errorf("read where command %s stands: %w", a.ID, err)
	}
	l, err := audit.PresentLedger(ctx, log)
	if err != nil {
		return store.Record{}, fmt.Errorf("fold the log: %w", err)
	}
	x := l.Proposal(a.ID)
	switch {
	case x == nil && l.Command(a.ID) != nil:
		return store.Record{}, refuse(ErrUnknown, "command %s runs already; it is not proposed", a.ID)
	case x == nil:
		return store.Record{}, refuse(ErrUnknown, "command %s is not proposed: list what is with `millctl commands`", a.ID)
	case x.Answer != nil:
		return store.Record{}, refuse(ErrAnswered, "command %s was answered already by %s: %s", a.ID, x.Answer.By, x.Answer.Why)
	}
	var nodes []string
	for _, c := range x.Proposed.Command.Candidates {
		nodes = append(nodes, "node/"+c.Node)
	}
	draft, err := audit.AnswerDraft(&a, nodes, seen)
	if err != nil {
		return store.Record{}, err
	}
	draft.Time = now
	rec, err := log.Append(ctx, draft)
	if errors.Is(err, store.ErrConflict) {
		return rec, fmt.Errorf("command %s was answered, or ended, by someone else meanwhile: %w", a.ID, err)
	}
	return rec, err
}

// SetStop records the change and sets the switch in one step, and returns what was in force before. Resuming
// what is not stopped records nothing.
func SetStop(ctx context.Context, log store.Log, want ledger.ControlChanged, now time.Time) (before ledger.ControlChanged, rec store.Record, err error) {
	for range triesMax {
		// The aggregate first: if another operator comes between, it has moved.
		seen, err := log.Aggregate(ctx, ledger.ControlAggregate)
		if err != nil {
			return before, rec, err
		}
		if before, err = StopInForce(ctx, log); err != nil {
			return before, rec, err
		}
		if before.Stop == ledger.StopNone && want.Stop == ledger.StopNone {
			return before, rec, nil
		}
		draft, err := audit.ControlDraft(&want, seen)
		if err != nil {
			return before, rec, err
		}
		draft.Time = now
		if rec, err = log.Append(ctx, draft); !errors.Is(err, store.ErrConflict) {
			return before, rec, err
		}
	}
	return before, rec, fmt.Errorf("others changed it %d times meanwhile: %w", triesMax, store.ErrConflict)
}

// StopInForce reads the switch.
func StopInForce(ctx context.Context, log store.Log) (c ledger.ControlChanged, err error) {
	value, _, err := log.Switch(ctx, ledger.SwitchStop)
	if err != nil || value == "" {
		return c, err
	}
	if err := json.Unmarshal([]byte(value), &c); err != nil {
		return c, fmt.Errorf("decode the stop switch: %w", err)
	}
	return c, nil
}
