package step

import (
	"context"
	"errors"
	"time"
)

// errLogBack ends a degraded term: from then on the log decides who leads.
var errLogBack = errors.New("the log answers again")

// logBackEvery is how often it is checked whether the log answers again.
const logBackEvery = 100 * time.Millisecond

// DegradedTerm makes the host carry on with what is recorded although it no longer leads: for the last leader
// while nobody can reach the log (DESIGN §5, outages). Nothing can be decided or recorded, and only effects
// that are not creating are started. led ends with ctx or when the log answers again; ok is false if it
// answers now. release is as for Lead, but ends the effects at once: a successor may lead.
func (h *Host) DegradedTerm(ctx context.Context) (led context.Context, release func(context.Context), ok bool) {
	if !h.state.LogAway() {
		return nil, nil, false
	}
	led, cancel := context.WithCancelCause(ctx)
	t := &term{ctx: led, cancel: cancel}
	h.mu.Lock()
	h.term = t
	h.mu.Unlock()
	h.metrics.degraded.Set(1)
	go h.endWhenLogAnswers(t)
	h.logger.Warn().Msg("the log is out of reach: carrying on with what is recorded")
	return led, func(ctx context.Context) {
		t.cancel(context.Canceled)
		h.release(ctx, t)
		h.metrics.degraded.Set(0)
	}, true
}

// endWhenLogAnswers ends the term when the log answers. It ends with the term.
func (h *Host) endWhenLogAnswers(t *term) {
	ticker := time.NewTicker(logBackEvery)
	defer ticker.Stop()
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-ticker.C:
		}
		if !h.state.LogAway() {
			t.cancel(errLogBack)
			return
		}
	}
}

// degraded reports that the term is one without a leadership.
func (t *term) degraded() bool { return t.lead == nil }
