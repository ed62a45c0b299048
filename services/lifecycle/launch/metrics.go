package launch

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/prometheus/client_golang/prometheus"

	"millwright/services/internal/ec2"
)

// userDataMetrics say how large the user data of each NodeClass is, of which EC2 takes 16 KiB (reference:
// operations §2.5). A class that is gone is forgotten when the metrics are read.
type userDataMetrics struct {
	desc *prometheus.Desc
	// exists tells whether there is a NodeClass of the name; nil: of every name.
	exists func(string) bool

	mu    sync.Mutex
	bytes map[string]int
}

func newUserDataMetrics(r prometheus.Registerer, exists func(string) bool) *userDataMetrics {
	m := &userDataMetrics{exists: exists, bytes: map[string]int{}, desc: prometheus.NewDesc("karpenter_ec2nodeclasses_userdata_bytes",
		"Bytes of user data in the launch template that this process made last for a NodeClass, as EC2 counts them: packed, before base64.", []string{"nodeclass"}, nil)}
	if r != nil {
		r.MustRegister(m)
	}
	return m
}

// RegisterMetrics registers the metrics of the package with r, as a running process does; docs/metrics.md is
// made of them.
func RegisterMetrics(r prometheus.Registerer) { newUserDataMetrics(r, nil) }

// Describe implements prometheus.Collector.
func (m *userDataMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.desc }

// Collect implements prometheus.Collector.
func (m *userDataMetrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	maps.DeleteFunc(m.bytes, func(name string, _ int) bool { return m.exists != nil && !m.exists(name) })
	sizes := maps.Clone(m.bytes)
	m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		ch <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, float64(sizes[name]), name)
	}
}

// made notes the user data of a template that was made for a NodeClass.
func (m *userDataMetrics) made(nodeClass string, t ec2.LaunchTemplate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text := aws.ToString(t.Data.UserData)
	m.bytes[nodeClass] = len(text)/4*3 - strings.Count(text, "=")
}
