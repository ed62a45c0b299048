package resource_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	k8sresource "k8s.io/apimachinery/pkg/api/resource"

	"millwright/planner/resource"
)

// Quantities become integers once: milli-CPU, and bytes rounded up.
func ExampleVector_Fits() {
	pod := resource.From(corev1.ResourceList{
		corev1.ResourceCPU: k8sresource.MustParse("1500m"), corev1.ResourceMemory: k8sresource.MustParse("1Gi"),
	})
	node := resource.Vector{MilliCPU: 2000, Memory: 4 << 30, Pods: 10}
	fmt.Println(pod.MilliCPU, pod.Memory, pod.Fits(node), pod.Add(pod).Fits(node))
	// Output: 1500 1073741824 true false
}
