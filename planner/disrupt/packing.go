package disrupt

import (
	"cmp"
	"math/bits"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/requirement"
	"millwright/planner/resource"
	"millwright/planner/world"

	corev1 "k8s.io/api/core/v1"
)

// packing is a model of the cluster in which sets of nodes can be taken away fast: it knows rooms, sizes, taints and node selectors,
// and nothing of topology, volumes and ports. What it finds has to be tried (trial).
type packing struct {
	sites []*site
	// stay are the sites that are not taken away, in the order in which pods are put there: those that are no candidates first, then
	// the candidates that are kept most gladly, so that nodes that can be emptied stay so.
	stay []*site
	fits map[fitKey]bool
	// steps are left.
	steps int
}

// site is a node in the model.
type site struct {
	node *planner.StateNode
	room resource.Vector
	// pods that move if a candidate goes, largest first. price includes what a node costs by itself, cost is what its evictions cost.
	pods        []*parcel
	price, cost int64
	candidate   bool
	gone        bool
	// taken is what the parcels put here take of the room.
	used resource.Vector
}

// parcel is a pod that may move.
type parcel struct {
	pod  *world.Pod
	home *site
	at   *site
}

type fitKey struct {
	class *world.PodClass
	node  *planner.StateNode
}

// order of candidates: the one that saves most per eviction first, then by name.
func (a *site) before(b *site) int {
	ah, al := bits.Mul64(uint64(a.price), uint64(b.cost))
	bh, bl := bits.Mul64(uint64(b.price), uint64(a.cost))
	return cmp.Or(cmp.Compare(bh, ah), cmp.Compare(bl, al), compareNodes(a.node, b.node))
}

func compareParcels(a, b *parcel) int {
	ra, rb := &a.pod.Class.Requests, &b.pod.Class.Requests
	return cmp.Or(cmp.Compare(rb.MilliCPU, ra.MilliCPU), cmp.Compare(rb.Memory, ra.Memory), cmp.Compare(a.pod.UID, b.pod.UID))
}

func compareByMemory(a, b *parcel) int {
	ra, rb := &a.pod.Class.Requests, &b.pod.Class.Requests
	return cmp.Or(cmp.Compare(rb.Memory, ra.Memory), cmp.Compare(rb.MilliCPU, ra.MilliCPU), cmp.Compare(a.pod.UID, b.pod.UID))
}

// newPacking models the Snapshot. Pods that wait for a place anyway have theirs already.
func (p *pass) newPacking(candidates []*planner.StateNode, steps int) *packing {
	k := &packing{fits: map[fitKey]bool{}, steps: steps}
	may := map[*planner.StateNode]bool{}
	for _, n := range candidates {
		may[n] = true
	}
	taken := map[string]resource.Vector{}
	base := p.trial(nil, nil, false)
	for uid, node := range base.others {
		if pod := p.s.World.Pod(uid); pod != nil {
			taken[node] = taken[node].Add(pod.Class.Requests)
		}
	}
	budgets := p.s.PodBudgets()
	for _, n := range p.s.StateNodes() {
		if n.MarkedForDeletion || !p.ready(n.Name) {
			continue
		}
		x := &site{node: n, candidate: may[n], price: p.price(n) + p.nodeCost(), cost: 1, room: n.Available.Sub(taken[n.Name])}
		for _, pod := range n.Pods {
			if budgets.IsMoving(pod, p.s.Now) {
				x.pods = append(x.pods, &parcel{pod: pod, home: x, at: x})
				x.cost += max(0, planner.EvictionCost(pod)) / costGrain
			}
		}
		slices.SortFunc(x.pods, compareParcels)
		k.sites = append(k.sites, x)
	}
	k.arrange()
	return k
}

// costGrain keeps products of prices and costs small; a pod without annotations costs 2^17 grains.
const costGrain = 1 << 10

// arrange orders the sites that stay.
func (k *packing) arrange() {
	k.stay = k.stay[:0]
	for _, x := range k.sites {
		if !x.gone {
			k.stay = append(k.stay, x)
		}
	}
	slices.SortStableFunc(k.stay, func(a, b *site) int {
		if a.candidate != b.candidate {
			if a.candidate {
				return 1
			}
			return -1
		}
		return b.before(a)
	})
}

// takes reports that the node allows pods of the class, by taints and labels.
func (k *packing) takes(x *site, c *world.PodClass) bool {
	key := fitKey{c, x.node}
	ok, known := k.fits[key]
	if !known {
		ok = allows(x.node, c.Spec)
		k.fits[key] = ok
	}
	return ok
}

func allows(n *planner.StateNode, spec *corev1.PodSpec) bool {
	for _, t := range n.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !planner.Tolerates(spec.Tolerations, t) {
			return false
		}
	}
	var terms []corev1.NodeSelectorTerm
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		terms = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	if len(terms) == 0 {
		return requirement.FromNodeSelector(spec.NodeSelector).MatchesLabels(n.Labels)
	}
	return slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool {
		return requirement.FromNodeSelector(spec.NodeSelector, t).MatchesLabels(n.Labels)
	})
}

// put finds the first site that takes the parcel, not counting one.
func (k *packing) put(a *parcel, except *site) *site {
	for _, x := range k.stay {
		k.steps--
		if x == except || x.gone {
			continue
		}
		if need := x.used.Add(a.pod.Class.Requests); need.Fits(x.room) && k.takes(x, a.pod.Class) {
			x.used = need
			return x
		}
	}
	return nil
}

// remove takes a candidate away if its pods, and those that were put there, find places; else all is as before.
func (k *packing) remove(x *site) bool {
	moving := slices.Clone(x.pods)
	for _, y := range k.sites {
		if !y.gone {
			continue
		}
		for _, a := range y.pods {
			if a.at == x {
				moving = append(moving, a)
			}
		}
	}
	slices.SortFunc(moving, compareParcels)
	x.gone = true
	for i, a := range moving {
		at := k.put(a, x)
		if at == nil {
			for _, b := range moving[:i] {
				b.at.used = b.at.used.Sub(b.pod.Class.Requests)
			}
			for _, b := range moving {
				b.at = x
			}
			x.gone = false
			return false
		}
		a.at = at
	}
	x.used = resource.Vector{}
	return true
}

// repack gives the pods of all sites that are gone new places, the largest first; false if some find none, and then nothing is changed.
func (k *packing) repack(order func(a, b *parcel) int) bool {
	var moving []*parcel
	for _, x := range k.sites {
		if x.gone {
			moving = append(moving, x.pods...)
		}
	}
	slices.SortFunc(moving, order)
	before := make([]*site, len(moving))
	used := make([]resource.Vector, len(k.sites))
	for i, x := range k.sites {
		used[i], x.used = x.used, resource.Vector{}
	}
	for i, a := range moving {
		before[i] = a.at
	}
	for i, a := range moving {
		at := k.put(a, nil)
		if at == nil {
			for j := range i {
				moving[j].at = before[j]
			}
			for j, x := range k.sites {
				x.used = used[j]
			}
			return false
		}
		a.at = at
	}
	return true
}

// candidates that stay, or are gone, in the order in which they would go.
func (k *packing) candidates(gone bool) []*site {
	var list []*site
	for _, x := range k.sites {
		if x.candidate && x.gone == gone {
			list = append(list, x)
		}
	}
	slices.SortFunc(list, (*site).before)
	return list
}

// places are where the pods of the sites that are gone were put.
func (k *packing) places() map[types.UID]string {
	m := map[types.UID]string{}
	for _, x := range k.sites {
		if x.gone {
			for _, a := range x.pods {
				m[a.pod.UID] = a.at.node.Name
			}
		}
	}
	return m
}
