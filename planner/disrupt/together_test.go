package disrupt_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
)

// rolling is a cluster whose nodes have drifted but for some, with one to three pods on each, some of them
// protected, selective or under a budget.
func rolling(t *rapid.T) *pt.Cluster {
	pool := pt.Pool("p", pt.Budgets(karpv1.Budget{Nodes: rapid.SampledFrom([]string{"1", "50%", "80%", "100%"}).Draw(t, "budget")}))
	if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
		pool.Spec.Limits = karpv1.Limits(pt.Resources("cpu", rapid.SampledFrom([]string{"24", "36"}).Draw(t, "limit")))
	}
	objects := append(pt.WithCatalogue(), pool, pt.PDB("default", "b", rapid.Int32Range(0, 3).Draw(t, "allowed"), "app", "budgeted"))
	var nodes []string
	for i := range rapid.IntRange(3, 8).Draw(t, "nodes") {
		nodes = append(nodes, fmt.Sprintf("n%d", i))
		for j := range rapid.IntRange(1, 3).Draw(t, "pods") {
			p := sized(fmt.Sprintf("x%d-%d", i, j), nodes[i], rapid.SampledFrom([]string{"300m", "1", "1300m"}).Draw(t, "cpu"), rapid.SampledFrom([]string{"512Mi", "3Gi"}).Draw(t, "memory"))
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				pt.Annotation(karpv1.DoNotDisruptAnnotationKey, "true")(p)
			case 1, 2, 3:
				p.Spec.NodeSelector = pt.Map(corev1.LabelTopologyZone, "zone-a")
			case 4:
				p.Labels = pt.Map("app", "budgeted")
			}
			objects = append(objects, p)
		}
	}
	c := shown(objects, nodes)
	for i, n := range nodes {
		if rapid.IntRange(0, 4).Draw(t, "drifted") == 0 {
			continue
		}
		c.See(drifted(n, time.Duration(i)*time.Minute, func(claim *karpv1.NodeClaim) {
			if rapid.IntRange(0, 3).Draw(t, "eventual") == 0 {
				claim.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour}
			}
		}))
		if rapid.IntRange(0, 4).Draw(t, "unready") == 0 {
			node := pt.Node(n, pt.InPool("p"))
			for i := range node.Status.Conditions {
				if node.Status.Conditions[i].Type == corev1.NodeReady {
					node.Status.Conditions[i].Status = corev1.ConditionFalse
				}
			}
			c.See(node)
		}
	}
	return c
}

// mark shows the marks of all running commands on their nodes.
func mark(c *pt.Cluster) {
	for _, cmd := range c.Ledger.Commands() {
		for _, cand := range cmd.Started.Candidates {
			node := c.World.Node(cand.Node).Object.DeepCopy()
			if disrupt.Marked(node, c.Ledger.LogID(), cmd.Seq) {
				continue
			}
			node.Spec.Taints = append(node.Spec.Taints, karpv1.DisruptedTaint())
			if node.Annotations == nil {
				node.Annotations = map[string]string{}
			}
			node.Annotations[karpv1.RecordAnnotationKey] = ledger.RecordAnnotation(c.Ledger.LogID(), cmd.Seq)
			c.See(node)
		}
	}
}

// What one pass starts holds together: each command is confirmed on a Snapshot that has all of them, so
// budgets, PodDisruptionBudgets and limits hold for their sum and every pod that moves has its place; and
// each says which of the pass it is.
func TestWhatOnePassStartsHoldsTogether(t *testing.T) {
	most := 0
	rapid.Check(t, func(t *rapid.T) {
		c := rolling(t)
		for range 10 {
			s := c.Snapshot()
			list, _ := disrupt.Plans(s)
			if len(list) == 0 {
				break
			}
			most = max(most, len(list))
			if first, _ := disrupt.Plan(s); told(first) != told(list[0]) {
				t.Errorf("the first of the pass is %s, alone it is %s", told(list[0]), told(first))
			}
			advanced := map[string]uint64{}
			for i, d := range list {
				if n := d.Payload.(*ledger.CommandStarted).Nth; n != i {
					t.Errorf("command %d of the pass says that it is number %d", i, n)
				}
				held(t, c, disrupt.After(d, advanced))
				seq := c.Decide(s, d)
				for _, a := range d.Advances {
					advanced[a] = seq
				}
			}
			mark(c)
			s = c.Snapshot()
			for _, cmd := range s.Ledger.Commands() {
				if v := disrupt.Confirm(s, cmd); v.Outcome != disrupt.Confirmed && cmd.State == ledger.CommandStartedState {
					t.Fatalf("%s of %d commands: %s, %s", fmt.Sprint(cmd.Started.Candidates[0].Node), len(list), v.Outcome, v.Reason)
				}
			}
			for _, pool := range s.World.NodePools() {
				if b := disrupt.Budgets(s, pool, karpv1.DisruptionReasonDrifted); b.Going > b.Allowed {
					t.Errorf("%d nodes go, %d may", b.Going, b.Allowed)
				}
			}
		}
	})
	if most < 3 {
		t.Errorf("a pass started at most %d commands: too little to be tested by", most)
	}
}

// held checks that the log would accept a decision now.
func held(t *rapid.T, c *pt.Cluster, d *planner.Decision) {
	for _, e := range d.Expects {
		if got := c.Ledger.Aggregate(e.Aggregate); got != e.Seq {
			t.Errorf("%s expects %s at %d, it is at %d", told(d), e.Aggregate, e.Seq, got)
		}
	}
}
