package history

import (
	"slices"
	"sync"
	"time"

	"millwright/planner/ledger"
	"millwright/store/audit"
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

// ring holds the sums of the newest spans of one length, by NodePool.
type ring struct {
	span  time.Duration
	keep  int
	spans []slot
	cells int
}

// slot is one span that something happened in.
type slot struct {
	at    time.Time
	pools map[string]*Sums
}

// add sums to a NodePool's span, which is not the newest after a record of a clock that was ahead.
func (r *ring) add(at time.Time, pool string, o Sums) {
	at = at.UTC().Truncate(r.span)
	i, found := slices.BinarySearchFunc(r.spans, at, func(x slot, at time.Time) int { return x.at.Compare(at) })
	if !found {
		r.spans = slices.Insert(r.spans, i, slot{at: at, pools: map[string]*Sums{}})
	}
	s := r.spans[i].pools[pool]
	if s == nil {
		s = &Sums{}
		r.spans[i].pools[pool] = s
		r.cells++
	}
	s.add(o)
	for len(r.spans) > 1 && (len(r.spans) > r.keep || r.cells > cellsMax) {
		r.cells -= len(r.spans[0].pools)
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
	// command that it replaces nodes for; "" for none.
	command string
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
}

// New returns an empty History.
func New(logID string) *History {
	h := &History{logID: logID, claims: map[string]*claim{}, commands: map[string]*Command{}, taking: map[string]string{}}
	for i, r := range resolutions {
		h.rings[i] = ring{span: r.span, keep: r.keep}
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
		h.count(e, poolOf(e), Sums{Decisions: 1})
	}
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

func (h *History) count(e ledger.Entry, pool string, s Sums) {
	for i := range h.rings {
		h.rings[i].add(e.Time, pool, s)
	}
}

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
		h.count(e, h.poolOf(p.Claim), Sums{Launched: 1})
		h.up(e, p.Claim, p.Price)
	case *ledger.LaunchFailed:
		h.count(e, h.poolOf(p.Claim), Sums{Failed: 1})
	case *ledger.FleetAnswered:
		for i := range p.Launched {
			h.count(e, h.poolOf(p.Launched[i].Claim), Sums{Launched: 1})
			h.up(e, p.Launched[i].Claim, p.Launched[i].Price)
		}
		for i := range p.Failed {
			h.count(e, h.poolOf(p.Failed[i].Claim), Sums{Failed: 1})
		}
	case *ledger.ClaimDoomed:
		h.count(e, h.poolOf(p.Claim), Sums{Doomed: 1})
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
	case *ledger.DrainStarted:
		h.count(e, "", Sums{Drains: 1})
	case *ledger.AlarmRaised:
		h.count(e, "", Sums{Alarms: 1})
	}
}

// planned remembers claims that a record plans, for a command if it is one.
func (h *History) planned(e ledger.Entry, claims []ledger.PlannedClaim, command string) {
	for i := range claims {
		pool := claims[i].NodePool
		h.remember(ledger.ClaimName(h.logID, pool, e.Seq, i), &claim{pool: pool, command: command})
		h.count(e, pool, Sums{Planned: 1})
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
	c.up, c.price = true, price
	h.count(e, c.pool, Sums{nodes: 1, price: price})
	if x := h.commands[c.command]; x != nil {
		x.bought += price
	}
}

// ended counts an instance that is no more, once.
func (h *History) ended(e ledger.Entry, name string) {
	c := h.claims[name]
	_, closing := e.Payload.(*ledger.ClaimClosed)
	switch {
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
	h.count(e, c.pool, Sums{Ended: 1, nodes: -1, price: -c.price})
	c.up = false
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

// Point is a span of a Timeline.
type Point struct {
	At time.Time `json:"at"`
	// Nodes and MicroUSDPerHour are of the instances at its end.
	Nodes           int   `json:"nodes"`
	MicroUSDPerHour int64 `json:"microUSDPerHour"`
	Sums
}

// Timeline is what happened, by spans of equal length, oldest first. Spans in which nothing happened are left
// out.
type Timeline struct {
	Seconds int64   `json:"seconds"`
	Points  []Point `json:"points"`
	// From is when the records begin that it is of, First the first of them; Missed counts those that could
	// not be read, Unpriced the instances that ended whose price is on no record: with either, nodes and cost
	// are too low before.
	From     time.Time `json:"from,omitzero"`
	First    uint64    `json:"first"`
	Missed   uint64    `json:"missed"`
	Unpriced int       `json:"unpriced"`
}

// pointsMax bounds a Timeline.
const pointsMax = 1500

// Timeline from a time on, of one NodePool or, if that is nil, of all. Nodes and cost are those of now, and
// further back what the records say that changed.
func (h *History) Timeline(from, now time.Time, pool *string, nodes int, price int64) *Timeline {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, since := &h.rings[0], from
	if h.first.Time.After(since) { // a young log fills a year by the minute
		since = h.first.Time
	}
	for i := range resolutions {
		if r = &h.rings[i]; now.Sub(since) <= r.span*time.Duration(min(r.keep, 480)) {
			break
		}
	}
	t := &Timeline{Seconds: int64(r.span / time.Second), Points: []Point{}, From: h.first.Time.UTC(), First: h.first.Seq, Missed: h.missed, Unpriced: h.unpriced}
	for i := len(r.spans) - 1; i >= 0 && len(t.Points) < pointsMax; i-- {
		s := &r.spans[i]
		if s.at.Add(r.span).Before(from) {
			break
		}
		p := Point{At: s.at, Nodes: nodes, MicroUSDPerHour: price}
		for name, sums := range s.pools {
			if pool == nil || *pool == name {
				p.Sums.add(*sums)
			}
		}
		nodes, price = nodes-p.nodes, price-p.price
		if p.Sums != (Sums{}) {
			t.Points = append(t.Points, p)
		}
	}
	slices.Reverse(t.Points)
	return t
}
