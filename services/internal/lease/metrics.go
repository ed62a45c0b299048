package lease

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// export publishes whether the Lease is held.
func export(r prometheus.Registerer, k *Keeper) {
	f := promauto.With(r)
	gauge := func(name, help string, is func() bool) {
		f.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "millwright", Subsystem: "kube_lease", Name: name, Help: help}, func() float64 {
			if is() {
				return 1
			}
			return 0
		})
	}
	gauge("held", "Whether the kube Lease is this installation's (1), so that it may act, or not (0).", k.Held)
	gauge("foreign", "Whether the kube Lease was last seen in the hands of another holder (1) or not (0).", k.heldByAnother)
}

func (k *Keeper) heldByAnother() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.foreign != ""
}

// RegisterMetrics registers the metrics of the package with r, as a running process does; docs/metrics.md is
// made of them.
func RegisterMetrics(r prometheus.Registerer) { export(r, nil) }
