package step

import (
	"context"
	"fmt"
	"time"

	"millwright/planner/ledger"
	"millwright/services/internal/service"
)

// Gate returns the service as it may be stepped: not while another installation may act, since otherwise
// decisions would pile up that nobody carries out and that are stale by the time somebody does. A shadow
// service does no harm and is always stepped.
func (h *Host) Gate(s service.Service) service.Service { return gated{s, h} }

type gated struct {
	service.Service
	host *Host
}

// Released implements service.Releaser.
func (g gated) Released() {
	if r, ok := g.Service.(service.Releaser); ok {
		r.Released()
	}
}

func (g gated) Step(ctx context.Context) (time.Duration, error) {
	if g.host.mode == ledger.ModeActive && !g.host.mayAct() {
		g.host.metrics.notReady.WithLabelValues("not_the_actor").Inc()
		return 0, fmt.Errorf("%w: this installation may not act now", service.ErrNotReady)
	}
	return g.Service.Step(ctx)
}
