package story

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/ledger"
	"millwright/store/audit"
)

const (
	// openMax bounds the stories that are open at a time, podsMax the pods of which it is known since when
	// they wait.
	openMax = 20_000
	podsMax = 50_000
	// storyMax is how long a story may take, waitMax how long a pod is known to wait.
	storyMax = 24 * time.Hour
	waitMax  = time.Hour
	// listedMax bounds the names in an attribute, textMax its characters.
	listedMax = 20
	textMax   = 1000
)

// Teller follows the log. It is for one goroutine.
type Teller struct {
	logID string
	// claims are the stories of claims that become nodes, ends of claims that go; by claim.
	claims map[string]*growth
	ends   map[string]*ending
	// commands by id, under which their proposals are told as well.
	commands map[string]*command
	// pods are the stories that a pod is of; waiting, since when others wait.
	pods    map[types.UID]*growth
	waiting map[types.UID]mark
	// pending are the stories of pods.
	pending map[types.UID]*pending
	// swept is when what takes too long was looked for last, in records' time.
	swept time.Time
	out   []Span
}

// mark is a place in the log.
type mark struct {
	seq uint64
	at  time.Time
}

// New returns a Teller that has read nothing.
func New(logID string) *Teller {
	return &Teller{logID: logID, claims: map[string]*growth{}, ends: map[string]*ending{}, commands: map[string]*command{},
		pods: map[types.UID]*growth{}, waiting: map[types.UID]mark{}, pending: map[types.UID]*pending{}}
}

// From is the first record that what is open depends on: who begins there tells the rest of it alike. 0:
// nothing is open.
func (t *Teller) From() (from uint64) {
	least := func(seq uint64) {
		if from == 0 || seq < from {
			from = seq
		}
	}
	for _, g := range t.claims {
		least(g.thread.seq)
		least(g.first)
	}
	for _, e := range t.ends {
		least(e.thread.seq)
	}
	for _, c := range t.commands {
		least(c.thread.seq)
	}
	for _, m := range t.waiting {
		least(m.seq)
	}
	for _, x := range t.pending {
		least(x.from)
	}
	return from
}

// Add returns the spans that a record ends. Records come in their order.
func (t *Teller) Add(e ledger.Entry) []Span {
	t.out = nil
	if e.Mode == ledger.ModeShadow {
		return nil
	}
	t.sweep(mark{e.Seq, e.Time})
	t.read(e)
	return t.out
}

func (t *Teller) read(e ledger.Entry) {
	at := mark{e.Seq, e.Time}
	switch p := e.Payload.(type) {
	case *ledger.ProvisioningPlanned:
		t.planned(e, p)
	case *ledger.ClaimWithdrawn:
		t.grown(p.Claim, at, "withdrawn: "+p.Reason)
	case *ledger.ClaimCreated:
		t.step(p.Claim, at, "planned", "claim created")
	case *ledger.LaunchRequested:
		for _, m := range p.Members() {
			t.step(m.Claim, at, "claim created", "launch requested", Attribute{"millwright.attempt", int64(m.Attempt)})
		}
	case *ledger.FleetAnswered:
		for i := range p.Launched {
			t.launched(&p.Launched[i], at)
		}
		for i := range p.Failed {
			t.launchFailed(&p.Failed[i], at)
		}
	case *ledger.Launched:
		t.launched(p, at)
	case *ledger.LaunchFailed:
		t.launchFailed(p, at)
	case *ledger.ClaimRegistered:
		t.step(p.Claim, at, "launched", "registered", Attribute{"millwright.node", p.Node})
	case *ledger.ClaimInitialized:
		t.initialized(p, at)
	case *ledger.CommandProposed:
		t.proposed(e, p)
	case *ledger.CommandStarted:
		t.started(e, p)
	case *ledger.ProposalEnded:
		t.commandEnds(p.ID, at, "proposal ended")
	case *ledger.CommandConfirmed:
		t.confirmed(p.ID, at)
	case *ledger.CommandSucceeded:
		t.succeeded(p.ID, at)
	case *ledger.CommandReduced:
		t.reduced(p, at)
	case *ledger.CommandRolledBack:
		t.commandEnds(p.ID, at, cmp.Or(p.Reason, "rolled back"))
	default:
		t.readEnd(e, at)
	}
}

func (t *Teller) readEnd(e ledger.Entry, at mark) {
	switch p := e.Payload.(type) {
	case *ledger.ClaimDoomed:
		t.grown(p.Claim, at, "doomed: "+p.Reason)
		t.ending(p.Claim, p.Reason, at, Attribute{"millwright.text", clip(audit.Describe(e, t.logID))})
	case *ledger.DrainStarted:
		t.drains(p, at)
	case *ledger.NodeDrained:
		t.drained(p, at)
	case *ledger.InstanceTerminated:
		t.terminated(p, at)
	case *ledger.ClaimClosed:
		t.closed(p, at)
	}
}

// sweep ends what takes too long, once in a minute of the log, and what is too much.
func (t *Teller) sweep(at mark) {
	open := len(t.claims) + len(t.ends) + len(t.commands)
	if at.at.Sub(t.swept) < time.Minute && open <= openMax && len(t.waiting) <= podsMax {
		return
	}
	for uid, m := range t.waiting {
		if at.at.Sub(m.at) > waitMax || len(t.waiting) > podsMax {
			delete(t.waiting, uid)
		}
	}
	t.sweepPods(at)
	t.swept = at.at
	before := at.at.Add(-storyMax)
	if open > openMax {
		before = t.middle()
	}
	old := func(th *thread) bool { return !th.began.After(before) }
	for _, name := range sortedKeys(t.claims) {
		if g := t.claims[name]; old(g.thread) {
			t.grown(name, at, "unfinished")
		}
	}
	for _, name := range sortedKeys(t.ends) {
		if x := t.ends[name]; old(x.thread) {
			t.ended(name, x, at, "unfinished")
		}
	}
	for _, id := range sortedKeys(t.commands) {
		if old(t.commands[id].thread) {
			t.commandEnds(id, at, "unfinished")
		}
	}
}

// middle is when half of what is open had begun.
func (t *Teller) middle() time.Time {
	var list []time.Time
	for _, g := range t.claims {
		list = append(list, g.thread.began)
	}
	for _, x := range t.ends {
		list = append(list, x.thread.began)
	}
	for _, c := range t.commands {
		list = append(list, c.thread.began)
	}
	slices.SortFunc(list, time.Time.Compare)
	return list[len(list)/2]
}

func sortedKeys[K ~string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// clip shortens a text between characters.
func clip(s string) string {
	if len(s) <= textMax {
		return s
	}
	n := textMax
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}

// podNames are the names of some pods.
func podNames(refs []ledger.PodRef) []string {
	var list []string
	for _, p := range refs[:min(len(refs), listedMax)] {
		list = append(list, p.Namespace+"/"+p.Name)
	}
	return list
}

// dollars in an hour, of micro-dollars.
func dollars(micro int64) float64 { return float64(micro) / 1e6 }
