package ec2

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/smithy-go"
	"golang.org/x/time/rate"
)

func TestCallsAreSentAtTheRateOfTheirBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudgets(time.Now)
		start := time.Now()
		for range 80 + 8*10 { // burst, then eight a second
			if err := b.wait(t.Context(), "ec2:CreateFleet", true); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestASpentBudgetHoldsUpNoOtherCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudgets(time.Now)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		sent := 0
		for ctx.Err() == nil && b.wait(ctx, "ec2:CreateTags", true) == nil {
			sent++
		}
		if err := b.wait(t.Context(), "ec2:CreateTags", true); err != nil { // the bucket is empty now
			t.Fatal(err)
		}
		hasty, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := b.wait(hasty, "ec2:CreateTags", true); Classify(&CallError{Action: "ec2:CreateTags", Mutating: true, Err: err}) != Transient {
			t.Errorf("%v is not transient: nothing was sent", err)
		}
		if sent < 200 {
			t.Errorf("sent %d", sent)
		}
		now := time.Now()
		for _, action := range []string{"ec2:TerminateInstances", "ec2:CreateFleet", "iam:GetInstanceProfile"} {
			if err := b.wait(t.Context(), action, true); err != nil {
				t.Error(err)
			}
		}
		if err := b.wait(t.Context(), "ec2:DescribeInstances", false); err != nil || time.Since(now) != 0 {
			t.Errorf("reading waited %s: %v", time.Since(now), err)
		}
	})
}

func TestARefusalForTheRateSlowsItsBucketAloneForAWhile(t *testing.T) {
	now := time.Unix(0, 0)
	b := newBudgets(func() time.Time { return now })
	limit := func(action string) rate.Limit {
		b.mu.Lock()
		defer b.mu.Unlock()
		found := b.bucketOf(action, true)
		found.recover(now)
		return found.limiter.Limit()
	}
	full := limit("ec2:CreateFleet")
	throttled := &CallError{Action: "ec2:CreateFleet", Mutating: true, Err: &smithy.GenericAPIError{Code: "RequestLimitExceeded"}}
	refuse := func() { b.answered("ec2:CreateFleet", true, throttled) }
	now = now.Add(time.Hour)
	refuse()
	refuse() // under way together with the first
	if got := limit("ec2:CreateFleet"); got != full/2 {
		t.Errorf("%v after one refusal, want %v", got, full/2)
	}
	for range 10 {
		now = now.Add(2 * time.Second)
		refuse()
	}
	if got := limit("ec2:CreateFleet"); got != full/16 {
		t.Errorf("%v after many refusals, want %v", got, full/16)
	}
	b.answered("ec2:CreateTags", true, &CallError{Err: &smithy.GenericAPIError{Code: "InternalError"}})
	if got, want := limit("ec2:CreateTags"), rate.Limit(10*share); got != want {
		t.Errorf("tags: %v, want %v", got, want)
	}
	now = now.Add(4 * time.Minute)
	if got := limit("ec2:CreateFleet"); got != full {
		t.Errorf("%v after four quiet minutes, want %v", got, full)
	}
}
