package poolseries

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// instruments as services have them.
type instruments struct {
	created *prometheus.CounterVec
	lasted  *prometheus.HistogramVec
	took    *prometheus.SummaryVec
	plain   *prometheus.CounterVec
}

func newInstruments(r prometheus.Registerer) instruments {
	f := promauto.With(r)
	i := instruments{
		created: f.NewCounterVec(prometheus.CounterOpts{Name: "created"}, []string{"nodepool", "zone"}),
		lasted:  f.NewHistogramVec(prometheus.HistogramOpts{Name: "lasted"}, []string{"nodepool"}),
		took:    prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: "took"}, []string{"nodepool"}),
		plain:   f.NewCounterVec(prometheus.CounterOpts{Name: "plain"}, []string{"reason"}),
	}
	r.MustRegister(i.took)
	return i
}

func (i instruments) count(pool string) {
	i.created.WithLabelValues(pool, "a").Inc()
	i.created.WithLabelValues(pool, "b").Inc()
	i.lasted.WithLabelValues(pool).Observe(1)
	i.took.WithLabelValues(pool).Observe(1)
	i.plain.WithLabelValues("some").Inc()
}

func series(t *testing.T, from prometheus.Gatherer) int {
	t.Helper()
	n, err := testutil.GatherAndCount(from)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSeriesOfNodePoolsThatAreGoneAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		r := New(registry)
		metrics := newInstruments(r)
		present, whole := map[string]bool{"stays": true}, true
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex // of present and whole
		go func() {
			_ = r.Run(ctx, func() (map[string]bool, bool) {
				mu.Lock()
				defer mu.Unlock()
				return maps.Clone(present), whole
			})
		}()
		change := func(fn func()) {
			mu.Lock()
			defer mu.Unlock()
			fn()
		}

		metrics.count("stays")
		metrics.count("") // of no NodePool
		least := series(t, registry)
		most := 0
		for i := range 500 {
			metrics.count(fmt.Sprint("passing-", i))
			time.Sleep(5 * time.Minute)
			most = max(most, series(t, registry))
		}
		if perPool := 4; most > least+perPool*int(keptFor/sweepEvery+2) {
			t.Errorf("%d series while NodePools come and go, %d without them", most, least)
		}
		metrics.count("back")
		time.Sleep(50 * time.Minute)
		metrics.count("back") // it was there again in between
		change(func() { present["back"] = true })
		time.Sleep(2 * sweepEvery) // one of which sees it
		change(func() { delete(present, "back") })
		time.Sleep(keptFor - 3*sweepEvery)
		if n := testutil.ToFloat64(metrics.created.WithLabelValues("back", "a")); n != 2 {
			t.Errorf("a NodePool that came back counts from %v", n)
		}
		time.Sleep(2 * time.Hour)
		if n := series(t, registry); n != least {
			t.Errorf("%d series are left, want %d", n, least)
		}

		change(func() { whole, present = false, map[string]bool{} })
		time.Sleep(5 * time.Hour)
		if n := series(t, registry); n != least {
			t.Errorf("%d of %d series are left although the NodePools are not known", n, least)
		}
	})
}

func TestWhatIsUnregisteredIsLeftAlone(t *testing.T) {
	r := New(prometheus.NewRegistry())
	metrics := newInstruments(r)
	metrics.count("gone")
	if !r.Unregister(metrics.created) {
		t.Fatal("it was not registered")
	}
	r.sweep(nil, time.Unix(0, 0))
	r.sweep(nil, time.Unix(0, 0).Add(keptFor))
	if n := testutil.CollectAndCount(metrics.created); n != 2 {
		t.Errorf("%d series", n)
	}
	if n := testutil.CollectAndCount(metrics.lasted); n != 0 {
		t.Errorf("%d series of a NodePool that is gone", n)
	}
	if err := r.Register(metrics.created); err != nil {
		t.Error(err)
	}
	if err := r.Register(prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lasted"}, []string{"other"})); err == nil {
		t.Error("two metrics of one name")
	}
}

// Metrics of status conditions name the NodePool by another label.
func TestSeriesWithTheLongLabelAreDeletedToo(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := New(registry)
	transitions := promauto.With(r).NewCounterVec(prometheus.CounterOpts{Name: "transitions"}, []string{"type", "karpenter_sh_nodepool"})
	for _, pool := range []string{"stays", "gone", ""} {
		transitions.WithLabelValues("Ready", pool).Inc()
	}
	now := time.Now()
	for _, after := range []time.Duration{0, keptFor} {
		if n := series(t, registry); n != 3 {
			t.Fatalf("%d series before %v are over", n, after)
		}
		r.sweep(map[string]bool{"stays": true}, now.Add(after))
	}
	if n := series(t, registry); n != 2 {
		t.Errorf("%d series, want those of the NodePool that stays and of none", n)
	}
}
