package judge

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/services/sim/cluster"
	"millwright/services/sim/stage"
)

// Checks of node repair (reference: lifecycle §10).
const (
	CheckAiling     = "only nodes that have ailed for as long as is tolerated are repaired"
	CheckEpidemic   = "nothing is repaired while more than a fifth of the nodes ail"
	CheckRepaired   = "nodes that have ailed for as long as is tolerated are replaced at once, where the services had time"
	reasonUnhealthy = "unhealthy"
)

// Repairs judge which nodes are replaced because of their conditions, by what was written to the Nodes, and
// when.
type Repairs struct {
	*Judge
	// bouts are the times at which a Node had a condition that is not tolerated for ever, by its UID.
	bouts map[string][]bout
	// epidemics is since when more than a fifth of a NodePool's nodes have ailed, by its name.
	epidemics map[string]time.Time
	// due is since when a Node should be replaced, and the services could have known, by its UID.
	due map[string]time.Time
	// deadlines by which repaired nodes are to be empty, by provider id.
	deadlines map[string]time.Time
}

// bout is a time at which a Node ails; until is zero while it does.
type bout struct {
	condition    corev1.NodeConditionType
	since, until time.Time
	tolerated    time.Duration
}

func newRepairs(j *Judge) *Repairs {
	return &Repairs{Judge: j, bouts: map[string][]bout{}, epidemics: map[string]time.Time{}, due: map[string]time.Time{}, deadlines: map[string]time.Time{}}
}

// ails reports that a Node has a condition of the repair policies, and for how long each is tolerated.
func (r *Repairs) ails(n *corev1.Node) map[corev1.NodeConditionType]time.Duration {
	found := map[corev1.NodeConditionType]time.Duration{}
	if !r.Options.NodeRepair {
		return found
	}
	for _, c := range n.Status.Conditions {
		for _, p := range r.Options.RepairPolicies {
			if p.Condition == string(c.Type) && p.Status == string(c.Status) {
				found[c.Type] = p.Toleration
			}
		}
	}
	return found
}

// wrote takes in a write of a Node.
func (r *Repairs) wrote(after cluster.Object) {
	n, ok := after.(*corev1.Node)
	if !ok {
		return
	}
	now, ails := r.Clock.Now(), r.ails(n)
	list := r.bouts[string(n.UID)]
	for i := range list {
		if b := &list[i]; b.until.IsZero() {
			if _, still := ails[b.condition]; !still {
				b.until = now
			}
			delete(ails, b.condition)
		}
	}
	for condition, tolerated := range ails {
		list = append(list, bout{condition: condition, since: now, tolerated: tolerated})
	}
	if len(list) > 0 {
		r.bouts[string(n.UID)] = list
	}
}

// counted are how many of a NodePool's nodes ail, of how many.
func (r *Repairs) counted(pool string) (ailing, nodes int) {
	for _, n := range r.Cluster.Nodes() {
		if n.Labels[karpv1.NodePoolLabelKey] == pool {
			nodes++
			if len(r.ails(n)) > 0 {
				ailing++
			}
		}
	}
	return ailing, nodes
}

// isEpidemic: a fifth is rounded up, so that one node of a few may be repaired.
func isEpidemic(ailing, nodes int) bool {
	fifth := nodes / 5
	if nodes%5 > 0 {
		fifth++
	}
	return ailing > fifth
}

// look notes which NodePools have had too many nodes that ail since when; any change of Nodes may end it.
func (r *Repairs) look() {
	for _, p := range r.Script.Pools {
		switch ailing, nodes := r.counted(p.Name); {
		case !isEpidemic(ailing, nodes):
			delete(r.epidemics, p.Name)
		case r.epidemics[p.Name].IsZero():
			r.epidemics[p.Name] = r.Clock.Now()
		}
	}
}

// enter judges a record that dooms a NodeClaim.
func (r *Repairs) enter(e ledger.Entry) {
	p, ok := e.Payload.(*ledger.ClaimDoomed)
	if !ok || p.Reason != reasonUnhealthy || e.Mode == ledger.ModeShadow {
		return
	}
	r.Stats.Repaired++
	now := r.Clock.Now()
	if p.Deadline.IsZero() || p.Deadline.After(now.Add(stage.ClocksApart)) {
		r.Violate(CheckRepaired, "record %d repairs %s by %s", e.Seq, p.Claim, p.Deadline)
	}
	c := r.book.claims[p.Claim]
	if c == nil {
		return
	}
	r.deadlines[c.provider] = p.Deadline
	r.look() // what kept it may have ended a moment ago
	if since := r.epidemics[c.pool]; !since.IsZero() && now.Sub(since) > lookback {
		ailing, nodes := r.counted(c.pool)
		r.Violate(CheckEpidemic, "record %d repairs %s, for %s more than a fifth of NodePool %s has ailed: %d of %d", e.Seq, p.Claim, now.Sub(since), c.pool, ailing, nodes)
	}
	for _, n := range r.Cluster.Nodes() {
		if n.Spec.ProviderID == c.provider && !r.mayBeRepaired(n) {
			r.Violate(CheckAiling, "record %d repairs %s: %v", e.Seq, p.Claim, r.bouts[string(n.UID)])
		}
	}
}

// mayBeRepaired reports that a Node has ailed for long enough, as far as somebody may know who reads late.
func (r *Repairs) mayBeRepaired(n *corev1.Node) bool {
	now := r.Clock.Now()
	return slices.ContainsFunc(r.bouts[string(n.UID)], func(b bout) bool {
		return !now.Add(stage.ClocksApart).Before(b.since.Add(b.tolerated)) && (b.until.IsZero() || now.Sub(b.until) < lookback)
	})
}

// Look demands, once a second, that the nodes that are to be replaced have been. able: nothing keeps the
// services from it.
func (r *Repairs) Look(able bool) {
	if !r.Options.NodeRepair {
		return
	}
	r.look()
	due := map[string]time.Time{}
	for _, n := range r.Cluster.Nodes() {
		if !able || !r.isDue(n) {
			continue
		}
		since := r.due[string(n.UID)]
		if since.IsZero() {
			since = r.Clock.Now()
		}
		due[string(n.UID)] = since
		if late := r.Clock.Now().Sub(since); late > actingTime {
			r.Violate(CheckRepaired, "node %s is there, %s after it was to be replaced: %v", n.Name, late, r.bouts[string(n.UID)])
		}
	}
	r.due = due
}

// Time within which every node that ails must have been replaced, if nothing fails.
func (r *Repairs) Time() (longest time.Duration) {
	for _, p := range r.Options.RepairPolicies {
		longest = max(longest, p.Toleration)
	}
	return longest + actingTime + 2*stage.ClocksApart
}

// isDue reports that a Node is one to replace now: it is Millwright's, stays otherwise, and no more than a
// fifth of its NodePool's nodes ails; or that it is being replaced, and a pod has not been asked to leave.
func (r *Repairs) isDue(n *corev1.Node) bool {
	id := InstanceOf(n.Spec.ProviderID)
	i, c := r.Cloud.Instance(id), r.book.claims[r.history.owner[id]]
	if i == nil || i.Ending() || c == nil || r.strippedOf(n.Spec.ProviderID) || r.Deeds.Stripped[string(n.UID)] {
		return false
	}
	if !r.deadlines[n.Spec.ProviderID].IsZero() {
		return slices.ContainsFunc(r.Cluster.PodsOn(n.Name), func(p *corev1.Pod) bool {
			return r.waitedFor(p) && p.DeletionTimestamp == nil && r.Clock.Now().Sub(r.history.bound[string(p.UID)]) > actingTime
		})
	}
	o := r.Cluster.NodeClaim(c.name)
	stays := c.joined && c.doomed == 0 && n.DeletionTimestamp == nil && o != nil && o.DeletionTimestamp == nil
	return stays && !isEpidemic(r.counted(c.pool)) && slices.ContainsFunc(r.bouts[string(n.UID)], func(b bout) bool {
		return b.until.IsZero() && r.Clock.Now().Sub(b.since) > b.tolerated+stage.ClocksApart
	})
}
