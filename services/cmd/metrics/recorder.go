package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// metric is one row of the page.
type metric struct {
	name, kind, help string
	labels           []string
}

// recorder is a Registerer that only takes note of what is registered.
type recorder struct {
	metrics []metric
}

// description is the text of a prometheus.Desc, which has no accessors.
var description = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), constLabels: \{(.*?)\}, variableLabels: \{(.*?)\}\}$`)

// Register implements prometheus.Registerer.
func (r *recorder) Register(c prometheus.Collector) error {
	descriptions := make(chan *prometheus.Desc, 100)
	c.Describe(descriptions)
	close(descriptions)
	for d := range descriptions {
		m, err := parse(d.String())
		if err != nil {
			return err
		}
		m.kind = kindOf(c)
		r.metrics = append(r.metrics, m)
	}
	return nil
}

// MustRegister implements prometheus.Registerer.
func (r *recorder) MustRegister(list ...prometheus.Collector) {
	for _, c := range list {
		if err := r.Register(c); err != nil {
			panic(err) // a collector of our own that cannot be described
		}
	}
}

// Unregister implements prometheus.Registerer.
func (r *recorder) Unregister(prometheus.Collector) bool { return false }

// sorted are the metrics by name, each once.
func (r *recorder) sorted() []metric {
	list := slices.Clone(r.metrics)
	slices.SortFunc(list, func(a, b metric) int { return cmp.Compare(a.name, b.name) })
	return slices.CompactFunc(list, func(a, b metric) bool { return a.name == b.name })
}

func parse(text string) (metric, error) {
	m := description.FindStringSubmatch(text)
	if m == nil {
		return metric{}, fmt.Errorf("read %q: not the description of a metric", text)
	}
	var name, help string
	if _, err := fmt.Sscanf(m[1]+" "+m[2], "%q %q", &name, &help); err != nil {
		return metric{}, fmt.Errorf("read %q: %w", text, err)
	}
	var labels []string
	for _, l := range strings.Split(m[3], ",") { // key="value"
		if key, _, ok := strings.Cut(l, "="); ok {
			labels = append(labels, key)
		}
	}
	for _, l := range strings.Split(m[4], ",") {
		if l != "" {
			labels = append(labels, l)
		}
	}
	return metric{name: name, help: help, labels: labels}, nil
}

// kindOf is the type of a collector. Those of our own have gauges only.
func kindOf(c prometheus.Collector) string {
	switch c := c.(type) {
	case *prometheus.CounterVec:
		return "counter"
	case *prometheus.HistogramVec:
		return "histogram"
	case *prometheus.SummaryVec:
		return "summary"
	case prometheus.Histogram: // a Summary has the same methods
		var written dto.Metric
		if err := c.Write(&written); err == nil && written.Summary != nil {
			return "summary"
		}
		return "histogram"
	case prometheus.Gauge: // before Counter, whose methods it has too
		return "gauge"
	case prometheus.Counter:
		return "counter"
	}
	return "gauge"
}
