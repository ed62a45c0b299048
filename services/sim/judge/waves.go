package judge

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner/ledger"
	"millwright/store"
)

// CheckWaves is of commands of drift by the waves of the DisruptionPolicies.
const CheckWaves = "4: DisruptionPolicies: a wave of drift begins once the one before is through"

// waves judges by the commands of drift that were recorded, and by the NodeClaims that are gone.
type waves struct {
	*Judge
	commands []*waveCommand
}

// waveCommand replaces a node that has drifted.
type waveCommand struct {
	id, pool string
	claim    string
	uid      types.UID
	// template of the NodePool, as who decided had seen it: what the node is to become; "": it is not known.
	template string
	// givenUp, or even failed: a replacement did not come.
	givenUp, failed bool
	bought          []string
}

// enter takes in a record that counts for later waves.
func (s *waves) enter(e ledger.Entry) {
	switch p := e.Payload.(type) {
	case *ledger.CommandStarted:
		if p.Reason == karpv1.DisruptionReasonDrifted {
			id, x := ledger.CommandID(s.Log.ID(), e.Seq), &p.Candidates[0]
			c := &waveCommand{id: id, pool: x.NodePool, claim: x.Claim, uid: x.ClaimUID}
			for i := range p.Replacements {
				c.bought = append(c.bought, ledger.ClaimName(s.Log.ID(), p.Replacements[i].NodePool, e.Seq, i))
			}
			s.commands = append(s.commands, c)
		}
	case *ledger.CommandRolledBack:
		if c := s.command(p.ID); c != nil {
			c.givenUp = true
			c.failed = len(p.Failing) > 0 && slices.ContainsFunc(c.bought, func(name string) bool { return s.isLost(name, e.Seq, p.Unused) })
		}
	}
}

func (s *waves) command(id string) *waveCommand {
	if i := slices.IndexFunc(s.commands, func(c *waveCommand) bool { return c.id == id }); i >= 0 {
		return s.commands[i]
	}
	return nil
}

// isLost reports that a replacement was going or gone before its command was given up, and never initialized.
func (s *waves) isLost(name string, seq uint64, unused []ledger.ExcessClaim) bool {
	if s.history.initialized[name] || slices.ContainsFunc(unused, func(x ledger.ExcessClaim) bool { return x.Claim == name }) {
		return false
	}
	c := s.book.claims[name]
	return c == nil || c.doomed > 0 && c.doomed < seq
}

// judge returns what looks at the record of a command: others count that were recorded by then.
func (s *waves) judge(v *seen, c *ledger.CommandStarted) func(store.Record) {
	name := c.Candidates[0].NodePool
	pool, _ := v.objects[events.KindNodePool][name].(*karpv1.NodePool)
	if c.Reason != karpv1.DisruptionReasonDrifted || pool == nil {
		return func(store.Record) {}
	}
	template, err := json.Marshal(pool.Spec.Template)
	if err != nil {
		panic(err)
	}
	first := 0
	for _, p := range v.policiesOf(name) {
		if w := p.Spec.Waves; w != nil && (first == 0 || int(w.Initial) < first) {
			first = int(w.Initial)
		}
	}
	return func(rec store.Record) {
		own := s.command(ledger.CommandID(s.Log.ID(), rec.Seq))
		if own == nil {
			return
		}
		if own.template = string(template); first > 0 {
			s.judgeCommand(own, first)
		}
	}
}

// judgeCommand demands that as many nodes of the roll-out are gone as all waves before the command's have.
func (s *waves) judgeCommand(own *waveCommand, first int) {
	begun, gone := 0, 0
	for _, c := range slices.Backward(s.commands) {
		switch {
		case c == own || c.pool != own.pool:
			continue
		case c.template == "":
			return // it may be of this roll-out, or of the one before
		case c.failed && c.template == own.template:
			s.Violate(CheckWaves, "command %s replaces %s of NodePool %s, though a replacement of %s did not come", own.id, own.claim, own.pool, c.id)
			return
		}
		if c.template != own.template {
			break
		}
		if c.givenUp {
			continue
		}
		begun++
		if o := s.Cluster.NodeClaim(c.claim); o == nil || o.UID != c.uid {
			gone++
		}
	}
	before, size := 0, first
	for begun >= before+size {
		before, size = before+size, size*2
	}
	if gone < before {
		s.Violate(CheckWaves, "command %s is the %dth of its roll-out in NodePool %s, whose waves begin with %d nodes: %d are gone, want %d", own.id, begun+1, own.pool, first, gone, before)
	}
}
