package disrupt

import (
	"fmt"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/cadence"
	"millwright/planner/disrupt/internal/order"
	"millwright/planner/disrupt/internal/policy"
	"millwright/planner/ledger"
)

// Wave is where the roll-out of a NodePool's drifted nodes stands, which DisruptionPolicies want in waves.
type Wave = policy.Wave

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
	c.waves[pool.Name] = policy.WaveOf(c.s, c.policies[pool.Name], pool, c.answering)
	return c.waves[pool.Name]
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
	b.Message = w.Full(pool)
	return b
}

// commandIn is the command that a decision starts or asks for.
func commandIn(d *planner.Decision) *ledger.CommandStarted {
	if x, ok := d.Payload.(*ledger.CommandProposed); ok {
		return &x.Command
	}
	return d.Payload.(*ledger.CommandStarted)
}

// inWave notes of which wave a command is, and whether it is of a roll-out at all.
func (c *candidates) inWave(started *ledger.CommandStarted) {
	started.Wave, started.Rollout = nil, false
	pool := c.s.World.NodePool(started.Candidates[0].NodePool)
	if started.Reason != karpv1.DisruptionReasonDrifted || pool == nil {
		return
	}
	if n := c.s.StateNode(started.Candidates[0].Node); n != nil && c.s.Options.PayBackHistory {
		d := order.Drifted(n)
		started.Rollout = d != nil && cadence.IsOfRollout(d.Reason)
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
