package plan

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	"millwright/planner/world"
)

// Disruption is what the disruptor would do.
type Disruption struct {
	Commands []Command `json:"commands"`
	// Blocked are the nodes that stay in the end, by name, with what keeps them.
	Blocked []BlockedNode `json:"blocked"`
	// Settled is how it ends; nil unless that was asked for.
	Settled *Settled `json:"settled,omitempty"`
}

// Command of the disruptor.
type Command struct {
	Reason       string        `json:"reason"`
	Method       string        `json:"method"`
	Nodes        []string      `json:"nodes"`
	Pods         []Move        `json:"pods"`
	Replacements []Replacement `json:"replacements"`
	// Savings in USD per hour; negative if it costs more.
	Savings   string `json:"savings"`
	Evictions int    `json:"evictions"`
}

// Move of a pod. To is a node, or replacement/I of the command.
type Move struct {
	Pod  string `json:"pod"`
	From string `json:"from"`
	To   string `json:"to"`
}

// Replacement that a command makes.
type Replacement struct {
	NodePool      string   `json:"nodePool"`
	InstanceTypes []string `json:"instanceTypes"`
	Price         string   `json:"price"`
}

// BlockedNode stays, for these reasons.
type BlockedNode struct {
	Node    string   `json:"node"`
	Reasons []string `json:"reasons"`
}

// Settled cluster: no command follows.
type Settled struct {
	Nodes     []string `json:"nodes"`
	Price     string   `json:"price"`
	Evictions int      `json:"evictions"`
}

const (
	// commandsMost bounds the commands of one plan.
	commandsMost = 10_000
	// settledAfter is how long nothing must be done, by the clock of the plan, for the cluster to be at rest.
	settledAfter = 24 * time.Hour
	// wakesMost bounds how often time alone may change something without a command.
	wakesMost = 200
)

// RunDisruption reads the input and plans as the disruptor does: what would start now or, until settled, all that follows, each command
// carried out in turn. An *InputError says what is wrong with the input.
func RunDisruption(c Config, untilSettled bool) (*Disruption, error) {
	types, err := readCatalog(c.Catalog)
	if err != nil {
		return nil, err
	}
	w, err := load(c, types)
	if err != nil {
		return nil, err
	}
	if _, err := c.snapshot(w, ledger.New("")); err != nil {
		return nil, err
	}
	d := &disruption{config: c, world: w, ledger: ledger.New(""), exact: types.exact,
		out: &Disruption{Commands: []Command{}, Blocked: []BlockedNode{}}}
	if untilSettled {
		d.settle()
	} else {
		d.startAll()
	}
	return d.out, nil
}

// disruption being planned.
type disruption struct {
	config Config
	world  *world.World
	ledger *ledger.Ledger
	exact  map[offeringKey]price
	out    *Disruption
}

// snapshot of the cluster as it is by now. That there is one was seen at the beginning.
func (d *disruption) snapshot() *planner.Snapshot {
	s, _ := d.config.snapshot(d.world, d.ledger)
	return s
}

// startAll plans as long as commands can start beside those that run.
func (d *disruption) startAll() {
	var report disrupt.Report
	for range commandsMost {
		snap := d.snapshot()
		var decision *planner.Decision
		decision, report = disrupt.Plan(snap)
		if decision == nil {
			break
		}
		started := decision.Payload.(*ledger.CommandStarted)
		d.add(started)
		if d.ledger.Apply(ledger.Entry{Seq: d.ledger.Seq() + 1, Time: snap.Now, Now: snap.Now, Mode: ledger.ModeActive, Kind: decision.Kind, Payload: started}) != nil {
			break
		}
	}
	d.blocked(report)
}

// settle carries out one command after the other until none follows.
func (d *disruption) settle() {
	var report disrupt.Report
	wakes, rest := 0, d.config.Now.Add(settledAfter)
	for len(d.out.Commands) < commandsMost {
		var decision *planner.Decision
		decision, report = disrupt.Plan(d.snapshot())
		if decision != nil {
			started := decision.Payload.(*ledger.CommandStarted)
			d.add(started)
			d.carryOut(started)
			wakes, rest = 0, d.config.Now.Add(settledAfter)
			continue
		}
		wakes++
		if report.WakeAt.IsZero() || report.WakeAt.After(rest) || wakes > wakesMost {
			break
		}
		d.config.Now = report.WakeAt
	}
	d.blocked(report)
	d.out.Settled = d.settled()
}

// add prints a command.
func (d *disruption) add(s *ledger.CommandStarted) {
	c := Command{Reason: string(s.Reason), Method: s.Method, Pods: []Move{}, Replacements: []Replacement{}}
	to := map[string]string{}
	for _, p := range s.Placements {
		for _, pod := range p.Pods {
			to[podName(pod)] = p.Node
		}
	}
	saved := int64(0)
	for i := range s.Replacements {
		r := &s.Replacements[i]
		for _, pod := range r.Pods {
			to[podName(pod)] = fmt.Sprintf("replacement/%d", i)
		}
		saved -= r.Cheapest.MicroUSDPerHour
		types := r.InstanceTypes
		if types == nil {
			types = []string{}
		}
		c.Replacements = append(c.Replacements, Replacement{NodePool: r.NodePool, InstanceTypes: types, Price: exactPrice(r.Cheapest, d.exact)})
	}
	for _, n := range s.Candidates {
		c.Nodes = append(c.Nodes, n.Node)
		saved += n.Price
		for _, pod := range n.Pods {
			where := to[podName(pod)]
			if where == "" && len(s.Replacements) > 0 {
				where = "replacement/0" // of a static NodePool: one for one
			}
			c.Pods = append(c.Pods, Move{podName(pod), n.Node, where})
		}
	}
	c.Savings, c.Evictions = dollarsSigned(saved), len(c.Pods)
	d.out.Commands = append(d.out.Commands, c)
}

func dollarsSigned(micro int64) string {
	if micro < 0 {
		return "-" + dollars(-micro)
	}
	return dollars(micro)
}

// blocked lists the nodes that stay.
func (d *disruption) blocked(r disrupt.Report) {
	taken := map[string]bool{}
	for _, c := range d.out.Commands {
		for _, n := range c.Nodes {
			taken[n] = true
		}
	}
	for _, n := range r.Nodes {
		name := cmp.Or(n.Node, n.Claim)
		if n.Blocked == nil || taken[name] {
			continue
		}
		d.out.Blocked = append(d.out.Blocked, BlockedNode{name, n.Reasons()})
	}
	slices.SortFunc(d.out.Blocked, func(a, b BlockedNode) int { return cmp.Compare(a.Node, b.Node) })
}

// settled sums up the cluster: its managed nodes and what they cost.
func (d *disruption) settled() *Settled {
	s := &Settled{Nodes: []string{}}
	snap := d.snapshot()
	sum := int64(0)
	for _, n := range snap.StateNodes() {
		if n.Claim != nil && !n.MarkedForDeletion {
			s.Nodes = append(s.Nodes, n.Name)
			sum += disrupt.Price(snap, n)
		}
	}
	slices.Sort(s.Nodes)
	for _, c := range d.out.Commands {
		s.Evictions += c.Evictions
	}
	s.Price = dollars(sum)
	return s
}

// WriteJSON writes the plan as one JSON object, a command to a line.
func (r *Disruption) WriteJSON(out io.Writer) error {
	w := newJSONWriter(bufio.NewWriterSize(out, 1<<16))
	w.text("{\n")
	if r.Settled != nil {
		w.text(`"settled": `)
		w.value(r.Settled)
		w.text(",\n")
	}
	writeList(w, "commands", r.Commands)
	w.text(`"blocked": `)
	w.value(r.Blocked)
	w.text("}\n")
	if err := errors.Join(w.err, w.out.Flush()); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	return nil
}

// WriteTable writes the plan for people.
func (r *Disruption) WriteTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "COMMAND\tREASON\tNODES\tREPLACEMENTS\tPODS MOVED\t$/H SAVED")
	for i, c := range r.Commands {
		var names []string
		for _, x := range c.Replacements {
			names = append(names, few(x.InstanceTypes, 1))
		}
		fmt.Fprintf(w, "#%d %s\t%s\t%s\t%s\t%d\t%s\n", i+1, c.Method, c.Reason, few(c.Nodes, typesShown), few(names, typesShown), c.Evictions, c.Savings)
	}
	fmt.Fprintln(w)
	for _, b := range r.Blocked {
		fmt.Fprintf(w, "%s stays:\t%s\n", b.Node, few(b.Reasons, 1))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	if s := r.Settled; s != nil {
		if _, err := fmt.Fprintf(out, "at rest: %d nodes, $%s an hour, after %d evictions\n", len(s.Nodes), s.Price, s.Evictions); err != nil {
			return fmt.Errorf("write the plan: %w", err)
		}
	}
	return nil
}
