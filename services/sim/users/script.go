package users

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/options"
	"millwright/services/sim/cloud"
	"millwright/services/sim/cluster"
	"millwright/services/sim/stage"
)

// paces are drawn from.
var paces = []int{1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 6, 6, 6, 6, 6, 6}

// drawScript draws the pools and the workload: up to 3 pods, then up to 12 and 4 more, one that never fits,
// then less. One in sixteen is all of that; the others are played in half the time, a third, a quarter or a
// sixth, with fewer pods, and machines that boot as much faster: most bugs need little, and those runs are
// cheap.
func (s *Users) drawScript() stage.Script {
	pace := paces[s.Rng.IntN(len(paces))]
	many := 12 / pace
	x := stage.Script{Pace: pace, Budgets: map[string]intstr.IntOrString{}, Length: s.Millis(130_000/pace, 210_000/pace)}
	x.Lingers = s.Happens(250)
	x.Pools = append(x.Pools, s.drawPool("default", &x))
	if s.Happens(500) {
		x.Pools = append(x.Pools, s.drawPool("extra", &x))
	}
	at := func(from, to int) time.Duration { return s.Millis(from*1000/pace, to*1000/pace) }
	deploy := func(at time.Duration, name string, replicas int) {
		d := s.drawDeployment(name, replicas)
		x.Acts = append(x.Acts, stage.Act{At: at, Name: fmt.Sprintf("deploys %d pods of %s", replicas, name), Do: func() { s.Cluster.Deploy(d) }})
	}
	scale := func(at time.Duration, name string, replicas int) {
		x.Acts = append(x.Acts, stage.Act{At: at, Name: fmt.Sprintf("scales %s to %d", name, replicas), Do: func() { s.Cluster.Scale(name, replicas) }})
	}
	upTo := func(most int) int { return 1 + s.Rng.IntN(max(most/pace, 1)) }
	deploy(at(1, 5), "first", upTo(3))
	deploy(at(20, 40), "second", 2+s.Rng.IntN(many-1))
	deploy(at(20, 45), "third", upTo(4))
	if s.Happens(350) {
		d := cluster.Deployment{Name: stage.NeverFits, Replicas: 1, Labels: map[string]string{"app": stage.NeverFits}, Spec: podSpec("200", "1Gi")}
		x.Acts = append(x.Acts, stage.Act{At: at(30, 60), Name: "deploys a pod that never fits", Do: func() { s.Cluster.Deploy(d) }})
	}
	scale(at(65, 90), "second", s.Rng.IntN(many+1))
	scale(at(75, 110), "first", upTo(8)-1)
	if s.Happens(500) {
		scale(at(100, 115), "third", 0)
		scale(at(115, 130), "third", upTo(6))
	}
	if s.Happens(800) { // nodes that are half empty are left
		d := cluster.Deployment{Name: "burst", Replicas: 2 + 2*s.Rng.IntN(3), Labels: map[string]string{"app": "burst"}, Spec: podSpec(s.OneOf("1500m", "3000m"), "1Gi")}
		x.Acts = append(x.Acts, stage.Act{At: at(20, 40), Name: "deploys large pods", Do: func() { s.Cluster.Deploy(d) }})
		scale(at(60, 80), "burst", 1)
	}
	return x
}

func (s *Users) drawPool(name string, x *stage.Script) *karpv1.NodePool {
	after := []time.Duration{0, 5 * time.Second, 20 * time.Second}[s.Rng.IntN(3)] / time.Duration(x.Pace)
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": name}}, Spec: karpv1.NodePoolSpec{
		Template: karpv1.NodeClaimTemplate{Spec: karpv1.NodeClaimTemplateSpec{
			NodeClassRef: &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: stage.NodeClassName}}},
		Disruption: karpv1.Disruption{ConsolidateAfter: karpv1.NewDuration(after.Truncate(time.Second)), ConsolidationPolicy: s.drawConsolidation(),
			Budgets: []karpv1.Budget{{Nodes: s.OneOf("1", "2", "50%", "100%")}}},
	}}
	spec := &p.Spec.Template.Spec
	switch s.Rng.IntN(3) {
	case 0:
		spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn,
			Values: []string{s.OneOf(karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot)}}}
	case 1:
		spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn,
			Values: []string{"c5.large", "m5.large", "m5.xlarge"}}}
	}
	if s.Happens(300) {
		spec.Taints = []corev1.Taint{{Key: "team", Value: name, Effect: corev1.TaintEffectNoSchedule}}
	}
	if s.Happens(250) {
		spec.StartupTaints = []corev1.Taint{{Key: cluster.StartupTaintKey, Effect: corev1.TaintEffectNoSchedule}}
	}
	if s.Happens(300) {
		p.Spec.Template.Labels = map[string]string{"team": name}
	}
	if s.Happens(250) {
		x.Expires = true
		spec.ExpireAfter = karpv1.NewDuration((s.Millis(150_000, 400_000) / time.Duration(min(x.Pace, 3))).Truncate(time.Second))
	}
	if s.Happens(300) {
		spec.TerminationGracePeriod = &metav1.Duration{Duration: s.Millis(20_000, 120_000).Truncate(time.Second)}
	}
	if s.Happens(300) {
		p.Spec.Limits = s.drawLimits(x.Pace)
	}
	return p
}

// drawConsolidation draws which nodes consolidation may take.
func (s *Users) drawConsolidation() karpv1.ConsolidationPolicy {
	switch n := s.Rng.IntN(10); {
	case n < 2:
		return karpv1.ConsolidationPolicyWhenEmpty
	case n < 8:
		return karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized
	}
	return karpv1.ConsolidationPolicyBalanced
}

func (s *Users) drawLimits(pace int) karpv1.Limits {
	cpu := s.OneOf("8", "16", "40")
	if pace > 1 {
		cpu = s.OneOf("4", "8", "16")
	}
	return karpv1.Limits{corev1.ResourceCPU: resource.MustParse(cpu)}
}

func podSpec(cpu, memory string) corev1.PodSpec {
	return corev1.PodSpec{
		Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}}}},
		Tolerations: []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}},
	}
}

func (s *Users) drawDeployment(name string, replicas int) cluster.Deployment {
	d := cluster.Deployment{Name: name, Replicas: replicas, Labels: map[string]string{"app": name},
		Spec: podSpec(s.OneOf("250m", "500m", "900m", "1500m"), s.OneOf("256Mi", "1Gi", "3Gi"))}
	grace := int64(s.Rng.IntN(31))
	d.Spec.TerminationGracePeriodSeconds = &grace
	d.MaySurge = s.Happens(600)
	if s.Happens(120) {
		d.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	}
	if s.Happens(150) {
		d.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: cloud.Zones[s.Rng.IntN(len(cloud.Zones))]}
	}
	return d
}

func (s *Users) drawOptions() planner.Options {
	o := planner.PresentOptions()
	o.LaunchTimeout = s.Millis(60_000, 180_000)
	o.RegistrationTimeout = s.Millis(90_000, 240_000)
	o.OfferingBackoff = s.Millis(10_000, 60_000)
	o.OfferingBackoffMax = 2 * time.Minute
	o.SurgeFirst = true
	if s.Happens(400) {
		_ = o.SetFeatureGates(options.GateSpotToSpot + "=true")
	}
	return o
}

// Furnish creates what exists from the beginning.
func (s *Users) Furnish() {
	k := s.Cluster
	s.reserve()
	k.Apply(events.KindNamespace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}})
	k.Apply(events.KindEC2NodeClass, s.nodeClass(s.Clock.Now()))
	for _, p := range s.Script.Pools {
		k.Apply(events.KindNodePool, p)
	}
	if s.Happens(700) {
		k.Apply(events.KindDaemonSet, daemonSet("agent", []corev1.Toleration{{Operator: corev1.TolerationOpExists}}))
	}
	if s.Happens(300) {
		k.Apply(events.KindDaemonSet, daemonSet("logger", nil))
	}
	for _, name := range []string{"first", "second"} {
		if s.Happens(500) {
			k.Apply(events.KindPodDisruptionBudget, s.drawBudget(name))
		}
	}
	s.furnishPolicies()
	s.furnishFurther()
	s.Visits.furnish()
	s.Recommendations.furnish()
	s.Buffers.furnish()
}

func (s *Users) drawBudget(app string) *policyv1.PodDisruptionBudget {
	one := intstr.FromInt32(int32(1 + s.Rng.IntN(2)))
	s.Script.Budgets[app] = one
	return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app}, Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
}

func daemonSet(name string, tolerations []corev1.Toleration) *appsv1.DaemonSet {
	spec := podSpec("50m", "64Mi")
	spec.Tolerations = append(spec.Tolerations, tolerations...)
	labels := map[string]string{"daemon": name}
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}}}
}

func (s *Users) nodeClass(now time.Time) *awsv1.EC2NodeClass {
	nc := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: stage.NodeClassName}}
	nc.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}
	nc.Status.AMIs = []awsv1.AMI{{ID: "ami-1", Name: "al2023", Requirements: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}}}}}
	for i, zone := range cloud.Zones {
		nc.Status.Subnets = append(nc.Status.Subnets, awsv1.Subnet{ID: fmt.Sprintf("subnet-%d", i+1), Zone: zone, ZoneID: fmt.Sprintf("euc1-az%d", i+1)})
	}
	nc.Status.SecurityGroups = []awsv1.SecurityGroup{{ID: "sg-1"}}
	nc.Status.InstanceProfile = "profile"
	nc.Status.CapacityReservations = s.reservations()
	nc.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionTypeReady, Status: metav1.ConditionTrue, Reason: karpv1.ConditionTypeReady,
		ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(now)}}
	return nc
}
