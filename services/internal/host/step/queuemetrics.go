package step

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"millwright/planner/ledger"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
)

// queueNames are the lanes that the services use, by service. Where one of Karpenter's queues is for what a
// lane does, that is its name; otherwise it is that of the service's controller, and the lane.
var queueNames = map[string]map[lane.Lane]string{
	ledger.ServiceProvisioner: {lane.Converge: ""},
	ledger.ServiceDisruptor:   {lane.Converge: ""},
	ledger.ServiceTerminator:  {lane.Converge: "", lane.Evict: "eviction-queue", lane.List: ""},
	ledger.ServiceLifecycle: {
		lane.Create: "nodeclaim.lifecycle", lane.Terminate: "nodeclaim.termination", lane.Tag: "nodeclaim.tagging",
		lane.NodeClass: "nodeclass", lane.Scan: "nodeclaim.garbagecollection",
		lane.Converge: "", lane.Release: "", lane.Seek: "", lane.Poll: "", lane.Tidy: "",
	},
}

func queueName(name string, l lane.Lane) string {
	if own := queueNames[name][l]; own != "" {
		return own
	}
	return service.Controller(name) + "." + string(l)
}

// queueMetrics are about the effects of one lane, with the names that Karpenter's queues have (reference:
// operations §2.7).
type queueMetrics struct {
	adds, retries  prometheus.Counter
	waited, worked prometheus.Histogram
}

// queueBuckets are those of controller-runtime: ten nanoseconds to a thousand seconds.
var queueBuckets = prometheus.ExponentialBuckets(10e-9, 10, 12)

// newQueueMetrics of a queue; read returns how many effects wait, how long those that run have taken
// together, and the longest of them.
func newQueueMetrics(r prometheus.Registerer, queue string, read func() (waiting int, together, longest time.Duration)) *queueMetrics {
	f, labels := promauto.With(r), prometheus.Labels{"name": queue, "controller": queue}
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Namespace: "workqueue", Name: name, Help: help, ConstLabels: labels})
	}
	histogram := func(name, help string) prometheus.Histogram {
		return f.NewHistogram(prometheus.HistogramOpts{Namespace: "workqueue", Name: name, Help: help, ConstLabels: labels, Buckets: queueBuckets})
	}
	gauge := func(name, help string, value func() float64) {
		f.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "workqueue", Name: name, Help: help, ConstLabels: labels}, value)
	}
	gauge("depth", "Effects that wait for room in a lane.", func() float64 { waiting, _, _ := read(); return float64(waiting) })
	gauge("unfinished_work_seconds", "How long the effects of a lane that run have taken so far, together.",
		func() float64 { _, together, _ := read(); return together.Seconds() })
	gauge("longest_running_processor_seconds", "How long the effect of a lane that has run longest has taken so far.",
		func() float64 { _, _, longest := read(); return longest.Seconds() })
	return &queueMetrics{
		adds:    counter("adds_total", "Effects that a lane accepted."),
		retries: counter("retries_total", "Effects of a lane that failed, and so will be tried again."),
		waited:  histogram("queue_duration_seconds", "How long effects waited for room in a lane."),
		worked:  histogram("work_duration_seconds", "How long effects of a lane took."),
	}
}

// RegisterLibraryMetrics registers those that Karpenter has from its libraries.
func RegisterLibraryMetrics(r prometheus.Registerer) { newQueueMetrics(r, "", nil) }

// lanes are the times of the effects of a pool, whose lock the caller holds.
type lanes struct {
	newQueue func(lane.Lane) *queueMetrics
	queues   map[lane.Lane]*queueMetrics
	// offered is when an effect that waits came, by key; running are those that run.
	offered map[string]time.Time
	running map[string]begun
}

type begun struct {
	lane lane.Lane
	at   time.Time
}

func newLanes(newQueue func(lane.Lane) *queueMetrics) *lanes {
	return &lanes{newQueue: newQueue, queues: map[lane.Lane]*queueMetrics{}, offered: map[string]time.Time{}, running: map[string]begun{}}
}

// queue makes the metrics of a lane when it is first asked for.
func (l *lanes) queue(of lane.Lane) *queueMetrics {
	q := l.queues[of]
	if q == nil {
		q = l.newQueue(of)
		l.queues[of] = q
	}
	return q
}

// offer notes an effect that was accepted, and waits.
func (l *lanes) offer(key string, of lane.Lane) {
	l.queue(of).adds.Inc()
	l.offered[key] = time.Now()
}

// begin notes that an effect runs.
func (l *lanes) begin(key string, of lane.Lane) {
	now := time.Now()
	l.queue(of).waited.Observe(now.Sub(l.offered[key]).Seconds())
	delete(l.offered, key)
	l.running[key] = begun{of, now}
}

// end notes that an effect has ended, and whether it failed.
func (l *lanes) end(key string, failed bool) {
	b, ok := l.running[key]
	if !ok {
		return
	}
	delete(l.running, key)
	q := l.queue(b.lane)
	q.worked.Observe(time.Since(b.at).Seconds())
	if failed {
		q.retries.Inc()
	}
}

// drop forgets those that wait.
func (l *lanes) drop() { clear(l.offered) }

// unfinished is how long the effects of a lane that run have taken together, and the longest of them.
func (l *lanes) unfinished(of lane.Lane) (together, longest time.Duration) {
	for _, b := range l.running {
		if b.lane == of {
			took := time.Since(b.at)
			together, longest = together+took, max(longest, took)
		}
	}
	return together, longest
}
