package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner/ledger"
)

// Describe says in one line what an entry records, without its time and sequence. logID names the claims and
// commands a decision made; it may be empty.
func Describe(e ledger.Entry, logID string) string {
	text := describe(e, logID)
	if e.Mode == ledger.ModeShadow {
		return "(shadow) " + text
	}
	return text
}

func describe(e ledger.Entry, logID string) string {
	switch p := e.Payload.(type) {
	case nil:
		return fmt.Sprintf("%s: a record this version does not know", e.Kind)
	case *ledger.Genesis:
		return fmt.Sprintf("log %s of cluster %q begins", p.LogID, p.Cluster)
	case *ledger.OptionsSet:
		return "planning options in force: " + clip(string(p.Options), 400)
	case *ledger.ControlChanged:
		return describeControl(p)
	case *ledger.ModeChanged:
		return fmt.Sprintf("%s works in mode %s", p.Service, p.Mode)
	case *ledger.LogAdopted:
		return "objects of other logs are taken over: " + strings.Join(p.Logs, ", ")
	case *ledger.AggregatesRetired:
		return describeRetired(p)
	case *ledger.LedgerCheckpoint:
		return fmt.Sprintf("ledger checkpoint of record %d", p.Seq)
	case *ledger.SegmentArchived:
		return fmt.Sprintf("records %d to %d archived in %s (%d bytes)", p.First, p.Last, p.File, p.Bytes)
	case *ledger.AlarmRaised:
		return fmt.Sprintf("alarm %s: %s", p.Reason, p.Message)
	case *ledger.OrphanFound:
		return fmt.Sprintf("instance %s has no NodeClaim (tag %q) and is terminated", p.InstanceID, p.ClaimTag)
	case *ledger.MemoryDiscovered:
		return fmt.Sprintf("%s with image %s has %d MiB of memory, as node %s shows; estimated were %d MiB", p.InstanceType, p.ImageID, p.Bytes>>20, p.Node, p.Estimated>>20)
	case *ledger.BundleTaken:
		return fmt.Sprintf("bundle of records %d to %d (%s) taken by %s: %s", p.From, p.To, p.About, p.By, p.Why)
	case *ledger.SharesObserved:
		return describeShares(p)
	case *ledger.DriftJudged:
		return describeDrift(p)
	case *ledger.ProvisioningPlanned:
		return describeProvisioning(e, p, logID)
	}
	if text := describeClaim(e); text != "" {
		return text
	}
	return describeNode(e, logID)
}

func describeRetired(p *ledger.AggregatesRetired) string {
	text := fmt.Sprintf("of claims, commands and nodes that are no more, %d aggregates are forgotten", len(p.Aggregates))
	if p.Shadow {
		text += ", and what was said in shadow mode"
	}
	return text
}

func describeDrift(p *ledger.DriftJudged) string {
	var parts []string
	for _, c := range p.Claims {
		verdict := "has not drifted any more"
		if c.Reason != "" {
			verdict = "has drifted: " + c.Reason
		}
		parts = append(parts, fmt.Sprintf("NodeClaim %s %s", c.Claim, verdict))
	}
	return strings.Join(parts, "; ")
}

func describeControl(c *ledger.ControlChanged) string {
	text := fmt.Sprintf("stopped (%s) by %s", c.Stop, c.By)
	if c.Stop == ledger.StopNone {
		text = "resumed by " + c.By
	}
	if c.Why != "" {
		text += ": " + c.Why
	}
	return text
}

func describeProvisioning(e ledger.Entry, p *ledger.ProvisioningPlanned, logID string) string {
	var parts []string
	for i := range p.Claims {
		parts = append(parts, describePlanned(&p.Claims[i], claimName(logID, p.Claims[i].NodePool, e.Seq, i)))
	}
	for i := range p.Widened {
		parts = append(parts, describeWidened(&p.Widened[i]))
	}
	for _, t := range p.Placements {
		parts = append(parts, fmt.Sprintf("%s on %s", pods(t.Pods), target(t)))
	}
	for _, r := range p.Refused {
		parts = append(parts, fmt.Sprintf("%s cannot be placed", pods(r.Pods)))
	}
	for _, x := range p.Excess {
		parts = append(parts, fmt.Sprintf("NodeClaim %s given up: its NodePool has too many", x.Claim))
	}
	for _, x := range p.Excluded {
		parts = append(parts, fmt.Sprintf("node %s excluded for %d pods that kube-scheduler does not put there", x.Node, len(x.Pods)))
	}
	if len(p.Gone) > 0 {
		parts = append(parts, fmt.Sprintf("%d verdicts forgotten", len(p.Gone)))
	}
	return strings.Join(parts, "; ")
}

func claimName(logID, pool string, seq uint64, index int) string {
	if logID == "" {
		return fmt.Sprintf("%s-#%d", pool, index)
	}
	return ledger.ClaimName(logID, pool, seq, index)
}

func describePlanned(c *ledger.PlannedClaim, name string) string {
	if len(c.InstanceTypes) == 0 {
		return fmt.Sprintf("NodeClaim %s planned for the replicas of NodePool %s", name, c.NodePool)
	}
	return fmt.Sprintf("NodeClaim %s of NodePool %s planned for %s: %d instance types, cheapest %s", name, c.NodePool, pods(c.Pods), len(c.InstanceTypes), offering(c.Cheapest))
}

func describeWidened(w *ledger.WidenedClaim) string {
	c := &w.Content
	return fmt.Sprintf("NodeClaim %s of NodePool %s widened, now planned for %s: %d instance types, cheapest %s", w.Claim, c.NodePool, pods(c.Pods), len(c.InstanceTypes), offering(c.Cheapest))
}

func offering(o ledger.OfferingPrice) string {
	return fmt.Sprintf("%s %s in %s at %s", o.InstanceType, o.CapacityType, o.Zone, PriceOf(o))
}

// PriceOf an offering, as Price renders it; reserved capacity is paid for already.
func PriceOf(o ledger.OfferingPrice) string {
	switch {
	case o.ReservationID != "":
		return "next to nothing, reservation " + o.ReservationID
	case o.CapacityType == karpv1.CapacityTypeReserved && o.MicroUSDPerHour == 0:
		return "next to nothing"
	}
	return Price(o.MicroUSDPerHour)
}

// Price renders micro USD per hour as "$0.0960/h".
func Price(micro int64) string {
	if micro == 0 {
		return "an unknown price"
	}
	tenths := (micro + 50) / 100
	return fmt.Sprintf("$%d.%04d/h", tenths/10000, tenths%10000)
}

func target(t ledger.Placement) string {
	if t.Node != "" {
		return "node " + t.Node
	}
	return "NodeClaim " + t.Claim
}

// pods names up to three.
func pods(list []ledger.PodRef) string {
	if len(list) == 1 {
		return "pod " + list[0].Namespace + "/" + list[0].Name
	}
	var names []string
	for _, p := range list[:min(len(list), 3)] {
		names = append(names, p.Namespace+"/"+p.Name)
	}
	text := fmt.Sprintf("%d pods", len(list))
	if len(names) > 0 {
		text += " (" + strings.Join(names, ", ")
		if len(list) > 3 {
			text += ", …"
		}
		text += ")"
	}
	return text
}

func describeClaim(e ledger.Entry) string {
	switch p := e.Payload.(type) {
	case *ledger.ClaimWithdrawn:
		return fmt.Sprintf("planned NodeClaim %s withdrawn: %s", p.Claim, p.Reason)
	case *ledger.ClaimCreated:
		if p.Record > 0 {
			return fmt.Sprintf("NodeClaim %s created, as record %d has it", p.Claim, p.Record)
		}
		return fmt.Sprintf("NodeClaim %s created", p.Claim)
	case *ledger.ClaimAdopted:
		if p.Inherited {
			return fmt.Sprintf("NodeClaim %s adopted without an instance, which is looked for by tag", p.Claim)
		}
		return fmt.Sprintf("NodeClaim %s adopted%s", p.Claim, suffix(", instance ", p.ProviderID))
	case *ledger.LaunchRequested:
		if n := len(p.Others); n > 0 {
			return fmt.Sprintf("launch of NodeClaim %s and %d others requested by one fleet, attempt %d, token %s", p.Claim, n, p.Attempt, p.Token)
		}
		return fmt.Sprintf("launch of NodeClaim %s requested, attempt %d, token %s", p.Claim, p.Attempt, p.Token)
	case *ledger.Launched:
		return describeLaunched(p)
	case *ledger.LaunchFailed:
		return describeLaunchFailed(p)
	case *ledger.FleetAnswered:
		return fmt.Sprintf("fleet of NodeClaim %s launched %d of %d%s", p.Claim, len(p.Launched), len(p.Launched)+len(p.Failed), failed(p.Unavailable))
	case *ledger.ClaimRegistered:
		return fmt.Sprintf("NodeClaim %s registered as node %s", p.Claim, p.Node)
	case *ledger.ClaimInitialized:
		return fmt.Sprintf("node %s of NodeClaim %s is ready for pods", p.Node, p.Claim)
	case *ledger.ClaimDoomed:
		return fmt.Sprintf("NodeClaim %s must go: %s%s", p.Claim, p.Reason, suffix(", ", p.Message))
	case *ledger.InstanceTerminated:
		return fmt.Sprintf("instance %s of NodeClaim %s is terminated", p.InstanceID, p.Claim)
	case *ledger.ClaimClosed:
		return fmt.Sprintf("NodeClaim %s closed: %s", p.Claim, p.Reason)
	}
	return ""
}

func describeLaunched(p *ledger.Launched) string {
	what := ledger.OfferingPrice{InstanceType: p.InstanceType, Zone: p.Zone, CapacityType: p.CapacityType, MicroUSDPerHour: p.Price, ReservationID: p.ReservationID}
	return fmt.Sprintf("NodeClaim %s launched as %s: %s%s", p.Claim, p.InstanceID, offering(what), failed(p.Unavailable))
}

func describeLaunchFailed(p *ledger.LaunchFailed) string {
	return fmt.Sprintf("launch of NodeClaim %s failed, attempt %d (%s, %s): %s%s", p.Claim, p.Attempt, p.Class, p.Reason, p.Message, failed(p.Unavailable))
}

func suffix(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}

func failed(list []ledger.FailedOffering) string {
	if len(list) == 0 {
		return ""
	}
	var names []string
	for _, f := range list[:min(len(list), 3)] {
		if f.SubnetID != "" {
			names = append(names, fmt.Sprintf("subnet %s (%s)", f.SubnetID, f.Code))
			continue
		}
		if f.InstanceType == "" && f.Zone == "" && f.PlacementGroup == "" {
			names = append(names, fmt.Sprintf("anything that is %s (%s)", f.CapacityType, f.Code))
			continue
		}
		if f.InstanceType == "" && f.PlacementGroup != "" {
			names = append(names, fmt.Sprintf("placement group %s in %s (%s)", f.PlacementGroup, f.Zone, f.Code))
			continue
		}
		names = append(names, fmt.Sprintf("%s %s in %s%s (%s)", f.InstanceType, f.CapacityType, f.Zone, suffix(" of placement group ", f.PlacementGroup), f.Code))
	}
	if len(list) > 3 {
		names = append(names, fmt.Sprintf("%d more", len(list)-3))
	}
	return "; no capacity for " + strings.Join(names, ", ")
}

func describeNode(e ledger.Entry, logID string) string {
	switch p := e.Payload.(type) {
	case *ledger.CommandProposed, *ledger.ProposalAnswered, *ledger.ProposalEnded:
		return describeProposal(e, logID)
	case *ledger.CommandStarted:
		id := ""
		if logID != "" {
			id = " " + ledger.CommandID(logID, e.Seq)
		}
		text := describeCommand(p, id)
		if w := p.Wave; w != nil {
			text += fmt.Sprintf(", in wave %d (of %d nodes) of its NodePool's roll-out", w.Number, w.Nodes)
		}
		if p.Proposal != "" {
			text += ", as was approved (" + p.Proposal + ")"
		}
		return text
	case *ledger.CommandConfirmed:
		return fmt.Sprintf("command %s confirmed: taints are on and nothing has changed", p.ID)
	case *ledger.CommandSucceeded:
		return fmt.Sprintf("command %s succeeded: its NodeClaims are being deleted", p.ID)
	case *ledger.CommandReduced:
		names := make([]string, len(p.Dropped))
		for i, n := range p.Dropped {
			names[i] = fmt.Sprintf("%s (%s)", n.Node, n.Reason)
		}
		return fmt.Sprintf("command %s goes on without %s", p.ID, clip(strings.Join(names, ", "), 400))
	case *ledger.CommandRolledBack:
		text := fmt.Sprintf("command %s rolled back: %s", p.ID, p.Reason)
		if n := len(p.Unused); n > 0 {
			text += fmt.Sprintf("; %d unused replacement(s) go", n)
		}
		if p.HaltsRollout {
			text += "; the roll-out of its NodePool halts"
		}
		return text
	case *ledger.RolloutResumed:
		return fmt.Sprintf("roll-out of NodePool %s resumed by %s: %s", p.NodePool, p.By, p.Why)
	case *ledger.DrainOutStarted, *ledger.DrainOutEnded:
		return describeDrainOuts(e)
	case *ledger.DrainStarted:
		text := fmt.Sprintf("drain of node %s started (%s)", p.Node, p.Reason)
		if !p.Deadline.IsZero() {
			text += ", all pods go by " + p.Deadline.UTC().Format("2006-01-02T15:04:05Z")
		}
		return text
	case *ledger.DrainTierStarted:
		return describeTier(p)
	case *ledger.SurgeDecided:
		return describeSurge(p)
	case *ledger.NodeDrained:
		text := fmt.Sprintf("node %s is drained; %d pods were left, volumes detached: %t", p.Node, len(p.Pods), p.VolumesDetached)
		if n := len(p.Evicted); n > 0 {
			text += fmt.Sprintf("; %d were evicted as the API server listed them, because the observations were behind", n)
		}
		return text
	case *ledger.DrainEnded:
		text := fmt.Sprintf("drain of node %s ended: the Node is gone", p.Node)
		if n := len(p.Evicted); n > 0 {
			text += fmt.Sprintf("; %d pods were evicted as the API server listed them, because the observations were behind", n)
		}
		return text
	}
	return e.Kind.String()
}

func describeTier(p *ledger.DrainTierStarted) string {
	if !p.Notice.IsZero() {
		return fmt.Sprintf("drain of node %s, which EC2 takes away at %s: %d pods to evict, %d held, %d deleted%s", p.Node,
			p.Notice.UTC().Format(time.RFC3339), len(p.Evict), len(p.Held), len(p.Delete), suffix(": ", named(p.Delete)))
	}
	text := fmt.Sprintf("tier %d of node %s: %d pods to evict, %d held, %d deleted for the deadline", p.Tier, p.Node, len(p.Evict), len(p.Held), len(p.Delete))
	if len(p.Late) > 0 {
		text += "; not replaced in time by their Deployments: " + named(p.Late)
	}
	if n := len(p.Evicted); n > 0 {
		text += fmt.Sprintf("; %d were evicted before, as the API server listed them", n)
	}
	return text
}

// describeSurge names at most three owners.
func describeSurge(p *ledger.SurgeDecided) string {
	var texts []string
	for i := range p.Owners {
		o := &p.Owners[i]
		text := fmt.Sprintf("%s (%s) ", named(o.Pods), o.Because)
		if o.Refused != "" {
			text += "evicted as without surge: " + o.Refused
		} else {
			text += fmt.Sprintf("replaced first by Deployment %s, and evicted at %s if it is still there", o.Facts.Deployment, o.Until.UTC().Format(time.RFC3339))
		}
		texts = append(texts, text)
	}
	if more := len(texts) - 3; more > 0 {
		texts = append(texts[:3], fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("surge on node %s: %s", p.Node, strings.Join(texts, "; "))
}

// describeDrainOuts names at most three nodes.
func describeDrainOuts(e ledger.Entry) string {
	var texts []string
	what := "to run empty by themselves, tainted " + mwv1alpha1.DrainOutTaintKey
	switch p := e.Payload.(type) {
	case *ledger.DrainOutStarted:
		for i := range p.Nodes {
			texts = append(texts, drainOutText(&p.Nodes[i]))
		}
	case *ledger.DrainOutEnded:
		what = "not to run empty by themselves any more"
		for _, n := range p.Nodes {
			texts = append(texts, fmt.Sprintf("%s (%s)", n.Node, n.Reason))
		}
	}
	if more := len(texts) - 3; more > 0 {
		texts = append(texts[:3], fmt.Sprintf("%d more", more))
	}
	return what + ": " + strings.Join(texts, ", ")
}

// drainOutText names a node with what holds it.
func drainOutText(n *ledger.NodeDrainingOut) string {
	var pods []string
	for _, pod := range n.Pods[:min(len(n.Pods), 3)] {
		pods = append(pods, fmt.Sprintf("%s/%s, %s", pod.Namespace, pod.Name, pod.Why))
	}
	if more := len(n.Pods) + n.PodsMore - 3; more > 0 {
		pods = append(pods, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("%s, %s less without it (%s)", n.Node, Price(n.Price), strings.Join(pods, "; "))
}

// named lists pods by name; each was deleted against its budget.
func named(list []ledger.PodRef) string {
	var names []string
	for _, p := range list {
		names = append(names, p.Namespace+"/"+p.Name)
	}
	return strings.Join(names, ", ")
}

func describeProposal(e ledger.Entry, logID string) string {
	switch p := e.Payload.(type) {
	case *ledger.CommandProposed:
		id := ""
		if logID != "" {
			id = " " + ledger.CommandID(logID, e.Seq)
		}
		return fmt.Sprintf("proposed: %s; DisruptionPolicy %s wants it approved by %s", describeCommand(&p.Command, id),
			strings.Join(p.Policies, ", "), p.Expires.UTC().Format("2006-01-02T15:04:05Z"))
	case *ledger.ProposalAnswered:
		if p.Approved {
			return fmt.Sprintf("command %s approved by %s: %s", p.ID, p.By, p.Why)
		}
		return fmt.Sprintf("command %s rejected by %s until %s: %s", p.ID, p.By, p.Until.UTC().Format("2006-01-02T15:04:05Z"), p.Why)
	case *ledger.ProposalEnded:
		return fmt.Sprintf("command %s is proposed no more: %s", p.ID, p.Reason)
	}
	return e.Kind.String()
}

func describeCommand(c *ledger.CommandStarted, id string) string {
	var names []string
	for _, n := range c.Candidates {
		names = append(names, n.Node)
	}
	text := fmt.Sprintf("command%s (%s, %s) takes %d node(s): %s", id, c.Reason, c.Method, len(names), clip(strings.Join(names, ", "), 200))
	switch saved := Saved(c); {
	case saved > 0:
		text += ", saving " + Price(saved)
	case saved < 0:
		text += ", costing " + Price(-saved) + " more"
	}
	if c.Evictions > 0 {
		text += fmt.Sprintf(", moving %d pod(s)", c.Evictions)
	}
	if n := len(c.Replacements); n > 0 {
		text += fmt.Sprintf(", with %d replacement(s)", n)
	}
	return text
}

// Saved is what a command saves in micro USD per hour, negative if it costs more; 0 if that is not known.
// Records of older versions name no prices of commands that plan no places for pods, but those of their
// nodes.
func Saved(c *ledger.CommandStarted) int64 {
	before := int64(0)
	for i := range c.Candidates {
		before += c.Candidates[i].Price
	}
	if before == 0 || slices.ContainsFunc(c.Replacements, func(r ledger.PlannedClaim) bool { return r.Cheapest.InstanceType == "" }) {
		return 0
	}
	return before - c.PriceAfter
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
