package step

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/services/internal/host/fold"
	"millwright/services/internal/service"
	"millwright/store"
)

// Config of a Host.
type Config struct {
	// Service is one of the ledger.Service constants.
	Service string
	Mode    ledger.Mode
	// State is shared by the services of a process.
	State *fold.State
	// Options are this process's settings; they are recorded when the service begins to lead.
	Options planner.Options
	// Adopt are the ids of other logs whose objects an operator let this one take over; it is recorded when
	// the service begins to lead.
	Adopt []string
	// EffectsMax bounds the effects of each lane that run at a time, if it is lower than the lane's size; 0:
	// the size counts.
	EffectsMax int
	// Events publishes KubeEvents; nil drops them.
	Events fold.Publisher
	// MayAct reports whether this installation is the one that may act on the cluster now; nil means yes.
	// While it says no, a gated service is not stepped, no effect is started and no KubeEvent published.
	MayAct func() bool
	// MayActUntil is when MayAct will say no unless something prolongs it: creating effects end before. nil
	// means never.
	MayActUntil func() time.Time
	Logger      zerolog.Logger
	Registerer  prometheus.Registerer
}

// Host is one service's view of the process. It implements service.Host and is safe for concurrent use.
type Host struct {
	name    string
	mode    ledger.Mode
	state   *fold.State
	log     store.Log
	options planner.Options
	adopt   []string
	events  fold.Publisher
	mayAct  func() bool
	until   func() time.Time
	logger  zerolog.Logger
	metrics *metrics
	changed fold.Signals
	pool    *pool

	mu sync.Mutex
	// term is what the service works under: a leadership, or a degraded term after the last one; nil while it
	// stands by.
	term *term
	// ownSeq is the highest sequence this service must have folded before it may get another Snapshot.
	ownSeq uint64
	// uncertain counts appends of unknown outcome that are being looked up.
	uncertain int
	// refused: the log refused an append, and has stored none since.
	refused bool
}

var _ service.Host = (*Host)(nil)

// term is one time of leading.
type term struct {
	lead   store.Leadership
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// New returns a Host that stands by.
func New(cfg Config) *Host {
	if cfg.MayAct == nil {
		cfg.MayAct = func() bool { return true }
	}
	m := newMetrics(cfg.Registerer, cfg.Service)
	h := &Host{
		name: cfg.Service, mode: cfg.Mode, state: cfg.State, log: cfg.State.Log, options: cfg.Options, adopt: cfg.Adopt, events: cfg.Events,
		mayAct: cfg.MayAct, until: cfg.MayActUntil, logger: cfg.Logger, metrics: m,
	}
	h.pool = newPool(cfg.EffectsMax, m, cfg.Logger, h.changed.Broadcast)
	return h
}

// Now is the clock of the process.
func (h *Host) Now() time.Time { return h.state.Now() }

// LogID of the event log.
func (h *Host) LogID() string { return h.log.ID() }

// Mode the service works in.
func (h *Host) Mode() ledger.Mode { return h.mode }

// Event publishes a KubeEvent; a shadow service is silent, because its decisions are not carried out.
func (h *Host) Event(e service.KubeEvent) {
	if h.events != nil && h.mode == ledger.ModeActive && h.mayAct() {
		if e.Object.UID == "" {
			e.Object.UID = uidOf(h.state.Version(), e.Object)
		}
		h.events.Publish(e)
	}
}

// uidOf is the UID of an object that is known by its name, "" if the World does not have it. kubectl describe
// shows no event without it.
func uidOf(w *world.World, o corev1.ObjectReference) types.UID {
	switch o.Kind {
	case "Node":
		if n := w.Node(o.Name); n != nil {
			return n.Object.UID
		}
	case "NodeClaim":
		if c := w.NodeClaim(o.Name); c != nil {
			return c.UID
		}
	case "NodePool":
		if p := w.NodePool(o.Name); p != nil {
			return p.UID
		}
	}
	return ""
}

// Lead makes the host work under a leadership, until ctx ends, the leadership is lost or release is called;
// the context it returns ends then. Before it returns, the options and the mode in force are recorded.
// release waits for the running effects, ends them when its ctx does, and stands by again.
func (h *Host) Lead(ctx context.Context, lead store.Leadership) (led context.Context, release func(context.Context), err error) {
	led, cancel := context.WithCancelCause(ctx)
	t := &term{lead: lead, ctx: led, cancel: cancel}
	h.mu.Lock()
	h.term = t
	h.mu.Unlock()
	go t.watch(h.name)
	release = func(ctx context.Context) { h.release(ctx, t) }
	h.metrics.leader.Set(1)
	if err := h.announce(led); err != nil {
		cancel(err)
		release(ctx)
		return nil, nil, err
	}
	go h.report(t)
	return led, release, nil
}

// Leads reports that the host works under a leadership.
func (h *Host) Leads() bool {
	t := h.leading()
	return t != nil && !t.degraded()
}

// watch ends the term with the leadership. It ends with the term.
func (t *term) watch(service string) {
	select {
	case <-t.lead.Done():
		t.cancel(fmt.Errorf("lead %s: %w", service, store.ErrFenced))
	case <-t.ctx.Done():
	}
}

func (h *Host) release(ctx context.Context, t *term) {
	stop := context.AfterFunc(ctx, func() { t.cancel(context.Canceled) })
	defer stop()
	h.pool.drain()
	t.cancel(context.Canceled)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.term = nil
	h.metrics.leader.Set(0)
}

// Failed is nil, or why this service cannot continue in this version and must not lead.
func (h *Host) Failed() error { return h.state.Failed() }

// Changes returns a channel that gets a value after an effect has ended or an append was looked up.
func (h *Host) Changes() (<-chan struct{}, func()) { return h.changed.Subscribe() }

// Snapshot calls fn with a valid Snapshot, or returns ErrNotReady. Nothing waits for fn, and the Snapshot
// stays as it is.
func (h *Host) Snapshot(need service.Freshness, fn func(*planner.Snapshot) error) error {
	if err := h.clockReliable(); err != nil {
		return err
	}
	w, l, err := h.state.Versions()
	if err != nil {
		return err
	}
	if err := h.ownFolded(l); err != nil {
		return err
	}
	snapshot := planner.NewSnapshot(w, l, h.Now())
	if reason, err := Invalid(snapshot, need, h.LogID(), h.state.Refuted()...); err != nil {
		h.metrics.notReady.WithLabelValues(reason).Inc()
		return fmt.Errorf("%w: %w", service.ErrNotReady, err)
	}
	return fn(snapshot)
}

// Ledger calls fn with a version of the Ledger. Nothing waits for fn.
func (h *Host) Ledger(fn func(*ledger.Ledger) error) error {
	if err := h.state.Failed(); err != nil {
		return err
	}
	l := h.state.Ledger()
	if err := h.ownFolded(l); err != nil {
		return err
	}
	return fn(l)
}

// ownFolded reports ErrNotReady while an own append is not folded. While the log takes no records it does not
// wait for what cannot be found out then: nothing is decided or created meanwhile.
func (h *Host) ownFolded(l *ledger.Ledger) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.uncertain > 0 && !h.refused {
		h.metrics.notReady.WithLabelValues("append_unknown").Inc()
		return fmt.Errorf("%w: it is not known whether an append was stored", service.ErrNotReady)
	}
	if l.Seq() < h.ownSeq {
		h.metrics.notReady.WithLabelValues("own_append").Inc()
		return fmt.Errorf("%w: own record %d is not folded yet", service.ErrNotReady, h.ownSeq)
	}
	return nil
}

// Stop implements service.Host.
func (h *Host) Stop() ledger.Stop { return h.state.Stop() }

// LogAway implements service.Host.
func (h *Host) LogAway() bool { return h.state.LogAway() }

// clockReliable is Reliable for requests of services, which try again when something has changed.
func (h *Host) clockReliable() error {
	err := h.state.Reliable()
	if err == nil {
		return nil
	}
	h.metrics.notReady.WithLabelValues("clock").Inc()
	return fmt.Errorf("%w: %w", service.ErrNotReady, err)
}
