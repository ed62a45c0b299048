package status

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/nodepool"
)

// Registrations are how the last NodeClaims of each NodePool ended. They may be lost: the condition says what
// they were. It is safe for concurrent use.
type Registrations struct {
	mu sync.Mutex
	// of a NodePool, by its UID.
	pools map[types.UID]nodepool.Registrations
}

// NewRegistrations returns Registrations of nothing.
func NewRegistrations() *Registrations {
	return &Registrations{pools: map[types.UID]nodepool.Registrations{}}
}

// Succeeded takes in that a Node of the pool registered.
func (m *Registrations) Succeeded(pool types.UID) { m.noteOutcome(pool, nodepool.Registration{}) }

// Failed takes in why one did not.
func (m *Registrations) Failed(pool types.UID, reason, message string) {
	m.noteOutcome(pool, nodepool.Registration{Failed: true, Reason: reason, Message: message})
}

func (m *Registrations) noteOutcome(pool types.UID, r nodepool.Registration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pools[pool] = m.pools[pool].With(r)
}

// of returns the pool's outcomes under its present generation and that of its NodeClass.
func (m *Registrations) of(p *karpv1.NodePool, class int64) (outcomes []nodepool.Registration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	outcomes, m.pools[p.UID] = m.pools[p.UID].Under(p, class)
	return outcomes
}

// prune forgets all pools but these.
func (m *Registrations) prune(kept map[types.UID]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.pools, func(uid types.UID, _ nodepool.Registrations) bool { return !kept[uid] })
}
