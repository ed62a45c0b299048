package planner

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/world"
)

// IsProvisionable reports that a pod waits for a node (reference: scheduling §2.1): kube-scheduler found
// none, no node is nominated for it, and it is neither a DaemonSet's nor static. Unlike the reference, a pod
// that is being deleted or has ended does not count.
func IsProvisionable(p *world.Pod) bool {
	return p.Unschedulable && p.NodeName == "" && p.NominatedNode == "" && p.Active() &&
		!p.Class.DaemonSetOwned() && !p.Class.Static()
}

// IsReschedulable reports that a pod on a node needs a new place when the node goes: it is active, or a
// StatefulSet's pod that is being deleted, and neither a DaemonSet's nor static.
func IsReschedulable(p *world.Pod) bool {
	if p.Class.DaemonSetOwned() || p.Class.Static() || p.Terminal() {
		return false
	}
	return p.Deleting == 0 || StatefulSetOwned(p.Class)
}

// StatefulSetOwned reports that an apps/v1 StatefulSet controls the pods.
func StatefulSetOwned(c *world.PodClass) bool {
	return c.OwnerKind == "StatefulSet" && c.OwnerAPIVersion == "apps/v1"
}

// JobOwned reports that a batch/v1 Job controls the pods.
func JobOwned(c *world.PodClass) bool { return c.OwnerKind == "Job" && c.OwnerAPIVersion == "batch/v1" }

// DoNotDisruptState says what the do-not-disrupt annotation of a pod means at a time.
type DoNotDisruptState struct {
	// InEffect: the pod must not be disrupted or evicted voluntarily.
	InEffect bool
	// Until is when protection by a duration ends; zero if it is forever or of unknown start.
	Until time.Time
	// Invalid: the value is neither "true" nor a positive duration, and protects nothing.
	Invalid bool
}

// DoNotDisrupt reads a pod's annotation (reference: disruption §2): "true" protects for ever, a positive
// duration protects from the pod's start time on, or for as long as it has none. Only an active pod is
// protected.
func DoNotDisrupt(p *world.Pod, now time.Time) DoNotDisruptState {
	value, ok := p.Class.Annotations[karpv1.DoNotDisruptAnnotationKey]
	if !ok || !p.Active() {
		return DoNotDisruptState{}
	}
	if value == "true" {
		return DoNotDisruptState{InEffect: true}
	}
	d, err := protection(value)
	if err != nil {
		return DoNotDisruptState{Invalid: true}
	}
	if p.Started == 0 {
		return DoNotDisruptState{InEffect: true}
	}
	until := time.Unix(0, p.Started).UTC().Add(d)
	return DoNotDisruptState{InEffect: now.Before(until), Until: until}
}

// protection is how long a pod is not to be disrupted.
func protection(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err == nil && d <= 0 {
		err = fmt.Errorf("duration %q is not positive", value)
	}
	return d, err
}

// DoNotDisruptFault says why a pod's do-not-disrupt annotation is Invalid; nil if it is not.
func DoNotDisruptFault(p *world.Pod, now time.Time) error {
	if !DoNotDisrupt(p, now).Invalid {
		return nil
	}
	_, err := protection(p.Class.Annotations[karpv1.DoNotDisruptAnnotationKey])
	return err
}

// ToleratesDisrupted reports that the pods of a class tolerate the taint karpenter.sh/disrupted:NoSchedule: a
// drain does not evict them.
func ToleratesDisrupted(c *world.PodClass) bool {
	return Tolerates(c.Spec.Tolerations, karpv1.DisruptedTaint())
}

// Tolerates reports that one of the tolerations covers the taint.
func Tolerates(tolerations []corev1.Toleration, taint corev1.Taint) bool {
	for i := range tolerations {
		if tolerates(&tolerations[i], &taint) {
			return true
		}
	}
	return false
}

// tolerates follows the core API: an empty key with Exists covers all keys, an empty effect all effects.
func tolerates(t *corev1.Toleration, taint *corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect {
		return false
	}
	switch t.Operator {
	case corev1.TolerationOpExists:
		return t.Key == "" || t.Key == taint.Key
	case corev1.TolerationOpEqual, "":
		return t.Key == taint.Key && t.Value == taint.Value
	}
	return false
}

// IsEvictable reports that a drain would evict the pod: it is active, not static, does not tolerate the
// disrupted taint and is not protected.
func IsEvictable(p *world.Pod, now time.Time) bool {
	return p.Active() && !p.Class.Static() && !ToleratesDisrupted(p.Class) && !DoNotDisrupt(p, now).InEffect
}
