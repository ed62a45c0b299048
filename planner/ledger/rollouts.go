package ledger

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"millwright/planner/options"
)

// Wave is where a command that replaces a drifted node stands in the roll-out of its NodePool, if a
// DisruptionPolicy wants drift in waves.
type Wave struct {
	// Target identifies what the NodePool's nodes are to become. A roll-out is of one NodePool to one target.
	Target string `json:"target"`
	// Number of the wave, from 1, and how many nodes it takes.
	Number int `json:"number"`
	Nodes  int `json:"nodes"`
}

// Rollout is how far the replacement of a NodePool's drifted nodes has come, in waves.
type Rollout struct {
	Target string `json:"target"`
	// Replaced counts the nodes whose commands have succeeded.
	Replaced int `json:"replaced"`
	// At is when its last command started, failed or succeeded.
	At time.Time `json:"at"`
	// Halted is the failure after which no more nodes are taken; nil if there was none.
	Halted *RolloutHalt `json:"halted,omitempty"`
}

// RolloutHalt is the first failure of a roll-out.
type RolloutHalt struct {
	At      time.Time `json:"at"`
	Command string    `json:"command"`
	Reason  string    `json:"reason"`
}

// RolloutResumed: a person lets a roll-out that was halted begin anew, with its first wave. It counts only if
// the NodePool's roll-out has that target.
type RolloutResumed struct {
	NodePool string `json:"nodePool"`
	Target   string `json:"target"`
	By       string `json:"by"`
	Why      string `json:"why"`
}

const (
	// rolloutMemory is how long a roll-out is remembered after its last command, unless it was halted; the
	// NodePool may be gone.
	rolloutMemory = 30 * 24 * time.Hour
	// rolloutsMax bounds the roll-outs that are remembered; the oldest is forgotten first.
	rolloutsMax = 1000
	// rolloutReasonMax bounds the text of a failure, in bytes.
	rolloutReasonMax = 300
)

// Rollout of a NodePool's drifted nodes; false if none has begun.
func (l *state) Rollout(nodePool string) (Rollout, bool) {
	r, ok := l.rollouts[nodePool]
	return r, ok
}

// Rollouts are the NodePools with a roll-out, by name.
func (l *state) Rollouts() []string { return slices.Sorted(maps.Keys(l.rollouts)) }

// foldWave begins the roll-out that a command is of, unless it has begun.
func (l *Ledger) foldWave(e Entry, p *CommandStarted) {
	if p.Wave == nil || len(p.Candidates) == 0 {
		return
	}
	pool := p.Candidates[0].NodePool
	r := l.rollouts[pool]
	if r.Target != p.Wave.Target {
		r = Rollout{Target: p.Wave.Target}
	}
	r.At = e.Now.UTC()
	l.rollouts = with(l.rollouts, pool, r)
	maps.DeleteFunc(l.rollouts, func(_ string, r Rollout) bool { return r.Halted == nil && e.Now.Sub(r.At) > rolloutMemory })
	if len(l.rollouts) > rolloutsMax {
		delete(l.rollouts, slices.MinFunc(l.Rollouts(), func(a, b string) int {
			return cmp.Or(l.rollouts[a].At.Compare(l.rollouts[b].At), cmp.Compare(a, b))
		}))
	}
}

// foldWaveEnded counts a command that has succeeded, or halts its roll-out because of its failure.
func (l *Ledger) foldWaveEnded(e Entry, cmd *Command, failure string) {
	if cmd == nil || cmd.Started.Wave == nil || len(cmd.Started.Candidates) == 0 {
		return
	}
	pool := cmd.Started.Candidates[0].NodePool
	r, ok := l.rollouts[pool]
	if !ok || r.Target != cmd.Started.Wave.Target {
		return
	}
	if r.At = e.Now.UTC(); e.Now.IsZero() && l.PlanningOptions().Revision >= options.Revision1 { // no decision
		r.At = e.Time.UTC()
	}
	switch {
	case failure == "":
		r.Replaced++
	case r.Halted == nil:
		r.Halted = &RolloutHalt{At: r.At, Command: cmd.ID, Reason: strings.ToValidUTF8(failure[:min(len(failure), rolloutReasonMax)], "")}
	}
	l.rollouts = with(l.rollouts, pool, r)
}

func (l *Ledger) foldRolloutResumed(p *RolloutResumed) {
	if r, ok := l.rollouts[p.NodePool]; ok && r.Target == p.Target && r.Halted != nil {
		l.rollouts = maps.Clone(l.rollouts)
		delete(l.rollouts, p.NodePool)
	}
}

// disbelieveRollouts brings the times of roll-outs back to now.
func (l *Ledger) disbelieveRollouts(now time.Time) {
	for _, pool := range l.Rollouts() {
		r := l.rollouts[pool]
		r.At = earlier(r.At, now)
		if h := r.Halted; h != nil {
			halted := *h
			halted.At = earlier(h.At, now)
			r.Halted = &halted
		}
		l.rollouts = with(l.rollouts, pool, r)
	}
}
