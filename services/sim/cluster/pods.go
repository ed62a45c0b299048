package cluster

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/events"
	"millwright/planner/resource"
	"millwright/planner/world"
)

const defaultGrace = 30

func graceOf(p *corev1.Pod) int64 {
	if g := p.Spec.TerminationGracePeriodSeconds; g != nil {
		return *g
	}
	return defaultGrace
}

func isTerminal(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func isReadyPod(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// setPodCondition changes a pod that is not stored yet.
func setPodCondition(p *corev1.Pod, want corev1.PodCondition) {
	for i, c := range p.Status.Conditions {
		if c.Type == want.Type {
			if c.Status == want.Status {
				want.LastTransitionTime = c.LastTransitionTime
			}
			p.Status.Conditions[i] = want
			return
		}
	}
	p.Status.Conditions = append(p.Status.Conditions, want)
}

func requestsOf(p *corev1.Pod) resource.Vector { return world.PodRequests(&p.Spec, nil) }

// free is what pods may still request of a node.
func (k *Cluster) free(n *corev1.Node) resource.Vector {
	left := resource.From(n.Status.Allocatable)
	for _, p := range k.PodsOn(n.Name) {
		if !isTerminal(p) {
			left = left.Sub(requestsOf(p))
		}
	}
	return left
}

// endPod deletes a pod: at once if no kubelet has it, else after its grace period at the latest.
func (k *Cluster) endPod(p *corev1.Pod, grace int64) {
	if p.Spec.NodeName == "" || grace == 0 {
		k.remove(events.KindPod, keyOf(p))
		return
	}
	end := metav1.NewTime(k.clock.Now().Add(time.Duration(grace) * time.Second).Truncate(time.Second))
	if p.DeletionTimestamp != nil && !end.Before(p.DeletionTimestamp) {
		return
	}
	o := p.DeepCopy()
	o.DeletionTimestamp, o.DeletionGracePeriodSeconds = &end, &grace
	k.put(events.KindPod, o)
	uid, node := p.UID, p.Spec.NodeName
	k.clock.After(k.between(200, int(max(grace, 1)*1000)), func() { k.killPod(keyOf(o), uid, node) })
}

// killPod is what kubelet does when the containers have ended; a dead one does nothing.
func (k *Cluster) killPod(key string, uid types.UID, node string) {
	m := k.machines[node]
	if p := k.Pod(key); p == nil || p.UID != uid || m == nil || m.dead {
		return
	}
	k.remove(events.KindPod, key)
}

// startPod is kubelet's: a bound pod runs.
func (k *Cluster) startPod(key string, uid types.UID, node string) {
	p, m := k.Pod(key), k.machines[node]
	if p == nil || p.UID != uid || p.Status.Phase != corev1.PodPending || p.DeletionTimestamp != nil || m == nil || m.dead {
		return
	}
	o, now := p.DeepCopy(), k.now()
	o.Status.Phase, o.Status.StartTime = corev1.PodRunning, &now
	setPodCondition(o, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now})
	k.put(events.KindPod, o)
}

func tolerated(p *corev1.PodSpec, taints []corev1.Taint) bool {
	for i := range taints {
		if taints[i].Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		if !slices.ContainsFunc(p.Tolerations, func(t corev1.Toleration) bool { return tolerates(&t, &taints[i]) }) {
			return false
		}
	}
	return true
}

func tolerates(t *corev1.Toleration, taint *corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect {
		return false
	}
	if t.Operator == corev1.TolerationOpExists {
		return t.Key == "" || t.Key == taint.Key
	}
	return t.Key == taint.Key && t.Value == taint.Value
}

func carries(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if labels[key] != value {
			return false
		}
	}
	return true
}
