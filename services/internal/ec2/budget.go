package ec2

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// allowance is a token bucket: its rate in calls a second, and its burst.
type allowance struct {
	perSecond float64
	burst     int
}

// allowances by action, chosen at or below what EC2 is known to allow an account by default (EC2 User Guide,
// "API request throttling", describes how it counts; an account's quotas can be raised on request). They are
// not copied from a list and not configurable: if an account allows less, or others use it up, throttling
// slows a bucket down. Actions without one fall under one of the general ones.
var allowances = map[string]allowance{
	"ec2:RunInstances":       {2, 5},
	"ec2:CreateFleet":        {10, 100},
	"ec2:TerminateInstances": {5, 100},
	"ec2:CreateTags":         {10, 100},
}

var (
	reading  = allowance{20, 100}
	changing = allowance{5, 50}
)

const (
	// share of an allowance that one process uses: the account has other users.
	share = 0.8
	// slowdown and recovery: after throttling a budget is halved, down to a sixteenth, and doubled again
	// after each minute without it.
	slowest  = 1.0 / 16
	recovery = time.Minute
)

// errBudget: the call was not sent, because its budget is spent for longer than the caller waits.
var errBudget = errors.New("the budget of calls is spent")

// budgets pace the calls to EC2 so that its limits are not reached: one bucket for each action that changes
// something or has an allowance of its own, one for all other reads. A brownout of one leaves the others as
// they are. Safe for concurrent use.
type budgets struct {
	now func() time.Time

	mu      sync.Mutex
	buckets map[string]*bucket
}

type bucket struct {
	full    rate.Limit
	limiter *rate.Limiter
	// slowedAt is when EC2 last throttled a call of the bucket.
	slowedAt time.Time
}

func newBudgets(now func() time.Time) *budgets {
	return &budgets{now: now, buckets: map[string]*bucket{}}
}

// bucketOf returns the bucket of an action; nil for services other than EC2.
func (b *budgets) bucketOf(action string, mutating bool) *bucket {
	if !strings.HasPrefix(action, "ec2:") {
		return nil
	}
	a, own := allowances[action]
	name := action
	switch {
	case own:
	case mutating:
		a = changing
	default:
		name, a = "reading", reading
	}
	found := b.buckets[name]
	if found == nil {
		limit := rate.Limit(a.perSecond * share)
		found = &bucket{full: limit, limiter: rate.NewLimiter(limit, max(1, int(float64(a.burst)*share)))}
		b.buckets[name] = found
	}
	return found
}

// wait takes a token, waiting for it as long as ctx allows. Its error says that nothing was sent.
func (b *budgets) wait(ctx context.Context, action string, mutating bool) error {
	b.mu.Lock()
	found := b.bucketOf(action, mutating)
	if found == nil {
		b.mu.Unlock()
		return nil
	}
	found.recover(b.now())
	b.mu.Unlock()
	if ctx.Err() != nil {
		return nil // the call reports that itself
	}
	if err := found.limiter.Wait(ctx); err != nil {
		return fmt.Errorf("%w: %w", errBudget, err)
	}
	return nil
}

// recover doubles the rate of a slowed bucket for each minute without a refusal.
func (b *bucket) recover(now time.Time) {
	for b.limiter.Limit() < b.full && now.Sub(b.slowedAt) >= recovery {
		b.slowedAt = b.slowedAt.Add(recovery)
		b.limiter.SetLimit(min(b.full, b.limiter.Limit()*2))
	}
}

// answered slows the bucket down if EC2 throttled the call: the account's bucket is emptier than ours.
func (b *budgets) answered(action string, mutating bool, err error) {
	if err == nil || !isThrottling(err) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	found := b.bucketOf(action, mutating)
	if found == nil || now.Sub(found.slowedAt) < time.Second { // those that were in flight together count once
		return
	}
	found.slowedAt = now
	found.limiter.SetLimit(max(found.full*slowest, found.limiter.Limit()/2))
}
