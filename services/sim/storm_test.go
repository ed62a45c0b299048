package sim

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner"
	"millwright/services/internal/ec2"
	"millwright/services/sim/cloud"
	"millwright/services/sim/cluster"
	"millwright/services/sim/stage"
)

const (
	stormType   = "m5.2xlarge" // holds eight of the pods, as a machine with eight GPUs does
	stormPods   = 600
	stormLength = 90 * time.Minute
	stormClaims = 100
	// Others' pods come every othersEvery and run within othersWithin: a boot.
	othersEvery, othersWithin = 5 * time.Minute, 90 * time.Second
)

// weather is what EC2 has for a storm.
type weather struct {
	// left instances are launched before it has nothing any more; 0: it has nothing from the beginning.
	left int
	// cpu of each pod; accelerated: so is the instance type.
	cpu         string
	accelerated bool
	spot        bool
}

// TestCapacityStorm: 600 pods need one instance type, of which EC2 has nothing in one zone and soon nothing
// at all. NodeClaims for them stay few, though the pods wait on and marks expire, and the pods of another
// NodePool get their nodes as ever.
func TestCapacityStorm(t *testing.T) {
	const eight, one = "970m", "7"
	for title, w := range map[string]weather{
		"one zone dry, then all":                 {left: 8, cpu: eight},
		"all dry":                                {cpu: eight},
		"all dry, spot and on-demand":            {cpu: eight, spot: true},
		"accelerated, a node for each pod":       {cpu: one, accelerated: true, spot: true},
		"accelerated, one zone dry, then all":    {left: 8, cpu: one, accelerated: true, spot: true},
		"accelerated, dry after the first forty": {left: 40, cpu: one, accelerated: true},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			s := newStorm(w)
			s.exhaust(cloud.Zones[0])
			if w.left == 0 {
				s.exhaust(cloud.Zones...)
			}
			launched := 0
			s.Cloud.Watch(func(i *cloud.Instance) {
				if i.InstanceType == stormType && i.State == ec2.StatePending {
					if launched++; launched == w.left {
						s.exhaust(cloud.Zones...)
					}
				}
			})
			s.play(t, w.cpu)
			claims := s.claims["storm"]
			t.Logf("%d NodeClaims for %d pods in %s, %d of them launched; %d for the others' %d pods; %d records",
				claims, stormPods, stormLength, launched, s.claims["other"], s.others, s.Reference.Seq())
			if claims == 0 || claims > stormClaims || launched != w.left {
				t.Errorf("%d NodeClaims in the storm, want at most %d; %d launched, want %d", claims, stormClaims, launched, w.left)
			}
			if s.others == 0 || s.claims["other"] == 0 {
				t.Error("nobody else needed a node")
			}
		})
	}
}

// TestAcceleratedBurst: what EC2 has is not held up for long: nodes come in waves that double.
func TestAcceleratedBurst(t *testing.T) {
	const nodes = 120
	s := newStorm(weather{cpu: "7", accelerated: true})
	launched := map[int]int{}
	total := 0
	s.Cloud.Watch(func(i *cloud.Instance) {
		if i.InstanceType == stormType && i.State == ec2.StatePending {
			launched[int(s.Clock.Now().Sub(stage.Start)/time.Second)]++
			total++
		}
	})
	s.start()
	s.Clock.After(time.Second, func() { s.deploy("storm", stormType, "7", nodes) })
	s.runFor(time.Minute)
	for _, p := range s.all {
		p.killAll()
	}
	if s.Failed != nil {
		t.Fatal(s.Failed)
	}
	last := slices.Max(slices.Collect(maps.Keys(launched)))
	t.Logf("%d instances, the last %d s after the pods: %v", total, last-1, launched)
	if total != nodes || s.claims["storm"] != nodes {
		t.Errorf("%d instances and %d NodeClaims for %d pods that need one each", total, s.claims["storm"], nodes)
	}
}

// storm is a run of its own script.
type storm struct {
	*Sim
	// claims made, by NodePool; others counts the pods that are not in the storm.
	claims map[string]int
	others int
}

func newStorm(w weather) *storm {
	cfg := config(1)
	cfg.Faults = &stage.Faults{}
	s := &storm{Sim: newSim(cfg), claims: map[string]int{}}
	s.Options = planner.DefaultOptions()
	s.Options.ProbeOfferings, s.Options.AcceleratedWave = true, planner.DefaultAcceleratedWave
	if w.accelerated {
		s.market = &cloud.Market{Percent: 100, Accelerated: stormType}
	}
	capacityTypes := []string{karpv1.CapacityTypeOnDemand}
	if w.spot {
		capacityTypes = append(capacityTypes, karpv1.CapacityTypeSpot)
	}
	s.Script = stage.Script{Pace: 1, Length: stormLength, Budgets: map[string]intstr.IntOrString{},
		Pools: []*karpv1.NodePool{stormPool("storm", stormType, capacityTypes...), stormPool("other", "c5.large", karpv1.CapacityTypeOnDemand)}}
	s.Cluster.Watch(func(kind events.Kind, before, after cluster.Object) {
		if kind == events.KindNodeClaim && before == nil {
			s.claims[after.GetLabels()[karpv1.NodePoolLabelKey]]++
		}
	})
	return s
}

// exhaust leaves nothing of the storm's instance type in some zones.
func (s *storm) exhaust(zones ...string) {
	for _, z := range zones {
		for _, ct := range []string{karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot} {
			s.Cloud.Exhaust(cloud.Offering{InstanceType: stormType, Zone: z, CapacityType: ct}, true)
		}
	}
}

func stormPool(name, instanceType string, capacityTypes ...string) *karpv1.NodePool {
	return &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: karpv1.NodePoolSpec{
		Template: karpv1.NodeClaimTemplate{Spec: karpv1.NodeClaimTemplateSpec{
			NodeClassRef: &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: stage.NodeClassName},
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{
				{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{instanceType}},
				{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: capacityTypes}}}},
		Disruption: karpv1.Disruption{ConsolidateAfter: karpv1.NewDuration(time.Hour), ConsolidationPolicy: karpv1.ConsolidationPolicyWhenEmpty},
	}}
}

func (s *storm) deploy(name, instanceType, cpu string, replicas int) {
	s.Cluster.Deploy(cluster.Deployment{Name: name, Replicas: replicas, Labels: map[string]string{"app": name}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{corev1.LabelInstanceTypeStable: instanceType},
		Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("256Mi")}}}},
	}})
}

// play lets the pods of the storm come at once and those of the others now and then.
func (s *storm) play(t *testing.T, cpu string) {
	s.start()
	s.Clock.After(time.Second, func() { s.deploy("storm", stormType, cpu, stormPods) })
	for i := range int(stormLength / othersEvery) {
		name := fmt.Sprintf("other-%d", i)
		s.runFor(time.Duration(i)*othersEvery + 2*time.Second - s.Clock.Now().Sub(stage.Start))
		s.deploy(name, "c5.large", "1500m", 2)
		s.others += 2
		s.runFor(othersWithin)
		for _, p := range s.Cluster.Pods() {
			if p.Labels["app"] == name && p.Spec.NodeName == "" {
				t.Errorf("after %s of the storm, pod %s of another NodePool has no node after %s", s.Clock.Now().Sub(stage.Start), p.Name, othersWithin)
			}
		}
	}
	s.runFor(stormLength - s.Clock.Now().Sub(stage.Start))
	for _, p := range s.all {
		p.killAll()
	}
	if s.Failed != nil {
		t.Fatal(s.Failed)
	}
}
