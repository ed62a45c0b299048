package world_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	pt "millwright/planner/plannertest"
	"millwright/planner/world"
)

func container(name string, pairs ...string) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: pt.Resources(pairs...)}}
}

func sidecar(name string, pairs ...string) corev1.Container {
	c := container(name, pairs...)
	always := corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

// The rules are those of reference/scheduling.md §4.
func TestPodRequests(t *testing.T) {
	cases := map[string]struct {
		spec   corev1.PodSpec
		status *corev1.PodStatus
		cpu    int64
		memory int64
	}{
		"containers add up": {spec: corev1.PodSpec{Containers: []corev1.Container{container("a", "cpu", "1", "memory", "1"), container("b", "cpu", "500m")}}, cpu: 1500, memory: 1},
		"a larger init container counts alone": {spec: corev1.PodSpec{
			Containers: []corev1.Container{container("a", "cpu", "1", "memory", "5")}, InitContainers: []corev1.Container{container("i", "cpu", "3", "memory", "2")},
		}, cpu: 3000, memory: 5},
		"a sidecar runs beside containers and beside later init containers": {spec: corev1.PodSpec{
			Containers: []corev1.Container{container("a", "cpu", "1")}, InitContainers: []corev1.Container{sidecar("s", "cpu", "2"), container("i", "cpu", "3")},
		}, cpu: 5000},
		"an init container before the sidecar is alone": {spec: corev1.PodSpec{
			Containers: []corev1.Container{container("a", "cpu", "1")}, InitContainers: []corev1.Container{container("i", "cpu", "3"), sidecar("s", "cpu", "1")},
		}, cpu: 3000},
		"pod-level requests replace, resource by resource": {spec: corev1.PodSpec{
			Containers: []corev1.Container{container("a", "cpu", "1", "memory", "7")}, Resources: &corev1.ResourceRequirements{Requests: pt.Resources("cpu", "4")},
		}, cpu: 4000, memory: 7},
		"overhead is added": {spec: corev1.PodSpec{Containers: []corev1.Container{container("a", "cpu", "1")}, Overhead: pt.Resources("cpu", "250m")}, cpu: 1250},
		"a limit stands in for a missing request": {spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "a", Resources: corev1.ResourceRequirements{Limits: pt.Resources("cpu", "2", "memory", "3"), Requests: pt.Resources("memory", "1")},
		}}}, cpu: 2000, memory: 1},
		"a resize in progress holds the larger": {
			spec:   corev1.PodSpec{Containers: []corev1.Container{container("a", "cpu", "1")}},
			status: &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a", Resources: &corev1.ResourceRequirements{Requests: pt.Resources("cpu", "3")}, AllocatedResources: pt.Resources("cpu", "2")}}},
			cpu:    3000,
		},
		"an infeasible resize leaves the spec out": {
			spec: corev1.PodSpec{Containers: []corev1.Container{container("a", "cpu", "64")}},
			status: &corev1.PodStatus{
				ContainerStatuses: []corev1.ContainerStatus{{Name: "a", Resources: &corev1.ResourceRequirements{Requests: pt.Resources("cpu", "3")}}},
				Conditions:        []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible}},
			},
			cpu: 3000,
		},
		"negative and absurd amounts are bounded": {spec: corev1.PodSpec{Containers: []corev1.Container{container("a", "cpu", "-5", "memory", "9E")}}, memory: 1 << 52},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := world.PodRequests(&tc.spec, tc.status)
			if got.MilliCPU != tc.cpu || got.Memory != tc.memory || got.Pods != 1 {
				t.Errorf("got %+v, want cpu %d, memory %d, one pod", got, tc.cpu, tc.memory)
			}
		})
	}
}

// Limits are put together as requests are, of what is limited alone.
func TestPodLimits(t *testing.T) {
	limited := func(c corev1.Container) corev1.Container {
		c.Resources = corev1.ResourceRequirements{Limits: c.Resources.Requests, Requests: pt.Resources("cpu", "1m", "memory", "9", "ephemeral-storage", "9")}
		return c
	}
	for name, c := range map[string]struct {
		spec        corev1.PodSpec
		cpu, memory int64
	}{
		"containers add up": {spec: corev1.PodSpec{Containers: []corev1.Container{limited(container("a", "cpu", "1", "memory", "1")), limited(container("b", "cpu", "500m"))}}, cpu: 1500, memory: 1},
		"a larger init container counts alone": {spec: corev1.PodSpec{
			Containers: []corev1.Container{limited(container("a", "cpu", "1", "memory", "5"))}, InitContainers: []corev1.Container{limited(container("i", "cpu", "3", "memory", "2"))},
		}, cpu: 3000, memory: 5},
		"a sidecar runs beside containers and beside later init containers": {spec: corev1.PodSpec{
			Containers: []corev1.Container{limited(container("a", "cpu", "1"))}, InitContainers: []corev1.Container{limited(sidecar("s", "cpu", "2")), limited(container("i", "cpu", "3"))},
		}, cpu: 5000},
		"pod-level limits replace, resource by resource": {spec: corev1.PodSpec{
			Containers: []corev1.Container{limited(container("a", "cpu", "1", "memory", "7"))}, Resources: &corev1.ResourceRequirements{Limits: pt.Resources("cpu", "4")},
		}, cpu: 4000, memory: 7},
		"overhead is added where there is a limit": {spec: corev1.PodSpec{
			Containers: []corev1.Container{limited(container("a", "cpu", "1"))}, Overhead: pt.Resources("cpu", "250m", "memory", "1"),
		}, cpu: 1250},
	} {
		t.Run(name, func(t *testing.T) {
			if v := world.PodLimits(&c.spec); v.MilliCPU != c.cpu || v.Memory != c.memory || v.EphemeralStorage != 0 || v.Pods != 1 {
				t.Errorf("%+v, want cpu %d, memory %d and one pod", v, c.cpu, c.memory)
			}
		})
	}
}
