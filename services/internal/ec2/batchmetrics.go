package ec2

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Batchers are what joins calls, by the names that Karpenter has for them.
const (
	BatcherCreateFleet        = "create_fleet"
	BatcherDescribeInstances  = "describe_instances"
	BatcherTerminateInstances = "terminate_instances"
)

// BatchMetrics are about calls that are joined to one (reference: operations §2.5).
type BatchMetrics struct{ seconds, size *prometheus.HistogramVec }

// NewBatchMetrics returns those of a process; r nil: of nobody.
func NewBatchMetrics(r prometheus.Registerer) *BatchMetrics {
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return registered(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "karpenter_cloudprovider_batcher_" + name, Help: help, Buckets: buckets}, []string{"batcher"}))
	}
	return &BatchMetrics{
		seconds: histogram("batch_time_seconds", "Time for which the first of a batch waited for the others.",
			[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 150, 300, 450, 600}),
		size: histogram("batch_size", "Instances that one call was about: those asked for by create_fleet, those named by the others.",
			[]float64{1, 2, 4, 5, 10, 15, 20, 25, 30, 40, 50, 75, 100, 125, 150, 175, 200, 225, 250, 275, 300, 350, 400, 450, 500}),
	}
}

// Observe a batch that is sent: how long the first of it waited, and how many instances it is about.
func (m *BatchMetrics) Observe(batcher string, waited time.Duration, size int) {
	m.seconds.WithLabelValues(batcher).Observe(waited.Seconds())
	m.size.WithLabelValues(batcher).Observe(float64(size))
}

// TerminationFailures counts instances that could not be terminated (reference: operations §2.5).
type TerminationFailures struct{ failed *prometheus.CounterVec }

// NewTerminationFailures returns that of a process; r nil: of nobody.
func NewTerminationFailures(r prometheus.Registerer) *TerminationFailures {
	return &TerminationFailures{registered(r, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "karpenter_cloudprovider_instance_termination_failures_total",
		Help: "Calls to terminate an instance that failed, by its zone; zone_id is empty if it is not known.",
	}, []string{"zone", "zone_id"}))}
}

// Count an answer about an instance, unless it is that this process has ended the call itself. A call that
// was not made, because of a stop, is none.
func (f *TerminationFailures) Count(err error, zone, zoneID string) {
	if err != nil && !errors.Is(err, context.Canceled) {
		f.failed.WithLabelValues(zone, zoneID).Inc()
	}
}
