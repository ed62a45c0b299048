package step

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/services/internal/service"
	"millwright/store"
	"millwright/store/audit"
)

// Decide appends a decision. A shadow decision neither expects nor advances anything, because it takes
// nothing; one that equals the last one on these subjects is not appended, and the record returned is zero.
func (h *Host) Decide(ctx context.Context, basis planner.Basis, d planner.Decision) (store.Record, error) {
	if err := h.clockReliable(); err != nil {
		return store.Record{}, err
	}
	short := d
	short.Payload = h.state.Compact(d.Payload)
	draft, err := audit.DecisionDraft(basis, short)
	if err != nil {
		return store.Record{}, err
	}
	if h.mode == ledger.ModeShadow {
		draft.Expects, draft.Advances = nil, nil
		if repeated, err := h.shadowed(d); err != nil || repeated {
			return store.Record{}, err
		}
	}
	rec, err := h.append(ctx, draft)
	if err == nil {
		h.metrics.decision.Observe(max(0, h.Now().Sub(basis.Now).Seconds()))
		h.logger.Info().Uint64("decision_id", rec.Seq).Stringer("kind", d.Kind).Strs("subjects", clip(d.Subjects)).Msg("decided")
	}
	return rec, err
}

func (h *Host) shadowed(d planner.Decision) (repeated bool, err error) {
	err = h.Ledger(func(l *ledger.Ledger) error {
		repeated = l.Shadowed(h.name, d.Kind, d.Subjects, d.Payload)
		return nil
	})
	return repeated, err
}

// Outcome appends what an effect brought about.
func (h *Host) Outcome(ctx context.Context, o service.Outcome) (store.Record, error) {
	if h.mode != ledger.ModeActive {
		return store.Record{}, nil
	}
	o.Payload = h.state.Compact(o.Payload)
	draft, err := audit.OutcomeDraft(o)
	if err != nil {
		return store.Record{}, err
	}
	rec, err := h.append(ctx, draft)
	if err == nil {
		h.logger.Info().Uint64("revision", rec.Seq).Stringer("kind", o.Kind).Strs("subjects", clip(o.Subjects)).Msg("recorded")
	}
	return rec, err
}

// subjectsLoggedMax bounds a log line; the record names all.
const subjectsLoggedMax = 10

func clip(subjects []string) []string {
	if len(subjects) <= subjectsLoggedMax {
		return subjects
	}
	return append(subjects[:subjectsLoggedMax:subjectsLoggedMax], fmt.Sprintf("and %d more", len(subjects)-subjectsLoggedMax))
}

// append stores the draft under the present leadership and waits until it is folded.
func (h *Host) append(ctx context.Context, draft store.Draft) (store.Record, error) {
	t := h.leading()
	if t == nil || t.degraded() {
		return store.Record{}, fmt.Errorf("append %s: not leading: %w", ledger.Kind(draft.Kind), store.ErrFenced)
	}
	if err := h.state.HeldBack(ledger.Kind(draft.Kind)); err != nil {
		return store.Record{}, fmt.Errorf("append %w", err)
	}
	began := h.Now()
	draft.Time, draft.Service, draft.Lease = began, h.name, t.lead.Lease()
	if draft.Mode == "" {
		draft.Mode = string(h.mode)
	}
	draft.OmitExplanation, draft.Format = h.state.Crowded(), h.state.Format()
	rec, err := h.log.Append(ctx, draft)
	if err != nil {
		return rec, fmt.Errorf("append %s: %w", ledger.Kind(draft.Kind), h.notStored(ctx, t, err, began))
	}
	h.mustFold(rec.Seq)
	h.state.FoldOwn(rec)
	if err := h.state.WaitFolded(ctx, rec.Seq); err != nil {
		return rec, err
	}
	h.metrics.appended("stored", began, h.Now())
	return rec, nil
}

// notStored handles a failed append and returns its error.
func (h *Host) notStored(ctx context.Context, t *term, err error, began time.Time) error {
	outcome := "unknown"
	switch {
	case errors.Is(err, store.ErrConflict):
		outcome = "conflict"
		h.metrics.conflicts.Inc()
		h.catchUp(ctx)
	case errors.Is(err, store.ErrFenced):
		outcome = "fenced"
		t.cancel(fmt.Errorf("lead %s: %w", h.name, store.ErrFenced))
	case errors.Is(err, store.ErrTooLarge):
		outcome = "too_large"
	case errors.Is(err, store.ErrRefused):
		outcome = "refused"
		h.awaitWrites(t, err)
	default:
		h.lookUp(t)
	}
	h.metrics.appended(outcome, began, h.Now())
	return err
}

// catchUp waits until the record that moved the aggregate is folded, so that the next plan sees it. An error
// does no harm: the next plan meets the conflict again.
func (h *Host) catchUp(ctx context.Context) {
	head, err := h.log.Head(ctx)
	if err != nil {
		return
	}
	_ = h.state.WaitFolded(ctx, head.Seq)
}

// lookUp finds out, concurrently with the steps, how far the log has got, after an append that may have been
// stored, or may yet be. Until then there are no Snapshots. Reading the head is not enough, because the
// append may still be in flight: a record that changes nothing moves the head, and an append that names the
// old head can no longer be stored.
func (h *Host) lookUp(t *term) {
	h.mu.Lock()
	h.uncertain++
	h.mu.Unlock()
	h.pool.attend(func() {
		rec, err := h.keepMovingHead(t)
		h.mu.Lock()
		h.uncertain--
		h.mu.Unlock()
		if err == nil {
			h.mustFold(rec.Seq)
		}
		h.changed.Broadcast()
	})
}

// awaitWrites counts the log as away, concurrently with the steps, from a refused append until one is stored
// or the term ends.
func (h *Host) awaitWrites(t *term, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refused {
		return
	}
	h.refused = true
	end := h.state.Writes.Refused(h.Now(), why)
	h.logger.Warn().Err(why).Msg("the log takes no records: carrying on with what is recorded")
	h.pool.attend(func() {
		rec, err := h.keepMovingHead(t)
		end()
		h.mu.Lock()
		h.refused = false
		h.mu.Unlock()
		if err == nil {
			h.mustFold(rec.Seq)
		}
		h.changed.Broadcast()
	})
}

// keepMovingHead tries to move the head until that succeeds or the term ends.
func (h *Host) keepMovingHead(t *term) (store.Record, error) {
	forever := backoff.NewExponentialBackOff(backoff.WithMaxElapsedTime(0), backoff.WithMaxInterval(time.Second))
	return backoff.RetryWithData(func() (store.Record, error) { return h.moveHead(t) }, backoff.WithContext(forever, t.ctx))
}

// moveHead appends the mode that is in force. It ends the term if its leadership is over.
func (h *Host) moveHead(t *term) (store.Record, error) {
	draft, err := audit.OutcomeDraft(audit.Outcome{Kind: ledger.KindModeChanged, Payload: &ledger.ModeChanged{Service: h.name, Mode: h.mode}})
	if err != nil {
		return store.Record{}, backoff.Permanent(err)
	}
	draft.Time, draft.Service, draft.Mode, draft.Lease = h.Now(), h.name, string(ledger.ModeActive), t.lead.Lease()
	rec, err := h.log.Append(t.ctx, draft)
	switch {
	case errors.Is(err, store.ErrFenced):
		t.cancel(fmt.Errorf("lead %s: %w", h.name, store.ErrFenced))
		err = backoff.Permanent(err)
	case errors.Is(err, store.ErrRefused):
		h.awaitWrites(t, err)
	}
	return rec, err
}

func (h *Host) mustFold(seq uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ownSeq = max(h.ownSeq, seq)
}

func (h *Host) leading() *term {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.term == nil || h.term.ctx.Err() != nil {
		return nil
	}
	return h.term
}
