package disrupt_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
)

func want[T comparable](t rapid.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func taken(d *planner.Decision) string {
	if d == nil {
		return ""
	}
	var names []string
	for _, c := range d.Payload.(*ledger.CommandStarted).Candidates {
		names = append(names, c.Node)
	}
	return strings.Join(names, " ")
}

func sized(name, node, cpu, memory string, options ...func(*corev1.Pod)) *corev1.Pod {
	return pt.Pod(name, append([]func(*corev1.Pod){pt.On(node), pt.Requests("cpu", cpu, "memory", memory)}, options...)...)
}

// told is a command in one line: method, nodes, where the pods go, what is new.
func told(d *planner.Decision) string {
	if d == nil {
		return ""
	}
	s := d.Payload.(*ledger.CommandStarted)
	text := s.Method + " " + taken(d)
	for _, p := range s.Placements {
		for _, pod := range p.Pods {
			text += fmt.Sprintf("; %s to %s", pod.Name, p.Node)
		}
	}
	for _, r := range s.Replacements {
		names := []string{}
		for _, pod := range r.Pods {
			names = append(names, pod.Name)
		}
		text += fmt.Sprintf("; %s to a new %s", strings.Join(names, ","), r.InstanceTypes[0])
	}
	return text
}

func policy(p karpv1.ConsolidationPolicy) func(*karpv1.NodePool) {
	return func(pool *karpv1.NodePool) { pool.Spec.Disruption.ConsolidationPolicy = p }
}

// drifted is the claim of a node, drifted since so long after the start.
func drifted(node string, since time.Duration, options ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	return pt.Claim(node+"-claim", node, "p", append(options, func(c *karpv1.NodeClaim) {
		d := pt.True(karpv1.ConditionTypeDrifted, pt.Start.Add(since))
		d.Reason = "NodePoolDrifted"
		c.Status.Conditions = append(c.Status.Conditions, d)
	})...)
}

// Whatever the state of the nodes and however often Plan and its commands alternate, no decision goes beyond
// a budget, and no command takes a node with pods.
func TestBudgetsAreNeverExceeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := rapid.SampledFrom([]string{"0", "1", "2", "3", "10%", "50%", "100%"}).Draw(t, "budget")
		pool := pt.Pool("p", pt.Budgets(karpv1.Budget{Nodes: budget}))
		c := pt.New(pool)
		names := []string{"a", "b", "c", "d", "e", "f"}[:rapid.IntRange(1, 6).Draw(t, "nodes")]
		for _, n := range names {
			c.AddNode(n, "p")
		}
		c.Advance(time.Hour)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			n := rapid.SampledFrom(names).Draw(t, "node")
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0:
				c.See(pt.Node(n, pt.InPool("p"), pt.NotReady))
			case 1:
				c.See(pt.Pod("on-"+n, pt.On(n)))
			case 2:
				c.Gone(pt.Pod("on-"+n, pt.On(n)))
			case 3:
				for _, cmd := range c.Ledger.Commands() {
					c.Record(ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: cmd.ID})
				}
			}
			s := c.Snapshot()
			d, _ := disrupt.Plan(s)
			if d == nil {
				continue
			}
			before := disrupt.Budgets(s, pool, karpv1.DisruptionReasonEmpty)
			c.Decide(s, d)
			after := disrupt.Budgets(c.Snapshot(), pool, karpv1.DisruptionReasonEmpty)
			unready := true // nodes that are not ready use the budget up before they go, so that only those that go count for them
			for _, cand := range d.Payload.(*ledger.CommandStarted).Candidates {
				unready = unready && !s.StateNode(cand.Node).Ready()
			}
			if after.Consuming > after.Allowed && !(unready && after.Going <= after.Allowed) {
				t.Fatalf("budget %s of %d nodes: %d consumed after %s, before %d", budget, after.Nodes, after.Consuming, taken(d), before.Consuming)
			}
			for _, cand := range d.Payload.(*ledger.CommandStarted).Candidates {
				if len(c.World.PodsOn(cand.Node)) > 0 {
					t.Fatalf("node %s was taken with pods on it", cand.Node)
				}
			}
		}
	})
}

// Every candidate is judged in one pass, even where nothing is found: whoever asks why a node stays gets an
// answer.
func TestEveryCandidateIsJudged(t *testing.T) {
	d, r := disrupt.Plan(benchCluster(300, 3).Snapshot())
	want(t, "decisions", d == nil, true)
	for _, n := range r.Nodes {
		if n.Blocked == nil {
			t.Fatalf("nothing is said of node %s", n.Node)
		}
	}
	want(t, "nodes", len(r.Nodes), 300)
}
