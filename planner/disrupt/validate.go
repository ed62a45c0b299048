package disrupt

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner"
	"millwright/planner/disrupt/internal/account"
	"millwright/planner/disrupt/internal/order"
	"millwright/planner/disrupt/internal/texts"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/planner/world"
)

// validation looks at the nodes of a running command once more.
type validation struct {
	*pass
	cmd *ledger.Command
	// own are the command's claims with the pods that it moves.
	own map[string]map[types.UID]bool
}

func newValidation(s *planner.Snapshot, cmd *ledger.Command) *validation {
	v := &validation{pass: newPass(s), cmd: cmd, own: map[string]map[types.UID]bool{}}
	for _, c := range cmd.Started.Candidates {
		pods := map[types.UID]bool{}
		for _, p := range c.Pods {
			pods[p.UID] = true
		}
		v.own[c.Claim] = pods
	}
	return v
}

// budgets demands that the NodePools' budgets hold, the command's nodes included.
func (v *validation) budgets(rest []*planner.StateNode) string {
	pools := map[string]bool{}
	for _, n := range rest {
		pools[n.NodePool] = true
	}
	for _, pool := range v.s.World.NodePools() {
		if !pools[pool.Name] {
			continue
		}
		if b := v.budgetOf(pool, v.cmd.Started.Reason); !b.allowsRest(rest) {
			return "a candidate can no longer be disrupted without violating budgets"
		}
	}
	return ""
}

// nodes returns those that may not be disrupted any more, with the reason.
func (v *validation) nodes(rest []*planner.StateNode) (dropped []ledger.DroppedNode) {
	counts := v.othersCounts()
	for _, n := range rest {
		reason := v.node(n)
		if reason == "" && !isEventual(&v.cmd.Started, n) {
			if why := v.pdbTake(counts, n); why != nil {
				reason = texts.LowerFirst(why.Message)
			}
		}
		if reason != "" {
			dropped = append(dropped, ledger.DroppedNode{Node: n.Name, Claim: n.ClaimName(), Reason: reason})
		}
	}
	return dropped
}

// othersCounts are the pods to be evicted from nodes that go, but for those of this command and of later
// ones: those have counted it, and one that waits for no budget must not undo what was started before it.
func (v *validation) othersCounts() account.Evictions {
	counts := account.Evictions{}
	for _, n := range v.s.StateNodes() {
		other := v.s.Ledger.Command(v.s.CommandOf(n.ClaimName()))
		if n.MarkedForDeletion && v.own[n.ClaimName()] == nil && (other == nil || other.Seq < v.cmd.Seq) {
			counts.Add(v.s, n)
		}
	}
	return counts
}

func isEventual(command *ledger.CommandStarted, n *planner.StateNode) bool {
	return command.Reason == karpv1.DisruptionReasonDrifted && n.Claim.Spec.TerminationGracePeriod != nil
}

// node returns why the command can no longer go on with a node; "" if it can.
func (v *validation) node(n *planner.StateNode) string {
	check := v.candidates.node
	if v.cmd.Started.Reason == karpv1.DisruptionReasonDrifted {
		check = v.eventual
	}
	if b := check(n, v.cmd.ID); b != nil {
		return texts.LowerFirst(b.Message)
	}
	if b := v.policyStops(n, v.cmd.Started.Reason); b != nil {
		return b.Message
	}
	pool := v.s.World.NodePool(n.NodePool)
	switch {
	case v.cmd.Started.Method == MethodStaticDrift && pool.Spec.Replicas == nil:
		return "its NodePool is not static any more"
	case v.cmd.Started.Reason == karpv1.DisruptionReasonDrifted:
		if order.Drifted(n) == nil {
			return "has not drifted any more"
		}
		return ""
	}
	if v.cmd.Started.Reason == mwv1alpha1.ReasonPreferredAvailable {
		return cmp.Or(v.returnStops(n), v.arrived(n))
	}
	if b := enabled(pool); b != nil {
		return cmp.Or(b.Message, "its NodePool is static by now")
	}
	if v.cmd.Started.Reason == karpv1.DisruptionReasonUnderutilized && pool.Spec.Disruption.ConsolidationPolicy == karpv1.ConsolidationPolicyWhenEmpty {
		return fmt.Sprintf("NodePool %q has consolidation policy WhenEmpty, but node is not empty", pool.Name)
	}
	return v.arrived(n)
}

// arrived names the pods that have come to a node since the command was decided; "" if there are none.
func (v *validation) arrived(n *planner.StateNode) string {
	arrived := slices.DeleteFunc(reschedulable(n), func(p *world.Pod) bool { return v.own[n.ClaimName()][p.UID] })
	if len(arrived) > 0 {
		return "pods arrived: " + texts.PodNames(arrived)
	}
	return ""
}

// moves returns the nodes with pods that have no place any more, on nodes that are ready or on the command's
// own replacements.
func (v *validation) moves(rest []*planner.StateNode) (dropped []ledger.DroppedNode) {
	virtual := map[types.UID]bool{}
	for _, c := range v.cmd.Started.Candidates {
		for _, p := range c.Virtual {
			virtual[p.UID] = true
		}
	}
	if (v.cmd.Started.Evictions == 0 || v.cmd.Started.Method == MethodStaticDrift) && len(virtual) == 0 {
		return nil
	}
	home, own := map[types.UID]*planner.StateNode{}, map[string]bool{}
	for _, n := range rest {
		for _, p := range n.Pods {
			if v.own[n.ClaimName()][p.UID] {
				home[p.UID] = n
			}
		}
	}
	for _, c := range v.cmd.Started.Candidates {
		if n := v.s.StateNodeOfClaim(c.Claim); n != nil && slices.Contains(rest, n) {
			for _, p := range c.Virtual {
				home[p.UID] = n
			}
		}
	}
	for i, r := range v.cmd.Started.Replacements {
		own[v.s.Ledger.ClaimName(r.NodePool, v.cmd.Seq, i)] = true
	}
	found := map[*planner.StateNode]string{}
	var unplaced []ledger.PodRef
	for _, verdict := range provision.Simulate(v.s, provision.Scenario{}).Verdicts {
		n := home[verdict.Pod.UID]
		switch {
		case n == nil && verdict.Buffer == "" && verdict.Node == "" && verdict.Claim == "":
			unplaced = append(unplaced, verdict.Pod)
			continue
		case n == nil, found[n] != "", v.placed(&verdict, own):
			continue
		case virtual[verdict.Pod.UID] && verdict.Claim != "": // room is on its way
			continue
		}
		found[n] = fmt.Sprintf("pod %s/%s has no place any more", verdict.Pod.Namespace, verdict.Pod.Name)
	}
	if last := rest[len(rest)-1]; len(found) == 0 {
		if p := v.robbed(unplaced, home); p != nil {
			found[last] = fmt.Sprintf("pod %s/%s needs the room", p.Namespace, p.Name)
		}
	}
	for _, n := range rest {
		if found[n] != "" {
			dropped = append(dropped, ledger.DroppedNode{Node: n.Name, Claim: n.ClaimName(), Reason: found[n]})
		}
	}
	return dropped
}

// robbed is a pod, of others that found no place, which has one if the pods of the command need none; nil if
// there is none.
func (v *validation) robbed(unplaced []ledger.PodRef, home map[types.UID]*planner.StateNode) *ledger.PodRef {
	if len(unplaced) == 0 {
		return nil
	}
	own := map[types.UID]bool{}
	for uid := range home {
		own[uid] = true
	}
	placed := map[types.UID]bool{}
	for _, verdict := range provision.Simulate(v.s, provision.Scenario{Ignored: own}).Verdicts {
		placed[verdict.Pod.UID] = verdict.Node != ""
	}
	for i, p := range unplaced {
		if placed[p.UID] {
			return &unplaced[i]
		}
	}
	return nil
}

func (v *validation) placed(verdict *provision.PodVerdict, own map[string]bool) bool {
	if own[verdict.Claim] {
		return true
	}
	if n := v.s.StateNode(verdict.Node); verdict.Node != "" && n != nil {
		return v.trials.ready(verdict.Node) || own[n.ClaimName()]
	}
	return false
}
