package ledger

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"millwright/planner/intern"
	"millwright/planner/ledger/failing"
	"millwright/planner/memory"
	"millwright/planner/options"
)

// fold applies an active record. Records about claims, commands or drains that are not open change nothing:
// the log was written by services that checked, and a fold must not fail.
func (l *Ledger) fold(e Entry) {
	switch p := e.Payload.(type) {
	case *Genesis:
		l.logID, l.cluster = p.LogID, p.Cluster
	case *OptionsSet:
		l.options, l.optionsSeq = p.Options, e.Seq
		l.backoff = backoffOf(p.Options)
		l.planning = &atomic.Pointer[options.Options]{}
	case *ModeChanged:
		l.modes = with(l.modes, p.Service, p.Mode)
	case *LogAdopted:
		for _, id := range p.Logs {
			l.adopted = with(l.adopted, id, true)
		}
	case *AggregatesRetired:
		l.foldRetired(p)
	case *ControlChanged:
		l.control, l.controlSeq, l.controlAt = p, e.Seq, e.Time.UTC()
	case *ProvisioningPlanned:
		l.foldProvisioning(e, p)
	case *CommandStarted:
		l.foldCommandStarted(e, p)
	case *CommandProposed, *ProposalAnswered, *ProposalEnded:
		l.foldProposal(e)
	case *RolloutResumed:
		l.foldRolloutResumed(p)
	case *DrainOutStarted, *DrainOutEnded:
		l.foldDrainOuts(e)
	case *CommandConfirmed:
		if c := edit(l.owner, &l.commands, p.ID); c != nil {
			c.State = CommandConfirmedState
		}
	case *CommandSucceeded:
		l.foldCommandSucceeded(e, p)
	case *CommandReduced:
		l.foldCommandReduced(p)
	case *CommandRolledBack:
		l.foldCommandRolledBack(e, p)
	case *DrainStarted:
		l.drains.Set(l.owner, p.Node, &Drain{Started: *p, Seq: e.Seq, At: e.Time.UTC()})
	case *DrainTierStarted:
		l.foldTier(p)
	case *SurgeDecided:
		l.foldSurge(e, p)
	case *MemoryDiscovered:
		l.memory = l.memory.With(memory.Amount{Key: memory.Key{InstanceType: intern.String(p.InstanceType), Images: intern.String(p.Images)}, Bytes: p.Bytes, Seen: e.Time.UTC()})
	case *NodeDrained:
		if d := edit(l.owner, &l.drains, p.Node); d != nil {
			d.Drained = e.Seq
		}
	case *DrainEnded:
		l.drains.Delete(l.owner, p.Node)
	default:
		l.foldClaim(e)
	}
}

func (l *Ledger) foldProvisioning(e Entry, p *ProvisioningPlanned) {
	l.foldExcluded(e, p.Excluded)
	for i := range p.Claims {
		name := l.plan(e, &p.Claims[i], i, "")
		l.place(e, Verdict{Claim: name}, p.Claims[i].Pods)
	}
	for i := range p.Widened {
		l.widen(e, &p.Widened[i])
	}
	for _, t := range p.Placements {
		l.place(e, Verdict{Node: t.Node, Claim: t.Claim}, t.Pods)
	}
	for _, r := range p.Refused {
		l.place(e, Verdict{Digest: RefusalDigest(r.Reasons)}, r.Pods)
	}
	for _, x := range p.Excess {
		if c := l.Claim(x.Claim); c != nil && c.Doomed == nil && c.UID == x.UID {
			l.editClaim(x.Claim).Doomed = &ClaimDoomed{Claim: x.Claim, UID: x.UID, Reason: x.Reason}
		}
	}
	for _, uid := range p.Gone {
		l.verdicts.Delete(l.owner, uid)
	}
}

// foldExcluded adds nodes to what the verdicts exclude; the verdicts that follow in the record take it over.
func (l *Ledger) foldExcluded(e Entry, list []Exclusion) {
	for _, x := range list {
		for _, pod := range x.Pods {
			if old := l.Verdict(pod.UID); old != nil {
				v := *old
				v.Excluded = append(old.ExcludedAt(e.Now), ExcludedNode{x.Node, e.Now.UTC().Add(ExclusionTime)})
				l.verdicts.Set(l.owner, pod.UID, &v)
			}
		}
	}
}

// plan opens the index-th claim of a record.
func (l *Ledger) plan(e Entry, p *PlannedClaim, index int, command string) string {
	name := l.ClaimName(p.NodePool, e.Seq, index)
	l.claims.Set(l.owner, name, &Claim{
		Name: name, Planned: l.kept(p), PlannedSeq: e.Seq, CommandID: command, NodePool: p.NodePool,
		State: ClaimPlanned, Capacity: p.Capacity,
	})
	return name
}

// widen gives a claim that is not made yet its new content.
func (l *Ledger) widen(e Entry, w *WidenedClaim) {
	c := l.Claim(w.Claim)
	if c == nil || c.State != ClaimPlanned || c.Planned == nil {
		return
	}
	c = l.editClaim(w.Claim)
	c.Earlier = append(slices.Clip(c.Earlier), EarlierContent{c.ContentSeq(), c.Planned})
	c.Planned, c.WidenedSeq, c.Capacity = l.kept(&w.Content), e.Seq, w.Content.Capacity
	l.place(e, Verdict{Claim: w.Claim}, w.Content.Pods)
}

// place records the verdict on pods. Since stays while the verdict is the same.
func (l *Ledger) place(e Entry, v Verdict, pods []PodRef) {
	for _, pod := range pods {
		n := v
		n.Seq, n.Pod, n.Since = e.Seq, pod, e.Now.UTC()
		old := l.Verdict(pod.UID)
		if old != nil && old.Node == n.Node && old.Claim == n.Claim && old.Digest == n.Digest {
			n.Since = old.Since
		}
		n.Excluded = old.ExcludedAt(e.Now)
		l.verdicts.Set(l.owner, pod.UID, &n)
	}
}

func (l *Ledger) foldCommandStarted(e Entry, p *CommandStarted) {
	id := l.CommandID(e.Seq)
	l.commands.Set(l.owner, id, &Command{ID: id, Seq: e.Seq, State: CommandStartedState, Started: *p, At: e.Time.UTC()})
	l.proposals.Delete(l.owner, p.Proposal)
	l.foldEvictions(e, id, p)
	l.foldWave(e, p)
	if p.Rollout && len(p.Candidates) > 0 {
		old := cmp.Or(l.Claim(p.Candidates[0].Claim), &Claim{})
		l.drifts = l.drifts.With(p.Candidates[0].NodePool, old.PlannedSeq, e.Seq, e.Now.UTC())
	}
	for i := range p.Replacements {
		name := l.plan(e, &p.Replacements[i], i, id)
		l.place(e, Verdict{Claim: name}, p.Replacements[i].Pods)
	}
	for _, t := range p.Placements {
		l.place(e, Verdict{Node: t.Node, Claim: t.Claim}, t.Pods)
	}
}

// foldCommandReduced takes nodes out of a command.
func (l *Ledger) foldCommandReduced(p *CommandReduced) {
	cmd := edit(l.owner, &l.commands, p.ID)
	if cmd == nil {
		return
	}
	for _, c := range cmd.Started.Candidates {
		if l.PlanningOptions().Revision >= options.Revision8 && slices.ContainsFunc(p.Dropped, func(d DroppedNode) bool { return d.Claim == c.Claim }) {
			l.takeBackEvictionsOf(cmd.ID, c)
		}
	}
	cmd.Started.Candidates = slices.DeleteFunc(slices.Clone(cmd.Started.Candidates), func(c Candidate) bool {
		return slices.ContainsFunc(p.Dropped, func(d DroppedNode) bool { return d.Claim == c.Claim })
	})
}

// foldCommandRolledBack ends a command. Its unused replacements go: those whose NodeClaim was not made leave
// at once, and one that is made all the same is deleted as a stray.
func (l *Ledger) foldCommandRolledBack(e Entry, p *CommandRolledBack) {
	if cmd := l.Command(p.ID); cmd != nil {
		if len(p.Failing) > 0 {
			l.failing = maps.Clone(l.failing)
			maps.DeleteFunc(l.failing, func(_ string, f failing.Count) bool { return f.Forgotten(e.Time) })
		}
		for _, pool := range p.Failing {
			l.failing = with(l.failing, pool, l.failing[pool].Again(cmd.At, e.Time))
		}
		if len(p.Failing) > 0 && l.PlanningOptions().Revision >= options.Revision8 {
			keep(l, e, cmd.Started.Candidates)
		}
	}
	switch cmd := l.Command(p.ID); {
	case cmd == nil:
	case cmd.State == CommandStartedState:
		l.takeBackEvictions(cmd)
	case l.PlanningOptions().Revision >= options.Revision8:
		for _, c := range cmd.Started.Candidates {
			if known := l.Claim(c.Claim); known != nil && known.Doomed == nil && l.Drain(c.Node) == nil {
				l.takeBackEvictionsOf(cmd.ID, c)
			}
		}
	}
	if p.HaltsRollout {
		l.foldWaveEnded(e, l.Command(p.ID), cmp.Or(p.Reason, "failed"))
	}
	l.commands.Delete(l.owner, p.ID)
	for _, u := range p.Unused {
		switch c := l.Claim(u.Claim); {
		case c == nil:
		case c.State == ClaimPlanned:
			l.claims.Delete(l.owner, u.Claim)
		case c.Doomed == nil:
			c = l.editClaim(u.Claim)
			c.Doomed = &ClaimDoomed{Claim: u.Claim, UID: c.UID, Reason: u.Reason}
		}
	}
}

// keep notes that these nodes stay since their replacements failed.
func keep(l *Ledger, e Entry, candidates []Candidate) {
	for _, x := range candidates {
		if c := l.Claim(x.Claim); c != nil && (c.UID == "" || c.UID == x.ClaimUID) {
			l.editClaim(x.Claim).KeptAt = e.Time
		}
	}
}

// foldCommandSucceeded ends a command. Its claims are doomed from here on, so that they count as going
// until their NodeClaims are gone.
func (l *Ledger) foldCommandSucceeded(e Entry, p *CommandSucceeded) {
	cmd := l.Command(p.ID)
	if cmd == nil {
		return
	}
	l.foldWaveEnded(e, cmd, "")
	l.foldReturned(cmd)
	for _, cand := range cmd.Started.Candidates {
		c := l.Claim(cand.Claim)
		if c == nil || c.UID != "" && c.UID != cand.ClaimUID {
			continue
		}
		c = l.editClaim(cand.Claim)
		if c.RolledOut = cmd.Started.Wave != nil && l.PlanningOptions().WavesAwaitDoomed; c.RolledOut && l.PlanningOptions().Revision >= options.Revision8 {
			c.RolledOutTo = cmd.Started.Wave.Target
		}
		if c.Doomed == nil {
			c.Doomed = &ClaimDoomed{Claim: cand.Claim, UID: cand.ClaimUID, Reason: strings.ToLower(string(cmd.Started.Reason))}
			c.TakenBy = p.ID
		}
	}
	for i := range cmd.Started.Replacements {
		if pool := cmd.Started.Replacements[i].NodePool; l.failing[pool].Failures > 0 {
			l.failing = maps.Clone(l.failing)
			delete(l.failing, pool)
		}
	}
	l.commands.Delete(l.owner, p.ID)
}

func (l *Ledger) foldTier(p *DrainTierStarted) {
	d := edit(l.owner, &l.drains, p.Node)
	if d == nil {
		return
	}
	pods := map[podUID]bool{}
	if d.Tier == p.Tier {
		maps.Copy(pods, d.TierPods)
	}
	d.Tier, d.TierPods = p.Tier, pods
	for _, pod := range p.Held {
		d.TierPods[pod.UID] = pods[pod.UID] || l.PlanningOptions().Revision < options.Revision8
	}
	for _, list := range [][]PodRef{p.Evict, p.Delete} {
		for _, pod := range list {
			d.TierPods[pod.UID] = true
		}
	}
}

// foldShadow keeps only what tells whether the next shadow record would say something new.
func (l *Ledger) foldShadow(e Entry) {
	l.shadow.Set(l.owner, shadowKey(e.Service, e.Kind, e.Subjects), PayloadDigest(e.Kind, e.Payload))
}

func shadowKey(service string, kind Kind, subjects []string) string {
	return service + "/" + kind.String() + "/" + strings.Join(subjects, ",")
}

// Shadowed reports that the last shadow record of the service on these subjects said the same.
func (l *state) Shadowed(service string, kind Kind, subjects []string, payload any) bool {
	digest, ok := l.shadow.Get(shadowKey(service, kind, subjects))
	return ok && digest == PayloadDigest(kind, payload)
}

// PayloadDigest identifies a decision: the hash of its kind and its payload's JSON.
func PayloadDigest(kind Kind, payload any) string {
	b, err := json.Marshal(payload)
	if err != nil {
		return "unencodable: " + err.Error()
	}
	return hexHash([]byte(kind.String()), b)
}
