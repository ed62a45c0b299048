package drain

import (
	"math"
	"time"

	"millwright/planner"
	"millwright/planner/world"
)

// stuckAfter is how long after its deletionTimestamp, which includes the grace period, a pod is waited for.
const stuckAfter = time.Minute

// defaultGrace is Kubernetes' termination grace period where a pod names none.
const defaultGrace = 30 * time.Second

// Role of a pod while its node drains.
type Role int

const (
	// Ignored: ended, static, or tolerating the disrupted taint; it dies with the instance.
	Ignored Role = iota
	// Stuck: deleted long ago; its containers can't be stopped, and nobody waits for it.
	Stuck
	// Leaving: being deleted; waited for.
	Leaving
	// Held: protected by do-not-disrupt; waited for, evicted by nobody.
	Held
	// Evictable: to be evicted when its tier's turn comes.
	Evictable
)

func (r Role) String() string {
	return [...]string{"Ignored", "Stuck", "Leaving", "Held", "Evictable"}[r]
}

// Waited reports that the drain is not over while a pod has the role.
func (r Role) Waited() bool { return r >= Leaving }

// RoleOf classifies a pod (reference: lifecycle §8.1).
func RoleOf(p *world.Pod, now time.Time) Role {
	switch {
	case p.Terminal() || p.Class.Static() || planner.ToleratesDisrupted(p.Class):
		return Ignored
	case p.Deleting != 0 && now.Sub(deletedAt(p)) > stuckAfter:
		return Stuck
	case p.Deleting != 0:
		return Leaving
	case planner.DoNotDisrupt(p, now).InEffect:
		return Held
	}
	return Evictable
}

// deletedAt is when the pod's grace period ends. One of centuries is too long to count, and shows as a time
// before 1970.
func deletedAt(p *world.Pod) time.Time {
	if p.Deleting < 0 {
		return time.Unix(0, math.MaxInt64).UTC()
	}
	return time.Unix(0, p.Deleting).UTC()
}

// Tiers in the order they are worked on (reference: lifecycle §8.2).
const (
	TierPlain          = 1
	TierDaemon         = 2
	TierCritical       = 3
	TierCriticalDaemon = 4
	// TierForced is no pod's own: the instance is about to be taken away, and what is left of all tiers is
	// deleted.
	TierForced = 5
)

// TierOf returns the tier of a pod's class.
func TierOf(c *world.PodClass) int {
	critical := c.Spec.PriorityClassName == "system-cluster-critical" || c.Spec.PriorityClassName == "system-node-critical"
	switch {
	case critical && c.DaemonSetOwned():
		return TierCriticalDaemon
	case critical:
		return TierCritical
	case c.DaemonSetOwned():
		return TierDaemon
	}
	return TierPlain
}

func grace(p *world.Pod) time.Duration {
	if s := p.Class.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(min(max(*s, 0), int64(math.MaxInt64/time.Second))) * time.Second
	}
	return defaultGrace
}
