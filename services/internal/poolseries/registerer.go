package poolseries

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// labels have the NodePool's name; "" stands for things of no NodePool.
var labels = []string{"nodepool", "karpenter_sh_nodepool"}

const (
	// keptFor is how long series outlive their NodePool.
	keptFor = time.Hour
	// sweepEvery is how often they are looked through.
	sweepEvery = 5 * time.Minute
)

// Registerer passes everything on to another one and deletes the series of NodePools that are gone. It is
// safe for concurrent use.
type Registerer struct {
	prometheus.Registerer

	mu      sync.Mutex
	vectors []vector
	// gone is since when the NodePools of series have not been there, by name.
	gone map[string]time.Time
}

// vector is a metric with labels, of any type.
type vector interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

// New returns a Registerer over another one.
func New(r prometheus.Registerer) *Registerer {
	return &Registerer{Registerer: r, gone: map[string]time.Time{}}
}

// Register implements prometheus.Registerer.
func (r *Registerer) Register(c prometheus.Collector) error {
	if err := r.Registerer.Register(c); err != nil {
		return err
	}
	if v, ok := c.(vector); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.vectors = append(r.vectors, v)
	}
	return nil
}

// MustRegister implements prometheus.Registerer.
func (r *Registerer) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister implements prometheus.Registerer.
func (r *Registerer) Unregister(c prometheus.Collector) bool {
	r.mu.Lock()
	kept := r.vectors[:0:0]
	for _, v := range r.vectors {
		if v != c {
			kept = append(kept, v)
		}
	}
	r.vectors = kept
	r.mu.Unlock()
	return r.Registerer.Unregister(c)
}

// Run deletes series until ctx ends. present returns the names of the NodePools, and whether all that there
// are is known.
func (r *Registerer) Run(ctx context.Context, present func() (map[string]bool, bool)) error {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			if pools, whole := present(); whole {
				r.sweep(pools, now)
			}
		}
	}
}

// sweep deletes the series of NodePools that were gone at each sweep of the last hour.
func (r *Registerer) sweep(present map[string]bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	gone := map[string]time.Time{}
	for pool := range r.named() {
		if pool == "" || present[pool] {
			continue
		}
		if gone[pool] = r.gone[pool]; gone[pool].IsZero() {
			gone[pool] = now
		}
		if now.Sub(gone[pool]) < keptFor {
			continue
		}
		for _, v := range r.vectors {
			for _, label := range labels {
				v.DeletePartialMatch(prometheus.Labels{label: pool})
			}
		}
		delete(gone, pool)
	}
	r.gone = gone
}

// named are the NodePools that series name. The caller holds the lock.
func (r *Registerer) named() map[string]bool {
	names := map[string]bool{}
	for _, v := range r.vectors {
		metrics := make(chan prometheus.Metric)
		go func() {
			defer close(metrics)
			v.Collect(metrics)
		}()
		for m := range metrics {
			var read dto.Metric
			if m.Write(&read) != nil {
				continue // the page of metrics says why
			}
			for _, pair := range read.GetLabel() {
				if slices.Contains(labels, pair.GetName()) {
					names[pair.GetValue()] = true
				}
			}
		}
	}
	return names
}
