package disrupt_test

import (
	"fmt"
	"slices"
	"strings"
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

func want[T comparable](t rapid.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// cluster has a pool p and the nodes named, all empty and quiet for an hour.
func cluster(pool *karpv1.NodePool, nodes ...string) *pt.Cluster {
	c := pt.New(pool)
	for _, n := range nodes {
		c.AddNode(n, pool.Name)
	}
	c.Advance(time.Hour)
	return c
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

// The rules: disruption §5.
func TestEmptyNodesAreTaken(t *testing.T) {
	c := cluster(pt.Pool("p"), "b", "a")
	d, r := disrupt.Plan(c.Snapshot())
	want(t, "taken", taken(d), "a b")
	want(t, "eligible", r.Eligible[karpv1.DisruptionReasonEmpty], 2)
	started := d.Payload.(*ledger.CommandStarted)
	want(t, "reason", started.Reason, karpv1.DisruptionReasonEmpty)
	want(t, "claim uid", started.Candidates[0].ClaimUID, "claim-a-claim")
	want(t, "advances", strings.Join(d.Advances, " "), "claim/a-claim claim/b-claim node/a node/b pool/p")
	want(t, "expects, and that nothing more is retired", len(d.Expects), 6)
	x := d.Explanation.(disrupt.Explanation)
	want(t, "explained", len(x.Taken), 2)
	c.Decide(c.Snapshot(), d)
	again, r := disrupt.Plan(c.Snapshot())
	want(t, "taken again", taken(again), "")
	want(t, "reported as running", r.Nodes[0].Blocked.Cause, disrupt.CauseRemoving)
}

// A pod that waits for the claim of a node keeps the node, as one that waits for the node itself does.
// The rules: disruption §2.
func TestAPodPlannedForTheClaimKeepsItsNode(t *testing.T) {
	c := cluster(pt.Pool("p", pt.ConsolidateAfter("10m")), "a")
	c.See(pt.Pod("w", pt.Unschedulable()))
	c.Record(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Placements: []ledger.Placement{{Claim: "a-claim", Pods: []ledger.PodRef{{UID: "pod-w"}}}}})
	d, r := disrupt.Plan(c.Snapshot())
	want(t, "taken", taken(d), "")
	if r.Nodes[0].Blocked == nil {
		t.Fatal("no reason is reported")
	}
	want(t, "cause", r.Nodes[0].Blocked.Cause, disrupt.CauseNominated)
	want(t, "message", r.Nodes[0].Blocked.Message, "Node is nominated for a pending pod")
}

// After the loss of all observations nothing is known of pods that left before: quiet counts anew, unless
// the NodeClaim's status knows better.
func TestQuietTimeAfterTheLossOfTheStream(t *testing.T) {
	for name, tc := range map[string]struct {
		status time.Time
		want   time.Time
	}{
		"nothing known":       {time.Time{}, pt.Start.Add(10 * time.Minute)},
		"known by the status": {pt.Start.Add(-8 * time.Minute), pt.Start.Add(2 * time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			old := pt.Claim("a-claim", "a", "p", func(c *karpv1.NodeClaim) {
				c.Status.Conditions = []metav1.Condition{pt.True(karpv1.ConditionTypeInitialized, pt.Start.Add(-time.Hour))}
				c.Status.LastPodEventTime = metav1.NewTime(tc.status)
			})
			c := pt.New(pt.Pool("p", pt.ConsolidateAfter("10m")), old, pt.Node("a", pt.InPool("p")))
			_, r := disrupt.Plan(c.Snapshot())
			want(t, "consolidatable at", r.Nodes[0].ConsolidatableAt, tc.want)
		})
	}
}

func hours(n int) *metav1.Duration                                   { return &metav1.Duration{Duration: time.Duration(n) * time.Hour} }
func cron(text string) *string                                       { return &text }
func reasons(r ...karpv1.DisruptionReason) []karpv1.DisruptionReason { return r }

// The rules are those of reference/disruption.md §4. The cluster has 5 nodes of the pool.
func TestBudgets(t *testing.T) {
	monday11 := pt.Start.Add(time.Hour) // 2026-03-02 is a Monday
	cases := map[string]struct {
		budgets []karpv1.Budget
		allowed int
		invalid bool
	}{
		"none is no limit":                        {nil, 1<<31 - 1, false},
		"a number":                                {[]karpv1.Budget{{Nodes: "2"}}, 2, false},
		"a percentage is rounded up":              {[]karpv1.Budget{{Nodes: "10%"}}, 1, false},
		"41 percent of five":                      {[]karpv1.Budget{{Nodes: "41%"}}, 3, false},
		"zero percent":                            {[]karpv1.Budget{{Nodes: "0%"}}, 0, false},
		"the least counts":                        {[]karpv1.Budget{{Nodes: "4"}, {Nodes: "1"}, {Nodes: "100%"}}, 1, false},
		"one for another reason does not count":   {[]karpv1.Budget{{Nodes: "4"}, {Nodes: "1", Reasons: reasons("Drifted")}}, 4, false},
		"one that names the reason counts":        {[]karpv1.Budget{{Nodes: "1", Reasons: reasons("Drifted", "Empty")}}, 1, false},
		"no reasons at all, unlike absent ones":   {[]karpv1.Budget{{Nodes: "4"}, {Nodes: "0", Reasons: []karpv1.DisruptionReason{}}}, 4, false},
		"within its window":                       {[]karpv1.Budget{{Nodes: "1", Schedule: cron("0 9 * * 1-5"), Duration: hours(8)}}, 1, false},
		"at the beginning of its window":          {[]karpv1.Budget{{Nodes: "1", Schedule: cron("0 11 * * *"), Duration: hours(1)}}, 1, false},
		"at the end of its window":                {[]karpv1.Budget{{Nodes: "1", Schedule: cron("0 10 * * *"), Duration: hours(1)}}, 1<<31 - 1, false},
		"on another day":                          {[]karpv1.Budget{{Nodes: "1", Schedule: cron("0 9 * * 6"), Duration: hours(8)}}, 1<<31 - 1, false},
		"a name for a schedule":                   {[]karpv1.Budget{{Nodes: "1", Schedule: cron("@daily"), Duration: hours(12)}}, 1, false},
		"a schedule that can't be read":           {[]karpv1.Budget{{Nodes: "4"}, {Nodes: "1", Schedule: cron("whenever"), Duration: hours(1)}}, 0, true},
		"an unreadable one for another reason":    {[]karpv1.Budget{{Nodes: "4"}, {Nodes: "x", Reasons: reasons("Drifted")}}, 0, true},
		"a schedule without a duration":           {[]karpv1.Budget{{Nodes: "1", Schedule: cron("@daily")}}, 0, true},
		"a time zone":                             {[]karpv1.Budget{{Nodes: "1", Schedule: cron("TZ=Asia/Tokyo 0 9 * * *"), Duration: hours(1)}}, 0, true},
		"a negative number":                       {[]karpv1.Budget{{Nodes: "-1"}}, 0, true},
		"a window that spans days with long gaps": {[]karpv1.Budget{{Nodes: "0", Schedule: cron("0 0 1 * *"), Duration: hours(48)}}, 0, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pool := pt.Pool("p", pt.Budgets(tc.budgets...))
			c := cluster(pool, "a", "b", "c", "d", "e")
			s := c.Snapshot()
			want(t, "now", s.Now, monday11)
			if name == "a window that spans days with long gaps" {
				s.Now = s.Now.Add(-time.Hour).Add(-10 * time.Hour) // midnight of the 2nd: still within 48 h from the 1st
			}
			got := disrupt.Budgets(s, pool, karpv1.DisruptionReasonEmpty)
			want(t, "allowed", got.Allowed, tc.allowed)
			want(t, "invalid", got.Invalid != "", tc.invalid)
			want(t, "nodes", got.Nodes, 5)
		})
	}
}

// The rules: disruption §4.
func TestWhatConsumesABudget(t *testing.T) {
	zero := metav1.NewTime(pt.Start)
	pool := pt.Pool("p", pt.Budgets(karpv1.Budget{Nodes: "3"}))
	c := cluster(pool, "a", "b", "c", "d", "e", "f")
	gone := pt.Claim("b-claim", "b", "p", func(k *karpv1.NodeClaim) {
		k.DeletionTimestamp = &zero
		k.Status.Conditions = append(k.Status.Conditions, pt.True(karpv1.ConditionTypeInstanceTerminating, pt.Start))
	})
	deleting := pt.Claim("c-claim", "c", "p", func(k *karpv1.NodeClaim) { k.DeletionTimestamp = &zero })
	c.See(pt.Node("a", pt.InPool("p"), pt.NotReady), gone, deleting, pt.Node("foreign"), pt.Node("fresh", func(n *corev1.Node) { n.Labels[karpv1.NodePoolLabelKey] = "p" }))
	b := disrupt.Budgets(c.Snapshot(), pool, karpv1.DisruptionReasonEmpty)
	want(t, "nodes, without the terminating one", b.Nodes, 5)
	want(t, "consuming: not ready, deleting", b.Consuming, 2)
	want(t, "remaining", b.Remaining, 1)
	d, _ := disrupt.Plan(c.Snapshot())
	want(t, "a, which counts anyway, and one that is ready", taken(d), "a d")
}

// A node that is not ready uses up a budget of one, and must be replaceable under it all the same; ready ones
// wait. The rules: disruption §4.
func TestANodeThatIsNotReadyDoesNotHoldUpItsOwnReplacement(t *testing.T) {
	drifted := func(c *pt.Cluster, node string) {
		c.See(pt.Claim(node+"-claim", node, "p", func(k *karpv1.NodeClaim) {
			k.Status.Conditions = append(k.Status.Conditions, pt.True(karpv1.ConditionTypeInitialized, pt.Start), pt.True(karpv1.ConditionTypeDrifted, pt.Start))
		}))
	}
	cases := map[string]struct {
		budget  string
		unready []string
		first   string
		second  string
	}{
		"one of three":                 {"1", []string{"b"}, "b", ""},
		"two of three, one at a time":  {"1", []string{"b", "c"}, "b", ""},
		"none may go":                  {"0", []string{"b"}, "", ""},
		"all are ready":                {"1", nil, "a", ""},
		"two may go, one is not ready": {"2", []string{"c"}, "a", "c"},
	}
	for name, tc := range cases {
		for _, static := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, static %t", name, static), func(t *testing.T) {
				pool := pt.Pool("p", pt.Budgets(karpv1.Budget{Nodes: tc.budget}), pt.ConsolidateAfter("Never"))
				if static {
					n := int64(3)
					pool.Spec.Replicas = &n
				}
				c := cluster(pool, "a", "b", "c")
				for _, n := range []string{"a", "b", "c"} {
					drifted(c, n)
				}
				for _, n := range tc.unready {
					c.See(pt.Node(n, pt.InPool("p"), pt.NotReady))
				}
				d, _ := disrupt.Plan(c.Snapshot())
				want(t, "first", taken(d), tc.first)
				if d == nil {
					return
				}
				seq := c.Decide(c.Snapshot(), d)
				node := pt.Node(tc.first, pt.InPool("p"), pt.Marked(seq))
				if slices.Contains(tc.unready, tc.first) {
					pt.NotReady(node)
				}
				c.See(node)
				want(t, "confirmed", disrupt.Confirm(c.Snapshot(), c.Ledger.Command(ledger.CommandID(pt.LogID, seq))).Outcome, disrupt.Confirmed)
				d, _ = disrupt.Plan(c.Snapshot())
				want(t, "second", taken(d), tc.second)
			})
		}
	}
}

// The rules: disruption §4.
func TestBlockedByBudget(t *testing.T) {
	p := disrupt.PoolReport{Reason: karpv1.DisruptionReasonEmpty, Nodes: 3}
	want(t, "none allowed", p.BlockedByBudget(), "No allowed disruptions for disruption reason Empty due to blocking budget")
	p.Allowed = 1
	want(t, "some allowed", p.BlockedByBudget(), "")
	want(t, "no nodes", disrupt.PoolReport{Reason: karpv1.DisruptionReasonEmpty}.BlockedByBudget(), "")
}

func command(c *pt.Cluster) *ledger.Command {
	d, _ := disrupt.Plan(c.Snapshot())
	return c.Ledger.Command(ledger.CommandID(pt.LogID, c.Decide(c.Snapshot(), d)))
}

func taint(c *pt.Cluster, nodes ...string) {
	for _, n := range nodes {
		c.See(pt.Node(n, pt.InPool("p"), pt.Marked(c.Ledger.Seq())))
	}
}

// The rules: disruption §6.
func TestConfirm(t *testing.T) {
	deleted := metav1.NewTime(pt.Start)
	cases := map[string]struct {
		do      func(*pt.Cluster)
		outcome disrupt.Outcome
		reason  string
	}{
		"all tainted":         {func(c *pt.Cluster) { taint(c, "a", "b") }, disrupt.Confirmed, ""},
		"one not tainted yet": {func(c *pt.Cluster) { taint(c, "a") }, disrupt.Wait, ""},
		"the mark is an earlier command's": {func(c *pt.Cluster) {
			taint(c, "a")
			c.See(pt.Node("b", pt.InPool("p"), pt.Marked(c.Ledger.Seq()-1)))
		}, disrupt.Wait, ""},
		"a pod arrived":               {func(c *pt.Cluster) { taint(c, "a", "b"); c.See(pt.Pod("x", pt.On("b"))) }, disrupt.Reduced, "node b: pods arrived: default/x"},
		"a pod came before the taint": {func(c *pt.Cluster) { c.See(pt.Pod("x", pt.On("b"))) }, disrupt.Reduced, "node b: pods arrived: default/x"},
		"the node is protected now": {func(c *pt.Cluster) {
			taint(c, "a")
			c.See(pt.Node("b", pt.InPool("p"), pt.Marked(c.Ledger.Seq()), func(n *corev1.Node) { n.Annotations[karpv1.DoNotDisruptAnnotationKey] = "true" }))
		}, disrupt.Reduced, `node b: disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation`},
		"the budget closed":    {func(c *pt.Cluster) { taint(c, "a", "b"); c.See(pt.Pool("p", pt.Budgets(karpv1.Budget{Nodes: "1"}))) }, disrupt.Rollback, "a candidate can no longer be disrupted without violating budgets"},
		"the NodePool is gone": {func(c *pt.Cluster) { taint(c, "a", "b"); c.Gone(pt.Pool("p")) }, disrupt.Rollback, "node a: nodePool not found (NodePool=p)"},
		"one is deleted anyway": {func(c *pt.Cluster) {
			taint(c, "a")
			k := pt.Claim("b-claim", "b", "p")
			k.DeletionTimestamp = &deleted
			c.See(k)
		}, disrupt.Confirmed, ""},
		"one is another by now":      {func(c *pt.Cluster) { taint(c, "a"); k := pt.Claim("b-claim", "b", "p"); k.UID = "new"; c.See(k) }, disrupt.Confirmed, ""},
		"the taints don't show":      {func(c *pt.Cluster) { c.Advance(11 * time.Minute) }, disrupt.Rollback, "command reached timeout"},
		"consolidation was disabled": {func(c *pt.Cluster) { taint(c, "a", "b"); c.See(pt.Pool("p", pt.ConsolidateAfter("Never"))) }, disrupt.Rollback, `node a: NodePool "p" has consolidation disabled`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := cluster(pt.Pool("p", pt.Budgets(karpv1.Budget{Nodes: "2"})), "a", "b", "c")
			c.See(pt.Pod("keep", pt.On("c")))
			cmd := command(c)
			tc.do(c)
			got := disrupt.Confirm(c.Snapshot(), cmd)
			want(t, "outcome", got.Outcome, tc.outcome)
			reason := got.Reason
			for _, n := range got.Dropped {
				reason += "node " + n.Node + ": " + n.Reason
			}
			want(t, "reason", reason, tc.reason)
			d := disrupt.ConfirmDecision(c.Snapshot(), cmd)
			want(t, "nothing is decided while waiting", d == nil, tc.outcome == disrupt.Wait)
		})
	}
}

// A confirmed command waits for its replacements as long as they may come.
// The rules: disruption §6.
func TestAConfirmedCommandAwaitsItsReplacements(t *testing.T) {
	cases := map[string]struct {
		do      func(c *pt.Cluster, replacement string)
		outcome disrupt.Outcome
		reason  string
	}{
		"it is planned":         {func(*pt.Cluster, string) {}, disrupt.Wait, ""},
		"it failed and is gone": {func(c *pt.Cluster, r string) { c.Record(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: r}) }, disrupt.Rollback, "replacement %s was deleted"},
		"it is to go": {func(c *pt.Cluster, r string) {
			c.Record(ledger.KindClaimDoomed, &ledger.ClaimDoomed{Claim: r, Reason: "liveness"})
		}, disrupt.Rollback, "replacement %s was deleted"},
		"it takes more than 10 min": {func(c *pt.Cluster, _ string) { c.Advance(11 * time.Minute) }, disrupt.Rollback, "command reached timeout"},
		"it is initialized, late": {func(c *pt.Cluster, r string) {
			c.Record(ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: r, Node: "new"})
			c.Advance(11 * time.Minute)
		}, disrupt.Confirmed, ""},
		"nothing is left to replace": {func(c *pt.Cluster, _ string) { c.Gone(pt.Claim("a-claim", "a", "p")); c.Advance(11 * time.Minute) }, disrupt.Confirmed, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := cluster(pt.Pool("p"), "a")
			d, _ := disrupt.Plan(c.Snapshot())
			d.Payload.(*ledger.CommandStarted).Replacements = []ledger.PlannedClaim{{NodePool: "p", InstanceTypes: []string{"m5.large"}}}
			seq := c.Decide(c.Snapshot(), d)
			id := ledger.CommandID(pt.LogID, seq)
			c.Record(ledger.KindCommandConfirmed, &ledger.CommandConfirmed{ID: id})
			replacement := ledger.ClaimName(pt.LogID, "p", seq, 0)
			tc.do(c, replacement)
			got := disrupt.Confirm(c.Snapshot(), c.Ledger.Command(id))
			want(t, "outcome", got.Outcome, tc.outcome)
			want(t, "reason", got.Reason, strings.ReplaceAll(tc.reason, "%s", replacement))
			decided := disrupt.ConfirmDecision(c.Snapshot(), c.Ledger.Command(id))
			want(t, "decided", decided != nil, tc.outcome == disrupt.Rollback)
		})
	}
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

// The rules: DESIGN §5.
func TestAStopRollsBackOrPauses(t *testing.T) {
	deleted := metav1.NewTime(pt.Start)
	going := pt.Claim("b-claim", "b", "p")
	going.DeletionTimestamp = &deleted
	cases := map[string]struct {
		state   ledger.CommandState
		see     []any
		outcome disrupt.Outcome
	}{
		"before it was confirmed":                     {ledger.CommandStartedState, nil, disrupt.Rollback},
		"a node of an unconfirmed one goes otherwise": {ledger.CommandStartedState, []any{going}, disrupt.Rollback},
		"confirmed, nothing deleted":                  {ledger.CommandConfirmedState, nil, disrupt.Rollback},
		"confirmed, one deleted":                      {ledger.CommandConfirmedState, []any{going}, disrupt.Wait},
	}
	for name, tc := range cases {
		for _, level := range []ledger.Stop{ledger.StopVoluntary, ledger.StopAll} {
			t.Run(name+", "+string(level), func(t *testing.T) {
				c := cluster(pt.Pool("p"), "a", "b")
				cmd := command(c)
				taint(c, "a", "b")
				cmd.State = tc.state
				c.See(tc.see...)
				c.Record(ledger.KindControlChanged, &ledger.ControlChanged{Stop: level, By: "ann", Why: "release"})
				got := disrupt.Confirm(c.Snapshot(), cmd)
				want(t, "outcome", got.Outcome, tc.outcome)
				if tc.outcome == disrupt.Rollback {
					want(t, "reason", got.Reason, "stopped ("+string(level)+") by ann: release")
				}
				c.Record(ledger.KindControlChanged, &ledger.ControlChanged{By: "ann", Why: "done"})
				want(t, "after the stop", disrupt.Confirm(c.Snapshot(), cmd).Outcome, disrupt.Confirmed)
			})
		}
	}
}
