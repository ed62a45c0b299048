package ec2

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go/middleware"
	"github.com/prometheus/client_golang/prometheus"
)

// allowance is a token bucket: its rate in tokens a second, and its burst.
type allowance struct {
	perSecond float64
	burst     int
}

// The limits that EC2 publishes for an account in a region (EC2 Developer Guide, "Request throttling for the
// Amazon EC2 API": categories, then actions with limits of their own). They are a transcription, and not
// configurable: if an account allows less, or others use it up, refusals slow a bucket down. CreateFleet is
// in no list, and so among the actions that change something. Those each have a bucket; that all reading
// shares one is on the safe side.
var (
	// reading: Describe, Get, List and Search. unfiltered: those of some actions that have neither a filter
	// nor a size of their pages, such as instances by id.
	reading    = allowance{20, 100}
	unfiltered = allowance{10, 50}
	changing   = allowance{5, 50}

	// allowances of actions with a limit of their own.
	allowances = map[string]allowance{
		"RunInstances":       {2, 5},
		"TerminateInstances": {5, 100},
		"CreateTags":         {10, 100},
	}
	// resources are limits on the number of instances besides that of calls.
	resources = map[string]allowance{
		"RunInstances":       {2, 1000},
		"TerminateInstances": {20, 1000},
	}
)

const (
	// share of an allowance that is used: the account has other users.
	share = 0.8
	// untouched is the part of a burst that a new process may change things with: what its predecessor must
	// have left. Reading starts with all of its share: a watcher has much to ask at first, and little later.
	untouched = 1 - share

	// The buckets that are of no single action.
	readingBucket, unfilteredBucket = "reading", "unfiltered"
)

// Role is what calls EC2. The roles of an installation divide what more than one needs, wherever they run: of
// each, one instance at a time calls EC2.
type Role int

const (
	// RoleAll: a tool, beside which nothing else calls EC2.
	RoleAll Role = iota
	// RoleActing is lifecycle.
	RoleActing
	// RoleWatching is the watcher.
	RoleWatching
)

// Budgets pace the calls to EC2 so that its limits are not reached: a bucket for each action that changes
// something or has a limit of its own, and two for all other reading, of which watcher and lifecycle have
// half each. In a bucket the calls that end instances go first, then those that launch some. A brownout of
// one leaves the others as they are. Each attempt of a call counts. Safe for concurrent use.
type Budgets struct {
	role    Role
	metrics *budgetMetrics
	started time.Time

	mu      sync.Mutex
	buckets map[string]*bucket
}

// NewBudgets of a role, with their metrics; r nil: none. All clients of the role are bound to one.
func NewBudgets(role Role, r prometheus.Registerer) *Budgets {
	return &Budgets{role: role, buckets: map[string]*bucket{}, metrics: newBudgetMetrics(r), started: time.Now()}
}

// TookOver says that this process has just begun to act in place of another one. Its buckets filled up while
// the other one spent from the account's, so that they are set back to what that must have left.
func (b *Budgets) TookOver() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.started = time.Now()
	for name, found := range b.buckets {
		if name != readingBucket && name != unfilteredBucket {
			found.keepAtMost(found.burst / share * untouched)
		}
	}
}

// Bind returns a configuration whose clients of EC2 keep within the budgets.
func (b *Budgets) Bind(cfg aws.Config) aws.Config {
	cfg = cfg.Copy()
	cfg.APIOptions = append(cfg.APIOptions[:len(cfg.APIOptions):len(cfg.APIOptions)], func(stack *middleware.Stack) error {
		if err := stack.Initialize.Add(middleware.InitializeMiddlewareFunc("CostOfCall", b.price), middleware.After); err != nil {
			return err
		}
		return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("BudgetOfCalls", b.pay), "Retry", middleware.After)
	})
	return cfg
}

// errAfterAnother: the budget was spent before another attempt of a call; the one before may have happened.
var errAfterAnother = errors.New("not repeated")

// cost is what one call takes from the budgets, in each of its attempts.
type cost struct {
	action    string
	priority  priority
	bare      bool // neither filters nor pages
	instances int
	attempts  int
	waited    time.Duration
}

type costKey struct{}

// price notes what a call of EC2 costs.
func (b *Budgets) price(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
	if middleware.GetServiceID(ctx) == awsec2.ServiceID {
		c, ok := ctx.Value(costKey{}).(*cost)
		if !ok {
			c = &cost{}
			ctx = context.WithValue(ctx, costKey{}, c)
		}
		c.describe(middleware.GetOperationName(ctx), in.Parameters)
	}
	return next.HandleInitialize(ctx, in)
}

func (c *cost) describe(action string, parameters any) {
	c.action, c.priority = action, priorityOf(action)
	switch in := parameters.(type) {
	case *awsec2.TerminateInstancesInput:
		c.instances = len(in.InstanceIds)
	case *awsec2.RunInstancesInput:
		if !aws.ToBool(in.DryRun) {
			c.instances = int(aws.ToInt32(in.MaxCount))
		}
	case *awsec2.DescribeInstancesInput:
		c.bare = len(in.Filters) == 0 && in.MaxResults == nil
		if c.bare {
			c.priority = ending
		}
	case *awsec2.DescribeInstanceStatusInput:
		c.bare = len(in.Filters) == 0 && in.MaxResults == nil
	case *awsec2.DescribeSecurityGroupsInput:
		c.bare = len(in.Filters) == 0 && in.MaxResults == nil
	}
}

func priorityOf(action string) priority {
	switch action {
	case "TerminateInstances":
		return ending
	case "CreateFleet", "RunInstances", "CreateLaunchTemplate", "DescribeLaunchTemplates":
		return launching
	}
	return observing
}

// pay takes the tokens of one attempt, and learns from its answer.
func (b *Budgets) pay(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
	c, ok := ctx.Value(costKey{}).(*cost)
	if !ok {
		return next.HandleFinalize(ctx, in)
	}
	if err := b.wait(ctx, c); err != nil {
		if c.attempts > 0 {
			err = fmt.Errorf("%w: %w", errAfterAnother, err)
		}
		return middleware.FinalizeOutput{}, middleware.Metadata{}, err
	}
	c.attempts++
	out, meta, err := next.HandleFinalize(ctx, in)
	if isThrottling(err) || fleetThrottled(out.Result) {
		call, instances := b.bucketsOf(c) // EC2 does not say which of them is empty
		call.refused()
		if instances != nil {
			instances.refused()
		}
		b.metrics.refused.WithLabelValues(c.action).Inc()
	}
	return out, meta, err
}

// fleetThrottled: the fleet's own calls were refused for their rate.
func fleetThrottled(result any) bool {
	out, ok := result.(*awsec2.CreateFleetOutput)
	if !ok {
		return false
	}
	for _, e := range out.Errors {
		if isThrottlingCode(aws.ToString(e.ErrorCode)) {
			return true
		}
	}
	return false
}

// wait takes the tokens of a call, waiting for them as long as ctx allows. Its error says that nothing was
// sent.
func (b *Budgets) wait(ctx context.Context, c *cost) error {
	if ctx.Err() != nil {
		return nil // the call reports that itself
	}
	start := time.Now()
	call, instances := b.bucketsOf(c)
	err := call.takeTokens(ctx, 1, c.priority)
	if err == nil && instances != nil {
		err = instances.takeTokens(ctx, float64(c.instances), c.priority)
	}
	waited := time.Since(start)
	c.waited += waited
	b.metrics.waited.WithLabelValues(c.action).Add(waited.Seconds())
	return err
}

// bucketsOf returns the bucket of an action's calls, and that of its instances or nil.
func (b *Budgets) bucketsOf(c *cost) (call, instances *bucket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, own := allowances[c.action]
	name, part := c.action, 1.0
	switch {
	case own:
	case mutates(c.action):
		a = changing
	case c.bare:
		name, a, part = unfilteredBucket, unfiltered, b.half()
	default:
		name, a, part = readingBucket, reading, b.half()
	}
	call = b.bucket(name, a, part)
	if limit, ok := resources[c.action]; ok && c.instances > 0 {
		instances = b.bucket(c.action+" instances", limit, 1)
	}
	return call, instances
}

// half of what watcher and lifecycle both need.
func (b *Budgets) half() float64 {
	if b.role == RoleAll {
		return 1
	}
	return 0.5
}

func (b *Budgets) bucket(name string, a allowance, part float64) *bucket {
	found := b.buckets[name]
	if found == nil {
		found = newBucket(a.perSecond*share*part, max(1, float64(a.burst)*share*part))
		found.at = b.started
		if found.tokens = found.burst; a != reading && a != unfiltered {
			found.tokens = max(1, float64(a.burst)*untouched)
		}
		b.buckets[name] = found
	}
	return found
}

// mutates reports that an action changes something.
func mutates(action string) bool {
	for _, prefix := range []string{"Describe", "Get", "List", "Search"} {
		if strings.HasPrefix(action, prefix) {
			return false
		}
	}
	return true
}
