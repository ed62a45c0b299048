package disrupt_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
	"millwright/planner/provision"
)

// busy is a cluster with the catalogue, a NodePool p and what else is given, after an hour of quiet.
func busy(pool *karpv1.NodePool, nodes []string, objects ...any) *pt.Cluster {
	c := pt.New(append(pt.WithCatalogue(), pool)...)
	for _, n := range nodes {
		c.AddNode(n, pool.Name)
	}
	c.See(objects...)
	c.Advance(time.Hour)
	return c
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

// The rules: disruption §5.
func TestConsolidation(t *testing.T) {
	two := []string{"a", "b"}
	for name, tc := range map[string]struct {
		pool    *karpv1.NodePool
		nodes   []string
		objects []any
		want    string
		cause   disrupt.Cause // of the first node
	}{
		"the pods of one node fit on the other": {nodes: two, objects: []any{sized("x", "a", "1", "1Gi"), sized("y", "b", "1", "1Gi"), sized("z", "b", "1", "1Gi")},
			want: "single a; x to b"},
		"they do not, and nothing is cheaper": {nodes: two, objects: []any{sized("x", "a", "3", "11Gi"), sized("y", "b", "3", "11Gi")},
			cause: disrupt.CauseNotCheaper},
		"a node that is too big for its pods": {nodes: []string{"a"}, objects: []any{sized("x", "a", "1", "6Gi")}, want: "single a; x to a new m5.large"},
		"three to one": {nodes: []string{"a", "b", "c"}, objects: []any{sized("x", "a", "1", "4Gi"), sized("y", "b", "1", "4Gi"), sized("z", "c", "1", "4Gi")},
			want: "multi a b; x to c; y to c"},
		"the policy is for empty nodes": {nodes: two, objects: []any{sized("x", "a", "1", "1Gi"), sized("y", "b", "1", "1Gi")},
			pool: pt.Pool("p", policy(karpv1.ConsolidationPolicyWhenEmpty)), cause: disrupt.CauseEmptyOnly},
		"a pod has just come": {nodes: two, objects: []any{sized("x", "a", "1", "1Gi"), sized("y", "b", "1", "1Gi")},
			pool: pt.Pool("p", pt.ConsolidateAfter("2h")), cause: disrupt.CauseNotQuiet},
		"a budget of none": {nodes: two, objects: []any{sized("x", "a", "1", "1Gi"), sized("y", "b", "1", "1Gi")},
			pool: pt.Pool("p", pt.Budgets(karpv1.Budget{Nodes: "0"})), cause: disrupt.CauseBudget},
		"a PodDisruptionBudget that allows none": {nodes: two, objects: []any{sized("x", "a", "1", "1Gi"), sized("y", "b", "1", "1Gi"), pt.PDB("default", "d", 0, "app", "web")},
			cause: disrupt.CausePDB},
		"two nodes may not wait for one disruption": {nodes: []string{"a", "b", "c"}, objects: []any{sized("x", "a", "1", "4Gi"), sized("y", "b", "1", "4Gi"), sized("z", "c", "1", "4Gi"),
			pt.PDB("default", "d", 1, "app", "web")}, want: "single a; x to c"},
		"a pod that may go nowhere else": {nodes: two, objects: []any{sized("x", "a", "1", "6Gi", pt.Selector(corev1.LabelHostname, "a")), sized("y", "b", "3500m", "14Gi")},
			cause: disrupt.CauseNoPlace},
		"nothing is saved by a swap for the same": {nodes: []string{"a"}, objects: []any{sized("x", "a", "3500m", "14Gi", pt.Selector(corev1.LabelArchStable, "amd64"))},
			cause: disrupt.CauseNotCheaper},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.pool == nil {
				tc.pool = pt.Pool("p", onDemand)
			}
			c := busy(tc.pool, tc.nodes, tc.objects...)
			d, r := disrupt.Plan(c.Snapshot())
			want(t, "command", told(d), tc.want)
			got := disrupt.Cause("")
			if b := r.Nodes[0].Blocked; b != nil {
				got = b.Cause
			}
			want(t, "cause", got, tc.cause)
		})
	}
}

// onDemand allows only amd64 on demand.
func onDemand(p *karpv1.NodePool) {
	for key, value := range map[string]string{karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeOnDemand, corev1.LabelArchStable: "amd64"} {
		p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements,
			karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}})
	}
}

func policy(p karpv1.ConsolidationPolicy) func(*karpv1.NodePool) {
	return func(pool *karpv1.NodePool) { pool.Spec.Disruption.ConsolidationPolicy = p }
}

// While a command runs, its pods have their places, and nothing is bought for them a second time.
// The rules: disruption §6.
func TestTheProvisionerKeepsToTheCommand(t *testing.T) {
	c := busy(pt.Pool("p"), []string{"a"}, sized("x", "a", "1", "6Gi"))
	s := c.Snapshot()
	d, _ := disrupt.Plan(s)
	seq := c.Decide(s, d)
	want(t, "kind", d.Kind, ledger.KindCommandMovesStarted)
	s = c.Snapshot()
	v := s.Ledger.Verdict("pod-x")
	want(t, "the pod's place", v != nil && v.Claim == ledger.ClaimName(pt.LogID, "p", seq, 0), true)
	again, _ := planAll(s)
	want(t, "what the provisioner decides", again, 0)
	d, _ = disrupt.Plan(s)
	want(t, "a second command", told(d), "")
}

// A command that is given up leaves nothing unused behind. Its NodePool is left alone for a while: otherwise
// the same command could begin again at once, and be given up again, for as long as the obstacle comes and
// goes. The rules: disruption §6.
func TestACommandThatIsGivenUpTakesItsReplacementsAlong(t *testing.T) {
	c := busy(pt.Pool("p"), []string{"a"}, sized("x", "a", "1", "6Gi"))
	s := c.Snapshot()
	d, _ := disrupt.Plan(s)
	seq := c.Decide(s, d)
	name := ledger.ClaimName(pt.LogID, "p", seq, 0)
	c.Record(ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: name, UID: "u"})
	c.See(pt.Node("a", pt.InPool("p"), pt.Marked(seq)), sized("late", "a", "100m", "1Gi"))
	cmd := c.Ledger.Command(ledger.CommandID(pt.LogID, seq))
	d = disrupt.ConfirmDecision(c.Snapshot(), cmd)
	want(t, "kind", d.Kind, ledger.KindCommandAbandoned)
	c.Decide(c.Snapshot(), d)
	want(t, "its replacement is doomed", c.Ledger.Claim(name).Doomed != nil, true)
	want(t, "until when the NodePool is left alone", c.Ledger.FailingUntil("p"), c.Clock.UTC().Add(time.Minute))
}

// The rules: disruption §4.
func TestReplacementsThatFailAreNotTriedAgainAtOnce(t *testing.T) {
	c := busy(pt.Pool("p"), []string{"a"}, sized("x", "a", "1", "6Gi"))
	waits := []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute}
	for _, wait := range waits {
		s := c.Snapshot()
		d, _ := disrupt.Plan(s)
		want(t, "command", told(d), "single a; x to a new m6g.large")
		seq := c.Decide(s, d)
		c.Record(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: ledger.ClaimName(pt.LogID, "p", seq, 0)})
		d = disrupt.ConfirmDecision(c.Snapshot(), c.Ledger.Command(ledger.CommandID(pt.LogID, seq)))
		c.Decide(c.Snapshot(), d)
		want(t, "until", c.Ledger.FailingUntil("p"), c.Clock.UTC().Add(wait))
		d, r := disrupt.Plan(c.Snapshot())
		want(t, "while it waits", told(d), "")
		want(t, "wakes", r.WakeAt, c.Clock.UTC().Add(wait))
		c.Advance(wait)
	}
}

// The rules: disruption §5.
func TestDriftOfADynamicPool(t *testing.T) {
	for _, after := range []string{"Never", "0s", "30m"} {
		t.Run("consolidateAfter "+after, func(t *testing.T) { testDrift(t, after) })
	}
}

func testDrift(t *testing.T, after string) {
	c := busy(pt.Pool("p", onDemand, pt.ConsolidateAfter(after)), []string{"a", "b"}, sized("x", "a", "3", "11Gi"), sized("y", "b", "3", "11Gi"))
	c.See(drifted("a", 2*time.Minute), drifted("b", time.Minute))
	next := func() string {
		s := c.Snapshot()
		d, _ := disrupt.Plan(s)
		if d != nil {
			c.Decide(s, d)
		}
		return told(d)
	}
	want(t, "the one that drifted first", next(), "drift b; y to a new m5.xlarge")
	want(t, "the other one, without waiting for the first", next(), "drift a; x to a new m5.xlarge")
	want(t, "no more", next(), "")
}

// planAll counts the claims that the provisioner would make or give up.
func planAll(s *planner.Snapshot) (claims int, d *planner.Decision) {
	d, _ = provision.Plan(s)
	if d == nil {
		return 0, nil
	}
	if p, ok := d.Payload.(*ledger.ProvisioningPlanned); ok {
		return len(p.Claims) + len(p.Excess), d
	}
	return 1, d
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
