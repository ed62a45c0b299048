package disrupt

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner"
	"millwright/planner/disrupt/internal/policy"
	"millwright/planner/ledger"
	"millwright/planner/nodepool"
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
}

// waveOf is the wave of a NodePool; nil if no policy wants any.
func (c *candidates) waveOf(pool *karpv1.NodePool) *Wave {
	if len(c.policies[pool.Name]) == 0 {
		return nil
	}
	if w, ok := c.waves[pool.Name]; ok {
		return w
	}
	if c.waves == nil {
		c.waves = map[string]*Wave{}
	}
	c.waves[pool.Name] = nil
	if by, initial := policy.FirstWave(c.policies[pool.Name]); initial > 0 {
		c.waves[pool.Name] = c.newWave(pool, by, initial)
	}
	return c.waves[pool.Name]
}

func (c *candidates) newWave(pool *karpv1.NodePool, by string, initial int) *Wave {
	w := &Wave{Policy: by, Wave: ledger.Wave{Target: targetOf(c.s, pool), Number: 1, Nodes: initial}}
	if r, ok := c.s.Ledger.Rollout(pool.Name); ok && r.Target == w.Target {
		w.Replaced, w.Halted = r.Replaced, r.Halted
	}
	for _, n := range c.s.StateNodes() {
		if n.NodePool == pool.Name && n.Ledger != nil && n.Ledger.TakenBy != "" && n.Ledger.Doomed != nil && n.Ledger.Doomed.Reason == doomedByDrift {
			w.Going++
		}
	}
	drifts := func(p *ledger.CommandStarted) bool {
		return p.Reason == karpv1.DisruptionReasonDrifted && len(p.Candidates) > 0 && p.Candidates[0].NodePool == pool.Name
	}
	for _, x := range c.s.Ledger.Commands() {
		if drifts(&x.Started) {
			w.Started++
		}
	}
	proposed := 0
	for _, x := range c.s.Ledger.Proposals() {
		if p := &x.Proposed.Command; x.ID != c.answering && x.State != ledger.ProposalRejected && drifts(p) && p.Wave != nil && p.Wave.Target == w.Target {
			proposed++
		}
	}
	before, done := 0, max(0, w.Replaced-w.Going)
	for done-before >= w.Nodes && w.Nodes < waveNodesMax {
		before += w.Nodes
		w.Number, w.Nodes = w.Number+1, w.Nodes*2
	}
	w.Left = max(0, before+w.Nodes-w.Replaced-w.Started-proposed)
	return w
}

const (
	// waveNodesMax ends the doubling: no cluster has more nodes.
	waveNodesMax = 1 << 20
	// doomedByDrift is the reason for which a command of drift dooms claims.
	doomedByDrift = "drifted"
)

// targetOf identifies what new nodes of a NodePool are: by the hash of its template, its requirements, the
// hash of its class, and the images, subnets and security groups that the class has found.
func targetOf(s *planner.Snapshot, pool *karpv1.NodePool) string {
	target := struct {
		Template     string
		Requirements []karpv1.NodeSelectorRequirementWithMinValues
		Class        string
		Found        []string
	}{Template: nodepool.Hash(pool), Requirements: pool.Spec.Template.Spec.Requirements}
	if class := classOf(s, pool); class != nil {
		target.Class = class.Annotations[awsv1.NodeClassHashAnnotationKey]
		for _, x := range class.Status.AMIs {
			target.Found = append(target.Found, x.ID)
		}
		for _, x := range class.Status.Subnets {
			target.Found = append(target.Found, x.ID)
		}
		for _, x := range class.Status.SecurityGroups {
			target.Found = append(target.Found, x.ID)
		}
		slices.Sort(target.Found)
	}
	text, err := json.Marshal(target)
	if err != nil {
		return "unencodable: " + err.Error()
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

func classOf(s *planner.Snapshot, pool *karpv1.NodePool) *awsv1.EC2NodeClass {
	if pool.Spec.Template.Spec.NodeClassRef == nil {
		return nil
	}
	return s.World.NodeClass(pool.Spec.Template.Spec.NodeClassRef.Name)
}

// haltedBlock keeps the drifted nodes of a NodePool whose roll-out has failed.
func (c *candidates) haltedBlock(pool *karpv1.NodePool) *Blocked {
	w := c.waveOf(pool)
	if w == nil || w.Halted == nil {
		return nil
	}
	b := Blocked{Cause: CauseHalted, Message: HaltedText(pool.Name, w.Halted)} // the KubeEvent is the NodePool's
	return b.by("DisruptionPolicy " + w.Policy)
}

// HaltedText says why a NodePool's roll-out takes no more nodes, and what to do.
func HaltedText(pool string, h *ledger.RolloutHalt) string {
	return fmt.Sprintf("The roll-out of NodePool %q has halted, as command %s failed at %s: %s. Change the NodePool or its class, or run: millctl rollouts resume %s",
		pool, h.Command, policy.Clock(h.At), h.Reason, pool)
}

// waveBlock keeps a drifted node that the present wave of its NodePool does not take any more, with those
// that this pass has come to.
func waveBlock(p *pass, n *planner.StateNode) *Blocked {
	pool := p.s.World.NodePool(n.NodePool)
	w := p.waveOf(pool)
	if w == nil {
		return nil
	}
	taken := 0
	for _, d := range p.started.list {
		if commandIn(d).Candidates[0].NodePool == pool.Name {
			taken++
		}
	}
	if taken < w.Left {
		return nil
	}
	b := (&Blocked{Cause: CauseWave}).by("DisruptionPolicy " + w.Policy) // no KubeEvent: it would be one of each drifted node
	b.Message = fmt.Sprintf("Wave %d of NodePool %q (%d of its nodes) is under way, the next one begins once they are replaced and gone", w.Number, pool.Name, w.Nodes)
	return b
}

// commandIn is the command that a decision starts or asks for.
func commandIn(d *planner.Decision) *ledger.CommandStarted {
	if x, ok := d.Payload.(*ledger.CommandProposed); ok {
		return &x.Command
	}
	return d.Payload.(*ledger.CommandStarted)
}

// inWave notes of which wave a command is.
func (c *candidates) inWave(started *ledger.CommandStarted) {
	started.Wave = nil
	pool := c.s.World.NodePool(started.Candidates[0].NodePool)
	if started.Reason != karpv1.DisruptionReasonDrifted || pool == nil {
		return
	}
	if w := c.waveOf(pool); w != nil {
		wave := w.Wave
		started.Wave = &wave
	}
}

// PoolWave is a NodePool with its wave.
type PoolWave struct {
	NodePool string
	// Policies that want waves of it, by name.
	Policies []string
	Wave
}

// Waves are the roll-outs in waves that have begun, of what NodePools are to become now, by NodePool.
func Waves(s *planner.Snapshot) (list []PoolWave) {
	if len(s.Ledger.Rollouts()) == 0 {
		return nil
	}
	c := &candidates{s: s, policies: policy.ByPool(s)}
	for _, pool := range s.World.NodePools() {
		r, begun := s.Ledger.Rollout(pool.Name)
		if !begun {
			continue
		}
		if w := c.waveOf(pool); w != nil && r.Target == w.Target {
			list = append(list, PoolWave{pool.Name, policy.WithWaves(c.policies[pool.Name]), *w})
		}
	}
	return list
}
