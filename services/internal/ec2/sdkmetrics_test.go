package ec2

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
)

// sdkAt is a configuration that measures the calls to a handler.
func sdkAt(h http.RoundTripper, r prometheus.Registerer) aws.Config {
	return Measured(aws.Config{
		Region: "us-west-2", BaseEndpoint: aws.String("http://aws.simulated"), HTTPClient: &http.Client{Transport: h},
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		Retryer:     func() aws.Retryer { return quickRetryer{} },
	}, r)
}

// A call with a retry is one request and two attempts. The attempts' durations have the status of the call
// (reference: operations §2.5), the attempts their own.
func TestCallsThroughTheSDKAreMeasured(t *testing.T) {
	registry, calls := prometheus.NewRegistry(), 0
	sdk := sdkAt(handlerTransport{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls == 1 {
			ec2Error(503, "Unavailable", "later")(w, r)
			return
		}
		w.Write([]byte(`<DescribeSubnetsResponse><requestId>r</requestId></DescribeSubnetsResponse>`))
	})}, registry)
	if _, err := awsec2.NewFromConfig(NewBudgets(RoleAll, nil).Bind(sdk)).DescribeSubnets(t.Context(), &awsec2.DescribeSubnetsInput{}); err != nil {
		t.Fatal(err)
	}
	want := `
# HELP aws_sdk_go_request_attempt_total HTTP requests that were sent for calls of AWS; status_code is that of their own answer, 0 if there was none.
# TYPE aws_sdk_go_request_attempt_total counter
aws_sdk_go_request_attempt_total{action="DescribeSubnets",service="EC2",status_code="200"} 1
aws_sdk_go_request_attempt_total{action="DescribeSubnets",service="EC2",status_code="503"} 1
# HELP aws_sdk_go_request_total Calls of AWS, each with its retries; status_code is that of the last answer, 0 if there was none.
# TYPE aws_sdk_go_request_total counter
aws_sdk_go_request_total{action="DescribeSubnets",service="EC2",status_code="200"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "aws_sdk_go_request_total", "aws_sdk_go_request_attempt_total"); err != nil {
		t.Error(err)
	}
	m := newSDKMetrics(registry)
	for name, c := range map[string]struct {
		of         *prometheus.HistogramVec
		count      uint64
		sum, below float64
	}{
		"request_duration_seconds":         {m.requestSeconds, 1, 0, 60},
		"request_attempt_duration_seconds": {m.attemptSeconds, 2, 0, 60},
		"request_retry_count":              {m.retryCount, 1, 1, 1},
	} {
		h := histogramOf(t, c.of.WithLabelValues("EC2", "DescribeSubnets", "200"))
		if h.GetSampleCount() != c.count || h.GetSampleSum() < c.sum || h.GetSampleSum() > c.below {
			t.Errorf("%s: %d with the sum %v", name, h.GetSampleCount(), h.GetSampleSum())
		}
	}
}

type brokenTransport struct{}

func (brokenTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

// What got no answer has the status 0; services other than EC2 are measured too, and clients of one process
// share the metrics.
func TestCallsWithoutAnAnswerHaveTheStatusZero(t *testing.T) {
	registry := prometheus.NewRegistry()
	broken := sdkAt(brokenTransport{}, registry)
	if _, err := ssm.NewFromConfig(broken).GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String("a")}); err == nil {
		t.Fatal("there was an answer")
	}
	refused := sdkAt(handlerTransport{ec2Error(400, "InvalidParameterValue", "no")}, registry)
	client, err := New(t.Context(), Config{Cluster: "blue", AWS: &refused, CallTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateFleet(t.Context(), fleetInput()); err == nil {
		t.Fatal("the fleet was not refused")
	}
	m := newSDKMetrics(registry)
	for labels, want := range map[[3]string]float64{{"SSM", "GetParameter", "0"}: 3, {"EC2", "CreateFleet", "400"}: 1} {
		if got := testutil.ToFloat64(m.attempts.WithLabelValues(labels[:]...)); got != want {
			t.Errorf("%v: %v attempts, want %v", labels, got, want)
		}
		if got := testutil.ToFloat64(m.requests.WithLabelValues(labels[:]...)); got != 1 {
			t.Errorf("%v: %v requests", labels, got)
		}
	}
}

func histogramOf(t *testing.T, o prometheus.Observer) *dto.Histogram {
	t.Helper()
	var m dto.Metric
	if err := o.(prometheus.Metric).Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetHistogram()
}
