package plan

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podSpecOf is the spec of a pod, or of the pods of a workload, and its path; nil if there is none.
func podSpecOf(m metav1.Object) (*corev1.PodSpec, string) {
	switch o := m.(type) {
	case *corev1.Pod:
		return &o.Spec, "spec"
	case *corev1.PodTemplate:
		return &o.Template.Spec, "template.spec"
	case *appsv1.DaemonSet:
		return &o.Spec.Template.Spec, "spec.template.spec"
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec, "spec.template.spec"
	case *appsv1.StatefulSet:
		return &o.Spec.Template.Spec, "spec.template.spec"
	case *appsv1.ReplicaSet:
		return &o.Spec.Template.Spec, "spec.template.spec"
	case *batchv1.Job:
		return &o.Spec.Template.Spec, "spec.template.spec"
	}
	return nil, ""
}

// negativeAmount is the first field of a pod's spec that asks for less than nothing of a resource, which the
// API server refuses; "" if there is none.
func negativeAmount(m metav1.Object) (field, amount string) {
	spec, path := podSpecOf(m)
	if spec == nil {
		return "", ""
	}
	look := func(path string, list corev1.ResourceList) {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if q := list[name]; field == "" && q.Sign() < 0 {
				field, amount = path+"."+string(name), q.String()
			}
		}
	}
	of := func(path string, r corev1.ResourceRequirements) {
		look(path+".resources.requests", r.Requests)
		look(path+".resources.limits", r.Limits)
	}
	for i, c := range spec.Containers {
		of(fmt.Sprintf("%s.containers[%d]", path, i), c.Resources)
	}
	for i, c := range spec.InitContainers {
		of(fmt.Sprintf("%s.initContainers[%d]", path, i), c.Resources)
	}
	if spec.Resources != nil {
		of(path, *spec.Resources)
	}
	look(path+".overhead", spec.Overhead)
	return field, amount
}
