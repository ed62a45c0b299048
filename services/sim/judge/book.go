package judge

import (
	"slices"

	"millwright/planner/ledger"
)

// book is what the checks derive from the records by themselves, from payloads alone: it shares nothing with
// the Ledger that services fold.
type book struct {
	logID    string
	claims   map[string]*booked
	commands map[string]*bookedCommand
	// verdicts are the pods of which something was said and not taken back, by UID.
	verdicts map[string]bool
	// aggregates are the sequences of the records that last advanced them.
	aggregates map[string]uint64
}

// booked is a claim that is open.
type booked struct {
	name, pool string
	planned    uint64
	// contents it may be made of; the last one counts until it is known.
	contents []bookedContent
	made     bool
	joined   bool
	provider string
	milliCPU int64
	// doomed is the record since which it is being removed; 0: it stays. noticed: by a notice of EC2, among
	// others.
	doomed  uint64
	noticed bool
	// taken and spared are the records between which a command took it last that was given up, or did
	// without it.
	taken, spared uint64
}

type bookedContent struct {
	seq     uint64
	planned *ledger.PlannedClaim
}

// bookedCommand runs from its record until it ends.
type bookedCommand struct {
	seq uint64
	// pools of its nodes, each once.
	pools []string
	// claims that it removes, and those that it has bought.
	claims, bought []string
}

func newBook(logID string) *book {
	return &book{logID: logID, claims: map[string]*booked{}, commands: map[string]*bookedCommand{}, verdicts: map[string]bool{}, aggregates: map[string]uint64{}}
}

// enter takes in a record. Those of shadow mode take nothing.
func (b *book) enter(e ledger.Entry) {
	for _, name := range e.Advances {
		b.aggregates[name] = e.Seq
	}
	if e.Mode == ledger.ModeShadow {
		return
	}
	switch p := e.Payload.(type) {
	case *ledger.ProvisioningPlanned:
		b.enterPlan(e.Seq, p)
	case *ledger.AggregatesRetired:
		for _, name := range p.Aggregates {
			delete(b.aggregates, name)
		}
	case *ledger.CommandStarted:
		c := &bookedCommand{seq: e.Seq}
		for _, x := range p.Candidates {
			c.claims = append(c.claims, x.Claim)
			if !slices.Contains(c.pools, x.NodePool) {
				c.pools = append(c.pools, x.NodePool)
			}
		}
		b.commands[ledger.CommandID(b.logID, e.Seq)] = c
		for i := range p.Replacements {
			b.addClaim(e.Seq, i, &p.Replacements[i])
			c.bought = append(c.bought, ledger.ClaimName(b.logID, p.Replacements[i].NodePool, e.Seq, i))
		}
	case *ledger.CommandReduced:
		if c := b.commands[p.ID]; c != nil {
			c.claims = slices.DeleteFunc(c.claims, func(name string) bool {
				dropped := slices.ContainsFunc(p.Dropped, func(d ledger.DroppedNode) bool { return d.Claim == name })
				if dropped {
					b.spare(name, c.seq, e.Seq)
				}
				return dropped
			})
		}
	case *ledger.CommandSucceeded:
		if c := b.commands[p.ID]; c != nil {
			for _, name := range c.claims {
				b.doom(name, c.seq) // it was going since then
			}
		}
		delete(b.commands, p.ID)
	case *ledger.CommandRolledBack:
		if c := b.commands[p.ID]; c != nil {
			for _, name := range c.claims {
				b.spare(name, c.seq, e.Seq)
			}
		}
		delete(b.commands, p.ID)
		for _, u := range p.Unused {
			if c := b.claims[u.Claim]; c != nil && !c.made && c.provider == "" {
				delete(b.claims, u.Claim)
			}
			b.doom(u.Claim, e.Seq)
		}
	default:
		b.enterClaim(e)
	}
}

func (b *book) enterPlan(seq uint64, p *ledger.ProvisioningPlanned) {
	for i := range p.Claims {
		b.addClaim(seq, i, &p.Claims[i])
	}
	for i := range p.Widened {
		if c := b.claims[p.Widened[i].Claim]; c != nil && !c.made {
			c.contents = append(c.contents, bookedContent{seq, &p.Widened[i].Content})
			c.milliCPU = p.Widened[i].Content.Capacity.MilliCPU
			b.noteVerdicts(p.Widened[i].Content.Pods)
		}
	}
	for _, t := range p.Placements {
		b.noteVerdicts(t.Pods)
	}
	for _, r := range p.Refused {
		b.noteVerdicts(r.Pods)
	}
	for _, x := range p.Excess {
		b.doom(x.Claim, seq)
	}
	for _, uid := range p.Gone {
		delete(b.verdicts, string(uid))
	}
}

func (b *book) enterClaim(e ledger.Entry) {
	switch p := e.Payload.(type) {
	case *ledger.ClaimWithdrawn:
		delete(b.claims, p.Claim)
	case *ledger.ClaimClosed:
		delete(b.claims, p.Claim)
	case *ledger.ClaimAdopted:
		if b.claims[p.Claim] == nil {
			b.claims[p.Claim] = &booked{name: p.Claim, pool: p.NodePool, planned: e.Seq, made: true, provider: p.ProviderID}
		}
	case *ledger.ClaimCreated:
		if c := b.claims[p.Claim]; c != nil && !c.made {
			c.settleContent(p.Record)
		}
	case *ledger.Launched:
		b.launch(p)
	case *ledger.FleetAnswered:
		for i := range p.Launched {
			b.launch(&p.Launched[i])
		}
	case *ledger.ClaimRegistered:
		if c := b.claims[p.Claim]; c != nil {
			c.joined = true
		}
	case *ledger.ClaimDoomed:
		b.doom(p.Claim, e.Seq)
		if c := b.claims[p.Claim]; c != nil && p.Reason == "spot_interrupted" {
			c.noticed = true
		}
	case *ledger.InstanceTerminated:
		b.doom(p.Claim, e.Seq)
	}
}

func (b *book) launch(p *ledger.Launched) {
	if c := b.claims[p.Claim]; c != nil {
		c.provider = p.ProviderID
		if p.Capacity.MilliCPU > 0 {
			c.milliCPU = p.Capacity.MilliCPU
		}
	}
}

func (b *book) addClaim(seq uint64, i int, p *ledger.PlannedClaim) {
	name := ledger.ClaimName(b.logID, p.NodePool, seq, i)
	b.claims[name] = &booked{name: name, pool: p.NodePool, planned: seq, contents: []bookedContent{{seq, p}}, milliCPU: p.Capacity.MilliCPU}
	b.noteVerdicts(p.Pods)
}

func (b *book) noteVerdicts(pods []ledger.PodRef) {
	for _, p := range pods {
		b.verdicts[string(p.UID)] = true
	}
}

func (b *book) doom(name string, seq uint64) {
	if c := b.claims[name]; c != nil && c.doomed == 0 {
		c.doomed = seq
	}
}

// settleContent: the NodeClaim is made of what a record planned; 0 is the last one.
func (c *booked) settleContent(record uint64) {
	c.made = true
	for _, x := range c.contents {
		if x.seq == record {
			c.contents = []bookedContent{x}
			c.milliCPU = x.planned.Capacity.MilliCPU
			return
		}
	}
	c.contents = c.contents[max(0, len(c.contents)-1):]
}

// content the claim counts as made of; nil if it was not planned.
func (c *booked) content() *bookedContent {
	if len(c.contents) == 0 {
		return nil
	}
	return &c.contents[len(c.contents)-1]
}

// spare notes that a command of a record took a claim until another.
func (b *book) spare(name string, taken, spared uint64) {
	if c := b.claims[name]; c != nil {
		c.taken, c.spared = taken, spared
	}
}

// isGoing reports that the claim was being removed according to the records up to a sequence.
func (b *book) isGoing(c *booked, through uint64) bool {
	if c.doomed > 0 && c.doomed <= through || c.taken <= through && through < c.spared {
		return true
	}
	for _, cmd := range b.commands {
		if cmd.seq <= through && slices.Contains(cmd.claims, c.name) {
			return true
		}
	}
	return false
}
