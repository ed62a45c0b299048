package ledger

import (
	"slices"
	"time"
)

// CommandProposed is a command that waits for a person's approval, because a DisruptionPolicy demands that. Nothing is tainted, and its
// nodes stay capacity as before. The proposal's id is CommandID(log-id, seq).
type CommandProposed struct {
	Command CommandStarted `json:"command"`
	// Policies that demand the approval, by name.
	Policies []string `json:"policies,omitempty"`
	// Expires is when the proposal ends if it was not carried out.
	Expires time.Time `json:"expires,omitzero"`
}

// ProposalAnswered is a person's answer to a proposal. Only the first one counts.
type ProposalAnswered struct {
	ID       string `json:"id"`
	Approved bool   `json:"approved"`
	By       string `json:"by"`
	Why      string `json:"why"`
	// Until is, for a rejection, how long its nodes are not proposed again for the same reason.
	Until time.Time `json:"until,omitzero"`
}

// ProposalEnded: the proposal was not carried out and waits no more.
type ProposalEnded struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

// ProposalState is where a proposal stands.
type ProposalState string

const (
	ProposalOpen     ProposalState = "Proposed"
	ProposalApproved ProposalState = "Approved"
	ProposalRejected ProposalState = "Rejected"
)

// Proposal that has neither ended nor become a command.
type Proposal struct {
	ID       string
	Seq      uint64
	At       time.Time
	State    ProposalState
	Proposed CommandProposed
	// Answer is nil while it is open.
	Answer *ProposalAnswered `json:",omitempty"`
}

// Proposals returns the proposals that have not ended by id.
func (l *state) Proposals() []*Proposal { return l.proposals.List() }

// Proposal returns the one of an id; nil if there is none, or it has ended.
func (l *state) Proposal(id string) *Proposal { return row(&l.proposals, id) }

func (l *Ledger) foldProposal(e Entry) {
	switch p := e.Payload.(type) {
	case *CommandProposed:
		id := CommandID(l.logID, e.Seq)
		l.proposals.Set(l.owner, id, &Proposal{ID: id, Seq: e.Seq, At: e.Time.UTC(), State: ProposalOpen, Proposed: *p})
	case *ProposalAnswered:
		if x := l.Proposal(p.ID); x == nil || x.State != ProposalOpen {
			return
		}
		x := edit(l.owner, &l.proposals, p.ID)
		x.Answer, x.State = p, ProposalRejected
		if p.Approved {
			x.State = ProposalApproved
		}
	case *ProposalEnded:
		l.proposals.Delete(l.owner, p.ID)
	}
}

// evictionsFor is how long the evictions of commands are remembered.
const evictionsFor = time.Hour

// Evicted is what one command moves away from the nodes of a NodePool.
type Evicted struct {
	Command string    `json:"command"`
	At      time.Time `json:"at"`
	Pods    int       `json:"pods"`
}

// Evictions counts the pods that voluntary commands moved away from a NodePool's nodes in the hour before now, and says when the first of
// them is an hour old; zero if there is none.
func (l *state) Evictions(nodePool string, now time.Time) (pods int, until time.Time) {
	for _, x := range l.evictions[nodePool] {
		if age := now.Sub(x.At); age < evictionsFor {
			pods += x.Pods
			if ends := x.At.Add(evictionsFor); until.IsZero() || ends.Before(until) {
				until = ends
			}
		}
	}
	return pods, until
}

// foldEvictions remembers what a command moves, and forgets what is over an hour old.
func (l *Ledger) foldEvictions(e Entry, id string, p *CommandStarted) {
	for pool := range l.evictions { // also of NodePools that are gone
		if recent := l.recentEvictions(pool, e.Now); len(recent) < len(l.evictions[pool]) {
			l.evictions = with(l.evictions, pool, recent)
			if len(recent) == 0 {
				delete(l.evictions, pool) // of the copy that with made
			}
		}
	}
	pods := map[string]int{}
	for _, c := range p.Candidates {
		pods[c.NodePool] += len(c.Pods)
	}
	for pool, n := range pods {
		if n > 0 {
			l.evictions = with(l.evictions, pool, append(l.recentEvictions(pool, e.Now), Evicted{Command: id, At: e.Now.UTC(), Pods: n}))
		}
	}
}

func (l *Ledger) recentEvictions(pool string, now time.Time) []Evicted {
	return slices.DeleteFunc(slices.Clone(l.evictions[pool]), func(x Evicted) bool { return now.Sub(x.At) >= evictionsFor })
}

// takeBackEvictions forgets what a command was to move that was rolled back before it moved anything.
func (l *Ledger) takeBackEvictions(c *Command) {
	for pool := range l.evictions {
		if slices.ContainsFunc(l.evictions[pool], func(x Evicted) bool { return x.Command == c.ID }) {
			l.evictions = with(l.evictions, pool, slices.DeleteFunc(slices.Clone(l.evictions[pool]), func(x Evicted) bool { return x.Command == c.ID }))
		}
	}
}
