package ec2

import (
	"context"
	"errors"
	"sync"
	"time"
)

// priority of a call among those that wait for tokens of one bucket.
type priority int

const (
	// ending: what ends instances, and finds out whether they are gone.
	ending priority = iota
	// launching: what a launch is made of.
	launching
	// observing: everything else.
	observing
	priorities
)

const (
	// slowest: a refusal halves a rate down to this part of it; recovery: it is doubled again after each
	// minute without one.
	slowest  = 1.0 / 16
	recovery = time.Minute
	// patienceMax is how long a call lets those of a higher priority go first.
	patienceMax = 5 * time.Second
)

// errBudget: the call was not sent, because its budget is spent for longer than the caller waits.
var errBudget = errors.New("the budget of calls is spent")

// bucket is a token bucket whose tokens go to waiting calls by priority, then in order of arrival; a call
// that has waited for patienceMax goes before all that have not. Safe for concurrent use.
type bucket struct {
	mu sync.Mutex
	// full is the rate in tokens a second while nothing is refused, rate the one in force.
	full, rate, burst float64
	// tokens there were at a time; not more than burst.
	tokens float64
	at     time.Time
	// slowedAt is when a call of the bucket was last refused for its rate.
	slowedAt time.Time
	waiting  [priorities][]*waiter
	// next serves those that wait; nil if nobody does.
	next *time.Timer
}

// waiter is one call that waits. served is closed once it has its tokens.
type waiter struct {
	tokens float64
	since  time.Time
	served chan struct{}
}

// newBucket is empty.
func newBucket(rate, burst float64) *bucket {
	return &bucket{full: rate, rate: rate, burst: burst, at: time.Now()}
}

// takeTokens takes n tokens, at most a full bucket, and waits for them as long as ctx allows. It fails with
// errBudget at once if that is too short.
func (b *bucket) takeTokens(ctx context.Context, n float64, p priority) error {
	w, err := b.enqueue(ctx, min(n, b.burst), p)
	if w == nil {
		return err
	}
	select {
	case <-w.served:
		return nil
	case <-ctx.Done():
		b.withdraw(w, p)
		return errors.Join(errBudget, ctx.Err())
	}
}

// enqueue returns nil if there is nothing to wait for: the tokens are taken, or would come too late.
func (b *bucket) enqueue(ctx context.Context, n float64, p priority) (*waiter, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.refill(now)
	ahead := b.ahead(p)
	if ahead == 0 && b.tokens >= n {
		b.tokens -= n
		return nil, nil
	}
	if deadline, ok := ctx.Deadline(); ok && now.Add(b.timeUntil(ahead+n)).After(deadline) {
		return nil, errBudget
	}
	w := &waiter{tokens: n, since: now, served: make(chan struct{})}
	b.waiting[p] = append(b.waiting[p], w)
	b.arm()
	return w, nil
}

// ahead is how many tokens go to those that wait with the priority or a higher one.
func (b *bucket) ahead(p priority) (sum float64) {
	for _, queue := range b.waiting[:p+1] {
		for _, w := range queue {
			sum += w.tokens
		}
	}
	return sum
}

// timeUntil is how long the bucket takes to have n tokens.
func (b *bucket) timeUntil(n float64) time.Duration {
	return max(0, time.Duration((n-b.tokens)/b.rate*float64(time.Second)))
}

// withdraw withdraws a call that gave up. If it was served meanwhile, its tokens go back.
func (b *bucket) withdraw(w *waiter, p priority) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.served:
		b.tokens += w.tokens
	default:
		for i, other := range b.waiting[p] {
			if other == w {
				b.waiting[p] = append(b.waiting[p][:i:i], b.waiting[p][i+1:]...)
				break
			}
		}
	}
	b.serve(time.Now())
}

// serve gives tokens to those whose turn it is.
func (b *bucket) serve(now time.Time) {
	b.refill(now)
	for {
		p, found := b.nextPriority(now)
		if !found || b.tokens < b.waiting[p][0].tokens {
			break
		}
		w := b.waiting[p][0]
		b.waiting[p] = b.waiting[p][1:]
		b.tokens -= w.tokens
		close(w.served)
	}
	b.arm()
}

// nextPriority returns the priority whose first call is next.
func (b *bucket) nextPriority(now time.Time) (next priority, found bool) {
	for p := range priorities {
		if len(b.waiting[p]) == 0 {
			continue
		}
		if !found {
			next, found = p, true
		}
		if first := b.waiting[p][0]; now.Sub(first.since) >= patienceMax && first.since.Before(b.waiting[next][0].since) {
			next = p
		}
	}
	return next, found
}

// arm has the next call served when there are enough tokens for it.
func (b *bucket) arm() {
	if b.next != nil {
		b.next.Stop()
		b.next = nil
	}
	p, found := b.nextPriority(b.at)
	if !found {
		return
	}
	wait := b.timeUntil(b.waiting[p][0].tokens) + time.Microsecond // never a rounding error too early
	b.next = time.AfterFunc(wait, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.serve(time.Now())
	})
}

// refill adds what has come since, and doubles the rate of a slowed bucket for each minute without a refusal.
func (b *bucket) refill(now time.Time) {
	for b.rate < b.full && now.Sub(b.slowedAt) >= recovery {
		b.fill(b.slowedAt.Add(recovery))
		b.slowedAt = b.slowedAt.Add(recovery)
		b.rate = min(b.full, b.rate*2)
	}
	b.fill(now)
}

func (b *bucket) fill(now time.Time) {
	if elapsed := now.Sub(b.at); elapsed > 0 {
		b.tokens = min(b.burst, b.tokens+elapsed.Seconds()*b.rate)
		b.at = now
	}
}

// keepAtMost takes what exceeds n tokens, but leaves one.
func (b *bucket) keepAtMost(n float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(time.Now())
	b.tokens = min(b.tokens, max(1, n))
}

// refused says that EC2 refused a call for its rate: the account's bucket is empty, and so is this one. Calls
// that were under way together count once.
func (b *bucket) refused() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.refill(now)
	b.tokens = min(b.tokens, 0)
	if !b.slowedAt.IsZero() && now.Sub(b.slowedAt) < time.Second {
		return
	}
	b.slowedAt = now
	b.rate = max(b.full*slowest, b.rate/2)
	b.arm()
}

// allowed is the rate in force, in tokens a second.
func (b *bucket) allowed() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(time.Now())
	return b.rate
}
