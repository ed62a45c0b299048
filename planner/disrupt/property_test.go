package disrupt_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
	"millwright/planner/resource"
)

// drawn is a cluster of up to five nodes with pods, some of them selective, protected or under a budget.
// shuffled says in which order it is shown.
func drawn(t *rapid.T) (objects []any, nodes []string) {
	pool := pt.Pool("p", pt.Budgets(karpv1.Budget{Nodes: rapid.SampledFrom([]string{"1", "2", "50%", "100%"}).Draw(t, "budget")}),
		policy(rapid.SampledFrom([]karpv1.ConsolidationPolicy{karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized, karpv1.ConsolidationPolicyBalanced}).Draw(t, "policy")))
	if rapid.Bool().Draw(t, "limited") {
		pool.Spec.Limits = karpv1.Limits(pt.Resources("cpu", rapid.SampledFrom([]string{"8", "20"}).Draw(t, "limit")))
	}
	objects = append(pt.WithCatalogue(), pool, pt.PDB("default", "b", rapid.Int32Range(0, 3).Draw(t, "allowed"), "app", "budgeted"))
	for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
		nodes = append(nodes, fmt.Sprintf("n%d", i))
	}
	for i := range rapid.IntRange(0, 10).Draw(t, "pods") {
		node := rapid.SampledFrom(nodes).Draw(t, "on")
		p := sized(fmt.Sprintf("x%d", i), node, rapid.SampledFrom([]string{"100m", "500m", "1"}).Draw(t, "cpu"), rapid.SampledFrom([]string{"512Mi", "3Gi"}).Draw(t, "memory"))
		switch rapid.IntRange(0, 8).Draw(t, "kind") {
		case 0:
			pt.Annotation(karpv1.DoNotDisruptAnnotationKey, "true")(p)
		case 1:
			p.Spec.NodeSelector = pt.Map(corev1.LabelHostname, node)
		case 2, 3:
			p.Labels = pt.Map("app", "budgeted")
		}
		objects = append(objects, p)
	}
	return objects, nodes
}

func shown(objects []any, nodes []string) *pt.Cluster {
	c := pt.New(objects...)
	c.Options(planner.PresentOptions())
	for _, n := range nodes {
		c.AddNode(n, "p")
	}
	c.Advance(time.Hour)
	return c
}

// Every pod that moves has a place with room, on a node that stays or on a claim of the command, and pods
// that may not be moved stay; PodDisruptionBudgets and budgets of the NodePool hold for all that was started;
// and nothing gets dearer.
func TestEveryPodThatMovesHasAPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		objects, nodes := drawn(t)
		c := shown(objects, nodes)
		free := map[string]resource.Vector{}
		for _, n := range c.Snapshot().StateNodes() {
			free[n.Name] = n.Available
		}
		gone, taken := map[string]bool{}, map[string]bool{}
		budgeted := map[string]int{}
		for range 10 {
			s := c.Snapshot()
			d, _ := disrupt.Plan(s)
			if d == nil {
				break
			}
			started := d.Payload.(*ledger.CommandStarted)
			places := map[types.UID]string{}
			for _, p := range started.Placements {
				for _, pod := range p.Pods {
					places[pod.UID] = p.Node
				}
			}
			for i, r := range started.Replacements {
				for _, pod := range r.Pods {
					places[pod.UID] = fmt.Sprintf("new %d", i)
				}
			}
			for _, cand := range started.Candidates {
				gone[cand.Node] = true
				for _, p := range s.World.PodsOn(cand.Node) {
					if p.Class.Annotations[karpv1.DoNotDisruptAnnotationKey] != "" || p.Class.Spec.NodeSelector != nil {
						t.Errorf("%s is moved from %s", p.Key(), cand.Node)
					}
					if p.Class.Labels["app"] == "budgeted" {
						budgeted[cand.Node]++
					}
				}
				for _, ref := range cand.Pods {
					to := places[ref.UID]
					if to == "" {
						t.Errorf("%s has no place", ref.Name)
					}
					if v, ok := free[to]; ok {
						taken[to] = true
						free[to] = v.Sub(s.World.Pod(ref.UID).Class.Requests)
					}
				}
			}
			if started.PriceAfter > started.PriceBefore {
				t.Errorf("%s costs %d in place of %d", told(d), started.PriceAfter, started.PriceBefore)
			}
			c.Decide(s, d)
		}
		for n, v := range free {
			if taken[n] && (v.MilliCPU < 0 || v.Memory < 0) {
				t.Errorf("node %s is overfull: %v", n, v)
			}
		}
		for _, p := range c.Snapshot().World.Pods() {
			if v := c.Ledger.Verdict(p.UID); v != nil && gone[v.Node] {
				t.Errorf("%s is to go to %s, which goes", p.Key(), v.Node)
			}
		}
		s := c.Snapshot()
		if b := disrupt.Budgets(s, s.World.NodePool("p"), karpv1.DisruptionReasonUnderutilized); b.Consuming > b.Allowed {
			t.Errorf("%d nodes go, %d may", b.Consuming, b.Allowed)
		}
		sum := 0
		for _, n := range budgeted {
			sum += n
		}
		if allowed := int(s.World.PodDisruptionBudgets()[0].Status.DisruptionsAllowed); len(budgeted) > 1 && sum > allowed {
			t.Errorf("%d pods of a budget are moved from %d nodes, %d may", sum, len(budgeted), allowed)
		}
	})
}

func TestTheOrderOfInputDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		objects, nodes := drawn(t)
		plan := func(objects []any) string {
			d, _ := disrupt.Plan(shown(objects, nodes).Snapshot())
			if d == nil {
				return ""
			}
			b, err := json.Marshal([]any{d.Payload, d.Explanation})
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		first := plan(objects)
		reversed := slices.Clone(objects)
		slices.Reverse(reversed)
		if got := plan(reversed); got != first {
			t.Errorf("planned %s\nand in another order %s", first, got)
		}
	})
}
