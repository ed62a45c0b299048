package ec2

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/prometheus/client_golang/prometheus"
)

// sdkMetrics are about every call through the AWS SDK, with the names that Karpenter's have (reference:
// operations §2.5). The label service is the SDK's id of the service, such as EC2.
type sdkMetrics struct {
	requests, attempts                         *prometheus.CounterVec
	requestSeconds, attemptSeconds, retryCount *prometheus.HistogramVec
}

// sdkBuckets of durations: those of Prometheus, and two for what waits for retries and budgets.
var sdkBuckets = append(append([]float64{}, prometheus.DefBuckets...), 30, 60)

func newSDKMetrics(r prometheus.Registerer) *sdkMetrics {
	labels := []string{"service", "action", "status_code"}
	counter := func(name, help string) *prometheus.CounterVec {
		return registered(r, prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "aws_sdk_go", Name: name, Help: help}, labels))
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return registered(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "aws_sdk_go", Name: name, Help: help, Buckets: buckets}, labels))
	}
	return &sdkMetrics{
		requests:       counter("request_total", "Calls of AWS, each with its retries; status_code is that of the last answer, 0 if there was none."),
		attempts:       counter("request_attempt_total", "HTTP requests that were sent for calls of AWS; status_code is that of their own answer, 0 if there was none."),
		requestSeconds: histogram("request_duration_seconds", "Duration of calls of AWS, with retries and the wait for their budget.", sdkBuckets),
		attemptSeconds: histogram("request_attempt_duration_seconds", "Duration of the HTTP requests of calls of AWS; status_code is that of the call.", sdkBuckets),
		retryCount:     histogram("request_retry_count", "HTTP requests of a call of AWS after the first.", []float64{0, 1, 2, 3, 5, 10}),
	}
}

// RegisterSDKMetrics registers the metrics of calls through the AWS SDK, as a running process does;
// docs/metrics.md is made of them.
func RegisterSDKMetrics(r prometheus.Registerer) { newSDKMetrics(r) }

// MeasureCalls returns an API option by which the clients of any AWS service measure their calls.
func MeasureCalls(r prometheus.Registerer) func(*middleware.Stack) error {
	m := newSDKMetrics(r)
	return func(stack *middleware.Stack) error {
		if err := stack.Initialize.Add(middleware.InitializeMiddlewareFunc("MeasureCall", m.call), middleware.After); err != nil {
			return err
		}
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("MeasureAttempt", m.attempt), middleware.Before)
	}
}

// Measured returns a configuration whose clients measure their calls.
func Measured(cfg aws.Config, r prometheus.Registerer) aws.Config {
	cfg = cfg.Copy()
	cfg.APIOptions = append(cfg.APIOptions[:len(cfg.APIOptions):len(cfg.APIOptions)], MeasureCalls(r))
	return cfg
}

// attemptsOf a call, noted as they end; its status is known only after the last.
type attemptsOf struct {
	mu   sync.Mutex
	took []time.Duration
	last string
}

type attemptsKey struct{}

func (m *sdkMetrics) call(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
	attempts := &attemptsOf{last: "0"}
	began := time.Now()
	out, meta, err := next.HandleInitialize(context.WithValue(ctx, attemptsKey{}, attempts), in)
	took := time.Since(began)
	attempts.mu.Lock()
	defer attempts.mu.Unlock()
	labels := []string{awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx), attempts.last}
	m.requests.WithLabelValues(labels...).Inc()
	m.requestSeconds.WithLabelValues(labels...).Observe(took.Seconds())
	for _, d := range attempts.took {
		m.attemptSeconds.WithLabelValues(labels...).Observe(d.Seconds())
	}
	m.retryCount.WithLabelValues(labels...).Observe(float64(max(0, len(attempts.took)-1)))
	return out, meta, err
}

// attempt is called for each request that is sent, with what waits for the answer's body.
func (m *sdkMetrics) attempt(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	began := time.Now()
	out, meta, err := next.HandleDeserialize(ctx, in)
	took := time.Since(began)
	status := statusText(out.RawResponse, err)
	m.attempts.WithLabelValues(awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx), status).Inc()
	if call, ok := ctx.Value(attemptsKey{}).(*attemptsOf); ok {
		call.mu.Lock()
		defer call.mu.Unlock()
		call.took, call.last = append(call.took, took), status
	}
	return out, meta, err
}

// statusText is the status of an answer; "0" if there was none.
func statusText(raw any, err error) string {
	if answer, ok := raw.(*smithyhttp.Response); ok && answer != nil && answer.Response != nil {
		return strconv.Itoa(answer.StatusCode)
	}
	return strconv.Itoa(statusOf(err))
}
