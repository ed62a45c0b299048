package status

import (
	"maps"
	"slices"
	"sync"

	"millwright/planner/condition"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
)

// A pool's registration health looks at its last outcomes; this many failures among them are too many (reference:
// lifecycle §11).
const (
	outcomesMax = 4
	failuresMax = 2
)

// registration is how one NodeClaim of a pool ended: its Node registered, or why not.
type registration struct {
	failed          bool
	reason, message string
}

// registrations are the last outcomes of a pool, oldest first, under one generation of the pool and of its NodeClass.
type registrations struct {
	pool, class int64
	outcomes    []registration
}

// Registrations are how the last NodeClaims of each NodePool ended. They may be lost: the condition says what they were. It is safe for
// concurrent use.
type Registrations struct {
	mu sync.Mutex
	// of a NodePool, by its UID.
	pools map[types.UID]registrations
}

// NewRegistrations returns Registrations of nothing.
func NewRegistrations() *Registrations {
	return &Registrations{pools: map[types.UID]registrations{}}
}

// Succeeded takes in that a Node of the pool registered.
func (m *Registrations) Succeeded(pool types.UID) { m.note(pool, registration{}) }

// Failed takes in why one did not.
func (m *Registrations) Failed(pool types.UID, reason, message string) {
	m.note(pool, registration{failed: true, reason: reason, message: message})
}

func (m *Registrations) note(pool types.UID, r registration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.pools[pool]
	h.outcomes = append(slices.Clone(h.outcomes), r)
	h.outcomes = h.outcomes[max(0, len(h.outcomes)-outcomesMax):]
	m.pools[pool] = h
}

// of returns the pool's outcomes under its present generation and that of its NodeClass: a change of
// either forgets them. What a former leader saw is taken from the condition it left: True as one success, False as
// enough failures.
func (m *Registrations) of(p *karpv1.NodePool, class int64) []registration {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.pools[p.UID]
	switch {
	case h.pool == 0:
		h.outcomes = append(left(p, class), h.outcomes...)
		h.outcomes = h.outcomes[max(0, len(h.outcomes)-outcomesMax):]
	case h.pool != p.Generation || h.class != class:
		h.outcomes = nil
	}
	h.pool, h.class = p.Generation, class
	m.pools[p.UID] = h
	return h.outcomes
}

// left is what the condition in the pool's status stands for.
func left(p *karpv1.NodePool, class int64) []registration {
	c := condition.Get(p.Status.Conditions, karpv1.ConditionTypeNodeRegistrationHealthy)
	if c == nil || c.ObservedGeneration != p.Generation || p.Status.NodeClassObservedGeneration != class {
		return nil
	}
	switch c.Status {
	case metav1.ConditionTrue:
		return []registration{{}}
	case metav1.ConditionFalse:
		return slices.Repeat([]registration{{failed: true, reason: c.Reason, message: c.Message}}, failuresMax)
	}
	return nil
}

// judgeRegistration sets NodeRegistrationHealthy, on which Ready does not depend.
func judgeRegistration(c *condition.List, outcomes []registration) {
	const kind = karpv1.ConditionTypeNodeRegistrationHealthy
	var failures []registration
	for _, r := range outcomes {
		if r.failed {
			failures = append(failures, r)
		}
	}
	switch {
	case len(failures) >= failuresMax:
		last := failures[len(failures)-1]
		c.Set(kind, metav1.ConditionFalse, last.reason, last.message)
	case len(failures) < len(outcomes):
		c.True(kind)
	default:
		c.Set(kind, metav1.ConditionUnknown, condition.ReasonAwaiting, "object is awaiting reconciliation")
	}
}

// prune forgets all pools but these.
func (m *Registrations) prune(kept map[types.UID]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.pools, func(uid types.UID, _ registrations) bool { return !kept[uid] })
}
