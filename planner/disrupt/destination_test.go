package disrupt_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/disrupt"
	pt "millwright/planner/plannertest"
)

// Node a could go to b, to which a pod has just come: by default it does, with destination Ban once b has
// been quiet for long enough, or to c. The rules: disruption §4.1.
func TestNoPodGoesToABannedNode(t *testing.T) {
	for name, tc := range map[string]struct {
		policy string
		third  bool
		taken  string
		later  string
	}{
		"without a policy":             {"", false, "a", ""},
		"by cost":                      {"destination: Cost", false, "a", ""},
		"banned":                       {"destination: Ban", false, "", "a"},
		"banned, and there is a third": {"destination: Ban", true, "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(pt.Pool("p", pt.ConsolidateAfter("10m"), pt.Budgets(karpv1.Budget{Nodes: "1"}), func(p *karpv1.NodePool) {
				p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: corev1.LabelInstanceTypeStable, Operator: "In", Values: []string{"m5.xlarge"}},
					{Key: karpv1.CapacityTypeLabelKey, Operator: "In", Values: []string{karpv1.CapacityTypeOnDemand}}}
			}), "a", "b")
			c.See(pt.WithCatalogue()...)
			nodes := []string{"a", "b"}
			if tc.third {
				c.AddNode("c", "p")
				nodes = append(nodes, "c")
			}
			if tc.policy != "" {
				c.See(pt.Policy("d", tc.policy))
			}
			for _, n := range nodes {
				c.See(pt.Node(n, pt.InPool("p"), func(o *corev1.Node) {
					o.Labels[corev1.LabelInstanceTypeStable], o.Labels[karpv1.CapacityTypeLabelKey] = "m5.xlarge", karpv1.CapacityTypeOnDemand
				}))
			}
			c.See(sized("on-a", "a", "500m", "512Mi"))
			if tc.third {
				c.See(sized("on-c", "c", "1", "512Mi"), sized("also-on-c", "c", "1", "512Mi"))
			}
			c.Advance(time.Hour)
			c.See(sized("on-b", "b", "1", "512Mi"))
			c.Advance(time.Minute)
			d, _ := disrupt.Plan(c.Snapshot())
			want(t, "taken", taken(d), tc.taken)
			if tc.later != "" {
				c.Advance(10 * time.Minute)
				d, _ = disrupt.Plan(c.Snapshot())
				want(t, "taken once it is quiet", taken(d), tc.later)
			}
		})
	}
}
