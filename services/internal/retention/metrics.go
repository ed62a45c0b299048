package retention

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

const namespace = "millwright"

type metrics struct {
	failures, checkpoints, unsigned, archived, segments, retired, blobs, defragmentations prometheus.Counter

	checkpointBytes prometheus.Gauge
	alarms          *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	}
	return &metrics{
		archived:         counter("log_archived_records_total", "Records that were moved from the live log into the archive."),
		segments:         counter("log_archived_segments_total", "Segments of the archive that were verified and put on record."),
		retired:          counter("log_aggregates_retired_total", "Aggregates of claims, commands and nodes that are no more and were forgotten."),
		blobs:            counter("log_blobs_collected_total", "Blobs that no record names any more and were deleted."),
		defragmentations: counter("log_defragmentations_total", "Defragmentations of the log's database."),
		alarms: f.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: "log_alarms_total",
			Help: "Alarms about the log, by reason."}, []string{"reason"}),
		failures:    counter("log_keeping_failures_total", "Rounds of keeping the log (checkpoints, archive, compaction) that failed and were tried again."),
		unsigned:    counter("log_signing_failures_total", "Checkpoints whose head should have been signed and was not."),
		checkpoints: counter("ledger_checkpoints_total", "Checkpoints of the Ledger that were written into the log."),
		checkpointBytes: f.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: "ledger_checkpoint_bytes",
			Help: "Size of the last checkpoint of the Ledger."}),
	}
}

// RegisterMetrics registers the metrics of the package with r, as a running process does; docs/metrics.md is
// made of them.
func RegisterMetrics(r prometheus.Registerer) { newMetrics(r) }
