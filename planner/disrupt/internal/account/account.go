// Package account counts what bounds disruption: evictions that PodDisruptionBudgets must allow together,
// nodes that use budgets up, and what NodePools have of their limits. It is for package disrupt alone and
// decides nothing; its rules are tested there.
package account

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/condition"
	"millwright/planner/ledger"
	"millwright/planner/options"
	"millwright/planner/provision"
	"millwright/planner/resource"
	"millwright/planner/world"
)

// Evictions are the pods that are to be evicted, by PodDisruptionBudget.
type Evictions map[*policyv1.PodDisruptionBudget]int32

// Going are those of nodes that are being removed.
func Going(s *planner.Snapshot) Evictions {
	counts := Evictions{}
	for _, n := range s.StateNodes() {
		if n.MarkedForDeletion {
			counts.Add(s, n)
		}
	}
	return counts
}

// Add counts the pods of a node, but for those that go without an eviction, and for those that a budget lets
// go beside what it allows.
func (e Evictions) Add(s *planner.Snapshot, n *planner.StateNode) {
	pdbs := s.PodBudgets()
	for _, p := range n.Pods {
		if planner.IsEvictable(p, s.Now) && !s.ReplacesFirst(p) {
			for _, b := range pdbs.Matching(p) {
				if s.Options.Revision < options.Revision1 || !planner.GoesUnready(b, p) {
					e[b]++
				}
			}
		}
	}
}

// Exceeded is a budget that does not allow the evictions of a node together with those counted; nil if all
// do. A node may hold more pods of a budget than may be evicted at once, because its drain evicts them one
// after another; but two nodes may not wait for the same disruption.
func (e Evictions) Exceeded(s *planner.Snapshot, n *planner.StateNode) *policyv1.PodDisruptionBudget {
	own := Evictions{}
	own.Add(s, n)
	for _, b := range s.World.PodDisruptionBudgets() {
		if k := own[b]; k > 0 && e[b] > 0 && e[b]+k > b.Status.DisruptionsAllowed {
			return b
		}
	}
	return nil
}

// Together are the first of some nodes that go together, at most so many: left is what the budgets of each
// NodePool allow, and from Revision5 on no two wait for the same disruption of a PodDisruptionBudget.
func Together(s *planner.Snapshot, nodes []*planner.StateNode, left map[string]int, most int) (list []*planner.StateNode) {
	left, counts := maps.Clone(left), Going(s)
	for _, n := range nodes {
		if len(list) == most {
			break
		}
		if left[n.NodePool] <= 0 || s.Options.Revision >= options.Revision5 && counts.Exceeded(s, n) != nil {
			continue
		}
		left[n.NodePool]--
		counts.Add(s, n)
		list = append(list, n)
	}
	return list
}

// NeverAllowed reports that a budget which holds a pod of a node allows no disruption, whatever happens.
func NeverAllowed(s *planner.Snapshot, n *planner.StateNode) bool {
	return slices.ContainsFunc(n.Pods, func(p *world.Pod) bool {
		blocking, _ := s.PodBudgets().Blocking(p)
		return planner.IsEvictable(p, s.Now) && slices.ContainsFunc(blocking, planner.FullyBlocking)
	})
}

// Consuming counts a pool's managed, initialized nodes that are not yet terminating, and those of them that
// are not ready or marked for deletion; going are those that are marked.
func Consuming(s *planner.Snapshot, pool string) (nodes, used, going int) {
	for _, n := range s.StateNodes() {
		if n.NodePool != pool || !n.Managed || !n.Initialized || n.Node == nil || terminating(n) {
			continue
		}
		nodes++
		if n.MarkedForDeletion || !n.Ready() {
			used++
		}
		if n.MarkedForDeletion {
			going++
		}
	}
	return nodes, used, going
}

func terminating(n *planner.StateNode) bool {
	return n.Claim != nil && condition.IsTrue(n.Claim.Status.Conditions, karpv1.ConditionTypeInstanceTerminating)
}

// use is the total of a NodePool's nodes and claims that are not being removed; those of running commands
// stay until their replacements are there.
func use(s *planner.Snapshot, pool string) (v resource.Vector, nodes int64) {
	for _, n := range s.StateNodes() {
		if n.NodePool == pool && (!n.MarkedForDeletion || s.CommandOf(n.ClaimName()) != "" && n.Claim.DeletionTimestamp == nil) {
			v, nodes = v.Add(n.Capacity), nodes+1
		}
	}
	for _, c := range s.InFlight() {
		if c.NodePool == pool {
			v, nodes = v.Add(c.Capacity), nodes+1
		}
	}
	return v, nodes
}

// Left is what the limits of a NodePool leave beside its nodes, those that are being replaced included, by
// resource; less than 0 if they are exceeded. nil if it has no limits, or is not there.
func Left(s *planner.Snapshot, pool string) map[corev1.ResourceName]int64 {
	np := s.World.NodePool(pool)
	if np == nil || len(np.Spec.Limits) == 0 {
		return nil
	}
	used, nodes := use(s, pool)
	left := map[corev1.ResourceName]int64{}
	for name, q := range np.Spec.Limits {
		left[name] = resource.AddSaturated(resource.AmountOf(name, q), -amount(used, nodes, name))
	}
	return left
}

// Beside is what is left when a NodePool also has these claims, as far as they are its own.
func Beside(left map[corev1.ResourceName]int64, pool string, claims []ledger.PlannedClaim) map[corev1.ResourceName]int64 {
	left = maps.Clone(left)
	for i := range claims {
		if claims[i].NodePool == pool {
			for name := range left {
				left[name] = resource.AddSaturated(left[name], -amount(claims[i].Capacity, 1, name))
			}
		}
	}
	return left
}

func amount(v resource.Vector, nodes int64, name corev1.ResourceName) int64 {
	if name == provision.ResourceNodes {
		return nodes
	}
	return v.Get(name)
}

// LimitExceeded returns the NodePool whose limits the replacements would exceed while the nodes they replace
// are still there; "" if none.
func LimitExceeded(s *planner.Snapshot, claims []ledger.PlannedClaim) string {
	for _, pool := range s.World.NodePools() {
		if !slices.ContainsFunc(claims, func(c ledger.PlannedClaim) bool { return c.NodePool == pool.Name }) {
			continue
		}
		for _, left := range Beside(Left(s, pool.Name), pool.Name, claims) {
			if left < 0 {
				return pool.Name
			}
		}
	}
	return ""
}
