package step

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
)

// optionsAggregate keeps two processes that start together from recording the same options twice.
const optionsAggregate = "options"

// announceTriesMax bounds how often another process may be faster.
const announceTriesMax = 10

// announce records the options, adopted logs and the mode, unless they are in force already.
func (h *Host) announce(ctx context.Context) error {
	if err := h.state.ReadKinds(ctx); err != nil {
		return err
	}
	if err := h.awaitHead(ctx); err != nil {
		return err
	}
	var err error
	for range announceTriesMax {
		if err = h.announceOptions(ctx, planner.EncodeOptions(h.options)); !errors.Is(err, store.ErrConflict) {
			break
		}
	}
	if err != nil {
		return err
	}
	if err := h.announceAdoption(ctx); err != nil {
		return err
	}
	return h.announceMode(ctx)
}

// announceAdoption records which other logs' objects this one takes over, once for each log.
func (h *Host) announceAdoption(ctx context.Context) error {
	var fresh []string
	if err := h.Ledger(func(l *ledger.Ledger) error {
		fresh = slices.DeleteFunc(slices.Clone(h.adopt), l.HasAdopted)
		return nil
	}); err != nil || len(fresh) == 0 {
		return err
	}
	slices.Sort(fresh)
	return h.record(ctx, ledger.KindLogAdopted, &ledger.LogAdopted{Logs: fresh}, "", 0)
}

// awaitHead waits until the log as it is now is folded: only then is it known what is in force.
func (h *Host) awaitHead(ctx context.Context) error {
	head, err := h.log.Head(ctx)
	if err != nil {
		return fmt.Errorf("read head of log: %w", err)
	}
	h.mustFold(head.Seq)
	return h.state.WaitFolded(ctx, head.Seq)
}

func (h *Host) announceOptions(ctx context.Context, options []byte) error {
	var inForce bool
	var expect uint64
	err := h.Ledger(func(l *ledger.Ledger) error {
		inForce = bytes.Equal(l.Options(), options)
		expect = l.Aggregate(optionsAggregate)
		return nil
	})
	if err != nil || inForce {
		return err
	}
	return h.record(ctx, ledger.KindOptionsSet, &ledger.OptionsSet{Options: options}, optionsAggregate, expect)
}

func (h *Host) announceMode(ctx context.Context) error {
	var inForce ledger.Mode
	if err := h.Ledger(func(l *ledger.Ledger) error {
		inForce = l.Mode(h.name)
		return nil
	}); err != nil || inForce == h.mode {
		return err
	}
	payload := &ledger.ModeChanged{Service: h.name, Mode: h.mode}
	return h.record(ctx, ledger.KindModeChanged, payload, "", 0)
}

// Note appends a record about the log itself, in any mode. aggregate may be empty; else it is expected at
// expect, and advances.
func (h *Host) Note(ctx context.Context, kind ledger.Kind, payload any, aggregate string, expect uint64) error {
	return h.record(ctx, kind, payload, aggregate, expect)
}

// Retire appends a record of audit.RetirementDrafts, in any mode.
func (h *Host) Retire(ctx context.Context, draft store.Draft) error {
	if err := h.clockReliable(); err != nil {
		return err
	}
	_, err := h.append(ctx, draft)
	return err
}

// record appends a record that is neither a decision nor an outcome. It counts in any mode.
func (h *Host) record(ctx context.Context, kind ledger.Kind, payload any, aggregate string, expect uint64) error {
	if err := h.clockReliable(); err != nil {
		return err
	}
	var expects []planner.Expectation
	var advances []string
	if aggregate != "" {
		expects, advances = []planner.Expectation{{Aggregate: aggregate, Seq: expect}}, []string{aggregate}
	}
	draft, err := audit.OutcomeDraft(audit.Outcome{Kind: kind, Payload: payload, Expects: expects, Advances: advances})
	if err != nil {
		return err
	}
	draft.Mode = string(ledger.ModeActive)
	_, err = h.append(ctx, draft)
	return err
}
