package audit

import (
	"slices"

	"millwright/planner/ledger"
)

// Mentions returns the subjects an entry is about, sorted: those of its envelope and those its payload
// names, as pod/<namespace>/<name>, node/<n>, claim/<n>, pool/<n>, command/<id>, instance/<id>.
func Mentions(e ledger.Entry, logID string) []string {
	m := &mentions{list: slices.Clone(e.Subjects)}
	m.payload(e, logID)
	slices.Sort(m.list)
	return slices.Compact(m.list)
}

type mentions struct{ list []string }

func (m *mentions) add(kind, name string) {
	if name != "" {
		m.list = append(m.list, kind+"/"+name)
	}
}

func (m *mentions) pods(refs []ledger.PodRef) {
	for _, p := range refs {
		m.add("pod", p.Namespace+"/"+p.Name)
	}
}

func (m *mentions) planned(e ledger.Entry, logID string, claims []ledger.PlannedClaim) {
	for i := range claims {
		m.add("pool", claims[i].NodePool)
		m.add("claim", claimName(logID, claims[i].NodePool, e.Seq, i))
		m.pods(claims[i].Pods)
	}
}

func (m *mentions) payload(e ledger.Entry, logID string) {
	switch p := e.Payload.(type) {
	case *ledger.ProvisioningPlanned:
		m.planned(e, logID, p.Claims)
		for i := range p.Widened {
			m.add("claim", p.Widened[i].Claim)
			m.add("pool", p.Widened[i].Content.NodePool)
			m.pods(p.Widened[i].Content.Pods)
		}
		for _, t := range p.Placements {
			m.add("node", t.Node)
			m.add("claim", t.Claim)
			m.pods(t.Pods)
		}
		for _, r := range p.Refused {
			m.pods(r.Pods)
		}
	case *ledger.CommandStarted:
		m.add("command", ledger.CommandID(logID, e.Seq))
		m.add("command", p.Proposal)
		m.planned(e, logID, p.Replacements)
		m.candidates(p)
	case *ledger.CommandProposed:
		m.add("command", ledger.CommandID(logID, e.Seq))
		m.candidates(&p.Command)
	case *ledger.ProposalAnswered:
		m.add("command", p.ID)
	case *ledger.ProposalEnded:
		m.add("command", p.ID)
	case *ledger.OrphanFound:
		m.add("instance", p.InstanceID)
		m.add("claim", p.ClaimTag)
	default:
		m.claim(e)
		m.node(e)
	}
}

func (m *mentions) candidates(p *ledger.CommandStarted) {
	for _, c := range p.Candidates {
		m.add("node", c.Node)
		m.add("claim", c.Claim)
		m.add("pool", c.NodePool)
		m.pods(c.Pods)
	}
}

func (m *mentions) claim(e ledger.Entry) {
	switch p := e.Payload.(type) {
	case *ledger.ClaimWithdrawn:
		m.add("claim", p.Claim)
	case *ledger.ClaimCreated:
		m.add("claim", p.Claim)
	case *ledger.ClaimAdopted:
		m.add("claim", p.Claim)
	case *ledger.LaunchRequested:
		m.add("claim", p.Claim)
	case *ledger.Launched:
		m.add("claim", p.Claim)
		m.add("instance", p.InstanceID)
	case *ledger.LaunchFailed:
		m.add("claim", p.Claim)
	case *ledger.ClaimRegistered:
		m.add("claim", p.Claim)
		m.add("node", p.Node)
	case *ledger.ClaimInitialized:
		m.add("claim", p.Claim)
		m.add("node", p.Node)
	case *ledger.ClaimDoomed:
		m.add("claim", p.Claim)
	case *ledger.InstanceTerminated:
		m.add("claim", p.Claim)
		m.add("instance", p.InstanceID)
	case *ledger.ClaimClosed:
		m.add("claim", p.Claim)
	}
}

func (m *mentions) node(e ledger.Entry) {
	switch p := e.Payload.(type) {
	case *ledger.CommandConfirmed:
		m.add("command", p.ID)
	case *ledger.CommandSucceeded:
		m.add("command", p.ID)
	case *ledger.CommandReduced:
		m.add("command", p.ID)
		for _, n := range p.Dropped {
			m.add("node", n.Node)
			m.add("claim", n.Claim)
		}
	case *ledger.CommandRolledBack:
		m.add("command", p.ID)
		for _, u := range p.Unused {
			m.add("claim", u.Claim)
		}
	case *ledger.DrainStarted:
		m.add("node", p.Node)
		m.add("claim", p.Claim)
	case *ledger.DrainTierStarted:
		m.add("node", p.Node)
		m.pods(p.Evict)
		m.pods(p.Held)
		m.pods(p.Delete)
	case *ledger.NodeDrained:
		m.add("node", p.Node)
		m.add("claim", p.Claim)
		m.pods(p.Pods)
	case *ledger.DrainEnded:
		m.add("node", p.Node)
	}
}
