package lifecycle

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/claim"
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

// noteRegistration remembers an outcome for the pool that owns the claim. Claims of no pool, and of one that was
// deleted and made anew, tell nothing.
func (s *Service) noteRegistration(v *claimView, r registration) {
	o := v.own()
	if o == nil {
		return
	}
	for _, owner := range o.OwnerReferences {
		if owner.Kind == "NodePool" {
			s.mem.noteRegistration(owner.UID, r)
		}
	}
}

// failedRegistration is what a doomed claim says of its pool; false if it says nothing.
func failedRegistration(v *claimView, reason string) (registration, bool) {
	if reason != claim.ReasonLaunchTimeout && reason != claim.ReasonRegistrationTimeout {
		return registration{}, false
	}
	r := registration{failed: true, reason: "RegistrationFailed", message: "Failed to register node"}
	if o := v.own(); o != nil {
		if c := claim.Get(o.Status.Conditions, karpv1.ConditionTypeLaunched); c != nil && c.Status != metav1.ConditionTrue && c.Reason != claim.ReasonAwaiting {
			r.reason, r.message = c.Reason, c.Message
		}
	}
	return r, true
}

func (m *memory) noteRegistration(pool types.UID, r registration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.registrations[pool]
	h.outcomes = append(slices.Clone(h.outcomes), r)
	h.outcomes = h.outcomes[max(0, len(h.outcomes)-outcomesMax):]
	m.registrations[pool] = h
}

// registrationsOf returns the pool's outcomes under its present generation and that of its NodeClass: a change of
// either forgets them. What a former leader saw is taken from the condition it left: True as one success, False as
// enough failures.
func (m *memory) registrationsOf(p *karpv1.NodePool, class int64) []registration {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.registrations[p.UID]
	switch {
	case h.pool == 0:
		h.outcomes = append(left(p, class), h.outcomes...)
		h.outcomes = h.outcomes[max(0, len(h.outcomes)-outcomesMax):]
	case h.pool != p.Generation || h.class != class:
		h.outcomes = nil
	}
	h.pool, h.class = p.Generation, class
	m.registrations[p.UID] = h
	return h.outcomes
}

// left is what the condition in the pool's status stands for.
func left(p *karpv1.NodePool, class int64) []registration {
	c := claim.Get(p.Status.Conditions, karpv1.ConditionTypeNodeRegistrationHealthy)
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
func judgeRegistration(c *claim.Conditions, outcomes []registration) {
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
		c.Set(kind, metav1.ConditionUnknown, claim.ReasonAwaiting, "object is awaiting reconciliation")
	}
}
