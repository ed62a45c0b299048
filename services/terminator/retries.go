package terminator

import (
	"sync"
	"time"
)

// Backoff of one pod's eviction (reference: lifecycle §8.3).
const (
	retryMin = 100 * time.Millisecond
	retryMax = 10 * time.Second
	// rememberFor is how long a key is kept after it became due.
	rememberFor = time.Minute
)

// retries remembers when a call may be tried again. Effects and steps use it at the same time.
type retries struct {
	mu   sync.Mutex
	keys map[string]retry
}

type retry struct {
	at    time.Time
	delay time.Duration
}

func newRetries() *retries { return &retries{keys: map[string]retry{}} }

func (r *retries) due(key string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !now.Before(r.keys[key].at)
}

// failed doubles the delay.
func (r *retries) failed(key string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delay := min(max(2*r.keys[key].delay, retryMin), retryMax)
	r.keys[key] = retry{at: now.Add(delay), delay: delay}
}

// settle gives an accepted call time to show.
func (r *retries) settle(key string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[key] = retry{at: now.Add(afterSuccess)}
}

func (r *retries) expire(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, x := range r.keys {
		if now.Sub(x.at) > rememberFor {
			delete(r.keys, key)
		}
	}
}
