package disrupt_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	pt "millwright/planner/plannertest"
	"millwright/planner/provision"
)

// Nodes that packing anew would replace by others just like them leave the set together: what is decided is
// the same as when they leave it one by one, after fewer simulations.
func TestNodesThatStayLeaveTheSetTogether(t *testing.T) {
	decide := func(atOnce bool) (string, int) {
		pool := pt.Pool("p", pt.Budgets(karpv1.Budget{Nodes: "100%"}))
		pool.Spec.Template.Spec.Requirements = append(pool.Spec.Template.Spec.Requirements, []karpv1.NodeSelectorRequirementWithMinValues{
			{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{karpv1.CapacityTypeOnDemand}},
			{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"m5.large", "m5.xlarge"}},
		}...)
		c := pt.New(append(pt.WithCatalogue(), pool)...)
		o := planner.PresentOptions()
		o.AlikeAtOnce = atOnce
		c.Options(o)
		for i := range 6 { // each is the cheapest for its pod
			n := fmt.Sprintf("full-%d", i)
			c.AddNode(n, "p")
			c.See(sized(n, n, "3400m", "12Gi"))
		}
		for i := range 2 { // each costs twice as much, and a third of it would do
			n := fmt.Sprintf("wide-%d", i)
			c.AddNode(n, "p", func(n *corev1.Node) {
				n.Labels[corev1.LabelInstanceTypeStable] = "m5.2xlarge"
				n.Status.Allocatable = pt.Resources("cpu", "7900m", "memory", "31Gi", "pods", "58")
			})
			c.See(sized(n, n, "1500m", "7Gi"), sized("more-"+n, n, "800m", "3Gi"))
		}
		c.Advance(time.Hour)
		m := &provision.Memory{}
		d, _ := plan(c, m)
		asked, _ := m.Counts()
		return told(d), asked
	}
	apart, many := decide(false)
	together, few := decide(true)
	if together != apart || apart == "" {
		t.Errorf("together they leave for %q, one by one for %q", together, apart)
	}
	if few >= many {
		t.Errorf("%d simulations, one by one %d", few, many)
	}
	t.Logf("%s: %d simulations, one by one %d", together, few, many)
}
