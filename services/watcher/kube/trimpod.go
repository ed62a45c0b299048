package kube

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apikube "millwright/services/internal/kube"
)

func trimPod(p *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: meta(p.ObjectMeta, corev1.PodDeletionCost),
		Spec:       trimPodSpec(&p.Spec),
		Status:     trimPodStatus(p),
	}
}

// trimPodSpec keeps what decides where a pod fits, how long it takes to terminate, and what it needs.
func trimPodSpec(s *corev1.PodSpec) corev1.PodSpec {
	return corev1.PodSpec{
		Volumes: trimVolumes(s.Volumes), InitContainers: trimContainers(s.InitContainers, s.HostNetwork), Containers: trimContainers(s.Containers, s.HostNetwork),
		RestartPolicy: s.RestartPolicy, TerminationGracePeriodSeconds: s.TerminationGracePeriodSeconds,
		NodeSelector: s.NodeSelector, NodeName: s.NodeName, HostNetwork: s.HostNetwork, Affinity: s.Affinity,
		SchedulerName: s.SchedulerName, Tolerations: s.Tolerations, PriorityClassName: s.PriorityClassName, Priority: s.Priority,
		PreemptionPolicy: s.PreemptionPolicy, Overhead: s.Overhead, TopologySpreadConstraints: s.TopologySpreadConstraints,
		OS: s.OS, SchedulingGates: s.SchedulingGates, ResourceClaims: trimResourceClaims(s.ResourceClaims), Resources: trimResources(s.Resources),
		RuntimeClassName: s.RuntimeClassName,
	}
}

func trimContainers(all []corev1.Container, hostNetwork bool) []corev1.Container {
	var kept []corev1.Container
	for _, c := range all {
		kept = append(kept, corev1.Container{
			Name: c.Name, Resources: *trimResources(&c.Resources), Ports: hostPorts(c.Ports, hostNetwork), RestartPolicy: c.RestartPolicy,
		})
	}
	return kept
}

// trimResources keeps amounts. Whether a pod has resource claims is known from its own list of them.
func trimResources(r *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if r == nil || r.Claims == nil {
		return r
	}
	return &corev1.ResourceRequirements{Limits: r.Limits, Requests: r.Requests}
}

// trimResourceClaims keeps only that there are some.
func trimResourceClaims(all []corev1.PodResourceClaim) []corev1.PodResourceClaim {
	var kept []corev1.PodResourceClaim
	for _, c := range all {
		kept = append(kept, corev1.PodResourceClaim{Name: c.Name})
	}
	return kept
}

// hostPorts keeps the ports that two pods cannot both use on a node: on its network these are all, though
// templates do not say so.
func hostPorts(all []corev1.ContainerPort, hostNetwork bool) []corev1.ContainerPort {
	var kept []corev1.ContainerPort
	for _, p := range all {
		if p.HostPort != 0 || hostNetwork {
			p.Name = ""
			kept = append(kept, p)
		}
	}
	return kept
}

// trimVolumes keeps the volumes that bind a pod to a zone or count against a node's limit.
func trimVolumes(all []corev1.Volume) []corev1.Volume {
	var kept []corev1.Volume
	for _, v := range all {
		switch {
		case v.PersistentVolumeClaim != nil:
			kept = append(kept, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.PersistentVolumeClaim.ClaimName},
			}})
		case v.Ephemeral != nil: // its claim exists under a name made of the pod's and the volume's
			kept = append(kept, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
		}
	}
	return kept
}

func trimPodStatus(p *corev1.Pod) corev1.PodStatus {
	s := &p.Status
	return corev1.PodStatus{
		Phase: s.Phase, NominatedNodeName: nominated(p), StartTime: s.StartTime, Conditions: trimPodConditions(p),
		InitContainerStatuses: resizing(s.InitContainerStatuses, p.Spec.InitContainers),
		ContainerStatuses:     resizing(s.ContainerStatuses, p.Spec.Containers),
		AllocatedResources:    s.AllocatedResources, Resources: trimResources(s.Resources),
	}
}

// nominated is the node that kube-scheduler has nominated. A placement hint means nothing to planners: the
// pod still waits for the recorded target.
func nominated(p *corev1.Pod) string {
	if apikube.IsHint(p) {
		return ""
	}
	return p.Status.NominatedNodeName
}

// podConditions that planners read.
var podConditions = map[corev1.PodConditionType]bool{
	corev1.PodScheduled: true, corev1.PodReady: true, corev1.DisruptionTarget: true,
	corev1.PodResizePending: true, corev1.PodResizeInProgress: true,
}

// trimPodConditions keeps a condition's message only where it is kube-scheduler's, with the time at which
// that was written, of the same or another text, as lastProbeTime, which kube-scheduler leaves empty.
func trimPodConditions(p *corev1.Pod) []corev1.PodCondition {
	var kept []corev1.PodCondition
	for _, c := range p.Status.Conditions {
		if !podConditions[c.Type] {
			continue
		}
		k := corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime}
		if c.Type == corev1.PodScheduled {
			k.Message, k.LastProbeTime = c.Message, c.LastProbeTime
			if c.Status == corev1.ConditionFalse {
				k.LastProbeTime = latest(k.LastProbeTime, scheduledWritten(p.ManagedFields))
			}
		}
		kept = append(kept, k)
	}
	return kept
}

// scheduledWritten is when somebody who wrote the condition PodScheduled wrote to the pod's status last, with
// another content than before; zero if nobody did.
func scheduledWritten(managers []metav1.ManagedFieldsEntry) (at metav1.Time) {
	for _, m := range managers {
		if m.Time != nil && m.FieldsV1 != nil && strings.Contains(m.FieldsV1.GetRawString(), `k:{\"type\":\"PodScheduled\"}`) {
			at = latest(at, *m.Time)
		}
	}
	return at
}

func latest(a, b metav1.Time) metav1.Time {
	if a.Before(&b) {
		return b
	}
	return a
}

// resizing keeps the resources of the containers that hold something other than what their spec says. Without
// a status a container holds what its spec says.
func resizing(statuses []corev1.ContainerStatus, containers []corev1.Container) []corev1.ContainerStatus {
	specs := map[string]corev1.ResourceRequirements{}
	for _, c := range containers {
		specs[c.Name] = c.Resources
	}
	var kept []corev1.ContainerStatus
	for _, s := range statuses {
		if !allocatedAsSpecified(s, specs[s.Name]) {
			kept = append(kept, corev1.ContainerStatus{Name: s.Name, AllocatedResources: s.AllocatedResources, Resources: trimResources(s.Resources)})
		}
	}
	return kept
}

func allocatedAsSpecified(s corev1.ContainerStatus, spec corev1.ResourceRequirements) bool {
	if s.Resources != nil && !equalAmounts(s.Resources.Requests, spec.Requests) {
		return false
	}
	return s.AllocatedResources == nil || equalAmounts(s.AllocatedResources, spec.Requests)
}

func equalAmounts(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}
