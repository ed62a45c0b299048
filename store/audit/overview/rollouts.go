package overview

import (
	"time"

	"millwright/planner/ledger"
)

// RolloutLine is a roll-out of drifted nodes in waves.
type RolloutLine struct {
	NodePool string `json:"nodePool"`
	// Target identifies what new nodes were to be when it began.
	Target   string `json:"target"`
	Replaced int    `json:"replaced"`
	// Last is when its last command started or ended.
	Last time.Time `json:"last"`
	// Halted is nil while it goes on.
	Halted *ledger.RolloutHalt `json:"halted,omitempty"`
}

// Rollouts are those that have begun, by NodePool.
func Rollouts(l *ledger.Ledger) []RolloutLine {
	list := []RolloutLine{}
	for _, pool := range l.Rollouts() {
		r, _ := l.Rollout(pool)
		list = append(list, RolloutLine{NodePool: pool, Target: r.Target, Replaced: r.Replaced, Last: r.At, Halted: r.Halted})
	}
	return list
}
