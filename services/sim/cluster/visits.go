package cluster

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"millwright/events"
)

// Visit runs a pod on a Node for a while, if kube-scheduler would bind it there by what it knows.
func (k *Cluster) Visit(p *corev1.Pod, node string, long time.Duration) {
	if !slices.Contains(k.scheduler.fitting(p), node) {
		return
	}
	k.put(events.KindPod, p)
	k.scheduler.bind(p, node)
	k.clock.After(long, func() {
		if have := k.Pod(keyOf(p)); have != nil {
			k.endPod(have, graceOf(have))
		}
	})
}
