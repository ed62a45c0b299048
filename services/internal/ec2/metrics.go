package ec2

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	// methods and failed are the calls of Karpenter's cloud provider that they stand for, with the names that
	// dashboards ask for.
	methods *prometheus.HistogramVec
	failed  *prometheus.CounterVec
}

// methods of Karpenter's cloud provider, and the controller that calls them there, by the action that does
// the same here.
var methods = map[string][2]string{
	"ec2:CreateFleet":           {"nodeclaim.lifecycle", "Create"},
	"ec2:TerminateInstances":    {"nodeclaim.lifecycle", "Delete"},
	"ec2:DescribeInstances":     {"nodeclaim.garbagecollection", "List"},
	"ec2:DescribeInstanceTypes": {"providers.instancetype", "GetInstanceTypes"},
}

// providerErrors are the names of Karpenter's errors.
var providerErrors = map[Class]string{NoCapacity: "InsufficientCapacityError", NotFound: "NodeClaimNotFoundError", NotReady: "NodeClassNotReadyError"}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "millwright_aws_calls_total", Help: "AWS calls by action and outcome: ok or the class of the error.",
		}, []string{"action", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "millwright_aws_call_duration_seconds", Help: "Duration of AWS calls with their retries, without the wait for their budget, by action.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 13),
		}, []string{"action"}),
		methods: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "karpenter_cloudprovider_duration_seconds", Help: "Duration of the AWS calls that launch, terminate and list instances, and list instance types.",
		}, []string{"controller", "method", "provider"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "karpenter_cloudprovider_errors_total", Help: "Failures of these calls, by the name that Karpenter has for the error, if it has one.",
		}, []string{"controller", "method", "provider", "error"}),
	}
	m.calls = registered(r, m.calls)
	m.seconds = registered(r, m.seconds)
	m.methods = registered(r, m.methods)
	m.failed = registered(r, m.failed)
	return m
}

// registered registers c, or returns the equal collector another client of this process has registered.
// r may be nil.
func registered[C prometheus.Collector](r prometheus.Registerer, c C) C {
	if r == nil {
		return c
	}
	err := r.Register(c)
	if already, ok := err.(prometheus.AlreadyRegisteredError); ok {
		return already.ExistingCollector.(C)
	}
	if err != nil {
		panic(err) // two different metrics with one name
	}
	return c
}

// faults are the classes that the alerts are about.
var faults = []Class{Permanent, Transient, UnknownOutcome, ParameterMismatch}

func (m *metrics) observe(action string, class Class, took time.Duration) {
	outcome := string(class)
	if class == "" {
		outcome = "ok"
	}
	for _, class := range faults { // there before the first, whose increase would not be seen otherwise
		m.calls.WithLabelValues(action, string(class))
	}
	m.calls.WithLabelValues(action, outcome).Inc()
	m.seconds.WithLabelValues(action).Observe(took.Seconds())
	method, ok := methods[action]
	if !ok {
		return
	}
	m.methods.WithLabelValues(method[0], method[1], "aws").Observe(took.Seconds())
	failures := m.failed.WithLabelValues(method[0], method[1], "aws", providerErrors[class])
	if class != "" && class != DryRunOK {
		failures.Inc()
	}
}

// RegisterMetrics registers the metrics of the package with r, as a running process does; docs/metrics.md is
// made of them.
func RegisterMetrics(r prometheus.Registerer) {
	newMetrics(r)
	newBudgetMetrics(r)
	NewBatchMetrics(r)
	NewTerminationFailures(r)
}

type budgetMetrics struct{ waited, refused *prometheus.CounterVec }

func newBudgetMetrics(r prometheus.Registerer) *budgetMetrics {
	m := &budgetMetrics{
		waited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "millwright_aws_budget_wait_seconds_total", Help: "Time that calls of EC2 waited so as not to exceed its limits, by action.",
		}, []string{"action"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "millwright_aws_throttled_total", Help: "Attempts of calls that EC2 refused for their rate, by action.",
		}, []string{"action"}),
	}
	m.waited = registered(r, m.waited)
	m.refused = registered(r, m.refused)
	return m
}
