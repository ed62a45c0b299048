package disrupt

import (
	"fmt"
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/disrupt/internal/account"
	"millwright/planner/disrupt/internal/arrivals"
	"millwright/planner/disrupt/internal/payback"
	"millwright/planner/disrupt/internal/policy"
	"millwright/planner/disrupt/internal/preference"
	"millwright/planner/disrupt/internal/pricing"
	"millwright/planner/disrupt/internal/texts"
	"millwright/planner/world"
)

// ownLabel and ownName mark Millwright's own pods; their nodes are not disrupted voluntarily.
const (
	ownLabel = "app.kubernetes.io/name"
	ownName  = "millwright"
)

// candidates examines the nodes of one Snapshot.
type candidates struct {
	s *planner.Snapshot
	// nominated holds the nodes and claims that pods are to go to, by the Ledger's verdicts: pending ones,
	// and those of nodes that go.
	nominated map[string]bool
	prices    *pricing.Prices
	// policies that select each NodePool, by name; nil if there are none.
	policies map[string][]*policy.Policy
	payBack  *payback.Rule
	// waves of drift by NodePool, as far as they were asked for; nil for NodePools without.
	waves map[string]*Wave
	// returns are the rules by which nodes return to what is preferred, by NodePool, as far as they were
	// asked for; nil for NodePools without.
	returns map[string]*preference.Rule
	// answering is the approved proposal that is carried out; "" for none.
	answering string
	// unreadable: a pod exists whose node can't be known, so no node is surely empty.
	unreadable string
	// stalled is a new pod that kube-scheduler seems to be too late for; nil if there is none.
	stalled *world.Pod
}

func newCandidates(s *planner.Snapshot) *candidates {
	c := &candidates{s: s, nominated: map[string]bool{}, prices: pricing.New(s), policies: policy.ByPool(s), stalled: arrivals.Stalled(s)}
	c.payBack = payback.New(s, c.policies)
	for _, p := range s.World.PendingPods() {
		c.nominate(p)
	}
	for _, n := range s.StateNodes() {
		if n.MarkedForDeletion {
			for _, p := range n.Pods {
				c.nominate(p)
			}
		}
	}
	delete(c.nominated, "\x00")
	for _, u := range s.World.Unreadable() {
		if u.Kind == events.KindPod {
			c.unreadable = u.Name
			break
		}
	}
	return c
}

// nominate notes where a pod goes that waits for a node, or runs on one that goes.
func (c *candidates) nominate(p *world.Pod) {
	if v := c.s.Ledger.Verdict(p.UID); v != nil && p.Active() {
		c.nominated[v.Node+"\x00"], c.nominated["\x00"+v.Claim] = true, true
	}
}

func (c *candidates) isNominated(n *planner.StateNode) bool {
	return c.nominated[n.Name+"\x00"] || n.Claim != nil && c.nominated["\x00"+n.Claim.Name]
}

func blocked(cause Cause, format string, args ...any) *Blocked {
	return &Blocked{Cause: cause, Message: fmt.Sprintf(format, args...), EventReason: EventDisruptionBlocked}
}

// by names the object that blocks.
func (b *Blocked) by(object string) *Blocked {
	b.Object = object
	return b
}

// until notes when time alone may change it.
func (b *Blocked) until(at time.Time) *Blocked {
	b.Until = at
	return b
}

// node checks what forbids any voluntary disruption (reference: disruption §2), first failure first. own is
// a command whose mark on the node does not count.
func (c *candidates) node(n *planner.StateNode, own string) *Blocked {
	if b := c.always(n, own); b != nil {
		return b
	}
	return c.pods(n)
}

// eventual is node for disruption that has to come some time: pods do not stand in the way of a node that is
// to be gone a certain time after its deletion, for the drain waits for them until then.
func (c *candidates) eventual(n *planner.StateNode, own string) *Blocked {
	b := c.always(n, own)
	if b != nil || n.Claim.Spec.TerminationGracePeriod != nil {
		return b
	}
	return c.pods(n)
}

// always is what forbids disruption of a node whatever its pods say.
func (c *candidates) always(n *planner.StateNode, own string) *Blocked {
	if b := c.state(n, own); b != nil {
		return b
	}
	if b := c.pool(n); b != nil {
		return b
	}
	if c.stalled != nil && len(reschedulable(n)) > 0 {
		return blocked(CauseScheduler, "Kube-scheduler has not looked at a new pod yet, pods that move would wait for it too (Pod=%s)", c.stalled.Key()).by("pod " + c.stalled.Key())
	}
	for _, p := range n.Pods {
		if p.Class.Labels[ownLabel] == ownName && p.Active() {
			return blocked(CauseOwnPods, "Node runs Millwright itself (Pod=%s)", p.Key())
		}
	}
	return nil
}

// state looks at the node itself.
func (c *candidates) state(n *planner.StateNode, own string) *Blocked {
	switch {
	case n.Claim == nil:
		return &Blocked{Cause: CauseNoClaim}
	case own == "" && c.s.CommandOf(n.Claim.Name) != "":
		return &Blocked{Cause: CauseRemoving}
	case n.Node == nil:
		return blocked(CauseNoNode, "Nodeclaim does not have an associated node")
	case !n.Initialized:
		return blocked(CauseNotInitialized, "Node isn't initialized")
	case n.MarkedForDeletion && own == "":
		return blocked(CauseDeleting, "Node is deleting or marked for deletion")
	case own == "" && slices.ContainsFunc(n.Node.Object.Spec.Taints, isDisrupted):
		// Somebody is about to take it off: a command confirmed by it would go on without one.
		return &Blocked{Cause: CauseTainted}
	case c.isNominated(n):
		return blocked(CauseNominated, "Node is nominated for a pending pod")
	case n.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true":
		return blocked(CauseNodeAnnotation, "Disruption is blocked through the %q annotation", karpv1.DoNotDisruptAnnotationKey)
	}
	return nil
}

func (c *candidates) pool(n *planner.StateNode) *Blocked {
	if n.NodePool == "" {
		return blocked(CauseNoPoolLabel, "Node doesn't have required label (label=%s)", karpv1.NodePoolLabelKey)
	}
	if c.s.World.NodePool(n.NodePool) == nil {
		return blocked(CauseNoPool, "NodePool not found (NodePool=%s)", n.NodePool)
	}
	return nil
}

// pods looks for a pod that must not be disturbed.
func (c *candidates) pods(n *planner.StateNode) *Blocked {
	if c.unreadable != "" {
		return blocked(CauseUnreadablePods, "Pod can't be read, it may run on any node (Pod=%s)", c.unreadable)
	}
	for _, p := range n.Pods {
		if planner.DoNotDisrupt(p, c.s.Now).InEffect {
			return blocked(CausePodAnnotation, "Pod has %q annotation (Pod=%s)", karpv1.DoNotDisruptAnnotationKey, p.Key()).by("pod " + p.Key())
		}
	}
	return c.budgets(n)
}

func (c *candidates) budgets(n *planner.StateNode) *Blocked {
	pdbs := c.s.PodBudgets()
	for _, p := range n.Pods {
		if !planner.IsEvictable(p, c.s.Now) {
			continue
		}
		blocking, multiple := pdbs.Blocking(p)
		switch {
		case multiple:
			return blocked(CauseManyPDBs, "Eviction does not support multiple PDBs (PodDisruptionBudget(s)=[%s])", texts.BudgetNames(blocking)).by("PodDisruptionBudget " + texts.BudgetNames(blocking))
		case len(blocking) > 0:
			why := blocked(CausePDB, "Pdb prevents pod evictions (PodDisruptionBudget=[%s])", texts.BudgetNames(blocking)).by("PodDisruptionBudget " + texts.BudgetNames(blocking))
			if refusal := c.s.NotReplacedFirst(p); refusal != "" {
				why.Message += fmt.Sprintf("; pod %s is not replaced first: %s", p.Key(), refusal)
			}
			return why
		}
	}
	return nil
}

// pdbSum says which PodDisruptionBudget does not allow the evictions of a node beside those counted.
func (c *candidates) pdbSum(counts account.Evictions, n *planner.StateNode) *Blocked {
	b := counts.Exceeded(c.s, n)
	if b == nil {
		return nil
	}
	return blocked(CausePDBSum, "Pdb prevents pod evictions (PodDisruptionBudget=[%s/%s])", b.Namespace, b.Name).by("PodDisruptionBudget " + b.Namespace + "/" + b.Name)
}

// pdbTake is pdbSum, and counts the node's pods if all is well.
func (c *candidates) pdbTake(counts account.Evictions, n *planner.StateNode) *Blocked {
	why := c.pdbSum(counts, n)
	if why == nil {
		counts.Add(c.s, n)
	}
	return why
}

// reschedulable returns the node's pods that would need a new place.
func reschedulable(n *planner.StateNode) []*world.Pod {
	var list []*world.Pod
	for _, p := range n.Pods {
		if planner.IsReschedulable(p) {
			list = append(list, p)
		}
	}
	return list
}
