package nodepool

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/condition"
)

// A pool's registration health looks at its last outcomes; this many failures among them are too many
// (reference: lifecycle §11).
const (
	RegistrationsMax = 4
	failuresMax      = 2
)

// Registration is how one NodeClaim of a pool ended: its Node registered, or why not.
type Registration struct {
	Failed          bool
	Reason, Message string
}

// Registrations are the last outcomes of a pool, oldest first, under one generation of the pool and of its
// NodeClass. They are never changed in place.
type Registrations struct {
	pool, class int64
	outcomes    []Registration
}

// With returns them with one outcome more.
func (h Registrations) With(r Registration) Registrations {
	h.outcomes = lastOf(append(slices.Clone(h.outcomes), r))
	return h
}

// Under returns the outcomes under the pool's present generation and that of its NodeClass, and what to
// remember: a change of either forgets them. What a former leader saw is taken from the condition it left:
// True as one success, False as enough failures.
func (h Registrations) Under(p *karpv1.NodePool, class int64) ([]Registration, Registrations) {
	switch {
	case h.pool == 0:
		h.outcomes = lastOf(append(leftRegistrations(p, class), h.outcomes...))
	case h.pool != p.Generation || h.class != class:
		h.outcomes = nil
	}
	h.pool, h.class = p.Generation, class
	return h.outcomes, h
}

func lastOf(outcomes []Registration) []Registration {
	return outcomes[max(0, len(outcomes)-RegistrationsMax):]
}

// leftRegistrations are what the condition in the pool's status stands for.
func leftRegistrations(p *karpv1.NodePool, class int64) []Registration {
	c := condition.Get(p.Status.Conditions, karpv1.ConditionTypeNodeRegistrationHealthy)
	if c == nil || c.ObservedGeneration != p.Generation || p.Status.NodeClassObservedGeneration != class {
		return nil
	}
	switch c.Status {
	case metav1.ConditionTrue:
		return []Registration{{}}
	case metav1.ConditionFalse:
		return slices.Repeat([]Registration{{Failed: true, Reason: c.Reason, Message: c.Message}}, failuresMax)
	}
	return nil
}

// setRegistrationHealthy sets NodeRegistrationHealthy, on which Ready does not depend.
func setRegistrationHealthy(c *condition.List, outcomes []Registration) {
	const kind = karpv1.ConditionTypeNodeRegistrationHealthy
	var failures []Registration
	for _, r := range outcomes {
		if r.Failed {
			failures = append(failures, r)
		}
	}
	switch {
	case len(failures) >= failuresMax:
		last := failures[len(failures)-1]
		c.Set(kind, metav1.ConditionFalse, last.Reason, last.Message)
	case len(failures) < len(outcomes):
		c.True(kind)
	default:
		c.Set(kind, metav1.ConditionUnknown, condition.ReasonAwaiting, condition.MessageAwaiting)
	}
}
