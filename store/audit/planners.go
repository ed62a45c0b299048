package audit

import (
	"encoding/json"
	"fmt"
	"strings"

	"millwright/planner"
	"millwright/planner/claim"
	"millwright/planner/disrupt"
	"millwright/planner/disrupt/drainout"
	"millwright/planner/drain"
	"millwright/planner/drift"
	"millwright/planner/ledger"
	"millwright/planner/provision"
)

// planners plan a recorded decision again. They return nil where nothing is decided.
var planners = map[ledger.Kind]func(*planner.Snapshot, ledger.Entry) *planner.Decision{
	ledger.KindProvisioningPlanned: replanProvisioning,
	ledger.KindProvisioningWidened: replanProvisioning,
	ledger.KindClaimWithdrawn:      replanProvisioning,
	ledger.KindProposalEnded:       replanAnswer,
	ledger.KindCommandConfirmed:    replanConfirmation,
	ledger.KindCommandReduced:      replanConfirmation,
	ledger.KindCommandRolledBack:   replanConfirmation,
	ledger.KindCommandAbandoned:    replanConfirmation,
	ledger.KindDrainTierStarted:    replanTier,
	ledger.KindDrainOutStarted:     replanDrainOuts,
	ledger.KindDrainOutEnded:       replanDrainOuts,
}

// observed kinds carry a basis but say what their service saw by itself; there is nothing to plan again.
var observed = map[ledger.Kind]bool{ledger.KindDrainStarted: true}

func replanProvisioning(s *planner.Snapshot, e ledger.Entry) *planner.Decision {
	return searchAgain(s, e).Decision
}

// searchAgain plans a round again.
func searchAgain(s *planner.Snapshot, e ledger.Entry) provision.Search {
	plan := provision.Plan
	if p, ok := e.Payload.(*ledger.ProvisioningPlanned); ok && p.Plain {
		plan = provision.PlanPlain
	}
	d, round := plan(s)
	return provision.Search{Basis: s.Basis(), Decision: d, Round: round}
}

// pass that is planned again, with all its commands: they are replayed one after the other.
type pass struct {
	basis    planner.Basis
	from     ledger.SearchFrom
	commands *begun[[]*planner.Decision]
}

// replanCommand begins to plan a command again, unless its pass has been begun before it.
func (p *replayer) replanCommand(e ledger.Entry, s *planner.Snapshot) *begun[compared] {
	started := startedBy(e)
	if started.Proposal != "" {
		return begin(p, func() compared { return compare(e, replanAnswer(s, e)) })
	}
	if b := s.Basis(); p.pass.commands == nil || p.pass.basis != b || p.pass.from != started.SearchFrom {
		p.pass = pass{b, started.SearchFrom, begin(p, func() []*planner.Decision {
			list, _ := disrupt.PlansFrom(s, started.SearchFrom)
			return list
		})}
	}
	return then(p, p.pass.commands, func(list []*planner.Decision) compared {
		if nth := started.Nth; nth >= 0 && nth < len(list) {
			return compare(e, list[nth])
		}
		return compare(e, nil)
	})
}

// replanAnswer plans again what became of a proposal.
func replanAnswer(s *planner.Snapshot, e ledger.Entry) *planner.Decision {
	var id string
	switch p := e.Payload.(type) {
	case *ledger.CommandStarted:
		id = p.Proposal
	case *ledger.ProposalEnded:
		id = p.ID
	}
	x := s.Ledger.Proposal(id)
	if x == nil {
		return nil
	}
	return disrupt.AnswerDecision(s, x)
}

func replanConfirmation(s *planner.Snapshot, e ledger.Entry) *planner.Decision {
	var id string
	switch p := e.Payload.(type) {
	case *ledger.CommandConfirmed:
		id = p.ID
	case *ledger.CommandReduced:
		id = p.ID
	case *ledger.CommandRolledBack:
		id = p.ID
	}
	cmd := s.Ledger.Command(id)
	if cmd == nil {
		return nil
	}
	return disrupt.ConfirmDecision(s, cmd)
}

// replanDrainOuts plans again which nodes are to run empty by themselves, or are not any more.
func replanDrainOuts(s *planner.Snapshot, e ledger.Entry) *planner.Decision {
	from := ""
	if p, ok := e.Payload.(*ledger.DrainOutStarted); ok {
		from = p.From
	}
	d, _ := drainout.Plan(s, from)
	return d
}

func replanTier(s *planner.Snapshot, e ledger.Entry) *planner.Decision {
	p, ok := e.Payload.(*ledger.DrainTierStarted)
	if !ok {
		return nil
	}
	plan := drain.Plan
	if p.Paced {
		plan = drain.PlanPaced
	}
	started := plan(s, p.Node).TierStarted(s.Ledger.Drain(p.Node))
	if started == nil {
		return nil
	}
	return &planner.Decision{Kind: ledger.KindDrainTierStarted, Payload: started}
}

// replayDoomed replays a record that carries its complete input.
func (p *replayer) replayDoomed(e ledger.Entry) {
	d, ok := e.Payload.(*ledger.ClaimDoomed)
	if !ok || len(d.Input) == 0 {
		p.skip(e, "the record carries no input")
		return
	}
	p.report.Derived++
	recorded := ledger.PayloadDigest(e.Kind, e.Payload)
	explanation, err := claim.Replay(d)
	if err != nil {
		p.note(diverges(e, recorded, "", err.Error(), again{}))
		return
	}
	p.note(compareExplanation(e, recorded, again{Explanation: explanation}))
}

// replayDrift replays a record that carries the facts of its verdicts.
func (p *replayer) replayDrift(e ledger.Entry) {
	d, ok := e.Payload.(*ledger.DriftJudged)
	if !ok {
		p.skip(e, "the record carries no facts")
		return
	}
	p.report.Derived++
	recorded := ledger.PayloadDigest(e.Kind, e.Payload)
	explanation, err := drift.Replay(d)
	if err != nil {
		p.note(diverges(e, recorded, "", err.Error(), again{}))
		return
	}
	p.note(compareExplanation(e, recorded, again{Explanation: explanation}))
}

// replaySurge replays a record that carries the facts that it follows from; it has no explanation.
func (p *replayer) replaySurge(e ledger.Entry) {
	d, ok := e.Payload.(*ledger.SurgeDecided)
	if !ok {
		p.skip(e, "the record carries no facts")
		return
	}
	p.report.Derived++
	if err := drain.ReplaySurge(d); err != nil {
		p.note(diverges(e, ledger.PayloadDigest(e.Kind, e.Payload), "", err.Error(), again{}))
	}
}

// firstDifference names the first field in which two payloads differ, with both values.
func firstDifference(recorded, planned any) string {
	path, a, b := differ("", generic(recorded), generic(planned))
	if path == "" {
		return "no difference in JSON"
	}
	return fmt.Sprintf("%s: recorded %s, planned %s", strings.TrimPrefix(path, "."), brief(a), brief(b))
}

func generic(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	var g any
	_ = json.Unmarshal(b, &g)
	return g
}

func differ(path string, a, b any) (string, any, any) {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			return differMaps(path, x, y)
		}
	case []any:
		if y, ok := b.([]any); ok {
			return differLists(path, x, y)
		}
	default:
		if a == b {
			return "", nil, nil
		}
	}
	return path + ".", a, b
}

func differMaps(path string, a, b map[string]any) (string, any, any) {
	for _, k := range unionKeys(a, b) {
		if p, x, y := differ(path+"."+k, a[k], b[k]); p != "" {
			return strings.TrimSuffix(p, "."), x, y
		}
	}
	return "", nil, nil
}

func differLists(path string, a, b []any) (string, any, any) {
	for i := range min(len(a), len(b)) {
		if p, x, y := differ(fmt.Sprintf("%s[%d]", path, i), a[i], b[i]); p != "" {
			return strings.TrimSuffix(p, "."), x, y
		}
	}
	if len(a) != len(b) {
		return path + " length", len(a), len(b)
	}
	return "", nil, nil
}

func brief(v any) string {
	b, _ := json.Marshal(v)
	if len(b) > 200 {
		return string(b[:200]) + "…"
	}
	return string(b)
}
