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
	// DrainOut are the nodes that are to run empty by themselves, those first that do so already.
	DrainOut []DrainingNode `json:"drainOut,omitempty"`
	// Settled is how it ends; nil unless that was asked for.
	Settled *Settled `json:"settled,omitempty"`
	// Before is the plan without what was given to change, Drift are the nodes that drift by it, and Rollout
	// is how long their replacement takes. All are nil where nothing was to be changed.
	Before  *Disruption   `json:"before,omitempty"`
	Drift   []DriftedNode `json:"drift,omitempty"`
	Rollout *Rollout      `json:"rollout,omitempty"`
	// Notes list what could not be worked out.
	Notes []string `json:"notes,omitempty"`
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
	// Approval: a person has to approve it first. Running: it was started already.
	Approval bool `json:"approval,omitempty"`
	Running  bool `json:"running,omitempty"`
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
	// settledAfter is how far into the future, by the clock of the plan, commands are looked for, as for a
	// roll-out.
	settledAfter = rolloutMost
	// wakesMost bounds how often time alone may change something without a command following.
	wakesMost = 200
)

// RunDisruption reads the input and plans as the disruptor does: what would start now or, until settled, all
// that follows, each command carried out in turn. An *InputError says what is wrong with the input.
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
	return newDisruption(c, w, ledger.New(""), types.exact).plan(untilSettled), nil
}

func newDisruption(c Config, w *world.World, l *ledger.Ledger, exact map[offeringKey]price) *disruption {
	return &disruption{config: c, world: w, ledger: l, exact: exact, out: &Disruption{Commands: []Command{}, Blocked: []BlockedNode{}}}
}

func (d *disruption) plan(untilSettled bool) *Disruption {
	if untilSettled {
		d.runCommands()
	} else {
		d.startAll()
	}
	d.drainOuts()
	return d.out
}

// disruption being planned.
type disruption struct {
	config Config
	world  *world.World
	ledger *ledger.Ledger
	exact  map[offeringKey]price
	out    *Disruption
	// wake is when time alone lets more start; zero if it does not.
	wake time.Time
}

// snapshot of the cluster as it is by now. RunDisruption has checked that there is one.
func (d *disruption) snapshot() *planner.Snapshot {
	s, _ := d.config.snapshot(d.world, d.ledger)
	return s
}

// stopped reports that the plan is to end, and notes so once.
func (d *disruption) stopped() bool {
	if d.config.Stop == nil || !d.config.Stop() {
		return false
	}
	if len(d.out.Notes) == 0 {
		d.note("the plan was stopped after %d commands: more may follow", len(d.out.Commands))
	}
	return true
}

func (d *disruption) note(format string, args ...any) {
	d.out.Notes = append(d.out.Notes, fmt.Sprintf(format, args...))
}

// startedCommand is one that was started and is not carried out yet.
type startedCommand struct {
	seq     uint64
	index   int
	command *ledger.CommandStarted
}

// start records a decision as the disruptor would and prints it. One that has to be approved is taken as
// approved.
func (d *disruption) start(decision *planner.Decision, now time.Time) (startedCommand, bool) {
	started, ok := decision.Payload.(*ledger.CommandStarted)
	kind := decision.Kind
	if proposed, asks := decision.Payload.(*ledger.CommandProposed); asks {
		started, kind = &proposed.Command, ledger.KindCommandStarted
		if started.Evictions > 0 {
			kind = ledger.KindCommandMovesStarted
		}
	}
	d.addCommand(started)
	d.last().Approval = !ok
	r := startedCommand{d.ledger.Seq() + 1, len(d.out.Commands) - 1, started}
	return r, d.apply(now, kind, started)
}

func (d *disruption) last() *Command { return &d.out.Commands[len(d.out.Commands)-1] }

func (d *disruption) apply(now time.Time, kind ledger.Kind, payload any) bool {
	return d.ledger.Apply(ledger.Entry{Seq: d.ledger.Seq() + 1, Time: now, Now: now, Mode: ledger.ModeActive, Kind: kind, Payload: payload}) == nil
}

// startAll plans as long as commands can start beside those that run.
func (d *disruption) startAll() []startedCommand {
	var report disrupt.Report
	var list []startedCommand
	for ok := true; ok && len(list) < commandsMost && !d.stopped(); {
		snap := d.snapshot()
		var decisions []*planner.Decision
		if decisions, report = disrupt.Plans(snap); len(decisions) == 0 {
			break
		}
		for _, decision := range decisions {
			var r startedCommand
			r, ok = d.start(decision, snap.Now)
			if list = append(list, r); !ok || len(list) == commandsMost {
				break
			}
		}
	}
	d.wake = report.WakeAt
	d.blocked(report)
	return list
}

// runCommands carries out the commands of one pass after the other until none follows.
func (d *disruption) runCommands() {
	d.endRunning()
	var report disrupt.Report
	wakes, unfinished, rest := 0, 0, d.config.Now.Add(settledAfter)
	for len(d.out.Commands) < commandsMost {
		if d.stopped() {
			d.blocked(report)
			return
		}
		snap := d.snapshot()
		var decisions []*planner.Decision
		if decisions, report = disrupt.PlansFrom(snap, report.Next); len(decisions) > 0 {
			if !d.runPass(decisions, snap.Now) {
				break
			}
			wakes = 0
			continue
		}
		if report.Searched.Left > 0 && unfinished < passesMost {
			unfinished++
			continue
		}
		unfinished = 0
		wakes++
		if report.WakeAt.IsZero() {
			break
		}
		if report.WakeAt.After(rest) || wakes > wakesMost {
			d.note("no command follows before %s: more may then", report.WakeAt.UTC().Format(time.RFC3339))
			break
		}
		d.config.Now = report.WakeAt
	}
	d.blocked(report)
	d.out.Settled = d.settled()
}

// passesMost are the passes in which a search comes to all nodes.
const passesMost = 3

// runPass starts the commands of a pass, for they hold together, and then carries out one after the other. It
// reports whether all could be recorded.
func (d *disruption) runPass(decisions []*planner.Decision, now time.Time) (ok bool) {
	var list []startedCommand
	for _, decision := range decisions[:min(len(decisions), commandsMost-len(d.out.Commands))] {
		var r startedCommand
		if r, ok = d.start(decision, now); !ok {
			break
		}
		list = append(list, r)
	}
	for _, r := range list {
		d.end(r)
	}
	return ok
}

// addCommand prints a command.
func (d *disruption) addCommand(s *ledger.CommandStarted) {
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
	invalid := map[string]string{}
	for _, b := range r.Pools {
		invalid[b.NodePool] = cmp.Or(invalid[b.NodePool], b.Invalid)
	}
	for _, n := range r.Nodes {
		name := cmp.Or(n.Node, n.Claim)
		if n.Blocked == nil || taken[name] {
			continue
		}
		reasons := n.Reasons()
		if fault := invalid[n.NodePool]; fault != "" && n.Blocked.Cause == disrupt.CauseBudget {
			reasons = []string{fmt.Sprintf("the disruption budgets of NodePool %s can't be read: %s", n.NodePool, fault)}
		}
		d.out.Blocked = append(d.out.Blocked, BlockedNode{name, reasons})
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
	for _, part := range []struct {
		name string
		have bool
		v    any
	}{{"before", r.Before != nil, r.Before}, {"drift", len(r.Drift) > 0, r.Drift}, {"rollout", r.Rollout != nil, r.Rollout}, {"notes", len(r.Notes) > 0, r.Notes},
		{"drainOut", len(r.DrainOut) > 0, r.DrainOut}} {
		if part.have {
			w.text(`"` + part.name + `": `)
			w.value(part.v)
			w.text(",\n")
		}
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

// mark says, behind the reason, what is special about a command.
func (c *Command) mark() string {
	switch {
	case c.Running:
		return " (runs already)"
	case c.Approval:
		return " (to be approved)"
	}
	return ""
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
		fmt.Fprintf(w, "#%d %s\t%s\t%s\t%s\t%d\t%s\n", i+1, c.Method, c.Reason+c.mark(), few(c.Nodes, typesShown), few(names, typesShown), c.Evictions, c.Savings)
	}
	fmt.Fprintln(w)
	for _, b := range r.Blocked {
		fmt.Fprintf(w, "%s stays:\t%s\n", b.Node, few(b.Reasons, 1))
	}
	for _, n := range r.DrainOut {
		var pods []string
		for _, pod := range n.Pods {
			pods = append(pods, pod.Pod+" ("+pod.Why+")")
		}
		fmt.Fprintf(w, "%s runs empty:\t%s\n", n.Node, few(pods, 1))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	if err := r.writeComparison(out); err != nil {
		return err
	}
	if s := r.Settled; s != nil {
		if _, err := fmt.Fprintf(out, "at rest: %d nodes, $%s an hour, after %d evictions\n", len(s.Nodes), s.Price, s.Evictions); err != nil {
			return fmt.Errorf("write the plan: %w", err)
		}
	}
	return nil
}
