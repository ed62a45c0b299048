package world

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
)

// CapacityBuffers by namespace/name.
func (o *objects) CapacityBuffers() []*bufferv1beta1.CapacityBuffer { return o.buffers.list() }

// CapacityBuffer of a namespace/name.
func (o *objects) CapacityBuffer(key string) *bufferv1beta1.CapacityBuffer { return o.buffers.get(key) }

// PodTemplate of a namespace/name. Only those that CapacityBuffers name are known; so it is with what
// follows.
func (o *objects) PodTemplate(key string) *corev1.PodTemplate { return o.podTemplates.get(key) }

// Deployment of a namespace/name.
func (o *objects) Deployment(key string) *appsv1.Deployment { return o.deployments.get(key) }

// StatefulSet of a namespace/name.
func (o *objects) StatefulSet(key string) *appsv1.StatefulSet { return o.statefulSets.get(key) }

// ReplicaSet of a namespace/name.
func (o *objects) ReplicaSet(key string) *appsv1.ReplicaSet { return o.replicaSets.get(key) }

// ClassOfTemplate is the class of the virtual pods of a template (reference: scheduling §15): what admission
// would change in pods is not known, and volumes do not count, for their claims do not exist.
func ClassOfTemplate(t *corev1.PodTemplateSpec) *PodClass {
	spec := t.Spec
	spec.Volumes, spec.NodeName = nil, ""
	p := &corev1.Pod{Spec: spec}
	p.Labels = t.Labels
	return classOf(p)
}
