package world

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
)

// YoungFor is how long a node is young: a pod that has to leave it earlier has found no place there.
const YoungFor = 10 * time.Minute

// deletedByTaintManager is the reason of the condition DisruptionTarget of pods that do not tolerate a
// NoExecute taint of their node, or not for longer.
const deletedByTaintManager = "DeletionByTaintManager"

// flees reports that a pod that is evicted, as obj says, flees from a young node of a NodePool.
func (t *nodes) flees(p *Pod, obj *corev1.Pod) bool {
	n := t.Node(p.NodeName)
	if n == nil || n.Object.Labels[karpv1.NodePoolLabelKey] == "" || podCondition(&obj.Status, corev1.DisruptionTarget).Reason != deletedByTaintManager {
		return false
	}
	return time.Unix(0, p.EvictedAt).Sub(n.Object.CreationTimestamp.Time).Abs() < YoungFor
}

// displaces is how many nodes in a row the successor of a pod has been displaced from.
func (p *Pod) displaces() uint8 {
	if !p.Fleeing {
		return 0
	}
	return min(p.Displaced, math.MaxUint8-1) + 1
}
