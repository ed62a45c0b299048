package remedy

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/world"
)

// podEdits are what may be changed of a pod, one thing at a time.
func podEdits(p *world.Pod) (edits []edit) {
	spec := p.Class.Spec
	for _, key := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		edits = append(edits, edit{text: fmt.Sprintf("drop nodeSelector %s=%s of the pod", key, spec.NodeSelector[key]),
			pod: func(o *corev1.Pod) { delete(o.Spec.NodeSelector, key) }})
	}
	if a := spec.Affinity; a != nil {
		if a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			edits = append(edits, edit{text: "drop the required node affinity of the pod",
				pod: func(o *corev1.Pod) { o.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil }})
		}
		if a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			edits = append(edits, edit{text: "drop the required pod affinity of the pod",
				pod: func(o *corev1.Pod) { o.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil }})
		}
		if a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			edits = append(edits, edit{text: "drop the required pod anti-affinity of the pod",
				pod: func(o *corev1.Pod) {
					o.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
				}})
		}
	}
	for i, c := range spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			edits = append(edits, edit{text: fmt.Sprintf("let the pod's spread over %s be ScheduleAnyway", c.TopologyKey),
				pod: func(o *corev1.Pod) { o.Spec.TopologySpreadConstraints[i].WhenUnsatisfiable = corev1.ScheduleAnyway }})
		}
	}
	return edits
}
