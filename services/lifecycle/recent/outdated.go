package recent

import (
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// outdatedFor is how long a version is held to be outdated. A cache that lags further behind costs another
// conflict.
const outdatedFor = 2 * time.Minute

// Outdated knows versions of objects that are no longer the newest: they were written upon, or the API server
// said so. It is safe for concurrent use.
type Outdated struct {
	mu       sync.Mutex
	versions map[types.UID]version
	pruned   time.Time
}

type version struct {
	resourceVersion string
	at              time.Time
}

func (v version) holds(now time.Time) bool { return now.Sub(v.at).Abs() <= outdatedFor }

// covers reports that the object is of this version or an older one.
func (v version) covers(o metav1.Object) bool {
	return o.GetResourceVersion() == v.resourceVersion || older(o.GetResourceVersion(), v.resourceVersion)
}

// NewOutdated returns an Outdated that knows of none.
func NewOutdated() *Outdated { return &Outdated{versions: map[types.UID]version{}} }

// Add takes in that a newer version than this one exists.
func (k *Outdated) Add(o metav1.Object, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Sub(k.pruned).Abs() >= pruneEvery {
		k.pruned = now
		maps.DeleteFunc(k.versions, func(_ types.UID, v version) bool { return !v.holds(now) })
	}
	if have, ok := k.versions[o.GetUID()]; ok && have.holds(now) && older(o.GetResourceVersion(), have.resourceVersion) {
		return
	}
	k.versions[o.GetUID()] = version{o.GetResourceVersion(), now}
}

// Newest takes in that the API server itself had no newer version of the object than this one, when it was
// asked at that time: a conflict had another cause, or the API server was restored from a backup since.
func (k *Outdated) Newest(o metav1.Object, asked time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if v, ok := k.versions[o.GetUID()]; ok && !v.at.After(asked) && v.covers(o) {
		delete(k.versions, o.GetUID())
	}
}

// Has reports that a newer version of the object is known to exist.
func (k *Outdated) Has(o metav1.Object, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.versions[o.GetUID()]
	return ok && v.holds(now) && v.covers(o)
}

// Len counts what is remembered.
func (k *Outdated) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.versions)
}
