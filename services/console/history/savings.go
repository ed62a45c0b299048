package history

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"millwright/planner/ledger"
)

// State of a command.
type State string

// States of a command. It has succeeded when the deletion of its nodes was accepted.
const (
	Running    State = "running"
	Succeeded  State = "succeeded"
	RolledBack State = "rolled back"
)

// Command is what one promised and brought about.
type Command struct {
	at     time.Time
	reason string
	state  State
	// nodes it takes, by claim; after is what its replacements were to cost per hour, bought what those cost
	// that were launched.
	nodes         map[string]*taken
	after, bought int64
}

// taken is a node that a command takes.
type taken struct {
	pool  string
	price int64
	pods  map[string]int // by namespace
	teams map[string]int // by team, "" for pods without one; nil until a record tells
	ended bool
}

func (c *Command) candidate(claim string) (pool string, price int64) {
	if n := c.nodes[claim]; n != nil {
		return n.pool, n.price
	}
	return "", 0
}

func (c *Command) ended(claim string) {
	if n := c.nodes[claim]; n != nil {
		n.ended = true
	}
}

func (h *History) started(e ledger.Entry, p *ledger.CommandStarted) {
	id := ledger.CommandID(h.logID, e.Seq)
	c := &Command{at: e.Time, reason: string(p.Reason), state: Running, nodes: map[string]*taken{}, after: p.PriceAfter}
	pools := map[string]bool{}
	for i := range p.Candidates {
		n := &p.Candidates[i]
		t := &taken{pool: n.NodePool, price: n.Price, pods: map[string]int{}}
		for _, pod := range n.Pods {
			t.pods[pod.Namespace]++
		}
		c.nodes[n.Claim] = t
		h.taking[n.Claim] = id
		if known := h.claims[n.Claim]; known != nil && known.pool == "" {
			known.pool = n.NodePool
		}
		pools[n.NodePool] = true
	}
	h.commands[id], h.order = c, append(h.order, id)
	for len(h.order) > commandsMax {
		h.forget(h.order[0])
		h.order = h.order[1:]
	}
	h.planned(e, p.Replacements, id)
	first := true
	for _, pool := range slices.Sorted(maps.Keys(pools)) {
		if first { // one command is counted once
			h.count(e, pool, c.reason, Sums{Commands: 1})
		}
		first = false
	}
}

func (h *History) forget(id string) {
	for claim := range h.commands[id].nodes {
		if h.taking[claim] == id {
			delete(h.taking, claim)
		}
	}
	delete(h.commands, id)
}

// reduced takes nodes out of a command.
func (h *History) reduced(p *ledger.CommandReduced) {
	c := h.commands[p.ID]
	if c == nil {
		return
	}
	for _, d := range p.Dropped {
		delete(c.nodes, d.Claim)
		delete(h.taking, d.Claim)
	}
}

func (h *History) end(id string, state State) {
	c := h.commands[id]
	if c == nil {
		return
	}
	c.state = state
	if state == RolledBack {
		for claim := range c.nodes {
			delete(h.taking, claim)
		}
	}
}

// Saving is what commands promised and brought about for the pods of a namespace on nodes of a NodePool.
// Prices are per hour, when the commands were decided; for how long they would have been paid, nobody knows.
// A command's sum is shared out by the price of its nodes, and of each node by its pods.
type Saving struct {
	NodePool string `json:"nodePool"`
	// Namespace of the pods that moved; "" for nodes without any.
	Namespace string `json:"namespace"`
	// Commands that succeeded, with their Nodes; Evictions are pods that moved. A command that has to do with
	// several NodePools or namespaces is counted for each.
	Commands  int `json:"commands"`
	Nodes     int `json:"nodes"`
	Evictions int `json:"evictions"`
	// Promised when they were decided, in micro USD per hour; Realized is what the instances cost that have
	// ended since, less what the replacements cost that were launched.
	Promised int64 `json:"promised"`
	Realized int64 `json:"realized"`
}

// Savings are sums of commands.
type Savings struct {
	// Items by NodePool and namespace, at most itemsMax: further ones are in one with the name "(others)".
	Items []Saving `json:"items"`
	// Teams are the same sums by the label of the pods that TeamLabel is the key of; none before a record
	// tells of one.
	Teams     []TeamSaving `json:"teams"`
	TeamLabel string       `json:"teamLabel,omitempty"`
	// Reasons are the same sums by the reason of the commands.
	Reasons []ReasonSaving `json:"reasons"`
	// Total of the succeeded; Running and RolledBack count those that have not ended, or were given up.
	Total      ReasonSaving `json:"total"`
	Running    int          `json:"running"`
	RolledBack int          `json:"rolledBack"`
	// Spot is what spot instances saved, whatever commands did.
	Spot Spot `json:"spot"`
	// From is when the records begin, First the first of them.
	From  time.Time `json:"from,omitzero"`
	First uint64    `json:"first"`
	// Since is the time that was asked for; zero for all.
	Since time.Time `json:"since,omitzero"`
	// Kept: older commands than the newest 20,000 are not counted any more.
	Kept bool `json:"kept"`
}

// TeamSaving is what commands promised and brought about for the pods of a team, in the same way.
type TeamSaving struct {
	// Team as the label says, "(no label)" for pods without it, "(no pods)" for nodes without pods that
	// moved, or "(not observed)" for pods that no console saw before they were gone; "(others)" as in Items.
	Team      string `json:"team"`
	Commands  int    `json:"commands"`
	Nodes     int    `json:"nodes"`
	Evictions int    `json:"evictions"`
	Promised  int64  `json:"promised"`
	Realized  int64  `json:"realized"`
}

// ReasonSaving is the sum of the commands with a reason.
type ReasonSaving struct {
	Reason    string `json:"reason,omitempty"`
	Commands  int    `json:"commands"`
	Nodes     int    `json:"nodes"`
	Evictions int    `json:"evictions"`
	Promised  int64  `json:"promised"`
	Realized  int64  `json:"realized"`
}

// itemsMax bounds the Items of Savings.
const itemsMax = 2000

// others is the name of what is summed up because there is too much of it.
const others = "(others)"

// Savings of the commands that were decided since a time, and of spot instances from then to now.
func (h *History) Savings(since, now time.Time) *Savings {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &Savings{Items: []Saving{}, Teams: []TeamSaving{}, TeamLabel: h.label, Reasons: []ReasonSaving{}, From: h.first.Time.UTC(), First: h.first.Seq, Since: since, Kept: len(h.order) == commandsMax}
	s.Spot = h.spotSince(since, now)
	items, teams, reasons := map[[2]string]*Saving{}, map[[2]string]*Saving{}, map[string]*ReasonSaving{}
	for _, id := range h.order {
		c := h.commands[id]
		switch {
		case c.at.Before(since):
			continue
		case c.state == Running:
			s.Running++
			continue
		case c.state == RolledBack:
			s.RolledBack++
			continue
		}
		sum := c.sum()
		r := reasons[c.reason]
		if r == nil {
			r = &ReasonSaving{Reason: c.reason}
			reasons[c.reason] = r
		}
		r.add(sum)
		s.Total.add(sum)
		c.share(sum, items, byNamespace)
		c.share(sum, teams, byTeam)
	}
	for _, key := range slices.SortedFunc(maps.Keys(items), func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }) {
		s.Items = append(s.Items, *items[key])
	}
	for _, key := range slices.SortedFunc(maps.Keys(teams), func(a, b [2]string) int { return cmp.Compare(a[1], b[1]) }) {
		if x := teams[key]; h.label != "" {
			s.Teams = append(s.Teams, TeamSaving{x.Namespace, x.Commands, x.Nodes, x.Evictions, x.Promised, x.Realized})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		s.Reasons = append(s.Reasons, *reasons[name])
	}
	return s
}

func (r *ReasonSaving) add(o ReasonSaving) {
	r.Commands, r.Nodes, r.Evictions = r.Commands+o.Commands, r.Nodes+o.Nodes, r.Evictions+o.Evictions
	r.Promised, r.Realized = r.Promised+o.Promised, r.Realized+o.Realized
}

// sum of a command that succeeded.
func (c *Command) sum() ReasonSaving {
	s := ReasonSaving{Commands: 1, Nodes: len(c.nodes), Promised: -c.after, Realized: -c.bought}
	for _, n := range c.nodes {
		s.Promised += n.price
		if n.ended {
			s.Realized += n.price
		}
		for _, pods := range n.pods {
			s.Evictions += pods
		}
	}
	return s
}

// byNamespace is where the pods of a node count by NodePool and namespace; no pods count as one of none.
func byNamespace(n *taken) map[[2]string]int {
	pods := map[[2]string]int{}
	for namespace, k := range n.pods {
		pods[[2]string{n.pool, namespace}] = k
	}
	if len(pods) == 0 {
		pods[[2]string{n.pool, ""}] = 0
	}
	return pods
}

// byTeam is where they count by team, of whatever NodePool.
func byTeam(n *taken) map[[2]string]int {
	pods, left := map[[2]string]int{}, 0
	for _, k := range n.pods {
		left += k
	}
	if left == 0 {
		return map[[2]string]int{{"", noPods}: 0}
	}
	for _, team := range slices.Sorted(maps.Keys(n.teams)) {
		k := min(n.teams[team], left)
		if left -= k; k > 0 {
			pods[[2]string{"", cmp.Or(team, unlabelled)}] = k
		}
	}
	if left > 0 {
		pods[[2]string{"", unobserved}] = left
	}
	return pods
}

// share adds a command's sums to those of whom its nodes' pods are of, so that nothing is lost in rounding.
func (c *Command) share(sum ReasonSaving, items map[[2]string]*Saving, by func(*taken) map[[2]string]int) {
	var price int64
	for _, n := range c.nodes {
		price += n.price
	}
	promised, realized := splitter{sum.Promised, price}, splitter{sum.Realized, price}
	counted := map[*Saving]bool{}
	for _, claim := range slices.Sorted(maps.Keys(c.nodes)) {
		n := c.nodes[claim]
		of, pods := by(n), 0
		for _, k := range of {
			pods += k
		}
		mine, done := splitter{promised.take(n.price), int64(max(pods, 1))}, splitter{realized.take(n.price), int64(max(pods, 1))}
		for i, key := range slices.SortedFunc(maps.Keys(of), func(a, b [2]string) int { return cmp.Compare(a[1], b[1]) }) {
			item := itemOf(items, key)
			weight := int64(max(of[key], 1))
			item.Promised += mine.take(weight)
			item.Realized += done.take(weight)
			item.Evictions += of[key]
			if i == 0 {
				item.Nodes++
			}
			if !counted[item] {
				counted[item] = true
				item.Commands++
			}
		}
	}
}

func itemOf(items map[[2]string]*Saving, key [2]string) *Saving {
	if items[key] == nil && len(items) >= itemsMax {
		key = [2]string{others, others}
	}
	if items[key] == nil {
		items[key] = &Saving{NodePool: key[0], Namespace: key[1]}
	}
	return items[key]
}

// splitter shares a sum out by weights; the last share takes what rounding left.
type splitter struct{ left, weight int64 }

func (s *splitter) take(weight int64) int64 {
	if s.weight <= weight {
		all := s.left
		s.left, s.weight = 0, 0
		return all
	}
	share := int64(float64(s.left) * float64(weight) / float64(s.weight))
	s.left, s.weight = s.left-share, s.weight-weight
	return share
}
