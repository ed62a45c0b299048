package provisioner

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// A counter's series are kept as long as the process: of text that others write, so many values of a label
// have series of their own, and all others one together.
const (
	conditionTypesMax = 64
	reasonsMax        = 64 // of a type
	objectLabelsMax   = 1000
	labelBytesMax     = 256
	otherValue        = "other"
)

// knownNodeConditions are the types that kubelets, cloud providers and node monitoring agents write: they
// have series of their own whatever else was there before them.
var knownNodeConditions = []string{"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable",
	"AcceleratedHardwareReady", "ContainerRuntimeReady", "KernelReady", "NetworkingReady", "StorageReady"}

// gauge is a series, or nil if there can be none. The text of an object need not be UTF-8, which Prometheus
// wants.
func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	metric, err := prometheus.NewConstMetric(d, prometheus.GaugeValue, value, validLabels(labels)...)
	if err != nil {
		return nil
	}
	return metric
}

// send the series that there are.
func send(ch chan<- prometheus.Metric, list ...prometheus.Metric) {
	for _, metric := range list {
		if metric != nil {
			ch <- metric
		}
	}
}

func validLabels(labels []string) []string {
	valid := slices.Clone(labels)
	for i, text := range valid {
		valid[i] = validLabel(text)
	}
	return valid
}

func validLabel(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// distinct are the values of a label of a counter that have series of their own.
type distinct map[string]bool

// bound returns a valid value, "other" if there are so many already and it is none of them.
func (d distinct) bound(text string, most int) string {
	text = validLabel(text)
	switch {
	case d[text]:
		return text
	case len(d) >= most || len(text) > labelBytesMax:
		return otherValue
	}
	d[text] = true
	return text
}

// counterLabels bounds the labels of the counters of a kind of objects.
type counterLabels struct {
	types   distinct
	reasons map[string]distinct
	objects distinct
}

func newCounterLabels(known []string) counterLabels {
	l := counterLabels{types: distinct{}, reasons: map[string]distinct{}, objects: distinct{}}
	for _, name := range known {
		l.types[name] = true
	}
	return l
}

func (l counterLabels) ofType(name string) string { return l.types.bound(name, conditionTypesMax) }

// ofReason is that of a condition of a type, as ofType returned it.
func (l counterLabels) ofReason(kind, reason string) string {
	if l.reasons[kind] == nil {
		l.reasons[kind] = distinct{}
	}
	return l.reasons[kind].bound(reason, reasonsMax)
}

// ofObject are the labels of an object, such as the name of its NodePool.
func (l counterLabels) ofObject(labels []string) []string {
	bounded := make([]string, len(labels))
	for i, text := range labels {
		bounded[i] = l.objects.bound(text, objectLabelsMax)
	}
	return bounded
}

// ofStatus of a condition, which in a Node may be any text.
func ofStatus[S ~string](status S) string {
	switch status {
	case "True", "False", "Unknown":
		return string(status)
	}
	return otherValue
}
