package ec2

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func action(name string) *cost { return &cost{action: name, priority: priorityOf(name)} }

func TestCallsAreSentAtTheRateOfTheirBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudgets(RoleAll, nil)
		start := time.Now()
		for range 10 + 4*10 { // what a new process may use at once, then four a second
			if err := b.wait(t.Context(), action("CreateFleet")); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start).Round(time.Millisecond); took != 10*time.Second {
			t.Errorf("took %s", took)
		}
		time.Sleep(time.Hour)
		start = time.Now()
		for range 40 + 4*10 { // the whole burst
			if err := b.wait(t.Context(), action("CreateFleet")); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start).Round(time.Millisecond); took != 10*time.Second {
			t.Errorf("after a rest: took %s", took)
		}
	})
}

// While a process stands by, its buckets fill up, and another one empties those of the account. Both together
// never send more than EC2 lets them, whenever the lead changes.
func TestTheOneThatTakesOverKnowsThatAnotherHasSpent(t *testing.T) {
	for _, name := range []string{"CreateFleet", "CreateTags", "TerminateInstances"} {
		synctest.Test(t, func(t *testing.T) {
			limit, own := allowances[name]
			if !own {
				limit = changing
			}
			account := &bucket{full: limit.perSecond, rate: limit.perSecond, burst: float64(limit.burst), tokens: float64(limit.burst), at: time.Now()}
			leaders := []*Budgets{NewBudgets(RoleActing, nil), NewBudgets(RoleActing, nil)}
			for _, b := range leaders {
				b.bucketsOf(action(name))
			}
			time.Sleep(time.Hour)
			for term := range 4 {
				b := leaders[term%2]
				b.TookOver()
				for range 3 * limit.burst {
					if err := b.wait(t.Context(), action(name)); err != nil {
						t.Fatal(err)
					}
					account.refill(time.Now())
					if account.tokens < 1 {
						t.Fatalf("%s: term %d sent more than the account has", name, term)
					}
					account.tokens--
				}
				time.Sleep(time.Duration(term) * time.Second)
			}
		})
	}
}

func TestASpentBudgetHoldsUpNoOtherCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudgets(RoleAll, nil)
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		sent := 0
		for ctx.Err() == nil && b.wait(ctx, action("CreateTags")) == nil {
			sent++
		}
		if err := b.wait(t.Context(), action("CreateTags")); err != nil { // the bucket is empty now
			t.Fatal(err)
		}
		hasty, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		now := time.Now()
		if err := b.wait(hasty, action("CreateTags")); Classify(&CallError{Action: "ec2:CreateTags", Mutating: true, Err: err}) != Transient {
			t.Errorf("%v is not transient: nothing was sent", err)
		}
		if sent < 200 {
			t.Errorf("sent %d", sent)
		}
		for _, name := range []string{"TerminateInstances", "CreateFleet", "DescribeInstances"} {
			if err := b.wait(t.Context(), action(name)); err != nil || time.Since(now) != 0 {
				t.Errorf("%s waited %s: %v", name, time.Since(now), err)
			}
		}
	})
}

func TestARefusalForTheRateSlowsItsBucketAloneForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudgets(RoleAll, nil)
		fleets, _ := b.bucketsOf(action("CreateFleet"))
		tags, _ := b.bucketsOf(action("CreateTags"))
		full, others := fleets.allowed(), tags.allowed()
		time.Sleep(time.Hour)
		fleets.refused()
		fleets.refused() // under way together with the first
		if got := fleets.allowed(); got != full/2 {
			t.Errorf("%v after one refusal, want %v", got, full/2)
		}
		start := time.Now()
		if err := fleets.takeTokens(t.Context(), 1, launching); err != nil || time.Since(start) < time.Second/2 {
			t.Errorf("%v after %s: the account's bucket is empty, and so is ours", err, time.Since(start))
		}
		for range 10 {
			time.Sleep(2 * time.Second)
			fleets.refused()
		}
		if got := fleets.allowed(); got != full/16 {
			t.Errorf("%v after many refusals, want %v", got, full/16)
		}
		if got := tags.allowed(); got != others {
			t.Errorf("tags: %v, want %v", got, others)
		}
		time.Sleep(4 * time.Minute)
		if got := fleets.allowed(); got != full {
			t.Errorf("%v after four quiet minutes, want %v", got, full)
		}
	})
}

// What ends instances goes before launches, and these before everything else; but nobody waits for ever.
func TestCallsThatWaitGoByPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(1, 10)
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		take := func(name string, p priority) {
			all.Go(func() {
				if err := b.takeTokens(t.Context(), 1, p); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
			})
			time.Sleep(time.Millisecond)
		}
		take("poll 1", observing)
		take("poll 2", observing)
		take("launch 1", launching)
		take("launch 2", launching)
		take("end 1", ending)
		for i := range 5 {
			time.Sleep(time.Second)
			take(fmt.Sprintf("end %d", i+2), ending)
		}
		all.Wait()
		want := []string{"end 1", "end 2", "end 3", "end 4", "poll 1", "poll 2", "launch 1", "launch 2", "end 5", "end 6"}
		if !slices.Equal(order, want) {
			t.Errorf("%q, want %q", order, want)
		}
	})
}

func TestWhoGivesUpTakesNoTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(1, 10)
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error)
		go func() { gaveUp <- b.takeTokens(ctx, 8, ending) }()
		synctest.Wait()
		start := time.Now()
		go func() { time.Sleep(2 * time.Second); cancel() }()
		if err := b.takeTokens(t.Context(), 3, observing); err != nil {
			t.Fatal(err)
		}
		if err := <-gaveUp; !errors.Is(err, errBudget) {
			t.Error(err)
		}
		if took := time.Since(start).Round(time.Millisecond); took != 3*time.Second {
			t.Errorf("took %s", took)
		}
		if err := b.takeTokens(t.Context(), 1000, observing); err != nil {
			t.Error("more than a bucket holds has to be possible:", err)
		}
	})
}

func TestInstancesToTerminateCountBesidesTheCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudgets(RoleAll, nil)
		time.Sleep(time.Hour)
		c := action("TerminateInstances")
		c.describe("TerminateInstances", &awsec2.TerminateInstancesInput{InstanceIds: make([]string, 400)})
		start := time.Now()
		for range 3 { // 800 at once, then 16 a second
			if err := b.wait(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start).Round(time.Millisecond); took != 25*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

// Watcher and lifecycle have together what a tool alone would have.
func TestReadingIsDividedBetweenWatcherAndLifecycle(t *testing.T) {
	one, _ := NewBudgets(RoleAll, nil).bucketsOf(action("DescribeSubnets"))
	acting, _ := NewBudgets(RoleActing, nil).bucketsOf(action("DescribeSubnets"))
	watching, _ := NewBudgets(RoleWatching, nil).bucketsOf(action("DescribeSubnets"))
	if one.full != acting.full+watching.full || one.burst != acting.burst+watching.burst || one.tokens < acting.tokens+watching.tokens {
		t.Errorf("%v, %v and %v", one, acting, watching)
	}
	acts, _ := NewBudgets(RoleActing, nil).bucketsOf(action("CreateFleet"))
	if acts.full != float64(changing.perSecond)*share {
		t.Errorf("CreateFleet has %v a second, although nobody else calls it", acts.full)
	}
}

// Each attempt of a call takes a token, and one that is not repeated for want of tokens may have happened.
func TestEachAttemptCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		fails := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { calls++; ec2Error(500, "InternalError", "no")(w, r) })
		c := clientAt(t, "http://aws.simulated", handlerTransport{fails}, 100*time.Millisecond, nil)
		budgets := NewBudgets(RoleAll, nil)
		cfg := budgets.Bind(aws.Config{Region: "us-west-2", BaseEndpoint: aws.String("http://aws.simulated"), HTTPClient: &http.Client{Transport: handlerTransport{fails}},
			Credentials: aws.AnonymousCredentials{}, Retryer: func() aws.Retryer { return quickRetryer{} }})
		c.ec2 = awsec2.NewFromConfig(cfg)
		tags, _ := budgets.bucketsOf(action("CreateTags"))
		before := tags.tokens
		err := c.CreateTags(t.Context(), "i-1", map[string]string{"a": "b"})
		if spent := before - tags.tokens; calls != 3 || spent != 3 || Classify(err) != UnknownOutcome {
			t.Errorf("%d calls for %v tokens: %v", calls, spent, err)
		}
		tags.tokens = 1
		calls = 0
		err = c.CreateTags(t.Context(), "i-1", map[string]string{"a": "b"})
		if calls != 1 || Classify(err) != UnknownOutcome {
			t.Errorf("%d calls, %s: %v", calls, Classify(err), err)
		}
		tags.tokens = 0
		calls = 0
		err = c.CreateTags(t.Context(), "i-1", map[string]string{"a": "b"})
		if calls != 0 || Classify(err) != Transient {
			t.Errorf("%d calls, %s: %v", calls, Classify(err), err)
		}
	})
}

// EC2 may also refuse the rate of what a fleet does itself.
func TestAFleetWhoseOwnCallsAreRefusedSlowsLaunches(t *testing.T) {
	if !fleetThrottled(&awsec2.CreateFleetOutput{Errors: []ec2types.CreateFleetError{{ErrorCode: aws.String("RequestLimitExceeded")}}}) {
		t.Error("RequestLimitExceeded is not seen")
	}
	if fleetThrottled(&awsec2.CreateFleetOutput{Errors: []ec2types.CreateFleetError{{ErrorCode: aws.String("InsufficientInstanceCapacity")}}}) || fleetThrottled(nil) {
		t.Error("seen where it is not")
	}
}

// handlerTransport calls a handler without a socket.
type handlerTransport struct{ http.Handler }

func (h handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), nil
}
