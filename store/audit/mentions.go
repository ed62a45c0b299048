package audit

import (
	"slices"
	"strconv"
	"strings"

	"millwright/planner/ledger"
)

// Mentions returns the subjects an entry is about, sorted: those of its envelope and those its payload names,
// as pod/<namespace>/<name>, node/<n>, claim/<n>, pool/<n>, command/<id>, instance/<id>,
// capacitybuffer/<namespace>/<name>, nodeclass/<n>, offering/<type>/<zone>/<capacity type>.
func Mentions(e ledger.Entry, logID string) []string {
	m := &mentions{list: slices.Clone(e.Subjects)}
	m.payload(e, logID)
	slices.Sort(m.list)
	return slices.Compact(m.list)
}

// bufferOf is the namespace/name of the CapacityBuffer that a virtual pod stands for (reference: scheduling
// §15); "" for a real one.
func bufferOf(p ledger.PodRef) string {
	rest, virtual := strings.CutPrefix(p.Name, "capacity-buffer-")
	at := strings.LastIndexByte(rest, '-')
	if !virtual || at <= 0 || !strings.HasSuffix(string(p.UID), rest[at:]) {
		return ""
	}
	if _, err := strconv.ParseUint(rest[at+1:], 10, 32); err != nil {
		return ""
	}
	return p.Namespace + "/" + rest[:at]
}

type mentions struct{ list []string }

func (m *mentions) addMention(kind, name string) {
	if name != "" {
		m.list = append(m.list, kind+"/"+name)
	}
}

func (m *mentions) pods(refs []ledger.PodRef) {
	for _, p := range refs {
		m.addMention("pod", p.Namespace+"/"+p.Name)
		m.addMention("capacitybuffer", bufferOf(p))
	}
}

// offerings that had no capacity. A reservation or a subnet is none.
func (m *mentions) offerings(failed []ledger.FailedOffering) {
	for i := range failed {
		if f := &failed[i]; f.ReservationID == "" && f.SubnetID == "" {
			m.addMention("offering", ledger.OfferingKey{InstanceType: f.InstanceType, Zone: f.Zone, CapacityType: f.CapacityType, PlacementGroup: f.PlacementGroup}.String())
		}
	}
}

func (m *mentions) planned(e ledger.Entry, logID string, claims []ledger.PlannedClaim) {
	for i := range claims {
		m.addMention("pool", claims[i].NodePool)
		m.addMention("nodeclass", claims[i].NodeClassRef.Name)
		m.addMention("claim", claimName(logID, claims[i].NodePool, e.Seq, i))
		m.pods(claims[i].Pods)
	}
}

func (m *mentions) payload(e ledger.Entry, logID string) {
	switch p := e.Payload.(type) {
	case *ledger.ProvisioningPlanned:
		m.planned(e, logID, p.Claims)
		for i := range p.Widened {
			m.addMention("claim", p.Widened[i].Claim)
			m.addMention("pool", p.Widened[i].Content.NodePool)
			m.pods(p.Widened[i].Content.Pods)
		}
		for _, t := range p.Placements {
			m.addMention("node", t.Node)
			m.addMention("claim", t.Claim)
			m.pods(t.Pods)
		}
		for _, r := range p.Refused {
			m.pods(r.Pods)
		}
		for _, x := range p.Excluded {
			m.addMention("node", x.Node)
			m.pods(x.Pods)
		}
	case *ledger.CommandStarted:
		m.addMention("command", ledger.CommandID(logID, e.Seq))
		m.addMention("command", p.Proposal)
		m.planned(e, logID, p.Replacements)
		m.candidates(p)
	case *ledger.CommandProposed:
		m.addMention("command", ledger.CommandID(logID, e.Seq))
		m.candidates(&p.Command)
	case *ledger.ProposalAnswered:
		m.addMention("command", p.ID)
	case *ledger.ProposalEnded:
		m.addMention("command", p.ID)
	case *ledger.RolloutResumed:
		m.addMention("pool", p.NodePool)
	case *ledger.DriftJudged:
		for _, c := range p.Claims {
			m.addMention("claim", c.Claim)
		}
	case *ledger.OrphanFound:
		m.addMention("instance", p.InstanceID)
		m.addMention("claim", p.ClaimTag)
	default:
		m.claim(e)
		m.node(e)
	}
}

func (m *mentions) candidates(p *ledger.CommandStarted) {
	for _, c := range p.Candidates {
		m.addMention("node", c.Node)
		m.addMention("claim", c.Claim)
		m.addMention("pool", c.NodePool)
		m.pods(c.Pods)
		m.pods(c.Virtual)
	}
}

func (m *mentions) claim(e ledger.Entry) {
	switch p := e.Payload.(type) {
	case *ledger.ClaimWithdrawn:
		m.addMention("claim", p.Claim)
	case *ledger.ClaimCreated:
		m.addMention("claim", p.Claim)
	case *ledger.ClaimAdopted:
		m.addMention("claim", p.Claim)
	case *ledger.LaunchRequested:
		for _, member := range p.Members() {
			m.addMention("claim", member.Claim)
		}
	case *ledger.FleetAnswered:
		for i := range p.Launched {
			m.addMention("claim", p.Launched[i].Claim)
			m.addMention("instance", p.Launched[i].InstanceID)
		}
		for i := range p.Failed {
			m.addMention("claim", p.Failed[i].Claim)
		}
		m.offerings(p.Unavailable)
	case *ledger.Launched:
		m.addMention("claim", p.Claim)
		m.addMention("instance", p.InstanceID)
		m.offerings(p.Unavailable)
	case *ledger.LaunchFailed:
		m.addMention("claim", p.Claim)
		m.offerings(p.Unavailable)
	case *ledger.ClaimRegistered:
		m.addMention("claim", p.Claim)
		m.addMention("node", p.Node)
	case *ledger.ClaimInitialized:
		m.addMention("claim", p.Claim)
		m.addMention("node", p.Node)
	case *ledger.ClaimDoomed:
		m.addMention("claim", p.Claim)
		m.offerings(p.Unavailable)
	case *ledger.InstanceTerminated:
		m.addMention("claim", p.Claim)
		m.addMention("instance", p.InstanceID)
	case *ledger.ClaimClosed:
		m.addMention("claim", p.Claim)
	}
}

func (m *mentions) node(e ledger.Entry) {
	switch p := e.Payload.(type) {
	case *ledger.CommandConfirmed:
		m.addMention("command", p.ID)
	case *ledger.CommandSucceeded:
		m.addMention("command", p.ID)
	case *ledger.CommandReduced:
		m.addMention("command", p.ID)
		for _, n := range p.Dropped {
			m.addMention("node", n.Node)
			m.addMention("claim", n.Claim)
		}
	case *ledger.CommandRolledBack:
		m.addMention("command", p.ID)
		for _, u := range p.Unused {
			m.addMention("claim", u.Claim)
		}
	case *ledger.DrainOutStarted:
		for i := range p.Nodes {
			n := &p.Nodes[i]
			m.addMention("node", n.Node)
			m.addMention("claim", n.Claim)
			for _, pod := range n.Pods {
				m.pods([]ledger.PodRef{pod.PodRef})
			}
		}
	case *ledger.DrainOutEnded:
		for _, n := range p.Nodes {
			m.addMention("node", n.Node)
			m.addMention("claim", n.Claim)
		}
	case *ledger.DrainStarted:
		m.addMention("node", p.Node)
		m.addMention("claim", p.Claim)
	case *ledger.DrainTierStarted:
		m.addMention("node", p.Node)
		m.pods(p.Evict)
		m.pods(p.Held)
		m.pods(p.Delete)
		m.pods(p.Evicted)
	case *ledger.MemoryDiscovered:
		m.addMention("node", p.Node)
		m.addMention("claim", p.Claim)
	case *ledger.SurgeDecided:
		m.addMention("node", p.Node)
		m.addMention("command", p.Command)
		for i := range p.Owners {
			m.pods(p.Owners[i].Pods)
		}
	case *ledger.NodeDrained:
		m.addMention("node", p.Node)
		m.addMention("claim", p.Claim)
		m.pods(p.Pods)
		m.pods(p.Evicted)
	case *ledger.DrainEnded:
		m.addMention("node", p.Node)
		m.pods(p.Evicted)
	}
}
