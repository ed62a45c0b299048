package overview

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
)

// What keeps a NodePool from launching, and its nodes from going: limits, readiness, policy, budgets by
// reason.
func TestWhatKeepsANodePool(t *testing.T) {
	nothing, all := "0", "100%"
	pool := pt.Pool("p", func(p *karpv1.NodePool) {
		p.Spec.Limits = karpv1.Limits(pt.Resources("cpu", "4", "memory", "64Gi"))
		p.Status.Resources = pt.Resources("cpu", "4", "memory", "8Gi")
		p.Status.Conditions = []metav1.Condition{{Type: "NodeClassReady", Status: metav1.ConditionFalse, Reason: "NodeClassNotReady", Message: "no subnet", LastTransitionTime: metav1.NewTime(pt.Start)},
			{Type: "Ready", Status: metav1.ConditionFalse, Reason: "NodeClassNotReady"}}
		p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmpty
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: nothing, Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}}, {Nodes: all}}
	})
	c := pt.New(append(pt.WithCatalogue(), pool)...)
	c.AddNode("a", "p")
	s := c.Snapshot()
	got := ThingNow(s, "pool", "p")
	want := []string{
		"  nothing is launched from it: condition NodeClassReady is False (since 2026-03-02T10:00:00Z): NodeClassNotReady: no subnet",
		"  limits.cpu: 4 of 4 in use: nothing more is launched", "  limits.memory: 8Gi of 64Gi in use",
		"  only empty nodes of it are consolidated: spec.disruption.consolidationPolicy is WhenEmpty",
		"  budgets let none of its nodes go now for Drifted: 0 of 0 allowed are going or not ready",
		"  budgets let 1 of its nodes go at once for Empty, and 1 more now", "  budgets let 1 of its nodes go at once for Underutilized, and 1 more now",
	}
	if len(got) == 0 || !strings.Contains(got[0], "1 node(s) for") {
		t.Fatalf("%q", got)
	}
	if d := cmp.Diff(want, got[1:]); d != "" {
		t.Error(d)
	}
	if got := ThingNow(s, "pool", "nobody's"); got != nil {
		t.Errorf("of one that is not: %q", got)
	}
}

// An EC2NodeClass names who uses it, and what makes it unusable.
func TestWhatKeepsAnEC2NodeClass(t *testing.T) {
	class := pt.NodeClass("default")
	class.Status.Conditions = []metav1.Condition{{Type: awsv1.ConditionTypeSubnetsReady, Status: metav1.ConditionFalse, Reason: "SubnetsNotFound", LastTransitionTime: metav1.NewTime(pt.Start)},
		{Type: "Ready", Status: metav1.ConditionFalse}}
	class.Status.AMIs = []awsv1.AMI{{ID: "ami-1", Name: "al2023"}}
	s := pt.New(class, pt.Pool("p")).Snapshot()
	got := ThingNow(s, "nodeclass", "default")
	if len(got) != 3 || !strings.HasSuffix(got[0], "0 NodeClaim(s); of NodePool p") || got[1] != "  nothing is launched with it: condition SubnetsReady is False (since 2026-03-02T10:00:00Z): SubnetsNotFound" ||
		got[2] != "  launches image ami-1 al2023" {
		t.Errorf("%q", got)
	}
}

// A NodeClaim that is no node yet says why, by its own name and by that of its instance; a command what it
// waits for.
func TestWhatAClaimAndACommandWaitFor(t *testing.T) {
	c := pt.New(append(pt.WithCatalogue(), pt.Pool("p"))...)
	planned := c.Record(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: "p"}}})
	claim := ledger.ClaimName(pt.LogID, "p", planned, 0)
	is := func(kind, name, want string) {
		t.Helper()
		if got := strings.Join(ThingNow(c.Snapshot(), kind, name), "\n"); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s %s: %q, want %q", kind, name, got, want)
		}
	}
	is("claim", claim, "now: not launched: no attempt was made yet")
	c.Record(ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: claim, UID: "u"})
	c.Record(ledger.KindLaunchRequested, &ledger.LaunchRequested{Claim: claim, UID: "u", Attempt: 1})
	is("claim", claim, "now: not launched yet: attempt 1 has no answer since ")
	c.Record(ledger.KindLaunchFailed, &ledger.LaunchFailed{Claim: claim, UID: "u", Attempt: 1, Class: "transient", Reason: "RequestLimitExceeded"})
	is("claim", claim, "now: not launched: launch of NodeClaim "+claim+" failed, attempt 1 (transient, RequestLimitExceeded)")
	c.Record(ledger.KindLaunchRequested, &ledger.LaunchRequested{Claim: claim, UID: "u", Attempt: 2})
	c.Record(ledger.KindLaunched, &ledger.Launched{Claim: claim, UID: "u", Attempt: 2, InstanceID: "i-1", InstanceType: "m5.large", CapacityType: "spot", Zone: "a"})
	is("instance", "i-1", "now: instance i-1, m5.large spot in a, is there; its node has not joined")
	is("instance", "i-2", "")
	proposed := c.Record(ledger.KindCommandProposed, &ledger.CommandProposed{Command: ledger.CommandStarted{Reason: "Empty", Candidates: []ledger.Candidate{{Node: "n", Claim: "c", NodePool: "p"}}},
		Expires: pt.Start.Add(24 * time.Hour)})
	is("command", ledger.CommandID(pt.LogID, proposed), ": it waits for somebody to approve it, until 2026-03-03T10:00:00Z")
	rejected := &ledger.ProposalAnswered{ID: ledger.CommandID(pt.LogID, proposed), By: "ann", Why: "no", Until: pt.Start.Add(time.Hour)}
	c.Record(ledger.KindProposalAnswered, rejected)
	is("command", rejected.ID, "now: rejected, proposed at 2026-03-02T10:00:0")
	is("command", "nobody's", "")
}

// A pod costs what it takes of its node.
func TestWhatAPodCosts(t *testing.T) {
	c := pt.New(append(pt.WithCatalogue(), pt.Pool("p"))...)
	c.AddNode("a", "p")
	c.See(pt.Pod("half", pt.On("a"), pt.Requests("cpu", "1"), func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(pt.Start.Add(-10 * time.Hour)) }))
	got := PodCost(c.Snapshot(), "default/half")
	if len(got) != 1 || !strings.Contains(got[0], "of node a, $") || !strings.HasPrefix(got[0], "cost so far: $") {
		t.Errorf("%q", got)
	}
	if got := PodCost(c.Snapshot(), "default/nobody"); got != nil {
		t.Errorf("%q", got)
	}
}

// A NodePool names the next openings of the windows of the policies that select it, and policies that can't
// be read.
func TestWhenWindowsOfANodePoolOpen(t *testing.T) {
	pool := pt.Pool("p")
	pool.Labels = map[string]string{"team": "mine"}
	c := pt.New(append(pt.WithCatalogue(), pool)...)
	c.See(pt.Policy("day", `{windows: [{action: Deny, schedule: "0 9 * * *", duration: 8h, reasons: [Drifted, Empty]}]}`),
		pt.Policy("night", `{nodePoolSelector: {matchLabels: {team: mine}}, windows: [{action: Allow, schedule: "0 22 * * *", duration: 7h, timeZone: Europe/Berlin}]}`),
		pt.Policy("other", `{nodePoolSelector: {matchLabels: {team: other}}, windows: [{action: Allow, schedule: "0 1 * * *", duration: 7h}]}`),
		pt.Policy("wrong", `{windows: [{action: Allow, schedule: never, duration: 7h}]}`))
	got := strings.Join(ThingNow(c.Snapshot(), "pool", "p"), "\n")
	for _, want := range []string{
		"\n  DisruptionPolicy day denies disruption for Drifted, Empty from 2026-03-02T09:00:00Z to 2026-03-02T17:00:00Z, open now\n",
		"\n  DisruptionPolicy day denies disruption for Drifted, Empty from 2026-03-11T09:00:00Z to 2026-03-11T17:00:00Z\n",
		"\n  DisruptionPolicy night allows disruption for every reason from 2026-03-02T21:00:00Z to 2026-03-03T04:00:00Z\n",
		"\n  no node of it is disrupted: DisruptionPolicy wrong can't be read: spec.windows[0].schedule: ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "other") {
		t.Errorf("names a policy that does not select it:\n%s", got)
	}
}

// A command says what it saves, also a record that names only the prices of its nodes; nothing where the
// price of what comes is not known.
func TestWhatCommandsSave(t *testing.T) {
	for name, tc := range map[string]struct {
		started ledger.CommandStarted
		want    string
	}{
		"empty, of an older record":         {ledger.CommandStarted{Candidates: []ledger.Candidate{{Price: 192_000}}}, "$0.1920/h"},
		"replaced":                          {ledger.CommandStarted{Candidates: []ledger.Candidate{{Price: 192_000}}, PriceAfter: 92_000, Replacements: []ledger.PlannedClaim{{Cheapest: ledger.OfferingPrice{InstanceType: "t"}}}}, "$0.1000/h"},
		"dearer":                            {ledger.CommandStarted{Candidates: []ledger.Candidate{{Price: 92_000}}, PriceAfter: 192_000, Replacements: []ledger.PlannedClaim{{Cheapest: ledger.OfferingPrice{InstanceType: "t"}}}}, "-$0.1000/h"},
		"static drift, of an older record":  {ledger.CommandStarted{Candidates: []ledger.Candidate{{Price: 192_000}}, Replacements: []ledger.PlannedClaim{{}}}, ""},
		"a node of which no price is known": {ledger.CommandStarted{Candidates: []ledger.Candidate{{}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := pt.New()
			c.Record(ledger.KindCommandProposed, &ledger.CommandProposed{Command: tc.started, Expires: pt.Start.Add(time.Hour)})
			if list := Commands(c.Ledger); len(list) != 1 || list[0].SavesText() != tc.want {
				t.Errorf("got %+v, want %s", list, tc.want)
			}
		})
	}
}

// A node whose instance is terminated costs nothing any more; finalizers of others keep its objects.
func TestWhatKeepsANodeWhoseInstanceIsTerminated(t *testing.T) {
	c := pt.New(append(pt.WithCatalogue(), pt.Pool("p"))...)
	c.AddNode("a", "p", func(n *corev1.Node) { n.Finalizers = []string{karpv1.TerminationFinalizer, "example.com/inventory"} })
	if got := ThingNow(c.Snapshot(), "node", "a"); len(got) < 2 || !strings.Contains(got[0], "without it") {
		t.Errorf("while it runs: %q", got)
	}
	c.Record(ledger.KindInstanceTerminated, &ledger.InstanceTerminated{Claim: "a-claim", InstanceID: "i-1"})
	want := []string{"now (as seen at 2026-03-02T10:00:00Z): its instance is terminated; its Node stays until others take their finalizers off: example.com/inventory"}
	for _, thing := range [][2]string{{"node", "a"}, {"claim", "a-claim"}} {
		if d := cmp.Diff(want, ThingNow(c.Snapshot(), thing[0], thing[1])); d != "" {
			t.Errorf("%s: %s", thing, d)
		}
	}
}
