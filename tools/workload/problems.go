package workload

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
)

func selector(labels map[string]string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labels}
}

func spread(key string, skew int32, when corev1.UnsatisfiableConstraintAction, labels map[string]string) []corev1.TopologySpreadConstraint {
	return []corev1.TopologySpreadConstraint{{MaxSkew: skew, TopologyKey: key, WhenUnsatisfiable: when, LabelSelector: selector(labels)}}
}

func term(key string, labels map[string]string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: selector(labels)}
}

// Diverse: n pods in fifths (plain, zone spread, hostname spread, zone affinity to themselves, hostname
// anti-affinity on one label) on DiverseTypes.
func Diverse(n int) *Problem {
	p := &Problem{Catalogue: DiverseTypes()}
	p.addObjects(Pool("default"))
	d := draw(1)
	for i := range n {
		pod := Pod(fmt.Sprintf("pod-%06d", i), d.of("100m", "250m", "500m", "1000m", "1500m"),
			d.of("100Mi", "256Mi", "512Mi", "1024Mi", "2048Mi", "4096Mi"))
		value := string(rune('a' + d.next(7)))
		pod.Labels = map[string]string{"my-label": value}
		switch i * 5 / n {
		case 1:
			pod.Spec.TopologySpreadConstraints = spread(corev1.LabelTopologyZone, 1, corev1.DoNotSchedule, pod.Labels)
		case 2:
			pod.Spec.TopologySpreadConstraints = spread(corev1.LabelHostname, 1, corev1.DoNotSchedule, pod.Labels)
		case 3:
			pod.Labels = map[string]string{"my-affinity": value}
			pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term(corev1.LabelTopologyZone, pod.Labels)}}}
		case 4:
			pod.Labels = map[string]string{"app": "nginx"}
			pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term(corev1.LabelHostname, pod.Labels)}}}
		}
		p.addObjects(pod)
	}
	return p
}

// Preferences: n pods with a zone preference that can be met, a zone anti-preference that cannot, and a
// hostname anti-preference that can.
func Preferences(n int) *Problem {
	p := &Problem{Catalogue: DiverseTypes()}
	p.addObjects(Pool("default"))
	for i := range n {
		pod := Pod(fmt.Sprintf("pod-%06d", i), "1", "1Gi")
		pod.Labels = map[string]string{"app": "nginx"}
		pod.Spec.Affinity = &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"zone-1"}}}}}}},
			PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{Weight: 10, PodAffinityTerm: term(corev1.LabelTopologyZone, pod.Labels)},
				{Weight: 1, PodAffinityTerm: term(corev1.LabelHostname, pod.Labels)},
			}},
		}
		p.addObjects(pod)
	}
	return p
}

// Realistic: n pending pods of 300 Deployments, 12 NodePools, 700 real instance types, and 1,000 nodes with
// 20 pods each.
func Realistic(n int) *Problem {
	p := &Problem{Catalogue: RealTypes(700)}
	p.realisticPools()
	for i := range 1000 {
		name := fmt.Sprintf("node-%04d", i)
		p.addObjects(Node(name, map[string]string{"cpu": "16", "memory": "64Gi", "pods": "234"}, map[string]string{
			corev1.LabelTopologyZone: fmt.Sprintf("us-west-2%c", 'a'+i%3), corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
			corev1.LabelInstanceTypeStable: "m5.4xlarge", karpv1.CapacityTypeLabelKey: "on-demand", karpv1.NodePoolLabelKey: "pool-01", "team": "1",
		}))
		for j := range 20 {
			pod := Pod(fmt.Sprintf("run-%05d", i*20+j), "760m", "3Gi")
			pod.Labels = map[string]string{"app": fmt.Sprint((i*20 + j) % 300)}
			p.addObjects(on(pod, name))
		}
	}
	d := draw(7)
	for i := range 300 {
		deployment := realisticPod(i, &d)
		for j := range n / 300 {
			p.addObjects(copyOf(deployment, fmt.Sprintf("app-%03d-%03d", i, j)))
		}
	}
	return p
}

func (p *Problem) realisticPools() {
	for i := range 12 {
		pool := General(fmt.Sprintf("pool-%02d", i))
		w := int32(i % 4)
		pool.Spec.Weight = &w
		pool.Spec.Template.Labels = map[string]string{"team": fmt.Sprint(i)}
		if i%3 == 0 {
			pool.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "team", Value: fmt.Sprint(i), Effect: corev1.TaintEffectNoSchedule}}
		}
		if i%4 == 0 {
			pool.Spec.Limits = karpv1.Limits{"cpu": resource.MustParse("5000")}
		}
		if i%2 == 0 {
			Require(pool, karpv1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, "on-demand")
		}
		p.addObjects(pool)
	}
}

func realisticPod(i int, d *draw) *corev1.Pod {
	pod := Pod("", d.of("100m", "250m", "500m", "1", "2", "4"), d.of("256Mi", "1Gi", "4Gi", "8Gi"))
	pod.Labels = map[string]string{"app": fmt.Sprint(i)}
	switch i % 5 {
	case 0:
		pod.Spec.NodeSelector = map[string]string{"team": fmt.Sprint(i % 12)}
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
	case 1:
		pod.Spec.TopologySpreadConstraints = spread(corev1.LabelTopologyZone, 1, corev1.DoNotSchedule, pod.Labels)
	case 2:
		pod.Spec.TopologySpreadConstraints = spread(corev1.LabelHostname, 5, corev1.ScheduleAnyway, pod.Labels)
	case 3:
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			{Weight: 1, PodAffinityTerm: term(corev1.LabelTopologyZone, pod.Labels)}}}}
	}
	return pod
}

// Single: one pending pod, 2,000 nodes that are nearly full, and 60,000 running pods of 500 workloads.
func Single() *Problem {
	p := &Problem{Catalogue: RealTypes(700)}
	p.addObjects(General("default"))
	for i := range 2000 {
		p.addObjects(Node(fmt.Sprintf("node-%04d", i), map[string]string{"cpu": "16", "memory": "64Gi", "pods": "234"}, map[string]string{
			corev1.LabelTopologyZone: "us-west-2a", corev1.LabelInstanceTypeStable: "m5.4xlarge", karpv1.CapacityTypeLabelKey: "spot", karpv1.NodePoolLabelKey: "default",
		}))
	}
	for i := range 60000 {
		pod := Pod(fmt.Sprintf("pod-%05d", i), "520m", "1Gi")
		pod.Labels = map[string]string{"app": fmt.Sprint(i % 500)}
		p.addObjects(on(pod, fmt.Sprintf("node-%04d", i%2000)))
	}
	p.addObjects(Pod("new", "1", "1Gi"))
	return p
}

// Batch is a generated batch of pods as clusters see them: some Deployments of up to 60 pods, sized as people
// size them, some with spread, selectors or anti-affinity, on one to three pools of real instance types.
func Batch(seed uint64) *Problem {
	d := draw(seed*2654435761 + 12345)
	for range 4 {
		d.next(2)
	}
	p := &Problem{Catalogue: RealTypes([]int{0, 700, 300, 120}[d.next(4)])}
	for i := range 1 + d.next(3) {
		p.addObjects(batchPool(fmt.Sprintf("pool-%d", i), &d))
	}
	for i := range 1 + d.next(25) {
		deployment := batchPod(i, &d)
		for j := range 1 + d.next([]int{3, 20, 60}[d.next(3)]) {
			p.addObjects(copyOf(deployment, fmt.Sprintf("app-%02d-%02d", i, j)))
		}
	}
	return p
}

func batchPool(name string, d *draw) *karpv1.NodePool {
	pool := General(name)
	switch d.next(4) {
	case 0:
		pool = Pool(name) // whatever EC2 has
	case 1:
		pool.Spec.Template.Spec.Requirements = pool.Spec.Template.Spec.Requirements[1:] // either architecture
	}
	switch d.next(3) {
	case 0:
		Require(pool, karpv1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, "on-demand")
	case 1:
		Require(pool, karpv1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, "spot")
	}
	w := int32(d.next(3))
	pool.Spec.Weight = &w
	return pool
}

func batchPod(i int, d *draw) *corev1.Pod {
	pod := Pod("", d.of("50m", "100m", "250m", "500m", "750m", "1", "1500m", "2", "3", "4", "7"),
		d.of("64Mi", "128Mi", "256Mi", "512Mi", "1Gi", "2Gi", "3Gi", "4Gi", "8Gi", "14Gi"))
	pod.Labels = map[string]string{"app": fmt.Sprint(i)}
	switch d.next(8) {
	case 0:
		pod.Spec.TopologySpreadConstraints = spread(corev1.LabelTopologyZone, 1, corev1.DoNotSchedule, pod.Labels)
	case 1:
		pod.Spec.TopologySpreadConstraints = spread(corev1.LabelHostname, 1+int32(d.next(3)), corev1.DoNotSchedule, pod.Labels)
	case 2:
		pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: fmt.Sprintf("us-west-2%c", 'a'+d.next(3))}
	case 3:
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term(corev1.LabelHostname, pod.Labels)}}}
	}
	return pod
}
