package workload

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpv1 "millwright/api/karpenter/v1"
)

// The problems below are as bad for a planner as a cluster could make them: no two pods are equal, so nothing
// learned about one holds for another.

// ownSize gives a pod requests that no other has.
func ownSize(pod *corev1.Pod, i int) {
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		"cpu": *resource.NewMilliQuantity(int64(100+i%1901), resource.DecimalSI), "memory": *resource.NewQuantity(int64(256<<20+i<<12), resource.BinarySI)}
}

// Apart: n pods, no two alike, each of which must have a node without any of the others: all are of one app
// with hostname anti-affinity (a third), or each app of ten pods is spread by hostname (a third), or each pod
// repels itself alone.
func Apart(n int) *Problem {
	p := &Problem{Catalogue: DiverseTypes()}
	p.addObjects(Pool("default"))
	for i := range n {
		pod := Pod(fmt.Sprintf("pod-%06d", i), "1", "1Gi")
		ownSize(pod, i)
		switch i % 3 {
		case 0:
			pod.Labels = map[string]string{"app": "all", "own": strconv.Itoa(i)}
			pod.Spec.Affinity = apartFrom(map[string]string{"app": "all"})
		case 1:
			pod.Labels = map[string]string{"app": strconv.Itoa(i / 30), "own": strconv.Itoa(i)}
			pod.Spec.TopologySpreadConstraints = spread(corev1.LabelHostname, 1, corev1.DoNotSchedule, map[string]string{"app": strconv.Itoa(i / 30)})
		case 2:
			pod.Labels = map[string]string{"own": strconv.Itoa(i)}
			pod.Spec.Affinity = apartFrom(pod.Labels)
		}
		p.addObjects(pod)
	}
	return p
}

func apartFrom(labels map[string]string) *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term(corev1.LabelHostname, labels)}}}
}

// Refused: n pods, no two alike, that fit no instance type, with preferences that are given up one by one, on
// 12 NodePools and 700 real instance types.
func Refused(n int) *Problem {
	p := &Problem{Catalogue: RealTypes(700)}
	p.realisticPools()
	for i := range n {
		pod := Pod(fmt.Sprintf("pod-%06d", i), "1", "1Gi")
		ownSize(pod, i)
		pod.Labels = map[string]string{"own": strconv.Itoa(i)}
		pod.Spec.Containers[0].Resources.Requests["memory"] = *resource.NewQuantity(int64(100<<40+i<<12), resource.BinarySI)
		prefer(pod)
		p.addObjects(pod)
	}
	return p
}

// prefer gives a pod four preferences.
func prefer(pod *corev1.Pod) {
	pod.Spec.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
			{Weight: 2, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"spot"}}}}},
			{Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"arm64"}}}}}}},
		PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			{Weight: 10, PodAffinityTerm: term(corev1.LabelTopologyZone, pod.Labels)},
			{Weight: 1, PodAffinityTerm: term(corev1.LabelHostname, pod.Labels)}}},
	}
	pod.Spec.TopologySpreadConstraints = spread(corev1.LabelTopologyZone, 1, corev1.ScheduleAnyway, pod.Labels)
}

// Chain: n pods, each of which fills a node and must be in the zone of the one before it, asked from the end.
func Chain(n int) *Problem {
	p := &Problem{Catalogue: DiverseTypes()}
	p.addObjects(Pool("default"))
	for i := range n {
		pod := Pod(fmt.Sprintf("pod-%06d", i), "1", "1Gi")
		pod.Labels = map[string]string{"app": strconv.Itoa(i)}
		pod.Spec.Containers[0].Resources.Requests["cpu"] = *resource.NewMilliQuantity(int64(300_000+i), resource.DecimalSI)
		if i == 0 {
			pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "zone-1"}
		} else {
			pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				term(corev1.LabelTopologyZone, map[string]string{"app": strconv.Itoa(i - 1)})}}}
		}
		p.addObjects(pod)
	}
	return p
}

// Packed: n pods, no two alike, with preferences, among 2,000 nodes that have a little room each, and 12
// NodePools of 700 real instance types.
func Packed(n int) *Problem {
	p := &Problem{Catalogue: RealTypes(700)}
	p.realisticPools()
	for i := range 2000 {
		name := fmt.Sprintf("node-%04d", i)
		p.addObjects(Node(name, map[string]string{"cpu": "16", "memory": "64Gi", "pods": "234"}, map[string]string{
			corev1.LabelTopologyZone: fmt.Sprintf("us-west-2%c", 'a'+i%3), corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
			corev1.LabelInstanceTypeStable: "m5.4xlarge", karpv1.CapacityTypeLabelKey: "on-demand", karpv1.NodePoolLabelKey: "pool-01", "team": "1",
		}))
		pod := Pod("run-"+name, "15400m", "50Gi")
		p.addObjects(on(pod, name))
	}
	for i := range n {
		pod := Pod(fmt.Sprintf("pod-%06d", i), "1", "1Gi")
		ownSize(pod, i)
		pod.Labels = map[string]string{"app": strconv.Itoa(i % 500), "own": strconv.Itoa(i)}
		prefer(pod)
		pod.Spec.TopologySpreadConstraints[0].LabelSelector = selector(map[string]string{"app": pod.Labels["app"]})
		p.addObjects(pod)
	}
	return p
}
