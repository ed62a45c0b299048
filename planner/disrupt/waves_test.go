package disrupt_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
)

// waveModel counts by itself what a roll-out in waves may take.
type waveModel struct {
	initial int
	// running are the commands, going the nodes that were replaced and are still there.
	running, going []takenNode
	// begun: a command has started since the roll-out was resumed; replaced counts those that have succeeded
	// since then.
	begun, halted bool
	replaced      int
	// unresolved: it is not known what new nodes are to be.
	unresolved bool
}

type takenNode struct{ node, command string }

// may is how many more nodes the present wave takes: it and those before have initial, three times, seven
// times as many nodes, and it begins once those before are gone.
func (m *waveModel) may() int {
	if m.halted || m.unresolved {
		return 0
	}
	done, wave := m.replaced-len(m.going), m.initial
	through := wave
	for through <= done {
		wave *= 2
		through += wave
	}
	return max(0, through-m.replaced-len(m.running))
}

// Whatever succeeds, fails or lingers, wherever the Ledger is restored from a checkpoint, and while the class
// is gone or not ready: as many nodes are taken as the present wave has left, none after a failure or while
// nobody knows what is to replace them, and all in the end. The rules: disruption §4.1.
func TestWavesHoldInAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &waveModel{initial: rapid.IntRange(1, 3).Draw(t, "initial")}
		pool := pt.Pool("p", pt.Budgets(karpv1.Budget{Nodes: "100%"}), pt.ConsolidateAfter("Never"))
		c := pt.New(append(pt.WithCatalogue(), pool, pt.Policy("d", fmt.Sprintf(`{waves: {initial: %d}}`, m.initial)))...)
		c.Options(planner.PresentOptions())
		class := pt.NodeClass("default")
		c.See(class)
		waiting := map[string]bool{}
		for i := range rapid.IntRange(1, 12).Draw(t, "nodes") {
			name := fmt.Sprintf("n%02d", i)
			c.AddNode(name, "p")
			c.See(drifted(name, time.Duration(i)*time.Minute))
			waiting[name] = true
		}
		c.Advance(time.Hour)
		plan := func() {
			may := min(m.may(), len(waiting))
			s := c.Snapshot()
			list, _ := disrupt.Plans(s)
			if len(list) != may {
				t.Fatalf("%d commands, want %d: %+v", len(list), may, *m)
			}
			advanced := map[string]uint64{}
			for _, d := range list {
				d = disrupt.After(d, advanced)
				seq := c.Decide(s, d)
				for _, a := range d.Advances {
					advanced[a] = seq
				}
				node := d.Payload.(*ledger.CommandStarted).Candidates[0].Node
				if !waiting[node] {
					t.Fatalf("%s is taken twice", node)
				}
				delete(waiting, node)
				m.running = append(m.running, takenNode{node, ledger.CommandID(c.Ledger.LogID(), seq)})
				m.begun = true
			}
		}
		first := func(list *[]takenNode) *takenNode {
			if len(*list) == 0 {
				return nil
			}
			i := rapid.IntRange(0, len(*list)-1).Draw(t, "which")
			x := (*list)[i]
			*list = append((*list)[:i:i], (*list)[i+1:]...)
			return &x
		}
		succeed := func() {
			if x := first(&m.running); x != nil {
				c.Record(ledger.KindCommandConfirmed, &ledger.CommandConfirmed{ID: x.command})
				c.Record(ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: x.command})
				m.going = append(m.going, *x)
				if m.begun {
					m.replaced++
				}
			}
		}
		gone := func() {
			if x := first(&m.going); x != nil {
				c.Gone(pt.Node(x.node, pt.InPool("p")), drifted(x.node, 0))
				c.Record(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: x.node + "-claim"})
			}
		}
		fail := func() {
			x := first(&m.running)
			if x == nil {
				return
			}
			halts := rapid.Bool().Draw(t, "halts")
			c.Record(ledger.KindCommandAbandoned, &ledger.CommandRolledBack{ID: x.command, Reason: "late", HaltsRollout: halts})
			waiting[x.node] = true
			m.halted = m.halted || halts && m.begun
		}
		resume := func() {
			if !m.halted {
				return
			}
			r, _ := c.Ledger.Rollout("p")
			c.Record(ledger.KindRolloutResumed, &ledger.RolloutResumed{NodePool: "p", Target: "another"}) // counts for nothing
			c.Record(ledger.KindRolloutResumed, &ledger.RolloutResumed{NodePool: "p", Target: r.Target})
			m.halted, m.begun, m.replaced = false, false, 0
		}
		restore := func() {
			data, err := c.Ledger.Checkpoint()
			if err != nil {
				t.Fatal(err)
			}
			if c.Ledger, err = ledger.Restore(data); err != nil {
				t.Fatal(err)
			}
		}
		lose := func() {
			m.unresolved = true
			broken := class.DeepCopy()
			broken.Status.Conditions = nil
			if c.See(broken); rapid.Bool().Draw(t, "deleted") {
				c.Gone(class)
			}
		}
		find := func() {
			c.See(class)
			m.unresolved = false
		}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			rapid.SampledFrom([]func(){plan, plan, succeed, succeed, gone, gone, fail, resume, restore, lose, find, find}).Draw(t, "step")()
		}
		find()
		for i := 0; i < 200 && len(waiting) > 0; i++ {
			resume()
			plan()
			succeed()
			gone()
		}
		if len(waiting) > 0 {
			t.Fatalf("%d nodes are never taken: %+v", len(waiting), *m)
		}
	})
}
