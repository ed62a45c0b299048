package disrupt_test

import (
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	"millwright/planner/plannertest/script"
	"millwright/planner/provision"
	"millwright/planner/world"
)

// observingVerbs show what the other verbs do not print, and say what else has happened.
var observingVerbs = map[string]script.Verb{
	"relies": reliesVerb, "explain": explainVerb, "told": toldVerb, "claims": claimsVerb, "openings": openingsVerb, "checkpoint": checkpointVerb,
	"evict": evictVerb, "missing": missingVerb,
	"restore": func(c *script.Case, _ *script.Args) {
		b, err := c.World.Checkpoint()
		c.Check(err)
		c.World, err = world.Restore(b)
		c.Check(err)
	},
	"promise": func(c *script.Case, a *script.Args) {
		pod := script.Object[corev1.Pod](c, "pod", a.Next())
		c.Record(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{
			Placements: []ledger.Placement{{Claim: a.Next(), Pods: []ledger.PodRef{{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}}}}})
	},
	"doom": func(c *script.Case, a *script.Args) {
		c.Record(ledger.KindClaimDoomed, &ledger.ClaimDoomed{Claim: a.Next(), Reason: a.Next()})
	},
	"until": func(c *script.Case, a *script.Args) {
		at, err := time.Parse("2006-01-02T15:04", a.Next())
		c.Check(err)
		c.Advance(at.Sub(c.Clock))
	},
}

// evictVerb evicts a pod without a grace period: the condition comes, and the pod is gone.
func evictVerb(c *script.Case, a *script.Args) {
	p := script.Object[corev1.Pod](c, "pod", a.Next()).DeepCopy()
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason: "EvictionByEvictionAPI", LastTransitionTime: metav1.NewTime(c.Clock.Truncate(time.Second))})
	c.Put("pod", p)
	c.Gone(p)
}

func missingVerb(c *script.Case, _ *script.Args) {
	list := provision.Missing(c.Snapshot())
	if len(list) == 0 {
		c.Printf("no pod is missing\n")
	}
	for _, p := range list {
		c.Printf("missing: %s\n", p.Key())
	}
}

// reliesVerb prints the aggregates by which the log knows that nothing has come in between.
func reliesVerb(c *script.Case, _ *script.Args) {
	list, _ := disrupt.Plans(c.Snapshot())
	for _, d := range list {
		var expects []string
		for _, e := range d.Expects {
			expects = append(expects, e.Aggregate)
		}
		c.Printf("%s\n  expects %s\n  advances %s\n", d.Kind, strings.Join(expects, " "), strings.Join(d.Advances, " "))
	}
}

// explainVerb prints of the explanation of each command what the command does not say itself.
func explainVerb(c *script.Case, _ *script.Args) {
	list, _ := disrupt.Plans(c.Snapshot())
	for _, d := range list {
		x := d.Explanation.(disrupt.Explanation)
		for _, n := range x.Taken {
			c.Printf("%s is taken", n.Node)
			if n.Drifted != "" {
				c.Printf(", drifted: %s", n.Drifted)
			}
			c.Printf("\n")
		}
		for _, s := range x.Scores {
			c.Printf("  score in NodePool %s: %d thousandths\n", s.NodePool, s.Thousandths)
		}
	}
}

// toldVerb prints what KubeEvents say of budgets.
func toldVerb(c *script.Case, _ *script.Args) {
	_, r := disrupt.Plans(c.Snapshot())
	for _, p := range r.Pools {
		if text := r.BlockedByBudget(p); text != "" {
			c.Printf("pool %s: %s\n", p.NodePool, text)
		}
	}
}

func claimsVerb(c *script.Case, _ *script.Args) {
	for _, claim := range c.Ledger.Claims() {
		c.Printf("claim %s: %s", claim.Name, claim.State)
		if claim.Doomed != nil {
			c.Printf(", doomed: %s", claim.Doomed.Reason)
		}
		c.Printf("\n")
	}
}

func openingsVerb(c *script.Case, a *script.Args) {
	policy := script.Object[mwv1alpha1.DisruptionPolicy](c, "policy", a.Next())
	most, err := strconv.Atoi(a.Next())
	c.Check(err)
	s := c.Snapshot()
	selected, openings, fault := disrupt.PolicyStatus(policy, s.World.NodePools(), s.Now)
	c.Printf("%d NodePools, %d openings", selected, len(openings))
	if fault != "" {
		c.Printf(", can't be read: %s", fault)
	}
	c.Printf("\n")
	for _, o := range openings[:min(most, len(openings))] {
		c.Printf("%s from %s to %s", o.Action, o.From.UTC().Format("2006-01-02 15:04"), o.Until.UTC().Format("2006-01-02 15:04"))
		if !o.From.After(s.Now) && o.Until.After(s.Now) {
			c.Printf(", open now")
		}
		c.Printf("\n")
	}
}

// checkpointVerb goes on with the Ledger that a checkpoint gives.
func checkpointVerb(c *script.Case, _ *script.Args) {
	data, err := c.Ledger.Checkpoint()
	c.Check(err)
	restored, err := ledger.Restore(data)
	c.Check(err)
	if restored.Digest() != c.Ledger.Digest() {
		c.T.Fatal("the Ledger that a checkpoint gives differs")
	}
	c.Ledger = restored
}
