package ec2

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/smithy-go/logging"
	smithymiddleware "github.com/aws/smithy-go/middleware"
	"github.com/prometheus/client_golang/prometheus"

	"millwright/services/transport"
)

const (
	// attemptsMax bounds the SDK's attempts per call.
	attemptsMax = 3
	// DefaultCallTimeout bounds one call with its retries.
	DefaultCallTimeout = 30 * time.Second
	httpTimeout        = 25 * time.Second
)

// Config of a Client. Cluster is required.
type Config struct {
	// Cluster is the EKS cluster's name, in tags and for DescribeCluster.
	Cluster string
	// Version of Millwright, for the user agent.
	Version string
	// CallTimeout bounds one call with its retries; 0: DefaultCallTimeout.
	CallTimeout time.Duration
	// Registerer of the metrics; nil: none.
	Registerer prometheus.Registerer
	// AWS overrides the SDK's default configuration; nil: environment, shared files, IMDS.
	AWS *aws.Config
	// Budgets of calls; nil: nothing else calls EC2.
	Budgets *Budgets
}

// Client makes AWS calls. It is safe for concurrent use and keeps no state but connections.
type Client struct {
	cluster string
	region  string
	timeout time.Duration
	ec2     *awsec2.Client
	ssm     *ssm.Client
	eks     *eks.Client
	iam     *iam.Client
	metrics *metrics
	// describing and terminating join calls about single instances.
	describing  *batcher[[]Instance]
	terminating *batcher[map[string]error]
}

// LoadConfig returns the SDK's default configuration with Millwright's user agent, HTTP timeout and bounded
// retries. It fails if no region is known.
func LoadConfig(ctx context.Context, version string) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx,
		config.WithLogger(logging.Nop{}), // its warnings bypass our log; failures are returned as errors
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(httpTimeout)),
		config.WithAPIOptions([]func(*smithymiddleware.Stack) error{middleware.AddUserAgentKeyValue("millwright", version)}),
		config.WithRetryer(func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts = attemptsMax })
		}),
	)
	if err != nil {
		return aws.Config{}, fmt.Errorf("load AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		return aws.Config{}, errors.New("load AWS configuration: no region: set AWS_REGION")
	}
	cfg.HTTPClient = transport.PlainBodies(cfg.HTTPClient)
	return withCredentials(cfg), nil
}

// New returns a Client. It makes no call.
func New(ctx context.Context, cfg Config) (*Client, error) {
	if cfg.Cluster == "" {
		return nil, errors.New("new EC2 client: missing cluster name")
	}
	sdk := cfg.AWS
	if sdk == nil {
		loaded, err := LoadConfig(ctx, cfg.Version)
		if err != nil {
			return nil, err
		}
		sdk = &loaded
	}
	if cfg.CallTimeout == 0 {
		cfg.CallTimeout = DefaultCallTimeout
	}
	if cfg.Budgets == nil {
		cfg.Budgets = NewBudgets(RoleAll, cfg.Registerer)
	}
	c := &Client{
		cluster: cfg.Cluster, region: sdk.Region, timeout: cfg.CallTimeout,
		ec2: awsec2.NewFromConfig(cfg.Budgets.Bind(*sdk)), ssm: ssm.NewFromConfig(*sdk), eks: eks.NewFromConfig(*sdk),
		iam: iam.NewFromConfig(*sdk), metrics: newMetrics(cfg.Registerer),
	}
	batches := NewBatchMetrics(cfg.Registerer)
	c.describing = &batcher[[]Instance]{ask: c.describeInstances, timeout: cfg.CallTimeout, name: BatcherDescribeInstances, metrics: batches}
	c.terminating = &batcher[map[string]error]{ask: c.terminateInstances, timeout: cfg.CallTimeout, name: BatcherTerminateInstances, metrics: batches}
	return c, nil
}

// Region the client talks to.
func (c *Client) Region() string { return c.region }

// Cluster is the name of the cluster in tags.
func (c *Client) Cluster() string { return c.cluster }

// with binds the input of an SDK call.
func with[I, O, P any](f func(context.Context, I, ...P) (O, error), in I) func(context.Context, ...P) (O, error) {
	return func(ctx context.Context, opts ...P) (O, error) { return f(ctx, in, opts...) }
}

// read makes one read call within the deadline.
func read[O, P any](ctx context.Context, c *Client, action string, f func(context.Context, ...P) (O, error)) (O, error) {
	return call(ctx, c, action, false, f)
}

// write makes one mutating call within the deadline.
func write[O, P any](ctx context.Context, c *Client, action string, f func(context.Context, ...P) (O, error), opts ...P) (O, error) {
	return call(ctx, c, action, true, f, opts...)
}

func call[O, P any](ctx context.Context, c *Client, action string, mutating bool, f func(context.Context, ...P) (O, error), opts ...P) (O, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	spent := &cost{}
	start := time.Now()
	out, err := f(context.WithValue(ctx, costKey{}, spent), opts...)
	if err != nil {
		err = &CallError{Action: action, Mutating: mutating, Err: err}
	}
	c.metrics.observe(action, Classify(err), time.Since(start)-spent.waited)
	return out, err
}
