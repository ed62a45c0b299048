package disrupt_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
)

// Of more nodes than a pass may ask about, the next pass takes up those that were left: here the only one of
// 6,500 drifted nodes that can go, which is the last.
func TestTheNextPassGoesOnWhereOneStopped(t *testing.T) {
	const nodes = 6500
	pool := pt.Pool("p", pt.Budgets(karpv1.Budget{Nodes: "100%"}), policy(karpv1.ConsolidationPolicyWhenEmpty))
	c := pt.New(append(pt.WithCatalogue(), pool)...)
	name := func(i int) string { return fmt.Sprintf("n%04d", i) }
	for i := range nodes {
		pod := sized("x"+name(i), name(i), "3", "11Gi")
		if i < nodes-1 {
			pod.Spec.NodeSelector = pt.Map(corev1.LabelTopologyZone, "nowhere")
		}
		c.AddNode(name(i), "p")
		c.See(drifted(name(i), 0), pod)
		c.Messages, c.Entries = nil, nil
	}
	s := c.Snapshot()
	list, r := disrupt.Plans(s)
	want(t, "commands of the first pass", len(list), 0)
	want(t, "searched", r.Searched, disrupt.Searched{Candidates: nodes, Left: 500})
	want(t, "next", r.Next, ledger.SearchFrom{Drift: name(5999)})
	want(t, "cause of the last node", r.Nodes[nodes-1].Blocked.Cause, disrupt.CauseLeft)
	want(t, "cause of the first node", r.Nodes[0].Blocked.Cause, disrupt.CauseNoPlace)

	list, r = disrupt.PlansFrom(s, r.Next)
	want(t, "commands of the second pass", len(list), 1)
	want(t, "command", taken(list[0]), name(nodes-1))
	want(t, "recorded", list[0].Payload.(*ledger.CommandStarted).SearchFrom, ledger.SearchFrom{Drift: name(5999)})
	want(t, "explained", *list[0].Explanation.(disrupt.Explanation).Searched, disrupt.Searched{Candidates: nodes, Left: 500})
	want(t, "next", r.Next.Drift, name(5499))
}
