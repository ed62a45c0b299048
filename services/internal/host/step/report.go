package step

import (
	"context"
	"strconv"
	"time"

	"millwright/store/audit"
)

const (
	// reportEvery is how often a leader publishes its state; reportTimeout bounds that.
	reportEvery   = 5 * time.Second
	reportTimeout = 2 * time.Second
)

// report publishes the state of the service until the term ends. Reports are for people: one that fails is
// skipped.
func (h *Host) report(t *term) {
	for t.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(t.ctx, reportTimeout)
		if err := t.lead.Report(ctx, h.standing()); err != nil && t.ctx.Err() == nil {
			h.logger.Debug().Err(err).Msg("not reported")
		}
		cancel()
		select {
		case <-time.After(reportEvery):
		case <-t.ctx.Done():
		}
	}
}

func (h *Host) standing() map[string]string {
	r := map[string]string{audit.ReportAt: stamp(h.Now()), audit.ReportStop: string(h.Stop())}
	if err := h.state.ClockFault(); err != nil {
		r[audit.ReportClock] = err.Error()
	}
	w, l, err := h.state.Versions()
	if err != nil {
		return r
	}
	at := w.Position()
	r[audit.ReportFolded] = strconv.FormatUint(l.Seq(), 10)
	r[audit.ReportStream], r[audit.ReportPosition] = at.Incarnation, strconv.FormatUint(at.Sequence, 10)
	if !w.AsOf().IsZero() {
		r[audit.ReportAsOf] = stamp(w.AsOf())
	}
	return r
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
