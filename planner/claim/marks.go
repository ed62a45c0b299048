package claim

import (
	"time"

	"millwright/planner/condition"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
)

// podEventStep is how much later than the pod event in a NodeClaim's status another one must be to be written
// there (reference: disruption §1), so that pods that come and go all the time cost few writes.
const podEventStep = 10 * time.Second

// Marks are what disruption needs in a NodeClaim's status but Ready does not depend on (reference: disruption
// §1). What is not known stays as it is in the object.
type Marks struct {
	// Drift is why the claim has drifted, "" if it has not.
	Drift      string
	DriftKnown bool
	// Quiet: nothing happened on the node for the NodePool's consolidateAfter.
	Quiet, QuietKnown bool
	// PodEvent is when a pod last came to the node, ended on it or was deleted from it; zero if no such event
	// was seen.
	PodEvent time.Time
}

// ShownBy reports that the NodeClaim's status has the marks, or does not need them because it is being
// deleted.
func (m Marks) ShownBy(o *karpv1.NodeClaim) bool {
	return !o.DeletionTimestamp.IsZero() ||
		(!m.DriftKnown || shows(o, karpv1.ConditionTypeDrifted, m.Drift != "", m.Drift)) &&
			(!m.QuietKnown || shows(o, karpv1.ConditionTypeConsolidatable, m.Quiet, karpv1.ConditionTypeConsolidatable)) &&
			m.PodEvent.Sub(o.Status.LastPodEventTime.Time) < podEventStep
}

func shows(o *karpv1.NodeClaim, kind string, on bool, reason string) bool {
	c := condition.Get(o.Status.Conditions, kind)
	return c == nil && !on || c != nil && on && c.Status == metav1.ConditionTrue && c.Reason == reason
}

// Marked returns the NodeClaim with the marks in its status. o is not changed; it is returned itself if it
// shows them already.
func Marked(o *karpv1.NodeClaim, m Marks, now time.Time) *karpv1.NodeClaim {
	if m.ShownBy(o) {
		return o
	}
	out := o.DeepCopy()
	if m.PodEvent.Sub(o.Status.LastPodEventTime.Time) >= podEventStep {
		out.Status.LastPodEventTime = metav1.NewTime(m.PodEvent.Truncate(time.Second))
	}
	c := ConditionsOf(out, now)
	if m.DriftKnown {
		mark(c, karpv1.ConditionTypeDrifted, m.Drift != "", m.Drift, m.Drift)
	}
	if m.QuietKnown {
		mark(c, karpv1.ConditionTypeConsolidatable, m.Quiet, karpv1.ConditionTypeConsolidatable, "")
	}
	out.Status.Conditions = c.Finish()
	return out
}

// mark sets a condition that is either True or absent.
func mark(c *condition.List, kind string, on bool, reason, message string) {
	if on {
		c.Set(kind, metav1.ConditionTrue, reason, message)
		return
	}
	c.Remove(kind)
}
