package plannertest

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
)

// PodTemplate of one container with requests, in the namespace default.
func PodTemplate(name string, requests ...string) *corev1.PodTemplate {
	t := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("template-" + name), Generation: 1}}
	t.Template.Labels = map[string]string{"app": name}
	t.Template.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: Resources(requests...)}}}
	return t
}

// Buffer of so many pods of the PodTemplate of its own name, in the namespace default.
func Buffer(name string, replicas int32) *bufferv1beta1.CapacityBuffer {
	return &bufferv1beta1.CapacityBuffer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("buffer-" + name), Generation: 1},
		Spec:       bufferv1beta1.CapacityBufferSpec{PodTemplateRef: &bufferv1beta1.LocalObjectRef{Name: name}, Replicas: &replicas},
	}
}
