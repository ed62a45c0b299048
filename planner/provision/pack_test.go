package provision

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/tools/workload"
)

// Sorted by size alone, the last nodes would hold small pods with much memory, and the plan cost 1.4 times the bound.
func TestNodesOfOneShapeAreFilledInBothResources(t *testing.T) {
	c := newCluster()
	c.diverseTypes()
	c.put(newPool("default"))
	c.diversePods(2000, "plain")
	_, r := Plan(c.snapshot())
	if r.PricePerHour*100 > r.LowerBound*101 {
		t.Errorf("the plan costs %d µ$/h, %.3f of the lower bound", r.PricePerHour, float64(r.PricePerHour)/float64(r.LowerBound))
	}
}

// A fifth of these pods must have a node without another of them. Unless the claims that these open are kept small, the first takes all
// other pods, and the plan costs 1.2 times the bound.
func TestPodsOnNodesOfTheirOwnShareThemWithOthers(t *testing.T) {
	_, r := Plan(problem(workload.Diverse(1000)).snapshot())
	if r.PricePerHour*100 > r.LowerBound*109 {
		t.Errorf("the plan costs %d µ$/h, %.3f of the lower bound", r.PricePerHour, float64(r.PricePerHour)/float64(r.LowerBound))
	}
}

// The first pods find zones without others of their kind. Those that come later, and find none, leave nothing of that to keep.
func TestAPreferenceThatLaterPodsUndidIsNotKept(t *testing.T) {
	solved := func(pods int) (*packer, *item) {
		c := newCluster()
		c.diverseTypes()
		c.put(newPool("default"))
		for i := range pods {
			p := newPod(fmt.Sprint("p", i), map[string]string{"cpu": "1", "memory": "1Gi"})
			p.Labels = map[string]string{"app": "web"}
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}}}}}}
			c.put(p)
		}
		s := solve(inputOf(c.snapshot(), Scenario{}))
		return s.packer(), s.items[0]
	}
	for pods, want := range map[int]int{3: 0, 9: 1} {
		if p, first := solved(pods); first.level != 0 || p.keeps(first) != want {
			t.Errorf("%d pods: the first was placed at level %d and keeps level %d, want 0 and %d", pods, first.level, p.keeps(first), want)
		}
	}
}
