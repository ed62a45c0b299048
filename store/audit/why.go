package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millwright/planner/drift"
	"millwright/planner/ledger"
)

// Line of the story of an object.
type Line struct {
	Seq     uint64      `json:"seq"`
	Time    time.Time   `json:"time"`
	Service string      `json:"service,omitempty"`
	Kind    ledger.Kind `json:"-"`
	Step    Step        `json:"step"`
	Text    string      `json:"text"`
	// Details are what was observed, the options rejected with reasons and prices, and the like.
	Details []string `json:"details,omitempty"`
}

// Step of a story.
type Step string

const (
	StepDecided Step = "decided"
	StepDone    Step = "done"
	StepOutcome Step = "outcome"
	StepRefused Step = "refused"
)

// Why lists, in the order of the log, what was decided and done about a subject: pod/<namespace>/<name>,
// node/<n>, claim/<n>, command/<id>, instance/<id>, capacitybuffer/<namespace>/<name> or
// offering/<type>/<zone>/<capacity type>, whose story is of the launches that it failed. The story of a node
// or an instance is that of its claim; a pod's continues with the claims it was planned for until their node
// is ready. It works for objects that no longer exist. The entries must begin with the genesis or contain it;
// the result is empty if nothing mentions the subject.
func Why(entries []ledger.Entry, subject string) []Line {
	return WhyOf(entries, logIDOf(entries), subject)
}

// WhyOf is Why for entries that need not contain the genesis of their log, nor anything that mentions neither
// the subject nor one of Linked.
func WhyOf(entries []ledger.Entry, logID, subject string) []Line {
	st := newStory(logID, subject)
	st.link(entries)
	var lines []Line
	for _, e := range entries {
		if st.concerns(e) {
			lines = append(lines, st.line(e))
		}
		if p, ok := e.Payload.(*ledger.ClaimInitialized); ok && st.ofPod() {
			delete(st.about, "claim/"+p.Claim)
		}
	}
	return lines
}

// Linked are the subjects, sorted, whose records belong to the story of a subject as far as the entries say:
// itself, the same thing under other names, and what was planned for it. Who knows only the records that
// mention the subject adds those that mention these, and asks again until nothing is added.
func Linked(entries []ledger.Entry, logID, subject string) []string {
	st := newStory(logID, subject)
	st.link(entries)
	maps.Copy(st.about, st.near)
	return slices.Sorted(maps.Keys(st.about))
}

// Account is the line of one entry with all its details, whatever it concerns.
func Account(e ledger.Entry, logID string) Line {
	st := newStory(logID, "")
	for _, subject := range Mentions(e, logID) {
		st.about[subject] = true
	}
	return st.line(e)
}

func newStory(logID, subject string) *story {
	st := &story{subject: subject, logID: logID, about: map[string]bool{subject: true}}
	if name, ok := strings.CutPrefix(subject, "offering/"); ok {
		key, _ := Offering(name)
		for _, k := range key.Wider() {
			st.about["offering/"+k.String()] = true
		}
	}
	return st
}

// Offering reads a name as OfferingKey.String writes it: type/zone/capacity-type, and the placement group if
// there is one.
func Offering(name string) (key ledger.OfferingKey, ok bool) {
	parts := strings.SplitN(name, "/", 4)
	if len(parts) < 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return key, false
	}
	key = ledger.OfferingKey{InstanceType: parts[0], Zone: parts[1], CapacityType: parts[2]}
	if len(parts) == 4 {
		key.PlacementGroup = parts[3]
	}
	return key, true
}

func logIDOf(entries []ledger.Entry) string {
	for _, e := range entries {
		if g, ok := e.Payload.(*ledger.Genesis); ok {
			return g.LogID
		}
	}
	return ""
}

// story collects what belongs to one subject.
type story struct {
	subject, logID string
	about          map[string]bool
	leaving
}

// link adds the subjects that are other names of the same thing: claim, node, instance, and the commands that
// took it; for a pod the claims planned for it.
func (st *story) link(entries []ledger.Entry) {
	for changed := true; changed; {
		changed = false
		for _, e := range entries {
			for _, group := range st.identities(e) {
				changed = st.join(group) || changed
			}
		}
	}
	st.leave(entries)
}

// join adds the rest of a group if one of it belongs to the story.
func (st *story) join(group []string) bool {
	if !slices.ContainsFunc(group, func(s string) bool { return st.about[s] }) {
		return false
	}
	changed := false
	for _, s := range group {
		changed = changed || !st.about[s]
		st.about[s] = true
	}
	return changed
}

// identities are the groups of names an entry ties together.
func (st *story) identities(e ledger.Entry) [][]string {
	switch p := e.Payload.(type) {
	case *ledger.ClaimRegistered:
		return st.bound(p.Claim, p.Node)
	case *ledger.ClaimInitialized:
		return st.bound(p.Claim, p.Node)
	case *ledger.DrainStarted:
		return st.bound(p.Claim, p.Node)
	case *ledger.Launched:
		if !st.ofPod() {
			return [][]string{{"claim/" + p.Claim, "instance/" + p.InstanceID}}
		}
	case *ledger.FleetAnswered:
		if !st.ofPod() {
			return fleetIdentities(p)
		}
	case *ledger.CommandStarted:
		return st.command(e, p)
	case *ledger.CommandProposed:
		return st.command(e, &p.Command)
	case *ledger.ProvisioningPlanned:
		return st.plannedFor(e, p)
	}
	return nil
}

func fleetIdentities(p *ledger.FleetAnswered) (groups [][]string) {
	for i := range p.Launched {
		groups = append(groups, []string{"claim/" + p.Launched[i].Claim, "instance/" + p.Launched[i].InstanceID})
	}
	return groups
}

// answered is what became of the claims of the story among those of a fleet.
func (st *story) answered(p *ledger.FleetAnswered) (details []string) {
	for i := range p.Launched {
		if st.about["claim/"+p.Launched[i].Claim] {
			details = append(details, describeLaunched(&p.Launched[i]))
		}
	}
	for i := range p.Failed {
		if st.about["claim/"+p.Failed[i].Claim] {
			details = append(details, describeLaunchFailed(&p.Failed[i]))
		}
	}
	return details
}

// ofPod: of a pod, or of the virtual pods of a CapacityBuffer.
func (st *story) ofPod() bool {
	return strings.HasPrefix(st.subject, "pod/") || strings.HasPrefix(st.subject, "capacitybuffer/")
}

func (st *story) bound(claim, node string) [][]string {
	if st.ofPod() || claim == "" || node == "" {
		return nil
	}
	return [][]string{{"claim/" + claim, "node/" + node}}
}

func (st *story) command(e ledger.Entry, p *ledger.CommandStarted) [][]string {
	id := "command/" + ledger.CommandID(st.logID, e.Seq)
	if st.ofPod() {
		if slices.ContainsFunc(p.Candidates, func(c ledger.Candidate) bool { return st.holdsSubject(c.Pods) || st.holdsSubject(c.Virtual) }) {
			st.about[id] = true
		}
		return nil
	}
	for _, c := range p.Candidates {
		if st.about["claim/"+c.Claim] || st.about["node/"+c.Node] {
			st.about[id] = true
		}
	}
	return nil
}

func (st *story) plannedFor(e ledger.Entry, p *ledger.ProvisioningPlanned) [][]string {
	if !st.ofPod() {
		return nil
	}
	for i := range p.Claims {
		if st.holdsSubject(p.Claims[i].Pods) {
			st.about["claim/"+claimName(st.logID, p.Claims[i].NodePool, e.Seq, i)] = true
		}
	}
	for i := range p.Widened {
		if st.holdsSubject(p.Widened[i].Content.Pods) {
			st.about["claim/"+p.Widened[i].Claim] = true
		}
	}
	for _, t := range p.Placements {
		if t.Claim != "" && st.holdsSubject(t.Pods) {
			st.about["claim/"+t.Claim] = true
		}
	}
	return nil
}

func (st *story) holdsSubject(refs []ledger.PodRef) bool {
	return slices.ContainsFunc(refs, func(p ledger.PodRef) bool {
		return st.about["pod/"+p.Namespace+"/"+p.Name] || st.about["capacitybuffer/"+bufferOf(p)]
	})
}

// concerns omits, in a pod's story, rounds that planned other pods onto the same claim.
func (st *story) concerns(e ledger.Entry) bool {
	if st.causes[e.Seq] {
		return true
	}
	if _, ok := e.Payload.(*ledger.ProvisioningPlanned); ok && st.ofPod() {
		return slices.Contains(Mentions(e, st.logID), st.subject)
	}
	return slices.ContainsFunc(Mentions(e, st.logID), func(s string) bool { return st.about[s] })
}

func (st *story) line(e ledger.Entry) Line {
	l := Line{Seq: e.Seq, Time: e.Time, Service: e.Service, Kind: e.Kind, Step: StepDone, Text: Describe(e, st.logID)}
	switch p := e.Payload.(type) {
	case *ledger.ProvisioningPlanned:
		st.provisioning(&l, e, p)
	case *ledger.CommandStarted:
		l.Step, l.Details = StepDecided, slices.Concat(st.moved(e, p), seen(e), explained(e))
	case *ledger.CommandProposed:
		l.Step, l.Details = StepDecided, append(seen(e), explained(e)...)
	case *ledger.ClaimWithdrawn:
		if IsDecision(e) {
			l.Step, l.Details = StepDecided, seen(e)
		}
	case *ledger.DriftJudged:
		l.Step, l.Text, l.Details = StepDecided, describeDrift(st.judged(p)), st.differences(e)
	case *ledger.DrainOutStarted, *ledger.DrainOutEnded:
		l.Step, l.Text, l.Details = StepDecided, Describe(st.drainOuts(e), st.logID), seen(e)
	case *ledger.SurgeDecided:
		l.Step, l.Text = StepDecided, describeSurge(st.surged(p))
	case *ledger.DrainStarted:
		l.Step, l.Details = StepDecided, seen(e)
		if p.Reason == forceful {
			l.Details = append(l.Details, st.somebody(p.Claim, e.Seq)...)
		} else {
			l.Details = append(l.Details, st.sooner(p.Claim, e.Seq)...)
		}
	case *ledger.DrainTierStarted:
		l.Step, l.Details = StepDecided, seen(e)
		if text, ok := st.leaves(p); ok {
			l.Text = text
		}
	case *ledger.CommandConfirmed, *ledger.CommandReduced, *ledger.ClaimDoomed, *ledger.ProposalAnswered, *ledger.RolloutResumed:
		l.Step, l.Details = StepDecided, seen(e)
	case *ledger.NodeDrained:
		l.Step = StepOutcome
		if text, ok := st.listed(p.Node, "drained", p.Evicted); ok {
			l.Text = text
		}
	case *ledger.DrainEnded:
		if text, ok := st.listed(p.Node, "gone", p.Evicted); ok {
			l.Text = text
		}
	case *ledger.ClaimClosed:
		l.Step = StepOutcome
		if p.Reason == "deleted" {
			l.Details = st.somebody(p.Claim, e.Seq)
		}
	case *ledger.FleetAnswered:
		l.Step, l.Details = StepOutcome, st.answered(p)
	case *ledger.CommandRolledBack, *ledger.CommandSucceeded, *ledger.ProposalEnded, *ledger.LaunchFailed, *ledger.ClaimInitialized,
		*ledger.InstanceTerminated:
		l.Step = StepOutcome
	}
	if e.Mode == ledger.ModeShadow {
		l.Text += " (shadow: nothing was done)"
	}
	return l
}

// moved says, in a pod's story, from where and to where a command moves it.
func (st *story) moved(e ledger.Entry, p *ledger.CommandStarted) []string {
	if !st.ofPod() {
		return nil
	}
	from, to := "", ""
	for _, c := range p.Candidates {
		if st.holdsSubject(c.Pods) || st.holdsSubject(c.Virtual) {
			from = fmt.Sprintf("node %s (%s)", c.Node, c.InstanceType)
		}
	}
	for _, t := range p.Placements {
		if st.holdsSubject(t.Pods) {
			to = "node " + t.Node
		}
	}
	for i := range p.Replacements {
		if r := &p.Replacements[i]; st.holdsSubject(r.Pods) || to == "" && len(r.Pods) == 0 {
			to = fmt.Sprintf("its replacement %s (%s, %s)", claimName(st.logID, r.NodePool, e.Seq, i), r.Cheapest.InstanceType, PriceOf(r.Cheapest))
		}
	}
	if from == "" || to == "" {
		return nil
	}
	return []string{fmt.Sprintf("%s moves from %s to %s", strings.Replace(st.subject, "/", " ", 1), from, to)}
}

// drainOuts is the entry with the nodes of the story alone; of a pod with those that it holds.
func (st *story) drainOuts(e ledger.Entry) ledger.Entry {
	switch p := e.Payload.(type) {
	case *ledger.DrainOutStarted:
		e.Payload = &ledger.DrainOutStarted{Nodes: slices.DeleteFunc(slices.Clone(p.Nodes), func(n ledger.NodeDrainingOut) bool {
			return !st.about["node/"+n.Node] && !st.about["claim/"+n.Claim] &&
				!slices.ContainsFunc(n.Pods, func(h ledger.HoldingPod) bool { return st.holdsSubject([]ledger.PodRef{h.PodRef}) })
		})}
	case *ledger.DrainOutEnded:
		e.Payload = &ledger.DrainOutEnded{Nodes: slices.DeleteFunc(slices.Clone(p.Nodes), func(n ledger.DroppedNode) bool {
			return !st.about["node/"+n.Node] && !st.about["claim/"+n.Claim]
		})}
	}
	return e
}

// surged is the record with the owners of the story alone, if it is of a pod.
func (st *story) surged(p *ledger.SurgeDecided) *ledger.SurgeDecided {
	if !st.ofPod() {
		return p
	}
	kept := *p
	kept.Owners = slices.DeleteFunc(slices.Clone(p.Owners), func(o ledger.SurgedOwner) bool { return !st.holdsSubject(o.Pods) })
	return &kept
}

// judged are the verdicts on the claims of the story.
func (st *story) judged(p *ledger.DriftJudged) *ledger.DriftJudged {
	return &ledger.DriftJudged{Claims: slices.DeleteFunc(slices.Clone(p.Claims), func(c ledger.JudgedClaim) bool { return !st.about["claim/"+c.Claim] })}
}

// differences say in what the claims of the story have drifted.
func (st *story) differences(e ledger.Entry) (details []string) {
	var x drift.Explanation
	if json.Unmarshal(e.Explanation, &x) != nil {
		return nil
	}
	for _, d := range x.Drifted {
		if st.about["claim/"+d.Claim] {
			details = append(details, "differs: "+d.Detail)
		}
	}
	return details
}

// seen says what a decision was taken on.
func seen(e ledger.Entry) []string {
	if !IsDecision(e) {
		return nil
	}
	return []string{fmt.Sprintf("seen: world at message %d, ledger at record %d, now %s", e.Position.Sequence, e.LedgerSeq, e.Now.UTC().Format(time.RFC3339Nano))}
}

// provisioning describes only the parts of a round that concern the story.
func (st *story) provisioning(l *Line, e ledger.Entry, p *ledger.ProvisioningPlanned) {
	l.Step, l.Details = StepDecided, seen(e)
	var texts []string
	for i := range p.Claims {
		name := claimName(st.logID, p.Claims[i].NodePool, e.Seq, i)
		if !st.holdsSubject(p.Claims[i].Pods) && !st.about["claim/"+name] {
			continue
		}
		texts = append(texts, describePlanned(&p.Claims[i], name))
		l.Details = append(l.Details, claimDetails(e, i, &p.Claims[i])...)
	}
	for i := range p.Widened {
		if w := &p.Widened[i]; st.holdsSubject(w.Content.Pods) || st.about["claim/"+w.Claim] {
			texts = append(texts, describeWidened(w))
			l.Details = append(l.Details, widenedDetails(e, w)...)
		}
	}
	for _, t := range p.Placements {
		if st.holdsSubject(t.Pods) || st.about["node/"+t.Node] || st.about["claim/"+t.Claim] {
			texts = append(texts, fmt.Sprintf("%s waits for %s", pods(t.Pods), target(t)))
		}
	}
	for _, x := range p.Excluded {
		text := fmt.Sprintf("node %s does not count for %s in the next %s: kube-scheduler puts none there", x.Node, pods(x.Pods), ledger.ExclusionTime)
		switch {
		case st.holdsSubject(x.Pods):
			l.Details = append(l.Details, text)
		case st.about["node/"+x.Node] && !st.ofPod():
			texts = append(texts, text)
		}
	}
	for _, r := range p.Refused {
		if st.holdsSubject(r.Pods) {
			l.Step = StepRefused
			texts = append(texts, fmt.Sprintf("%s cannot be placed", pods(r.Pods)))
			l.Details = append(l.Details, refusals(r.Reasons)...)
		}
	}
	l.Details = append(l.Details, st.bufferDetails(e)...)
	if len(texts) > 0 {
		l.Text = strings.Join(texts, "; ")
	}
}
