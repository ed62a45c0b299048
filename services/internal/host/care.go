package host

import (
	"context"
	"errors"
	"time"
)

// errLogBack ends a time of caring: who leads now is for the log to say.
var errLogBack = errors.New("the log answers again")

// careLook is how often it is looked whether the log answers again.
const careLook = 100 * time.Millisecond

// Care makes the host carry on with what is recorded although it leads no more: for the last leader while nobody can reach
// the log (DESIGN §5, outages). Nothing can be decided or recorded, and only effects that are not creating are started. led ends with
// ctx or when the log answers again; ok is false if it answers now. release is as of Lead, but ends the effects at once: a
// successor may lead.
func (h *Host) Care(ctx context.Context) (led context.Context, release func(context.Context), ok bool) {
	if !h.state.LogAway() {
		return nil, nil, false
	}
	led, cancel := context.WithCancelCause(ctx)
	t := &term{ctx: led, cancel: cancel}
	h.mu.Lock()
	h.term = t
	h.mu.Unlock()
	h.metrics.caring.Set(1)
	go h.careUntilBack(t)
	h.logger.Warn().Msg("the log is out of reach: carrying on with what is recorded")
	return led, func(ctx context.Context) {
		t.cancel(context.Canceled)
		h.release(ctx, t)
		h.metrics.caring.Set(0)
	}, true
}

// careUntilBack ends the term when the log answers. It ends with the term.
func (h *Host) careUntilBack(t *term) {
	ticker := time.NewTicker(careLook)
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

// caring reports that the term is one without a leadership.
func (t *term) caring() bool { return t.lead == nil }
