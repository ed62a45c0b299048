package backoff

import (
	"hash/fnv"
	"strconv"
	"sync"
	"time"
)

const (
	// conflictFirst and conflictMax bound the pause after conflicts in a row.
	conflictFirst = 100 * time.Millisecond
	conflictMax   = 10 * time.Second
	// forgetAfter is how long a key is kept after it became due. It is longer than any pause, so that an
	// effect that runs for a minute and fails again still counts its earlier failures.
	forgetAfter = 10 * time.Minute
	// pruneEvery is how often keys are checked for pruning.
	pruneEvery = time.Minute
	// setBackLeast: a pause that began so long after now was set by a clock that was put back since. Less is
	// a look that began before the effect ended.
	setBackLeast = time.Minute
)

// Keys is safe for concurrent use.
type Keys struct {
	// first and limit bound the pause after failures in a row.
	first, limit time.Duration

	mu     sync.Mutex
	keys   map[string]entry
	pruned time.Time
}

type entry struct {
	// at is when the key is due, set when that was said.
	at, set             time.Time
	failures, conflicts int
}

// void reports that the clock was put back since.
func (e entry) void(now time.Time) bool { return e.set.Sub(now) > setBackLeast }

// New returns Keys whose failures pause for first at first, then twice as long each time, up to limit.
func New(first, limit time.Duration) *Keys {
	return &Keys{first: first, limit: limit, keys: map[string]entry{}}
}

// At is when the key may be tried again; zero if nothing holds it back, as after a clock that was ahead is
// put right.
func (k *Keys) At(key string, now time.Time) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.keys[key]
	if e.void(now) {
		return time.Time{}
	}
	return e.at
}

// Due reports that nothing holds the key back now.
func (k *Keys) Due(key string, now time.Time) bool { return !now.Before(k.At(key, now)) }

// Failed postpones the next try, longer with each failure in a row.
func (k *Keys) Failed(key string, now time.Time) {
	k.change(key, now, func(e *entry) {
		e.at = now.Add(doubled(k.first, e.failures, k.limit))
		e.failures++
	})
}

// Conflicted postpones the next try because others were faster: for a shorter time than Failed, and spread so
// that those who met in one conflict do not meet again.
func (k *Keys) Conflicted(key string, now time.Time) {
	k.change(key, now, func(e *entry) {
		pause := doubled(conflictFirst, e.conflicts, conflictMax)
		e.at = now.Add(pause/2 + time.Duration(spread(key, e.conflicts)*float64(pause/2)))
		e.conflicts++
	})
}

// Hold postpones the next try until a time, without counting a failure.
func (k *Keys) Hold(key string, until, now time.Time) {
	k.change(key, now, func(e *entry) { e.at = until })
}

// Accepted forgets failures, and allows until a time for the effect to show.
func (k *Keys) Accepted(key string, until, now time.Time) {
	k.change(key, now, func(e *entry) { *e = entry{at: until} })
}

// Succeeded forgets the key.
func (k *Keys) Succeeded(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.keys, key)
}

// Len counts the keys that are remembered.
func (k *Keys) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.keys)
}

func (k *Keys) change(key string, now time.Time, how func(*entry)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.prune(now)
	e := k.keys[key]
	how(&e)
	e.set = now
	k.keys[key] = e
}

// prune forgets keys that have been due for long. The caller holds the lock.
func (k *Keys) prune(now time.Time) {
	if now.Sub(k.pruned).Abs() < pruneEvery {
		return
	}
	k.pruned = now
	for key, e := range k.keys {
		if now.Sub(e.at) > forgetAfter || e.void(now) {
			delete(k.keys, key)
		}
	}
}

func doubled(first time.Duration, times int, limit time.Duration) time.Duration {
	return min(first<<min(times, 20), limit)
}

// spread is a number in [0, 1) that differs between keys and tries.
func spread(key string, try int) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key + "#" + strconv.Itoa(try)))
	return float64(h.Sum64()%1024) / 1024
}
