package view_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/planner/world"
	"millwright/services/console/view"
)

// What the pods of a NodePool request cannot cost less than its cheapest CPU or its cheapest memory, and that
// is never more than what they run on, while that is of the NodePool as it is.
func TestTheLeastThatANodePoolCanCost(t *testing.T) {
	pool := func(name string, allowed ...string) any {
		p := plannertest.Pool(name)
		for key, values := range map[string][]string{corev1.LabelInstanceTypeStable: allowed, karpv1.CapacityTypeLabelKey: {karpv1.CapacityTypeOnDemand}} {
			p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values})
		}
		return p
	}
	c := plannertest.New(append(plannertest.WithCatalogue(), pool("cpu", "m5.xlarge", "c5.xlarge"), pool("memory", "m5.xlarge", "r5.large"), pool("none", "x9.large"), pool("idle", "m5.large"))...)
	for _, name := range []string{"cpu", "memory", "none", "idle"} {
		c.AddNode(name, name)
	}
	c.See(
		plannertest.Pod("a", plannertest.On("cpu"), plannertest.Requests("cpu", "1500m", "memory", "1Gi")),
		plannertest.DaemonPod("d", "cpu", plannertest.Requests("cpu", "2")),
		plannertest.Pod("b", plannertest.On("memory"), plannertest.Requests("cpu", "100m", "memory", "6Gi")),
		plannertest.Pod("c", plannertest.On("none"), plannertest.Requests("cpu", "1")),
	)
	v := view.New(view.Config{Now: time.Now, Versions: func() (*world.World, *ledger.Ledger, error) { return c.World.Version(), ledger.New(""), nil }})
	now, err := v.Now()
	if err != nil {
		t.Fatal(err)
	}
	// c5.xlarge has 3.9 CPU for $0.17, r5.large 15.75 GiB for $0.126.
	want := map[string]int64{"cpu": 170_000 * 1500 / 3900, "memory": 126_000 * 6 * 4 / 63, "none": 0, "idle": 0}
	var sum int64
	for _, p := range now.Pools {
		if got := p.LeastMicroUSDPerHour; got != want[p.Name] && got != want[p.Name]-1 { // rounded down
			t.Errorf("NodePool %s: %d, want %d", p.Name, p.LeastMicroUSDPerHour, want[p.Name])
		}
		if p.LeastMicroUSDPerHour > p.MicroUSDPerHour {
			t.Errorf("NodePool %s costs %d, which is less than the least, %d", p.Name, p.MicroUSDPerHour, p.LeastMicroUSDPerHour)
		}
		sum += p.LeastMicroUSDPerHour
	}
	if now.LeastMicroUSDPerHour != sum || sum == 0 {
		t.Errorf("in sum %d, want %d", now.LeastMicroUSDPerHour, sum)
	}
	c.See(&karpv1alpha1.NodeOverlay{})
	v = view.New(view.Config{Now: time.Now, Versions: func() (*world.World, *ledger.Ledger, error) { return c.World.Version(), ledger.New(""), nil }})
	if now, err = v.Now(); err != nil || now.LeastMicroUSDPerHour != 0 {
		t.Errorf("with prices that an overlay may have changed: %d, %v", now.LeastMicroUSDPerHour, err)
	}
}
