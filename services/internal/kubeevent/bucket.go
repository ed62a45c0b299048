package kubeevent

import "time"

// bucket is a token bucket over a given clock. Tokens are counted in nanoseconds of refill time, so that
// nothing is rounded away.
type bucket struct {
	perToken, full time.Duration
	have           time.Duration
	last           time.Time
}

func newBucket(perSecond, burst int64) *bucket {
	perToken := time.Second / time.Duration(perSecond)
	full := perToken * time.Duration(burst)
	return &bucket{perToken: perToken, full: full, have: full}
}

func (b *bucket) take(now time.Time) bool {
	if !b.last.IsZero() && now.After(b.last) {
		b.have = min(b.full, b.have+now.Sub(b.last))
	}
	if b.last.IsZero() || now.After(b.last) {
		b.last = now
	}
	if b.have < b.perToken {
		return false
	}
	b.have -= b.perToken
	return true
}
