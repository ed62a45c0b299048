package review

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limiter bounds how often somebody may ask. It remembers at most entriesMax of them; beyond that all are
// forgotten, which lets each begin anew.
type Limiter struct {
	every rate.Limit
	burst int

	mu   sync.Mutex
	each map[string]*rate.Limiter
}

// NewLimiter allows so many a second, and at once.
func NewLimiter(perSecond float64, burst int) *Limiter {
	return &Limiter{every: rate.Limit(perSecond), burst: burst, each: map[string]*rate.Limiter{}}
}

// Allow reports that somebody may ask now, and counts it.
func (l *Limiter) Allow(who string, now time.Time) bool {
	l.mu.Lock()
	x := l.each[who]
	if x == nil {
		if len(l.each) >= entriesMax {
			clear(l.each)
		}
		x = rate.NewLimiter(l.every, l.burst)
		l.each[who] = x
	}
	l.mu.Unlock()
	return x.AllowN(now, 1)
}
