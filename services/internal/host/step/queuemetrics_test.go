package step

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"millwright/planner/ledger"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
)

// ofQueue are the values of a queue; histograms as "count sum".
func ofQueue(t *testing.T, registry prometheus.Gatherer, queue string) map[string]string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if len(labels) != 2 || labels["name"] != queue || labels["controller"] != queue {
				continue
			}
			values[f.GetName()] = fmt.Sprint(m.GetGauge().GetValue() + m.GetCounter().GetValue())
			if h := m.GetHistogram(); h != nil {
				values[f.GetName()] = fmt.Sprint(h.GetSampleCount(), " ", h.GetSampleSum())
			}
		}
	}
	return values
}

// A lane is a queue: what it accepted, what waits and runs in it, and for how long (reference: operations
// §2.7).
func TestLanesAreMeasuredAsQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		m := newMetrics(registry, ledger.ServiceTerminator)
		p := newPool(2, m, zerolog.Nop(), func() {})
		check := func(when string, want map[string]string) {
			t.Helper()
			got := ofQueue(t, registry, "eviction-queue")
			for name, value := range want {
				if got["workqueue_"+name] != value {
					t.Errorf("%s: %s is %q, want %q", when, name, got["workqueue_"+name], value)
				}
			}
		}
		check("before", map[string]string{"adds_total": "0", "depth": "0", "retries_total": "0", "longest_running_processor_seconds": "0"})
		effect := func(err error) func() error {
			return func() error { time.Sleep(10 * time.Second); return err }
		}
		p.start("a", lane.Evict, effect(nil))
		time.Sleep(3 * time.Second)
		p.start("b", lane.Evict, effect(errors.New("no route to host")))
		p.start("c", lane.Evict, effect(service.ErrStopped))
		p.start("c", lane.Evict, effect(nil)) // it is there already
		p.start("d", lane.Converge, effect(nil))
		time.Sleep(time.Second)
		check("two run", map[string]string{"adds_total": "3", "depth": "1", "unfinished_work_seconds": "5", "longest_running_processor_seconds": "4",
			"queue_duration_seconds": "2 0", "work_duration_seconds": "0 0"})
		time.Sleep(time.Minute)
		check("all ended", map[string]string{"adds_total": "3", "depth": "0", "unfinished_work_seconds": "0", "longest_running_processor_seconds": "0",
			"queue_duration_seconds": "3 7", "work_duration_seconds": "3 30", "retries_total": "1"})
		if got := ofQueue(t, registry, "node.termination.converge")["workqueue_adds_total"]; got != "1" {
			t.Errorf("the other lane accepted %q", got)
		}
		if len(p.lanes.running) != 0 || len(p.lanes.offered) != 0 {
			t.Errorf("remembered: %v, %v", p.lanes.running, p.lanes.offered)
		}
	})
}

// What is dropped because the leadership ends is not remembered.
func TestWhatIsDroppedFromAQueueIsForgotten(t *testing.T) {
	inBubble(t, func(r *rig) {
		h, _ := r.leading(ledger.ServiceLifecycle, ledger.ModeActive)
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			h.Effect(key, lane.Create, time.Minute, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		}
		if running, waiting := len(h.pool.lanes.running), len(h.pool.lanes.offered); running != 3 || waiting != 2 {
			t.Errorf("%d run and %d wait", running, waiting)
		}
		r.stop()
		r.stop = func() {}
		if running, waiting := len(h.pool.lanes.running), len(h.pool.lanes.offered); running+waiting != 0 {
			t.Errorf("%d run and %d wait", running, waiting)
		}
	})
}
