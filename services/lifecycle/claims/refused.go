package claims

import (
	"sync"
	"time"
)

// How long the API server must call a planned NodeClaim invalid before it is given up: policies of admission,
// and CustomResourceDefinitions, may be about to change. Claims of a NodePool of which it takes none are
// given up ever more rarely, since each is planned, and recorded, anew.
const (
	refusedFor  = 30 * time.Second
	refusedMost = 10 * time.Minute
)

// refusals are planned NodeClaims that the API server has called invalid. It is safe for concurrent use.
type refusals struct {
	mu sync.Mutex
	// claims by name, pools by name.
	claims map[string]refusal
	pools  map[string]patience
}

// refusal of a claim since a time, while its NodePool had a generation.
type refusal struct {
	since      time.Time
	lasts      time.Duration
	generation int64
}

// patience with the claims of a NodePool, since a time.
type patience struct {
	since time.Time
	lasts time.Duration
}

func newRefusals() *refusals {
	return &refusals{claims: map[string]refusal{}, pools: map[string]patience{}}
}

// refused notes that the API server calls a claim invalid; news says that it did not before.
func (r *refusals) refused(name, pool string, generation int64, now time.Time) (news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.claims[name]; known {
		return false
	}
	p, known := r.pools[pool]
	switch age := now.Sub(p.since).Abs(); {
	case !known || age > 2*refusedMost:
		p = patience{now, refusedFor}
	case age >= p.lasts: // one of the same plan says nothing more
		p = patience{now, min(2*p.lasts, refusedMost)}
	}
	r.pools[pool] = p
	r.claims[name] = refusal{now, p.lasts, generation}
	return true
}

// taken notes that the API server takes a claim.
func (r *refusals) taken(name, pool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.claims, name)
	delete(r.pools, pool)
}

// isLasting reports that a claim has been refused for as long as it may be, or that its NodePool has changed
// since: then it would be planned otherwise.
func (r *refusals) isLasting(name string, generation int64, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, known := r.claims[name]
	return known && (now.Sub(c.since).Abs() >= c.lasts || generation != c.generation)
}

// prune forgets claims that are gone, and NodePools of which none was refused lately.
func (r *refusals) prune(names map[string]bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	forget(r.claims, names)
	for pool, p := range r.pools {
		if now.Sub(p.since).Abs() > 2*refusedMost {
			delete(r.pools, pool)
		}
	}
}

func (r *refusals) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.claims) + len(r.pools)
}
