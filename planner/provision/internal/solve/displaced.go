package solve

import (
	"fmt"
	"time"

	"millwright/planner/ledger"
	"millwright/planner/options"
	"millwright/planner/world"
)

// Whoever puts a NoExecute taint on each new node, once pods run on it, has their owner create pods for which
// another node would be bought, and so on without end: each of those pods is a new one, that no node has
// refused yet. One that comes in place of others which had to leave displacedMax new nodes in a row waits for
// a minute after its creation, and twice as long with each further node, displacedFor at most.
//
// Example. An agent taints each node half a minute after it has joined, which takes a minute. Three nodes are
// bought within five minutes, the fourth a minute after the third was left, the fifth two minutes after the
// fourth. Without the waits it would be forty in an hour; with them there are eight.
const (
	displacedMax = 3
	displacedFor = 30 * time.Minute
)

const constraintDisplaced = "displaced"

// displaced refuses a pod for now because of what has become of those before it; nil if it may be planned
// for. A creation that is ahead of this clock tells nothing.
func (s *Solver) displaced(it *Item) []ledger.Refusal {
	p := it.Pod
	if p.Displaced < displacedMax || p.NodeName != "" || s.In.Options.Revision < options.Revision4 {
		return nil
	}
	wait := min(time.Minute<<min(p.Displaced-displacedMax, 10), displacedFor)
	until := time.Unix(0, p.Created).UTC().Add(wait)
	if left := until.Sub(s.In.Now); left <= 0 || left > displacedFor {
		return nil
	}
	return []ledger.Refusal{{Constraint: constraintDisplaced, Message: fmt.Sprintf(
		"NoExecute taints have driven the pods before it from %d new nodes in a row, each within %s of its creation; another one is not looked for before %s",
		p.Displaced, world.YoungFor, until.Format(time.TimeOnly))}}
}
