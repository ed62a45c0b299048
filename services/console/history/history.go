package history

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"millwright/planner/ledger"
	"millwright/store/audit"
	"millwright/store/audit/overview"
)

const (
	// cellsMax bounds the sums of one resolution, claimsMax the claims that are remembered, commandsMax the
	// commands.
	cellsMax    = 60_000
	claimsMax   = 200_000
	commandsMax = 20_000
	// doomedMax bounds the claims whose forceful end is remembered with its reason.
	doomedMax = 20_000
)

// resolutions are the lengths of the spans that are added up, and how many of them are kept: a day of
// minutes, two months of hours, three years of days.
var resolutions = [...]struct {
	span time.Duration
	keep int
}{{time.Minute, 1500}, {time.Hour, 1500}, {24 * time.Hour, 1100}}

// Sums of what happened in a span.
type Sums struct {
	// Decisions that were planned on a Snapshot.
	Decisions int `json:"decisions"`
	// Planned claims; Launched and Failed launches; Commands started; Drains started; Doomed claims, which go
	// without regard to budgets; Ended instances; Alarms.
	Planned  int `json:"planned"`
	Launched int `json:"launched"`
	Failed   int `json:"failed"`
	Commands int `json:"commands"`
	Drains   int `json:"drains"`
	Doomed   int `json:"doomed"`
	Ended    int `json:"ended"`
	Alarms   int `json:"alarms"`
	// nodes and price are by how much the instances, and what they cost per hour, grew.
	nodes int
	price int64
}

func (s *Sums) add(o Sums) {
	s.Decisions, s.Planned, s.Launched, s.Failed = s.Decisions+o.Decisions, s.Planned+o.Planned, s.Launched+o.Launched, s.Failed+o.Failed
	s.Commands, s.Drains, s.Doomed, s.Ended, s.Alarms = s.Commands+o.Commands, s.Drains+o.Drains, s.Doomed+o.Doomed, s.Ended+o.Ended, s.Alarms+o.Alarms
	s.nodes, s.price = s.nodes+o.nodes, s.price+o.price
}

// cell is what a span's sums are kept by. Reason is why it happened; "" where there is none.
type cell struct{ Pool, Reason string }

// ring holds the sums of the newest spans of one length, by NodePool and reason.
type ring struct {
	span  time.Duration
	keep  int
	spans []slot
	cells int
}

// slot is one span that something happened in.
type slot struct {
	at    time.Time
	cells map[cell]*Sums
}

// add sums to a cell's span, which is not the newest after a record of a clock that was ahead.
func (r *ring) add(at time.Time, by cell, o Sums) {
	at = at.UTC().Truncate(r.span)
	i, found := slices.BinarySearchFunc(r.spans, at, func(x slot, at time.Time) int { return x.at.Compare(at) })
	if !found {
		r.spans = slices.Insert(r.spans, i, slot{at: at, cells: map[cell]*Sums{}})
	}
	s := r.spans[i].cells[by]
	if s == nil {
		s = &Sums{}
		r.spans[i].cells[by] = s
		r.cells++
	}
	s.add(o)
	for len(r.spans) > 1 && (len(r.spans) > r.keep || r.cells > cellsMax) {
		r.cells -= len(r.spans[0].cells)
		r.spans[0] = slot{}
		r.spans = r.spans[1:]
	}
}

// claim as far as records tell.
type claim struct {
	pool  string
	price int64
	// up: it has an instance.
	up bool
	// since when it has had it.
	since time.Time
	// spot: the instance is one; onDemand is what it would cost per hour otherwise, 0 if not known.
	spot     bool
	onDemand int64
	// command that it replaces nodes for; "" for none. going is why it goes; "" if nothing says so.
	command, going string
}

// doom is the forceful end of a claim.
type doom struct {
	at     time.Time
	reason string
}

// History of a log.
type History struct {
	logID string

	mu       sync.Mutex
	rings    [len(resolutions)]ring
	claims   map[string]*claim
	commands map[string]*Command
	// order of the commands, oldest first.
	order []string
	// taking is the command that takes a claim.
	taking map[string]string
	// doomed are the newest of the claims that were, oldest first.
	doomed []doom
	first  ledger.Entry
	last   uint64
	// missed counts the records between the first and the last that were not given.
	missed uint64
	// unpriced counts instances that ended and whose price no record has told.
	unpriced int
	// health of the instances, and costs of the NodePools.
	health overview.Health
	costs  map[string]*poolCost
	// spot is what spot instances that have ended saved, by hours and by days.
	spot [2]spotSpans
	// shares are whose pods had it, in the same spans, live those of an hour that is not on record yet.
	shares [2]spans[share, weight]
	live   *ledger.SharesObserved
	// label that names the team of a pod, as the newest record has it that has one.
	label string
	// only are the claims that count; nil: all.
	only map[string]bool
}

// New returns an empty History.
func New(logID string) *History {
	h := &History{logID: logID, claims: map[string]*claim{}, commands: map[string]*Command{}, taking: map[string]string{}, costs: map[string]*poolCost{}}
	for i, r := range resolutions {
		h.rings[i] = ring{span: r.span, keep: r.keep}
	}
	for i, r := range resolutions[1:] {
		h.spot[i] = spotSpans{newSpans[string, spotSums](r.span, r.keep)}
		h.shares[i] = newSpans[share, weight](r.span, r.keep)
	}
	return h
}

// Add counts the next record. One that was counted already changes nothing.
func (h *History) Add(e ledger.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.last == 0:
		h.first = ledger.Entry{Seq: e.Seq, Time: e.Time}
	case e.Seq <= h.last:
		return
	default:
		h.missed += e.Seq - h.last - 1
	}
	h.last = e.Seq
	if e.Mode == ledger.ModeShadow { // nothing of it was done
		return
	}
	if audit.IsDecision(e) {
		h.count(e, poolOf(e), "", Sums{Decisions: 1})
	}
	h.health.Add(e)
	h.fold(e)
}

// poolOf is the first NodePool that a record is about; "" for none.
func poolOf(e ledger.Entry) string {
	for _, s := range e.Subjects {
		if len(s) > 5 && s[:5] == "pool/" {
			return s[5:]
		}
	}
	return ""
}

// reasonMax bounds the characters of a reason that sums are kept by.
const reasonMax = 64

func (h *History) count(e ledger.Entry, pool, reason string, s Sums) {
	for i := range h.rings {
		h.rings[i].add(e.Time, cell{pool, reason[:min(len(reason), reasonMax)]}, s)
	}
}

// reasonOf a command; "" if there is none.
func (h *History) reasonOf(command string) string {
	if c := h.commands[command]; c != nil {
		return c.reason
	}
	return ""
}

func (h *History) counts(claim string) bool { return h.only == nil || h.only[claim] }

func (h *History) fold(e ledger.Entry) {
	switch p := e.Payload.(type) {
	case *ledger.ProvisioningPlanned:
		h.planned(e, p.Claims, "")
	case *ledger.ClaimAdopted:
		h.remember(p.Claim, &claim{pool: p.NodePool})
		if p.ProviderID != "" {
			h.up(e, p.Claim, 0)
		}
	case *ledger.Launched:
		h.launched(e, p)
	case *ledger.LaunchFailed:
		h.failed(e, p)
	case *ledger.FleetAnswered:
		for i := range p.Launched {
			h.launched(e, &p.Launched[i])
		}
		for i := range p.Failed {
			h.failed(e, &p.Failed[i])
		}
	case *ledger.ClaimDoomed:
		if !h.counts(p.Claim) {
			return
		}
		h.count(e, h.poolOf(p.Claim), p.Reason, Sums{Doomed: 1})
		if c := h.claims[p.Claim]; c != nil && c.going == "" {
			c.going = p.Reason
		}
		h.doomed = append(h.doomed, doom{e.Time, p.Reason})
		if len(h.doomed) > doomedMax {
			h.doomed = h.doomed[1:]
		}
	case *ledger.InstanceTerminated:
		h.ended(e, p.Claim)
	case *ledger.ClaimClosed:
		h.ended(e, p.Claim)
		delete(h.claims, p.Claim)
	case *ledger.ClaimWithdrawn:
		delete(h.claims, p.Claim)
	case *ledger.CommandStarted:
		h.started(e, p)
	case *ledger.CommandReduced:
		h.reduced(p)
	case *ledger.CommandSucceeded:
		h.end(p.ID, Succeeded)
	case *ledger.CommandRolledBack:
		h.end(p.ID, RolledBack)
	case *ledger.SharesObserved:
		h.observed(p)
	case *ledger.DrainStarted:
		h.count(e, h.poolOf(p.Claim), p.Reason, Sums{Drains: 1})
	case *ledger.AlarmRaised:
		h.count(e, "", p.Reason, Sums{Alarms: 1})
	}
}

func (h *History) launched(e ledger.Entry, p *ledger.Launched) {
	if h.counts(p.Claim) {
		h.count(e, h.poolOf(p.Claim), h.whyBought(p.Claim), Sums{Launched: 1})
		h.up(e, p.Claim, p.Price)
		h.onSpot(p)
	}
}

func (h *History) failed(e ledger.Entry, p *ledger.LaunchFailed) {
	if h.counts(p.Claim) {
		h.count(e, h.poolOf(p.Claim), p.Reason, Sums{Failed: 1})
	}
}

// whyBought is the reason of the command that a claim is bought for; "" if it is bought for pods.
func (h *History) whyBought(claim string) string {
	if c := h.claims[claim]; c != nil {
		return h.reasonOf(c.command)
	}
	return ""
}

// planned remembers claims that a record plans, for a command if it is one.
func (h *History) planned(e ledger.Entry, claims []ledger.PlannedClaim, command string) {
	for i := range claims {
		pool := claims[i].NodePool
		name := ledger.ClaimName(h.logID, pool, e.Seq, i)
		if h.counts(name) {
			h.remember(name, &claim{pool: pool, command: command})
			h.count(e, pool, h.reasonOf(command), Sums{Planned: 1})
		}
	}
}

func (h *History) remember(name string, c *claim) {
	if len(h.claims) < claimsMax {
		h.claims[name] = c
	}
}

func (h *History) poolOf(name string) string {
	if c := h.claims[name]; c != nil {
		return c.pool
	}
	return ""
}

// up counts an instance of a claim.
func (h *History) up(e ledger.Entry, name string, price int64) {
	c := h.claims[name]
	if c == nil { // planned before the first record
		c = &claim{}
		h.remember(name, c)
	}
	if c.up {
		return
	}
	c.up, c.price, c.since = true, price, e.Time
	h.bought(c)
	h.count(e, c.pool, h.reasonOf(c.command), Sums{nodes: 1, price: price})
	if x := h.commands[c.command]; x != nil {
		x.bought += price
	}
}

// ended counts an instance that is no more, once.
func (h *History) ended(e ledger.Entry, name string) {
	c := h.claims[name]
	_, closing := e.Payload.(*ledger.ClaimClosed)
	switch {
	case !h.counts(name):
		return
	case c == nil && closing: // it may never have had one, or its end was counted
		return
	case c == nil: // launched before the first record
		c = &claim{up: true}
		if x := h.commands[h.taking[name]]; x != nil {
			c.pool, c.price = x.candidate(name)
		}
		if c.price == 0 {
			h.unpriced++
		}
		h.remember(name, &claim{pool: c.pool, price: c.price})
	case !c.up:
		return
	}
	h.count(e, c.pool, cmp.Or(h.reasonOf(h.taking[name]), c.going), Sums{Ended: 1, nodes: -1, price: -c.price})
	c.up = false
	h.paid(c, e.Time)
	h.spotEnded(c, e.Time)
	if x := h.commands[h.taking[name]]; x != nil {
		x.ended(name)
	}
	delete(h.taking, name)
}

// Extent says what the History is of: from which record and time on, and how many records between were not
// read.
func (h *History) Extent() (first uint64, at time.Time, missed uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.first.Seq, h.first.Time.UTC(), h.missed
}
