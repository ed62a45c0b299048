package disrupt

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt/internal/order"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/planner/world"
)

// outcome of taking nodes away: where their pods go.
type outcome struct {
	nodes []*planner.StateNode
	// pods that move, by UID, and where to: places by node, the others to claims, which name them.
	pods   map[types.UID]*mover
	places map[types.UID]string
	claims []ledger.PlannedClaim
	// ids of the claims in the one simulation; none if it was not asked.
	ids []int
	// scores of Balanced NodePools for it.
	scores []Score
	// tooLittle is why a DisruptionPolicy finds that it saves too little or moves too much; "" if none does.
	tooLittle string
	// keptBy is the rule that says so: CauseSavings or CauseRate.
	keptBy Cause
	// unplaced are the pods for which there is no place, by namespace and name, with the reason; waiting are
	// those whose only place is a node that is not ready yet.
	unplaced []refusedPod
	waiting  []refusedPod
	// shared: a claim would be for pods that wait anyway too.
	shared bool
}

// mover is a pod of a node that is to go.
type mover struct {
	*world.Pod
	from *planner.StateNode
}

type refusedPod struct {
	mover  *mover
	reason string
}

// anyOf is a pod that was to go to a new claim.
func (o *outcome) anyOf(moves []provision.Move, id int) types.UID {
	for i := range moves {
		if moves[i].NewClaim == id {
			return moves[i].Pod.UID
		}
	}
	return ""
}

func unready(m *mover, claim, node string) refusedPod {
	return refusedPod{m, fmt.Sprintf("would schedule against uninitialized nodeclaim/%s, node/%s", claim, node)}
}

// failure says why some pods have no place; "" if all have.
func (o *outcome) failure() string {
	list := slices.Concat(o.unplaced, o.waiting)
	if len(list) == 0 {
		return ""
	}
	text := fmt.Sprintf("Not all pods would schedule, %s => %s", list[0].mover.Key(), list[0].reason)
	if more := len(list) - 1; more > 0 {
		text += fmt.Sprintf(" and %d other(s)", more)
	}
	return text
}

// mixed reports that a replacement would also be for pods that wait anyway: they come first.
func (o *outcome) mixed() bool {
	if o.shared {
		return true
	}
	for i := range o.claims {
		for _, pod := range o.claims[i].Pods {
			if o.pods[pod.UID] == nil {
				return true
			}
		}
	}
	return false
}

// evictions counts the pods that move. Virtual ones do not run, so nobody evicts them.
func (o *outcome) evictions() (n int) {
	for _, m := range o.pods {
		if !planner.IsVirtual(m.Class) {
			n++
		}
	}
	return n
}

// command puts the outcome into a record.
func (p *pass) commandOf(o *outcome, reason karpv1.DisruptionReason, method string) *ledger.CommandStarted {
	started := &ledger.CommandStarted{Reason: reason, Method: method, Replacements: o.claims, Evictions: o.evictions()}
	byNode := map[string][]ledger.PodRef{}
	for _, n := range order.Named(o.nodes) {
		c := p.candidate(n)
		started.Candidates = append(started.Candidates, c)
		started.PriceBefore += c.Price
		for _, pod := range c.Pods {
			if to, ok := o.places[pod.UID]; ok {
				byNode[to] = append(byNode[to], pod)
			}
		}
	}
	for i := range o.claims {
		started.PriceAfter += o.claims[i].Cheapest.MicroUSDPerHour
	}
	for _, n := range slices.Sorted(maps.Keys(byNode)) {
		started.Placements = append(started.Placements, ledger.Placement{Node: n, Pods: byNode[n]})
	}
	return started
}
