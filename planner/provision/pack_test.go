package provision

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/planner/provision/internal/pack"
	"millwright/planner/provision/internal/place"
	"millwright/planner/provision/internal/solve"
	"millwright/tools/workload"
)

// Sorted by size alone, the last nodes would hold small pods with much memory, and the plan cost 1.4 times
// the bound.
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

// A fifth of these pods must have a node without another of them. Unless the claims that these open are kept
// small, the first takes all other pods, and the plan costs 1.2 times the bound.
func TestPodsOnNodesOfTheirOwnShareThemWithOthers(t *testing.T) {
	_, r := Plan(problem(workload.Diverse(1000)).snapshot())
	if r.PricePerHour*100 > r.LowerBound*109 {
		t.Errorf("the plan costs %d µ$/h, %.3f of the lower bound", r.PricePerHour, float64(r.PricePerHour)/float64(r.LowerBound))
	}
}

// The first pods find zones without others of their kind. Later ones find none, so there is nothing left of
// that preference to keep.
func TestAPreferenceThatLaterPodsUndidIsNotKept(t *testing.T) {
	solved := func(pods int) (*pack.Packer, *solve.Item) {
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
		s := solve.Solve(inputOf(c.snapshot(), Scenario{}))
		return pack.NewPacker(s), s.Items[0]
	}
	for pods, want := range map[int]int{3: 0, 9: 1} {
		if p, first := solved(pods); first.Level != 0 || p.Keeps(first) != want {
			t.Errorf("%d pods: the first was placed at level %d and keeps level %d, want 0 and %d", pods, first.Level, p.Keeps(first), want)
		}
	}
}

// Every pod has reasons, however many kinds of them are refused; the record does not grow by a text for each.
func TestVeryManyRefusalsAreBrief(t *testing.T) {
	const detailed = 2000
	c := newCluster()
	c.catalogue()
	c.put(newPool("default"))
	for i := range detailed + 50 {
		c.put(newPod(fmt.Sprintf("p%04d", i), map[string]string{"cpu": fmt.Sprint(100_000 - i), "memory": "1Gi"}))
	}
	plan, r := c.plan(t)
	if r.Refused != detailed+50 || len(plan.Refused) != detailed+1 {
		t.Fatalf("%d pods refused, with %d different texts", r.Refused, len(plan.Refused))
	}
	first, last := r.Verdicts[0].Reasons, r.Verdicts[len(r.Verdicts)-1].Reasons
	if len(first) != 1 || !strings.HasPrefix(first[0].Message, "no instance type has enough resources, requirements=") || first[0].Closest == "" {
		t.Errorf("the first is told %+v", first)
	}
	if len(last) != 1 || last[0].Message != "no instance type has enough resources" {
		t.Errorf("the last is told %+v", last)
	}
}

// Each pod must be with the one after it in the queue, so each pass places one. Those that wait cost no more
// than a look.
func TestPodsThatWaitForOthersAreNotTriedInVain(t *testing.T) {
	const pods = 500
	s := solve.Solve(inputOf(problem(workload.Chain(pods)).snapshot(), Scenario{}))
	if _, _, refused := total(s); refused > 0 {
		t.Errorf("%d pods refused", refused)
	}
	if s.Steps > pods*pods/2+3*pods*place.StepsWhole {
		t.Errorf("%d steps for %d pods", s.Steps, pods)
	}
}
