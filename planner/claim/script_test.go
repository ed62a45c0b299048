package claim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/planner/plannertest/script"
	"millwright/planner/provision"
)

// TestRules runs the rules of lifecycle §2 to §7 on one claim, "it", written in the language of package
// script with these verbs:
//
//	planned POOL           the log plans it, and knows no NodeClaim yet
//	found NAME [inherited] its NodeClaim is seen, which somebody else made; the log does not know it
//	made                   its NodeClaim is seen, made as planned, with the finalizer
//	record WHAT            created, adopted, requested, launched, failed CLASS [MESSAGE], registered, initialized, doomed REASON, terminated,
//	                       drained NODE: what the log has recorded
//	fact WHAT              object-gone, node-gone, pool-missing, pool-gone, refused, sought, held, stopped, log-away, terminated, missing, ending, retry
//	                       DURATION, paced REASON DURATION, block DURATION: what only a service can know
//	next                   prints its state and its next move
//	status                 prints its conditions as they should be, and shows them
//	it                     lays its block over its NodeClaim
//	joins NODE             the Node of its instance is there, ready, with the taint unregistered, and its block laid over
func TestRules(t *testing.T) {
	script.Run(t, "testdata/rules/*.txt", map[string]script.Verb{
		"planned": plannedVerb, "found": foundVerb, "made": madeVerb, "record": recordVerb, "fact": factVerb, "next": nextVerb,
		"status": statusVerb, "it": itVerb, "joins": joinsVerb,
	})
}

// subject is the claim that a case is about.
type subject struct {
	name    string
	planned *ledger.PlannedClaim
	record  uint64
	object  *karpv1.NodeClaim
	facts   claim.Input
}

// it is the claim of a case; there is one for each.
func it(c *script.Case) *subject {
	if c.State == nil {
		c.State = &subject{}
	}
	return c.State.(*subject)
}

func plannedVerb(c *script.Case, a *script.Args) {
	s := it(c)
	s.planned = &ledger.PlannedClaim{NodePool: a.Next(), NodeClassRef: karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"}, InstanceTypes: []string{"m5.large"}}
	s.record = c.Record(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{*s.planned}})
	s.name = ledger.ClaimName(c.Ledger.LogID(), s.planned.NodePool, s.record, 0)
}

func (s *subject) show(c *script.Case, o *karpv1.NodeClaim) {
	s.object, s.name, c.Subject = o, o.Name, o.Name
	c.Put("claim", o)
}

func foundVerb(c *script.Case, a *script.Args) {
	o := &karpv1.NodeClaim{}
	o.Name = a.Next()
	o.UID, o.CreationTimestamp.Time = types.UID("uid-"+o.Name), c.Clock
	o.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"}
	if a.More() && a.Next() == "inherited" {
		o.Finalizers = []string{karpv1.TerminationFinalizer}
	}
	it(c).show(c, script.Over(c, o, a.Block()))
}

func madeVerb(c *script.Case, a *script.Args) {
	s := it(c)
	o := provision.NodeClaim(c.Ledger.LogID(), s.record, 0, *s.planned)
	o.UID, o.CreationTimestamp.Time = types.UID("uid-"+o.Name), c.Clock
	s.show(c, script.Over(c, o, a.Block()))
}

func itVerb(c *script.Case, a *script.Args) { it(c).show(c, script.Over(c, it(c).object, a.Block())) }

const instanceID = "i-1"

// joinsVerb shows the Node of its instance, ready, as kubelet registers it.
func joinsVerb(c *script.Case, a *script.Args) {
	n := &corev1.Node{}
	n.Name = a.Next()
	n.Spec.ProviderID = "aws:///zone-a/" + instanceID
	n.Spec.Taints = []corev1.Taint{karpv1.UnregisteredTaint()}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	c.Put("node", script.Over(c, n, a.Block()))
}

func recordVerb(c *script.Case, a *script.Args) {
	s := it(c)
	var uid types.UID
	if s.object != nil {
		uid = s.object.UID
	}
	switch what := a.Next(); what {
	case "created":
		c.Record(ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: s.name, UID: uid, Record: s.record})
	case "adopted":
		c.Record(ledger.KindClaimAdopted, &ledger.ClaimAdopted{Claim: s.name, UID: uid, ProviderID: s.object.Status.ProviderID, Inherited: slices.Contains(s.object.Finalizers, karpv1.TerminationFinalizer)})
	case "requested":
		c.Record(ledger.KindLaunchRequested, &ledger.LaunchRequested{Claim: s.name, UID: uid, Attempt: 1, Token: "t"})
	case "launched":
		c.Record(ledger.KindLaunched, &ledger.Launched{Claim: s.name, UID: uid, Attempt: 1, InstanceID: instanceID, ProviderID: "aws:///zone-a/" + instanceID, InstanceType: "m5.large", Zone: "zone-a", CapacityType: "on-demand"})
	case "failed":
		f := &ledger.LaunchFailed{Claim: s.name, UID: uid, Attempt: 1, Class: a.Next(), Reason: "LaunchFailed"}
		for a.More() {
			f.Message = strings.TrimSpace(f.Message + " " + a.Next())
		}
		c.Record(ledger.KindLaunchFailed, f)
	case "registered":
		c.Record(ledger.KindClaimRegistered, &ledger.ClaimRegistered{Claim: s.name, Node: a.Next()})
	case "initialized":
		c.Record(ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: s.name, Node: a.Next()})
	case "doomed":
		c.Record(ledger.KindClaimDoomed, &ledger.ClaimDoomed{Claim: s.name, UID: uid, Reason: a.Next(), Deadline: deadlineOf(c, a)})
	case "terminated":
		c.Record(ledger.KindInstanceTerminated, &ledger.InstanceTerminated{Claim: s.name, InstanceID: instanceID})
	case "drained":
		node := a.Next()
		c.Record(ledger.KindDrainStarted, &ledger.DrainStarted{Node: node, Claim: s.name})
		c.Record(ledger.KindNodeDrained, &ledger.NodeDrained{Node: node, Claim: s.name, VolumesDetached: true})
	default:
		c.T.Fatalf("record %s", what)
	}
}

func factVerb(c *script.Case, a *script.Args) {
	f := &it(c).facts
	switch what := a.Next(); what {
	case "object-gone":
		f.ObjectGone = true
	case "node-gone":
		f.NodeGone = true
	case "pool-missing":
		f.PoolMissing = true
	case "pool-gone":
		f.PoolMissing, f.PoolGone = true, true
	case "refused":
		f.Refused = true
	case "sought":
		f.Sought = true
	case "held":
		f.CollectionHeld = true
	case "stopped":
		f.Stopped = true
	case "log-away":
		f.LogAway = true
	case "terminated":
		f.Instance = claim.InstanceFacts{Terminated: true}
	case "missing":
		f.Instance = claim.InstanceFacts{Missing: true}
	case "ending":
		f.Instance = claim.InstanceFacts{Ending: true}
	case "retry":
		f.RetryAt = c.Clock.Add(a.Duration(a.Next()))
	case "boot":
		f.Boot = &claim.Boot{InstanceID: instanceID, State: a.Next()}
		for a.More() {
			f.Boot.Console = strings.TrimSpace(f.Boot.Console + " " + a.Next())
		}
	case "block":
		f.BlockEnds = c.Clock.Add(a.Duration(a.Next()))
	case "impaired":
		f.Boot = &claim.Boot{InstanceID: instanceID, State: "running", Checks: []string{"system: reachability"}}
	case "paced":
		f.Paced = map[string]time.Time{a.Next(): c.Clock.Add(a.Duration(a.Next()))}
	default:
		c.T.Fatalf("fact %s", what)
	}
}

// deadlineOf is the time that follows in the arguments as what is left until then; zero if nothing follows.
func deadlineOf(c *script.Case, a *script.Args) (at time.Time) {
	if a.More() {
		at = c.Clock.Add(a.Duration(a.Next()))
	}
	return at
}

// input is what a service would know about the claim.
func (s *subject) input(c *script.Case) claim.Input {
	in, snap := s.facts, c.Snapshot()
	l, o := snap.Ledger.Claim(s.name), snap.World.NodeClaim(s.name)
	in.Name, in.Now, in.AsOf = s.name, snap.Now, snap.Certain()
	in.LaunchTimeout, in.RegistrationTimeout = c.Options.LaunchTimeout, c.Options.RegistrationTimeout
	in.Ledger, in.Object = claim.FactsOfLedger(l), claim.FactsOfObject(o, l, c.Ledger.LogID())
	in.NodeClass, in.Failure = claim.FactsOfNodeClass(snap.World.NodeClass("default")), claim.FailureOf(l)
	for _, n := range nodesOf(c, l, o) {
		d := snap.Ledger.Drain(n.Name)
		in.Nodes = append(in.Nodes, claim.FactsOfNode(n, o, d != nil && d.Drained > 0))
	}
	return in
}

// nodesOf are the Nodes of the claim's instance, as the log or the object names it.
func nodesOf(c *script.Case, l *ledger.Claim, o *karpv1.NodeClaim) []*corev1.Node {
	providerID := ""
	switch {
	case l != nil && l.Instance != nil:
		providerID = l.Instance.ProviderID
	case o != nil:
		providerID = o.Status.ProviderID
	}
	return slices.DeleteFunc(c.Nodes(), func(n *corev1.Node) bool { return providerID == "" || n.Spec.ProviderID != providerID })
}

func nextVerb(c *script.Case, _ *script.Args) {
	in := it(c).input(c)
	a := claim.Next(in)
	c.Printf("%s: %s", claim.StateOf(in), a.Move)
	if a.Reason != "" {
		c.Printf(" for %s", a.Reason)
	}
	if a.Message != "" {
		c.Printf(": %s", a.Message)
	}
	if !a.At.IsZero() {
		c.Printf(" until %s", a.At.UTC().Format(time.DateTime))
	}
	c.Printf("\n")
}

func statusVerb(c *script.Case, _ *script.Args) {
	s, snap := it(c), c.Snapshot()
	l, o := snap.Ledger.Claim(s.name), snap.World.NodeClaim(s.name)
	out := claim.Desired(o, claim.StatusFacts{
		Claim: l, Nodes: nodesOf(c, l, o), NodeClass: claim.FactsOfNodeClass(snap.World.NodeClass("default")), Failure: claim.FailureOf(l), Boot: s.facts.Boot,
	}, c.Clock)
	for _, x := range out.Status.Conditions {
		text := fmt.Sprintf("%s %s", x.Type, x.Status)
		if x.Reason != x.Type {
			text += " " + x.Reason
		}
		if x.Message != "" {
			text += ": " + x.Message
		}
		c.Printf("%s, since %s\n", text, x.LastTransitionTime.UTC().Format(time.TimeOnly))
	}
	s.show(c, out)
}
