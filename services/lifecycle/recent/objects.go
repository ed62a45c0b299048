package recent

import (
	"maps"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// seenFor is how long an object stands in for an older one of the cache at most.
	seenFor = 2 * time.Minute
	// unlistedFor is how long an object that the cache lacks is thought to be on its way there.
	unlistedFor = 5 * time.Second
	// goneFor is how long a cache may go on showing an object that is gone.
	goneFor = 10 * time.Minute
	// pruneEvery is how often what is old is looked for.
	pruneEvery = time.Minute
)

// Objects of one cluster-scoped kind. It is safe for concurrent use.
type Objects[T metav1.Object] struct {
	mu     sync.Mutex
	seen   map[string]seen[T]
	gone   map[types.UID]time.Time
	pruned time.Time
}

type seen[T metav1.Object] struct {
	object T
	at     time.Time
}

// NewObjects returns Objects that know of none.
func NewObjects[T metav1.Object]() *Objects[T] {
	return &Objects[T]{seen: map[string]seen[T]{}, gone: map[types.UID]time.Time{}}
}

// Saw takes in what the API server answered. The object must not be changed any more.
func (k *Objects[T]) Saw(o T, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.prune(now)
	k.seen[o.GetName()] = seen[T]{o, now}
}

// Gone takes in that the API server has no object of this UID any more.
func (k *Objects[T]) Gone(name string, uid types.UID, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.prune(now)
	k.gone[uid] = now
	if s, ok := k.seen[name]; ok && s.object.GetUID() == uid {
		delete(k.seen, name)
	}
}

// IsGone reports that the API server was found not to have the object.
func (k *Objects[T]) IsGone(uid types.UID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, gone := k.gone[uid]
	return gone
}

// Forget drops the object of a name.
func (k *Objects[T]) Forget(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.seen, name)
}

// Newest is the newer one of the cache's object and the one seen last; cached says whether the cache has one.
// The object that is returned may be gone: see IsGone.
func (k *Objects[T]) Newest(name string, o T, cached bool, now time.Time) (T, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, ok := k.seen[name]
	if !ok {
		return o, cached
	}
	age := now.Sub(s.at)
	if age > seenFor || !cached && age > unlistedFor || cached && !older(o.GetResourceVersion(), s.object.GetResourceVersion()) {
		delete(k.seen, name)
		return o, cached
	}
	return s.object, true
}

// Len counts what is remembered.
func (k *Objects[T]) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.seen) + len(k.gone)
}

// prune drops what is too old to be of use. The caller holds the lock.
func (k *Objects[T]) prune(now time.Time) {
	if now.Sub(k.pruned).Abs() < pruneEvery {
		return
	}
	k.pruned = now
	maps.DeleteFunc(k.seen, func(_ string, s seen[T]) bool { return now.Sub(s.at).Abs() > seenFor })
	maps.DeleteFunc(k.gone, func(_ types.UID, at time.Time) bool { return now.Sub(at).Abs() > goneFor })
}

// IsOlder reports that a is an older version of the object than b is.
func IsOlder(a, b metav1.Object) bool { return older(a.GetResourceVersion(), b.GetResourceVersion()) }

// older compares resourceVersions; those that are no numbers are never older.
func older(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x < y
}
