package claims

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/condition"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/claim"
)

// owningPools are the UIDs of the NodePools that own the claim. Claims of no pool, and of one that was
// deleted and made anew, say nothing about one that is there.
func (v *claimView) owningPools() (uids []types.UID) {
	if o := v.own(); o != nil {
		for _, owner := range o.OwnerReferences {
			if owner.Kind == "NodePool" {
				uids = append(uids, owner.UID)
			}
		}
	}
	return uids
}

// noteFailedRegistration remembers what a doomed claim says of its pool, if anything.
func (s *Stepper) noteFailedRegistration(v *claimView, doomed string) {
	if doomed != claim.ReasonLaunchTimeout && doomed != claim.ReasonRegistrationTimeout {
		return
	}
	reason, message := "RegistrationFailed", "Failed to register node"
	if o := v.own(); o != nil {
		if c := condition.Get(o.Status.Conditions, karpv1.ConditionTypeLaunched); c != nil && c.Status != metav1.ConditionTrue && c.Reason != condition.ReasonAwaiting {
			reason, message = c.Reason, c.Message
		}
	}
	for _, pool := range v.owningPools() {
		s.deps.Registrations.Failed(pool, reason, message)
	}
}
