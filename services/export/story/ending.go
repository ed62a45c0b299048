package story

import (
	"cmp"
	"slices"

	"millwright/planner/ledger"
	"millwright/store/audit"
)

// command is the story of a command of the disruptor, or of its proposal.
type command struct {
	id     string
	thread *thread
	since  mark
	// open counts the claims it buys and the nodes it takes whose stories are not over; over: nothing else is
	// to come.
	open   int
	over   bool
	failed string
	about  []Attribute
}

// ending is the story of a claim that goes.
type ending struct {
	thread *thread
	// of is the command that takes it; nil: none does.
	of    *command
	since mark
	// state it is in.
	state  string
	reason string
	about  []Attribute
}

func aboutCommand(e ledger.Entry, logID, id string, p *ledger.CommandStarted) []Attribute {
	var nodes []string
	for _, c := range p.Candidates[:min(len(p.Candidates), listedMax)] {
		nodes = append(nodes, cmp.Or(c.Node, c.Claim))
	}
	return []Attribute{{"millwright.command", id}, {"millwright.reason", string(p.Reason)}, {"millwright.method", p.Method}, {"millwright.nodes", nodes},
		{"millwright.replacements", int64(len(p.Replacements))}, {"millwright.evictions", int64(p.Evictions)},
		{"millwright.price.before", dollars(p.PriceBefore)}, {"millwright.price.after", dollars(p.PriceAfter)}, {"millwright.text", clip(audit.Describe(e, logID))}}
}

func (t *Teller) proposed(e ledger.Entry, p *ledger.CommandProposed) {
	id := ledger.CommandID(t.logID, e.Seq)
	t.commands[id] = &command{id: id, thread: newThread(t.logID, "command/"+id, e.Seq, e.Time), since: mark{e.Seq, e.Time},
		about: aboutCommand(e, t.logID, id, &p.Command)}
}

// started begins the story of a command, or goes on with that of its proposal.
func (t *Teller) started(e ledger.Entry, p *ledger.CommandStarted) {
	at := mark{e.Seq, e.Time}
	id := ledger.CommandID(t.logID, e.Seq)
	c := t.commands[p.Proposal]
	if c != nil {
		delete(t.commands, p.Proposal)
		t.out = append(t.out, c.thread.span("proposed", id, c.since.at, e.Time, e.Seq, Attribute{"millwright.proposal", p.Proposal}))
	} else {
		c = &command{thread: newThread(t.logID, "command/"+id, e.Seq, e.Time)}
	}
	c.id, c.since, c.about = id, at, aboutCommand(e, t.logID, id, p)
	t.commands[id] = c
	for i := range p.Candidates {
		n := &p.Candidates[i]
		if n.Claim == "" {
			continue
		}
		if was := t.ends[n.Claim]; was != nil {
			t.ended(n.Claim, was, at, "taken by a command")
		}
		t.grown(n.Claim, at, "")
		t.ends[n.Claim] = &ending{thread: c.thread, of: c, since: at, state: "decided", reason: string(p.Reason), about: []Attribute{
			{"millwright.claim", n.Claim}, {"millwright.node", n.Node}, {"millwright.nodepool", n.NodePool}, {"host.type", n.InstanceType},
			{"millwright.price", dollars(n.Price)}, {"millwright.pods", podNames(n.Pods)}}}
		c.open++
	}
	for i := range p.Replacements {
		t.claimPlanned(e, i, &p.Replacements[i], c)
	}
}

func (t *Teller) commandStep(id string, at mark, was, is string) *command {
	c := t.commands[id]
	if c == nil {
		return nil
	}
	t.out = append(t.out, c.thread.span(was, id, c.since.at, at.at, at.seq, slices.Concat(c.about, []Attribute{{"millwright.next", is}})...))
	c.since = at
	return c
}

func (t *Teller) confirmed(id string, at mark) { t.commandStep(id, at, "decided", "confirmed") }

func (t *Teller) succeeded(id string, at mark) {
	if c := t.commandStep(id, at, "replacements", "nodes deleted"); c != nil {
		c.over = true
		t.commandOver(c, at)
	}
}

func (t *Teller) reduced(p *ledger.CommandReduced, at mark) {
	for _, n := range p.Dropped {
		if x := t.ends[n.Claim]; x != nil && x.of != nil && x.of.id == p.ID {
			t.ended(n.Claim, x, at, "taken out: "+n.Reason)
		}
	}
}

// commandEnds ends a command that comes to nothing.
func (t *Teller) commandEnds(id string, at mark, failed string) {
	c := t.commands[id]
	if c == nil {
		return
	}
	c.over, c.failed = true, clip(failed)
	for _, claim := range sortedKeys(t.ends) {
		if x := t.ends[claim]; x.of == c {
			t.ended(claim, x, at, c.failed)
		}
	}
	for _, claim := range sortedKeys(t.claims) {
		if g := t.claims[claim]; g.of == c {
			t.grown(claim, at, c.failed)
		}
	}
	t.commandOver(c, at)
}

// commandOver ends the story of a command once all that belongs to it is over.
func (t *Teller) commandOver(c *command, at mark) {
	if !c.over || c.open > 0 || t.commands[c.id] != c {
		return
	}
	delete(t.commands, c.id)
	t.out = append(t.out, c.thread.end("disrupt nodes", at.at, at.seq, c.failed, c.about...))
}

// ending returns the story of a claim that goes, which begins now if nothing has begun it.
func (t *Teller) ending(claim, reason string, at mark, attributes ...Attribute) *ending {
	x := t.ends[claim]
	if x == nil {
		x = &ending{thread: newThread(t.logID, "end/"+claim, at.seq, at.at), since: at, state: "decided", reason: reason,
			about: append([]Attribute{{"millwright.claim", claim}, {"millwright.reason", reason}}, attributes...)}
		t.ends[claim] = x
	}
	return x
}

func (t *Teller) endStep(x *ending, claim string, at mark, next string, attributes ...Attribute) {
	t.out = append(t.out, x.thread.span(x.state, claim, x.since.at, at.at, at.seq, slices.Concat(x.about, attributes)...))
	x.since, x.state = at, next
}

func (t *Teller) drains(p *ledger.DrainStarted, at mark) {
	t.grown(p.Claim, at, "")
	x := t.ending(p.Claim, p.Reason, at, Attribute{"millwright.node", p.Node})
	if x.since != at { // the drain itself begins the story of a claim that people delete
		t.endStep(x, p.Claim, at, "drain")
	}
	x.state = "drain"
}

func (t *Teller) drained(p *ledger.NodeDrained, at mark) {
	if x := t.ends[p.Claim]; x != nil {
		t.endStep(x, p.Claim, at, "terminate", Attribute{"millwright.pods.left", podNames(p.Pods)})
	}
}

func (t *Teller) terminated(p *ledger.InstanceTerminated, at mark) {
	if x := t.ends[p.Claim]; x != nil {
		t.endStep(x, p.Claim, at, "terminated", Attribute{"cloud.resource_id", p.InstanceID})
	}
}

func (t *Teller) closed(p *ledger.ClaimClosed, at mark) {
	t.grown(p.Claim, at, "closed: "+p.Reason)
	if x := t.ends[p.Claim]; x != nil {
		t.endStep(x, p.Claim, at, "closed")
		t.ended(p.Claim, x, at, "")
	}
}

// ended ends the story of a claim that goes.
func (t *Teller) ended(claim string, x *ending, at mark, failed string) {
	delete(t.ends, claim)
	if x.of != nil {
		x.of.open--
		t.commandOver(x.of, at)
		return
	}
	t.out = append(t.out, x.thread.end("end node", at.at, at.seq, failed, x.about...))
}
