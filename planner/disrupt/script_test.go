package disrupt_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/disrupt/drainout"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/planner/plannertest/script"
	"millwright/planner/provision"
)

// TestRules runs the rules of docs/reference/disruption.md, written in the language of package script with
// these verbs:
//
//	disrupt                prints the next commands and records them, then which nodes stay and why
//	budgets                prints what the budgets of each NodePool allow, reason by reason
//	mark [NODE…]           puts the mark of the running commands on their nodes, or only on those named
//	confirm                confirms every running command, and records what comes of it
//	replacements STATE     initialized, doomed, withdrawn, ending (its NodeClaim is being deleted) or gone: what became of the
//	                       claims of running commands
//	approve | reject TIME  answers the open proposal; a rejection holds for that time
//	answer                 what comes of an answered proposal
//	succeed                the deletion of the nodes of confirmed commands is accepted
//	gone                   the nodes and claims that commands have taken are gone
//	waves                  prints where the roll-outs in waves stand
//	resume POOL            a person lets a halted roll-out begin anew
//	blockers NODE          prints all that keeps a node, as millctl why does
//	drainout [NODE]        which nodes are to run empty by themselves from now on, or not any more, and why; of NODE what is said
//	taint                  the disruptor has the taints of nodes that are to run empty follow the log
//	evict POD              the pod is evicted, and gone at once
//	missing                prints the pods that their owners have still to create again
//	restore                the World goes on from its checkpoint
//	reclaim                EC2 takes back the nodes that were made to return to what is preferred
//	plan                   the provisioner places the pods that wait
//	relies                 prints which aggregates the next commands expect to be as they are, and which they advance
//	explain                prints why the next commands take their nodes, and their scores in Balanced NodePools
//	told                   prints what NodePools are told of budgets that allow none of their nodes
//	claims                 prints the claims that the log knows, and their states
//	openings POLICY N      prints what the status of a DisruptionPolicy says, with the first N openings
//	promise POD CLAIM      the provisioner has planned the pod for the claim of a node
//	doom CLAIM REASON      the claim is to go, for another reason than a command
//	until TIME             forward, to a time: 2006-01-02T15:04
//	rollout POOL           drift has begun to replace the NodePool's nodes: one that the roll-out before had brought
//	checkpoint             the log goes on from its checkpoint, which must be equal to it
//	stop LEVEL             an emergency stop: voluntary or all; none ends it
func TestRules(t *testing.T) {
	verbs := map[string]script.Verb{
		"disrupt": disruptVerb, "budgets": budgetsVerb, "mark": markVerb, "confirm": confirmVerb, "replacements": replacementsVerb,
		"approve": func(c *script.Case, _ *script.Args) { answerProposal(c, ledger.ProposalAnswered{Approved: true}) },
		"reject": func(c *script.Case, a *script.Args) {
			answerProposal(c, ledger.ProposalAnswered{Until: c.Clock.Add(a.Duration(a.Next()))})
		},
		"drainout": drainOutVerb, "taint": taintVerb,
		"blockers": blockersVerb, "reclaim": reclaimVerb,
		"answer": answerVerb, "plan": planVerb, "succeed": succeedVerb, "gone": goneVerb, "waves": wavesVerb, "rollout": rolloutVerb,
		"resume": func(c *script.Case, a *script.Args) {
			pool := a.Next()
			r, _ := c.Ledger.Rollout(pool)
			c.Record(ledger.KindRolloutResumed, &ledger.RolloutResumed{NodePool: pool, Target: r.Target, By: "ann", Why: "fixed"})
		},
		"stop": func(c *script.Case, a *script.Args) {
			level := ledger.Stop(a.Next())
			if level == "none" {
				level = ""
			}
			c.Record(ledger.KindControlChanged, &ledger.ControlChanged{Stop: level, By: "ann", Why: "release"})
		},
	}
	maps.Copy(verbs, observingVerbs)
	script.Run(t, "testdata/rules/*.txt", verbs)
}

func dollars(micro int64) string { return fmt.Sprintf("$%d.%06d", micro/1e6, micro%1e6) }

func disruptVerb(c *script.Case, _ *script.Args) {
	s := c.Snapshot()
	list, r := disrupt.Plans(s)
	if len(list) == 0 {
		c.Printf("nothing\n")
	}
	for _, d := range list {
		switch p := d.Payload.(type) {
		case *ledger.CommandProposed:
			c.Printf("proposed until %s by %s:\n", p.Expires.UTC().Format(time.TimeOnly), strings.Join(p.Policies, " "))
			printCommand(c, &p.Command)
		case *ledger.CommandStarted:
			printCommand(c, p)
		}
	}
	for _, n := range r.Nodes {
		if n.Blocked == nil {
			continue
		}
		name := n.Node
		if name == "" {
			name = "claim " + n.Claim
		}
		c.Printf("%s stays: %s", name, n.Blocked.Cause)
		if m := n.Blocked.Message; m != "" {
			c.Printf(": %s", m)
		}
		c.Printf("\n")
	}
	for _, p := range r.Pools {
		if text := r.BlockedByBudget(p); text != "" {
			c.Printf("pool %s: %s\n", p.NodePool, text)
		}
	}
	if !r.WakeAt.IsZero() {
		c.Printf("looks again at %s\n", r.WakeAt.UTC().Format(time.DateTime))
	}
	for _, d := range list {
		c.Decide(s, d)
	}
}

func rolloutVerb(c *script.Case, a *script.Args) {
	pool := a.Next()
	planned := c.Record(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: pool}}})
	old := ledger.ClaimName(c.Ledger.LogID(), pool, planned, 0)
	seq := c.Decide(c.Snapshot(), &planner.Decision{Kind: ledger.KindCommandStarted, Payload: &ledger.CommandStarted{Reason: karpv1.DisruptionReasonDrifted,
		Method: disrupt.MethodDrift, Rollout: true, Candidates: []ledger.Candidate{{Claim: old, NodePool: pool}}}})
	c.Record(ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: ledger.CommandID(c.Ledger.LogID(), seq)})
	c.Record(ledger.KindClaimWithdrawn, &ledger.ClaimWithdrawn{Claim: old})
}

func printCommand(c *script.Case, p *ledger.CommandStarted) {
	var nodes []string
	for _, n := range p.Candidates {
		nodes = append(nodes, n.Node)
	}
	c.Printf("%s, %s: %s\n", p.Method, p.Reason, strings.Join(nodes, " "))
	if p.Rollout {
		c.Printf("  of a roll-out\n")
	}
	for _, to := range p.Placements {
		c.Printf("  to %s%s: %s\n", to.Node, to.Claim, names(to.Pods))
	}
	for _, r := range p.Replacements {
		c.Printf("  to a new node of %s", r.NodePool)
		if o := r.Cheapest; o.InstanceType != "" {
			c.Printf(", %s %s %s %s, %d types", o.InstanceType, o.CapacityType, o.Zone, dollars(o.MicroUSDPerHour), len(r.InstanceTypes))
		}
		c.Printf(": %s\n", names(r.Pods))
	}
	if p.PriceBefore > 0 {
		c.Printf("  from %s to %s per hour, %d evictions\n", dollars(p.PriceBefore), dollars(p.PriceAfter), p.Evictions)
	}
}

func names(pods []ledger.PodRef) string {
	var list []string
	for _, p := range pods {
		list = append(list, p.Name)
	}
	return strings.Join(list, " ")
}

func budgetsVerb(c *script.Case, _ *script.Args) {
	s := c.Snapshot()
	for _, pool := range s.World.NodePools() {
		for _, reason := range disrupt.Reasons {
			b := disrupt.Budgets(s, pool, reason)
			switch {
			case b.Unlimited:
				c.Printf("pool %s, %s: no limit on %d nodes\n", pool.Name, reason, b.Nodes)
			case b.Invalid != "":
				c.Printf("pool %s, %s: %s\n", pool.Name, reason, b.Invalid)
			default:
				c.Printf("pool %s, %s: %d of %d nodes, %d used up, %d left\n", pool.Name, reason, b.Allowed, b.Nodes, b.Consuming, b.Remaining)
			}
		}
	}
}

func markVerb(c *script.Case, a *script.Args) {
	only := map[string]bool{}
	for a.More() {
		only[a.Next()] = true
	}
	for _, cmd := range c.Ledger.Commands() {
		for _, n := range cmd.Started.Candidates {
			if len(only) > 0 && !only[n.Node] {
				continue
			}
			node := script.Object[corev1.Node](c, "node", n.Node).DeepCopy()
			node.Spec.Taints = append(node.Spec.Taints, karpv1.DisruptedTaint())
			if node.Annotations == nil {
				node.Annotations = map[string]string{}
			}
			node.Annotations[karpv1.RecordAnnotationKey] = ledger.RecordAnnotation(c.Ledger.LogID(), cmd.Seq)
			c.Put("node", node)
		}
	}
}

func confirmVerb(c *script.Case, _ *script.Args) {
	if len(c.Ledger.Commands()) == 0 {
		c.Printf("no command\n")
	}
	for _, cmd := range c.Ledger.Commands() {
		var nodes []string
		for _, n := range cmd.Started.Candidates {
			nodes = append(nodes, n.Node)
		}
		s := c.Snapshot()
		v := disrupt.Confirm(s, cmd)
		c.Printf("command for %s: %s", strings.Join(nodes, " "), strings.ToLower(v.Outcome.String()))
		if len(v.Waiting) > 0 {
			c.Printf(" for %s", strings.Join(v.Waiting, " "))
		}
		if v.Reason != "" {
			c.Printf(": %s", v.Reason)
		}
		c.Printf("\n")
		for _, n := range v.Dropped {
			c.Printf("  without %s: %s\n", n.Node, n.Reason)
		}
		if d := disrupt.ConfirmDecision(s, cmd); d != nil {
			c.Decide(s, d)
			if back, ok := d.Payload.(*ledger.CommandRolledBack); ok && len(back.Unused)+len(back.Failing) > 0 {
				c.Printf("  %d replacements go, failing NodePools: %s\n", len(back.Unused), strings.Join(back.Failing, " "))
			}
		}
	}
}

// replacementsVerb says what became of the claims of running commands.
func replacementsVerb(c *script.Case, a *script.Args) {
	state := a.Next()
	for _, cmd := range c.Ledger.Commands() {
		for i, r := range cmd.Started.Replacements {
			name := ledger.ClaimName(c.Ledger.LogID(), r.NodePool, cmd.Seq, i)
			switch state {
			case "initialized":
				c.Record(ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: name, Node: "new-" + fmt.Sprint(i)})
			case "doomed":
				c.Record(ledger.KindClaimDoomed, &ledger.ClaimDoomed{Claim: name, Reason: "liveness"})
			case "withdrawn":
				c.Record(ledger.KindClaimWithdrawn, &ledger.ClaimWithdrawn{Claim: name})
			case "gone":
				c.Record(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: name})
			case "ending":
				made := plannertest.Claim(name, "", r.NodePool)
				made.DeletionTimestamp, made.Finalizers = &metav1.Time{Time: c.Clock}, []string{karpv1.TerminationFinalizer}
				c.Record(ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: name, UID: made.UID})
				c.Put("claim", made)
			default:
				c.T.Fatalf("replacements %s", state)
			}
		}
	}
}

func openProposal(c *script.Case) *ledger.Proposal {
	list := c.Ledger.Proposals()
	if len(list) != 1 {
		c.T.Fatalf("%d proposals are open", len(list))
	}
	return list[0]
}

func answerProposal(c *script.Case, a ledger.ProposalAnswered) {
	a.ID, a.By, a.Why = openProposal(c).ID, "ann", "because"
	c.Record(ledger.KindProposalAnswered, &a, ledger.CommandAggregate(a.ID))
}

func answerVerb(c *script.Case, _ *script.Args) {
	s := c.Snapshot()
	d := disrupt.AnswerDecision(s, openProposal(c))
	switch {
	case d == nil:
		c.Printf("waits\n")
		return
	case d.Kind == ledger.KindProposalEnded:
		c.Printf("ended: %s\n", d.Payload.(*ledger.ProposalEnded).Reason)
	default:
		printCommand(c, d.Payload.(*ledger.CommandStarted))
	}
	c.Decide(s, d)
}

func planVerb(c *script.Case, _ *script.Args) {
	s := c.Snapshot()
	d, _ := provision.Plan(s)
	if d == nil {
		c.Printf("nothing to plan\n")
		return
	}
	printPlan(c, d)
	c.Decide(s, d)
}

func printPlan(c *script.Case, d *planner.Decision) {
	p, ok := d.Payload.(*ledger.ProvisioningPlanned)
	if !ok {
		c.Printf("%s\n", d.Kind)
		return
	}
	for _, n := range p.Claims {
		c.Printf("a new %s: %s\n", n.Cheapest.InstanceType, names(n.Pods))
	}
	for _, to := range p.Placements {
		c.Printf("on %s%s: %s\n", to.Node, to.Claim, names(to.Pods))
	}
	for _, r := range p.Refused {
		c.Printf("refused: %s\n", names(r.Pods))
	}
}

func succeedVerb(c *script.Case, _ *script.Args) {
	for _, cmd := range c.Ledger.Commands() {
		if cmd.State == ledger.CommandConfirmedState {
			c.Record(ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: cmd.ID})
		}
	}
}

func goneVerb(c *script.Case, _ *script.Args) {
	for _, n := range c.Snapshot().StateNodes() {
		if n.Ledger == nil || n.Ledger.TakenBy == "" {
			continue
		}
		for _, p := range n.Pods {
			c.Gone(script.Object[corev1.Pod](c, "pod", p.Name))
		}
		c.Gone(n.Node.Object, n.Claim)
		c.Record(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: n.Claim.Name})
	}
}

func blockersVerb(c *script.Case, a *script.Args) {
	s := c.Snapshot()
	for _, b := range disrupt.Blockers(s, s.StateNode(a.Next())) {
		c.Printf("%s: %s\n", b.Cause, strings.Join(b.Reasons(), ", "))
	}
}

func drainOutVerb(c *script.Case, a *script.Args) {
	s := c.Snapshot()
	if a.More() {
		node := a.Next()
		text, _ := drainout.Text(s, s.StateNode(node))
		c.Printf("%s: %s\n", node, cmp.Or(text, "nothing is said"))
		return
	}
	d, _ := drainout.Plan(s, "")
	if d == nil {
		c.Printf("as before: %s\n", cmp.Or(strings.Join(s.Ledger.DrainOuts(), " "), "none"))
		return
	}
	switch p := d.Payload.(type) {
	case *ledger.DrainOutStarted:
		for _, n := range p.Nodes {
			c.Printf("%s is to run empty, for policy %s, %s:", n.Node, n.Policy, dollars(n.Price))
			for _, pod := range n.Pods {
				c.Printf(" %s (%s)", pod.Name, pod.Why)
			}
			c.Printf("\n")
		}
	case *ledger.DrainOutEnded:
		for _, n := range p.Nodes {
			c.Printf("%s is not to run empty any more: %s\n", n.Node, n.Reason)
		}
	}
	c.Decide(s, d)
}

// taintVerb lets the taints follow the log.
func taintVerb(c *script.Case, _ *script.Args) {
	s := c.Snapshot()
	for _, n := range c.Nodes() {
		n = n.DeepCopy()
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, planner.IsDrainOut)
		if s.DrainsOut(s.StateNode(n.Name)) {
			n.Spec.Taints = append(n.Spec.Taints, planner.DrainOutTaint())
		}
		c.Put("node", n)
	}
}

func reclaimVerb(c *script.Case, _ *script.Args) {
	for _, claim := range c.Ledger.Claims() {
		if claim.Returned {
			c.Record(ledger.KindClaimDoomed, &ledger.ClaimDoomed{Claim: claim.Name, Reason: "spot_interrupted",
				Unavailable: []ledger.FailedOffering{{InstanceType: "m5.xlarge", Zone: "zone-a", CapacityType: karpv1.CapacityTypeSpot}}})
			c.Record(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: claim.Name})
		}
	}
}

func wavesVerb(c *script.Case, _ *script.Args) {
	for _, w := range disrupt.Waves(c.Snapshot()) {
		c.Printf("pool %s: wave %d of %d nodes, %d replaced, %d of them going, %d commands, %d left", w.NodePool, w.Number, w.Nodes, w.Replaced, w.Going, w.Started, w.Left)
		if w.Halted != nil {
			c.Printf(", halted: %s", w.Halted.Reason)
		}
		c.Printf("\n")
	}
}
