package ledger

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// CommandProposed is a command that waits for a person's approval, because a DisruptionPolicy demands that.
// Nothing is tainted, and its nodes stay capacity as before. The proposal's id is CommandID(log-id, seq).
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
	// For is, for a rejection, how long its nodes are not proposed again for the same reason.
	For time.Duration `json:"for,omitzero"`
	// Until is when that is over. The Ledger works it out from For and the record's time, so that an
	// operator's clock that is far off does not count; an answer of before For has only this.
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
		id := l.CommandID(e.Seq)
		l.proposals.Set(l.owner, id, &Proposal{ID: id, Seq: e.Seq, At: e.Time.UTC(), State: ProposalOpen, Proposed: *p})
	case *ProposalAnswered:
		if x := l.Proposal(p.ID); x == nil || x.State != ProposalOpen {
			return
		}
		x := edit(l.owner, &l.proposals, p.ID)
		x.Answer, x.State = l.answered(e, p), ProposalRejected
		if p.Approved {
			x.State = ProposalApproved
		}
	case *ProposalEnded:
		l.proposals.Delete(l.owner, p.ID)
	}
}

// answered is an answer as it counts: a rejection lasts from its record's time. An operator's clock has no
// witnesses, so it counts at the earliest from the record before, and at the latest from the one after
// (disbelieveAnswers).
func (l *Ledger) answered(e Entry, p *ProposalAnswered) *ProposalAnswered {
	if p.Approved || p.For <= 0 {
		return p
	}
	from := e.Time.UTC()
	if l.lastTime.After(from) {
		from = l.lastTime
	}
	counts := *p
	counts.Until = from.Add(p.For)
	return &counts
}

// disbelieveAnswers lets rejections last from now at the latest.
func (l *Ledger) disbelieveAnswers(now time.Time) {
	if l.proposals.Len() == 0 {
		return
	}
	for _, x := range l.Proposals() {
		a := x.Answer
		if a == nil || a.For <= 0 || !a.Until.After(now.Add(a.For)) {
			continue
		}
		counts := *a
		counts.Until = now.Add(a.For)
		edit(l.owner, &l.proposals, x.ID).Answer = &counts
	}
}

// asOf is the proposal as it can be at most at a time.
func (x *Proposal) asOf(now time.Time) *Proposal {
	known := *x
	if ahead := x.At.Sub(now); ahead > 0 {
		known.At, known.Proposed.Expires = now, x.Proposed.Expires.Add(-ahead)
	}
	return &known
}

// evictionsFor is how long the evictions of commands are remembered.
const evictionsFor = time.Hour

// Evicted is what one command moves away from the nodes of a NodePool.
type Evicted struct {
	Command string    `json:"command"`
	At      time.Time `json:"at"`
	Pods    int       `json:"pods"`
	// Owners of the pods, as OwnerKey has them, sorted, each once.
	Owners []string `json:"owners,omitempty"`
	// To are the names of the Nodes and NodeClaims that the pods were to go to, sorted, each once.
	To []string `json:"to,omitempty"`
}

// OwnerKey is what the names of a workload's replicas have in common, with the namespace: web-7d9f of
// web-7d9f-x2bqz, db of db-0. A pod that takes the place of another has its key.
func OwnerKey(namespace, pod string) string {
	if i := strings.LastIndexByte(pod, '-'); i > 0 {
		pod = pod[:i]
	}
	return namespace + "/" + pod
}

// MovedSince returns, by OwnerKey, when a voluntary command first moved pods of that owner since a time.
func (l *state) MovedSince(since time.Time) map[string]time.Time {
	first := map[string]time.Time{}
	for _, list := range l.evictions {
		for _, x := range list {
			for _, owner := range x.Owners {
				if at, ok := first[owner]; !x.At.Before(since) && (!ok || x.At.Before(at)) {
					first[owner] = x.At
				}
			}
		}
	}
	return first
}

// MovesTo returns, by the names of the Nodes and NodeClaims where pods were to go, what voluntary commands
// moved there since a time.
func (l *state) MovesTo(since time.Time) map[string][]Evicted {
	moves := map[string][]Evicted{}
	for _, pool := range slices.Sorted(maps.Keys(l.evictions)) {
		for _, x := range l.evictions[pool] {
			for _, to := range x.To {
				if !x.At.Before(since) {
					moves[to] = append(moves[to], x)
				}
			}
		}
	}
	return moves
}

// Evictions counts the pods that voluntary commands moved away from a NodePool's nodes in the hour before
// now, and says when the first of them is an hour old; zero if there is none.
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
	goes := l.destinations(e, p)
	moved := map[string]*Evicted{}
	for _, c := range p.Candidates {
		x := moved[c.NodePool]
		if x == nil {
			x = &Evicted{Command: id, At: e.Now.UTC()}
			moved[c.NodePool] = x
		}
		x.Pods += len(c.Pods)
		for _, pod := range c.Pods {
			x.Owners = append(x.Owners, OwnerKey(pod.Namespace, pod.Name))
			if to := goes[pod.UID]; to != "" {
				x.To = append(x.To, to)
			}
		}
	}
	for pool, x := range moved {
		if x.Pods > 0 {
			x.Owners, x.To = distinct(x.Owners), distinct(x.To)
			l.evictions = with(l.evictions, pool, append(l.recentEvictions(pool, e.Now), *x))
		}
	}
}

// destinations are the Nodes and NodeClaims where the pods of a command go.
func (l *Ledger) destinations(e Entry, p *CommandStarted) map[types.UID]string {
	goes := map[types.UID]string{}
	for _, t := range p.Placements {
		for _, pod := range t.Pods {
			goes[pod.UID] = cmp.Or(t.Node, t.Claim)
		}
	}
	for i := range p.Replacements {
		for _, pod := range p.Replacements[i].Pods {
			goes[pod.UID] = l.ClaimName(p.Replacements[i].NodePool, e.Seq, i)
		}
	}
	return goes
}

func distinct(list []string) []string {
	slices.Sort(list)
	return slices.Clip(slices.Compact(list))
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

// takeBackEvictionsOf forgets what a command was to move away from a node that stays.
func (l *Ledger) takeBackEvictionsOf(id string, c Candidate) {
	list := slices.Clone(l.evictions[c.NodePool])
	for i := range list {
		if list[i].Command == id {
			list[i].Pods -= len(c.Pods)
		}
	}
	l.evictions = with(l.evictions, c.NodePool, slices.DeleteFunc(list, func(x Evicted) bool { return x.Command == id && x.Pods <= 0 }))
}
