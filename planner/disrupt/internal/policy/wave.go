package policy

import (
	"fmt"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/nodepool"
	"millwright/planner/options"
)

// Wave is where the roll-out of a NodePool's drifted nodes stands, which DisruptionPolicies want in waves.
//
// Example. initial 2: the first wave takes two nodes. Once both are replaced, and the old ones gone, the
// second takes four, the third eight. If a budget lets only three of the four go at a time, the fourth
// follows as soon as one is through.
type Wave struct {
	ledger.Wave
	// Policy with the smallest first wave.
	Policy string
	// Replaced counts the nodes that were replaced since the roll-out began, Going those of them that are not
	// gone yet, Started the commands under way.
	Replaced, Going, Started int
	// Left is how many more nodes the wave takes.
	Left int
	// Halted is the failure that ended it; nil if there was none.
	Halted *ledger.RolloutHalt
	// Unresolved: what new nodes would be is not known at present, as the NodePool's class is gone or not
	// Ready. The roll-out stays where it stands: it takes no more nodes, and a halt remains.
	Unresolved bool
}

// WaveOf is the wave of a NodePool that policies select; nil if none of them wants any. answering is the
// approved proposal that is carried out, which does not count; "" for none.
func WaveOf(s *planner.Snapshot, list []*Policy, pool *karpv1.NodePool, answering string) *Wave {
	by, initial := FirstWave(list)
	if initial <= 0 {
		return nil
	}
	class := classOf(s, pool)
	w := &Wave{Policy: by, Wave: ledger.Wave{Target: nodepool.Target(pool, class), Number: 1, Nodes: initial},
		Unresolved: !nodepool.Resolved(class) && s.Options.Revision >= options.Revision4}
	r, begun := s.Ledger.Rollout(pool.Name)
	if begun && w.Unresolved {
		w.Target = r.Target
	}
	if begun && r.Target == w.Target {
		w.Replaced, w.Halted = r.Replaced, r.Halted
	}
	for _, n := range s.StateNodes() {
		if n.NodePool == pool.Name && n.Ledger != nil && replaced(n.Ledger, w.Target) {
			w.Going++
		}
	}
	drifts := func(p *ledger.CommandStarted) bool {
		return p.Reason == karpv1.DisruptionReasonDrifted && len(p.Candidates) > 0 && p.Candidates[0].NodePool == pool.Name
	}
	for _, x := range s.Ledger.Commands() {
		if drifts(&x.Started) {
			w.Started++
		}
	}
	proposed := 0
	for _, x := range s.Ledger.Proposals() {
		if p := &x.Proposed.Command; x.ID != answering && x.State != ledger.ProposalRejected && drifts(p) && p.Wave != nil && p.Wave.Target == w.Target {
			proposed++
		}
	}
	before, done := 0, max(0, w.Replaced-w.Going)
	for done-before >= w.Nodes && w.Nodes < waveNodesMax {
		before += w.Nodes
		w.Number, w.Nodes = w.Number+1, w.Nodes*2
	}
	if w.Left = max(0, before+w.Nodes-w.Replaced-w.Started-proposed); w.Unresolved {
		w.Left = 0
	}
	return w
}

// Full says why the wave takes no more of the nodes of its NodePool.
func (w *Wave) Full(pool *karpv1.NodePool) string {
	if w.Unresolved {
		return fmt.Sprintf("The EC2NodeClass of NodePool %q is gone or not ready: its drifted nodes stay until it is known what is to replace them", pool.Name)
	}
	return fmt.Sprintf("Wave %d of NodePool %q (%d of its nodes) is under way, the next one begins once they are replaced and gone", w.Number, pool.Name, w.Nodes)
}

// replaced reports that a command of drift has replaced the claim, which is not gone yet, in the roll-out to
// a target.
func replaced(c *ledger.Claim, target string) bool {
	if c.RolledOutTo != "" {
		return c.RolledOutTo == target
	}
	return c.RolledOut || c.TakenBy != "" && c.Doomed != nil && c.Doomed.Reason == doomedByDrift
}

const (
	// waveNodesMax ends the doubling: no cluster has more nodes.
	waveNodesMax = 1 << 20
	// doomedByDrift is the reason for which a command of drift dooms claims.
	doomedByDrift = "drifted"
)

func classOf(s *planner.Snapshot, pool *karpv1.NodePool) *awsv1.EC2NodeClass {
	if pool.Spec.Template.Spec.NodeClassRef == nil {
		return nil
	}
	return s.World.NodeClass(pool.Spec.Template.Spec.NodeClassRef.Name)
}
