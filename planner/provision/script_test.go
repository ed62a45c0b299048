package provision

import (
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/planner/plannertest/script"
)

// TestRules runs the rules of docs/reference/scheduling.md, written in the language of package script with
// these verbs:
//
//	buffers        prints what CapacityBuffers come to
//	surge NODE NAMESPACE/DEPLOYMENT POD…
//	               the node drains, and its Deployment is to replace the pods first
//	plan [full]    plans, prints what changed, and records it: claims with their price and requirements (those that every claim has
//	               only if full), placements, refusals
func TestRules(t *testing.T) {
	script.Run(t, "testdata/rules/*.txt", map[string]script.Verb{"plan": planVerb, "buffers": buffersVerb, "surge": surgeVerb})
}

func surgeVerb(c *script.Case, a *script.Args) {
	node, deployment := a.Next(), a.Next()
	owner := ledger.SurgedOwner{Facts: ledger.SurgeFacts{Deployment: deployment}, Until: c.Clock.Add(10 * time.Minute)}
	for a.More() {
		name := a.Next()
		for _, p := range c.World.Pods() {
			if p.Name == name {
				owner.Pods = append(owner.Pods, ledger.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name})
			}
		}
	}
	c.Record(ledger.KindDrainStarted, &ledger.DrainStarted{Node: node})
	c.Record(ledger.KindSurgeDecided, &ledger.SurgeDecided{Node: node, Owners: []ledger.SurgedOwner{owner}})
}

func buffersVerb(c *script.Case, _ *script.Args) {
	for _, b := range c.Snapshot().Buffers() {
		c.Printf("%s %d: %s\n", b.Key(), b.Replicas, strings.TrimSpace(b.Reason+" "+b.Message))
	}
}

func planVerb(c *script.Case, a *script.Args) {
	full := a.More() && a.Next() == "full"
	before := c.Ledger.Seq() + 1
	s := c.Snapshot()
	d, r := Plan(s)
	for _, o := range r.OverlayProblems {
		c.Printf("overlay %s not applied: %s\n", o.NodeOverlay, o.Message)
	}
	if d == nil {
		c.Printf("nothing changed: %d kept, %d refused, %d ignored\n", r.Kept, r.Refused, r.Ignored)
		return
	}
	if p, ok := d.Payload.(*ledger.ClaimWithdrawn); ok {
		c.Printf("claim %s withdrawn: %s\n", claimIndex(c, p.Claim, before), p.Reason)
	}
	c.Decide(s, d)
	p, ok := d.Payload.(*ledger.ProvisioningPlanned)
	if !ok {
		return
	}
	for _, prob := range r.Problems {
		c.Printf("pool %s left out: %s: %s\n", prob.NodePool, prob.Reason, prob.Message)
	}
	for i := range p.Claims {
		printClaim(c, fmt.Sprintf("claim %s#%d", p.Claims[i].NodePool, i), &p.Claims[i], full)
	}
	for i := range p.Widened {
		printClaim(c, "widened "+claimIndex(c, p.Widened[i].Claim, before), &p.Widened[i].Content, full)
	}
	for _, pl := range p.Placements {
		to := "node " + pl.Node
		if pl.Claim != "" {
			to = "claim " + claimIndex(c, pl.Claim, before)
		}
		c.Printf("%s: %s\n", to, podNames(pl.Pods))
	}
	for _, x := range p.Excess {
		c.Printf("claim %s is one too many: %s\n", claimIndex(c, x.Claim, before), x.Reason)
	}
	for _, ref := range p.Refused {
		c.Printf("refused %s:\n", podNames(ref.Pods))
		for _, reason := range ref.Reasons {
			c.Printf("  %s [%s] %s\n", reason.NodePool, reason.Constraint, reason.Message)
			printDetails(c, reason)
		}
	}
}

func printClaim(c *script.Case, name string, p *ledger.PlannedClaim, full bool) {
	o := p.Cheapest
	if len(p.InstanceTypes) == 0 {
		c.Printf("%s: as the template of its static NodePool says\n", name)
		return
	}
	c.Printf("%s: %s %s %s $%d.%06d, %d types: %s\n", name, o.InstanceType, o.CapacityType, o.Zone,
		o.MicroUSDPerHour/1e6, o.MicroUSDPerHour%1e6, len(p.InstanceTypes), podNames(p.Pods))
	for _, q := range p.Requirements {
		usual := q.Key == corev1.LabelInstanceTypeStable || q.Key == karpv1.NodePoolLabelKey || strings.HasSuffix(q.Key, "/ec2nodeclass")
		if usual && q.MinValues == nil && !full {
			continue
		}
		c.Printf("  %s %s %v", q.Key, q.Operator, q.Values)
		if q.MinValues != nil {
			c.Printf(" min %d", *q.MinValues)
		}
		c.Printf("\n")
	}
}

func printDetails(c *script.Case, r ledger.Refusal) {
	if len(r.Eliminated) > 0 {
		var parts []string
		for k, n := range r.Eliminated {
			parts = append(parts, fmt.Sprintf("%s %d", k, n))
		}
		sort.Strings(parts)
		c.Printf("    eliminated by %s\n", strings.Join(parts, ", "))
	}
	if r.Closest != "" {
		c.Printf("    closest: %s\n", r.Closest)
	}
}

// claimIndex prints "pool#index of record n" instead of a hash.
func claimIndex(c *script.Case, name string, before uint64) string {
	for seq := uint64(1); seq < before; seq++ {
		for i := range 100 {
			p := c.Ledger.Claim(name)
			if p != nil && ledger.ClaimName(c.Ledger.LogID(), p.NodePool, seq, i) == name {
				return fmt.Sprintf("%s#%d of record %d", p.NodePool, i, seq)
			}
		}
	}
	return name
}

func podNames(pods []ledger.PodRef) string {
	names := make([]string, len(pods))
	for i, p := range pods {
		names[i] = p.Name
	}
	if len(names) > 6 {
		return fmt.Sprintf("%s … %s (%d pods)", names[0], names[len(names)-1], len(names))
	}
	return strings.Join(names, " ")
}
