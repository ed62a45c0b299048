package nodeclass

import (
	"encoding/json"
	"sync"
	"time"

	"millwright/services/internal/ec2"
)

// Times to live (ec2 §0.1).
const (
	describeTTL      = time.Minute
	parameterTTL     = 24 * time.Hour
	userParameterTTL = 5 * time.Minute
	// noParameterTTL is short: AWS may publish a parameter a little after a class names it.
	noParameterTTL = time.Minute
	// profileTTL is less than half of what a launch may take: a profile that others delete is made again
	// before claims give up.
	profileTTL     = 2 * time.Minute
	roleMissingTTL = time.Minute
	// deprecatedTTL is when a parameter is asked for again although its image is deprecated.
	deprecatedTTL = 30 * time.Minute
)

// cache keeps good answers for a time. No lock is held while asking: two askers may ask twice.
type cache[V any] struct {
	now func() time.Time
	ttl time.Duration

	mu      sync.Mutex
	entries map[string]entry[V]
}

type entry[V any] struct {
	value V
	at    time.Time
}

func newCache[V any](now func() time.Time, ttl time.Duration) *cache[V] {
	return &cache[V]{now: now, ttl: ttl, entries: map[string]entry[V]{}}
}

func (c *cache[V]) get(key string, ask func() (V, error)) (V, error) {
	if e, ok := c.lookup(key); ok {
		return e.value, nil
	}
	v, err := ask()
	if err == nil {
		c.put(key, v)
	}
	return v, err
}

func (c *cache[V]) lookup(key string) (entry[V], bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	return e, ok && c.now().Sub(e.at).Abs() < c.ttl
}

// put also drops what has expired, so that the cache never outgrows what is asked for.
func (c *cache[V]) put(key string, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	for k, e := range c.entries {
		if now.Sub(e.at).Abs() >= c.ttl {
			delete(c.entries, k)
		}
	}
	c.entries[key] = entry[V]{value: v, at: now}
}

func (c *cache[V]) drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
}

type caches struct {
	subnets *cache[[]ec2.Subnet]
	groups  *cache[[]ec2.SecurityGroup]
	images  *cache[[]ec2.Image]
	// reservations of capacity by terms.
	reservations *cache[[]ec2.CapacityReservation]
	// placementGroups by selector; nil for one that does not exist.
	placementGroups *cache[*ec2.PlacementGroup]
	// parameters by name, and those that do not exist.
	parameters, userParameters *cache[string]
	noParameter                *cache[bool]
	// profiles that are known to have their role, by "name/role".
	profiles *cache[bool]
	// noRole holds errors about roles that do not exist, by role.
	noRole *cache[error]
	// allowed and refused hold whether launches are, by launchKey.
	allowed *cache[bool]
	refused *cache[*Refusal]
}

func newCaches(now func() time.Time) caches {
	return caches{
		subnets: newCache[[]ec2.Subnet](now, describeTTL), groups: newCache[[]ec2.SecurityGroup](now, describeTTL),
		images: newCache[[]ec2.Image](now, describeTTL), reservations: newCache[[]ec2.CapacityReservation](now, describeTTL),
		placementGroups: newCache[*ec2.PlacementGroup](now, describeTTL), parameters: newCache[string](now, parameterTTL),
		userParameters: newCache[string](now, userParameterTTL), noParameter: newCache[bool](now, noParameterTTL), profiles: newCache[bool](now, profileTTL),
		noRole: newCache[error](now, roleMissingTTL), allowed: newCache[bool](now, allowedTTL), refused: newCache[*Refusal](now, refusedTTL),
	}
}

// key of a question: its JSON.
func key(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own types always encode
	}
	return string(b)
}
