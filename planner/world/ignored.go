package world

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	karpv1 "millwright/api/karpenter/v1"
)

// podEventOn notes that a pod came to a node, ended on it or is going, unless a DisruptionPolicy that selects
// the node's NodePool ignores such pods. What counted before the policy was seen goes on counting.
func podEventOn(w *World, p *Pod, at time.Time) {
	if !ignoresPod(w, p) {
		w.nodes.event(w.owner, p.NodeName, at)
	}
}

// ignoresPod reports that the events of a pod restart no quiet time where it runs. A policy that can't be
// read ignores nothing.
func ignoresPod(w *World, p *Pod) bool {
	if w.policies.rows.Len() == 0 {
		return false
	}
	n := w.Node(p.NodeName)
	if n == nil {
		return false
	}
	pool := w.NodePool(n.Object.Labels[karpv1.NodePoolLabelKey])
	if pool == nil {
		return false
	}
	for _, o := range w.DisruptionPolicies() {
		if o.Spec.IgnorePodEvents != nil && selects(o.Spec.IgnorePodEvents, p.Class.Labels) &&
			(o.Spec.NodePoolSelector == nil || selects(o.Spec.NodePoolSelector, pool.Labels)) {
			return true
		}
	}
	return false
}

func selects(s *metav1.LabelSelector, set map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(set))
}
