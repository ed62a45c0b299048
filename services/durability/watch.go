package durability

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"
)

// watchEvery is how often a running process looks.
const watchEvery = 5 * time.Minute

// Watch has a gauge of what is found, looked at when it begins and every five minutes.
type Watch struct {
	cfg    Config
	logger zerolog.Logger
	unsafe *prometheus.GaugeVec
	// told are the findings that the log tells of.
	told map[Finding]bool
}

// NewWatch has no side effects but registering the metric.
func NewWatch(cfg Config, logger zerolog.Logger, r prometheus.Registerer) *Watch {
	return &Watch{cfg: cfg, logger: logger, told: map[Finding]bool{}, unsafe: promauto.With(r).NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "millwright", Name: "unsafe_setting",
		Help: "Whether a setting of the external etcd or NATS is unsafe (1) or not (0), by finding; no series of what could not be found out."},
		[]string{"finding"})}
}

// RegisterMetrics registers the metrics of the package with r, as a running process does; docs/metrics.md
// is made of them.
func RegisterMetrics(r prometheus.Registerer) { NewWatch(Config{}, zerolog.Nop(), r) }

// Run looks until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		w.Look(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Look once. What is unsafe is told in the log when it is found first, and again after it was not for a time.
func (w *Watch) Look(ctx context.Context) {
	worst := map[Finding]Result{}
	for _, r := range Check(ctx, w.cfg) {
		if had, ok := worst[r.Finding]; !ok || rank[r.Verdict] > rank[had.Verdict] {
			worst[r.Finding] = r
		}
	}
	if ctx.Err() != nil {
		return
	}
	if r, ok := worst[EtcdOneMember]; ok && r.Verdict == Safe {
		worst[EtcdEvenMembers] = r
	} else if r, ok := worst[EtcdEvenMembers]; ok {
		worst[EtcdOneMember] = Result{Verdict: Safe, Object: r.Object}
	}
	for _, f := range Findings {
		r, ok := worst[f]
		bad := r.Verdict == Unsafe || r.Verdict == Broken
		switch {
		case !ok || r.Verdict == Unknown:
			w.unsafe.DeleteLabelValues(string(f))
			if ok {
				w.logger.Debug().Str("finding", string(f)).Str("object", r.Object).Str("text", r.Message).Msg("setting of a server is not known")
			}
		case bad:
			w.unsafe.WithLabelValues(string(f)).Set(1)
			if !w.told[f] {
				w.logger.Warn().Str("finding", string(f)).Str("object", r.Object).Str("text", r.Message).Str("remedy", r.Remedy).Msg("unsafe setting of a server")
			}
		default:
			w.unsafe.WithLabelValues(string(f)).Set(0)
		}
		w.told[f] = bad
	}
}

// rank of verdicts: what is worse on one server counts for all; what is not known of one is no answer for
// all.
var rank = map[Verdict]int{Safe: 0, Unknown: 1, Unsafe: 2, Broken: 3}
