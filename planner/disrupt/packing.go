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
	// sites in the order in which pods are put there: those that are no candidates first, then the candidates that are kept most gladly,
	// so that nodes that can be emptied stay so.
	sites []*site
	// parcels of all candidates, in each order of the recipes.
	parcels [orders][]*parcel
	// moving and before are buffers.
	moving []*parcel
	before []*site
	fits   map[fitKey]bool
	// steps are left; billMax bounds the bill while evictions are saved.
	steps   int
	billMax int64
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

// arrange orders sites and parcels, once.
func (k *packing) arrange() {
	slices.SortFunc(k.sites, func(a, b *site) int {
		if a.candidate != b.candidate {
			if a.candidate {
				return 1
			}
			return -1
		}
		return b.before(a)
	})
	for o, compare := range parcelOrders {
		for _, x := range k.sites {
			if x.candidate {
				k.parcels[o] = append(k.parcels[o], x.pods...)
			}
		}
		slices.SortFunc(k.parcels[o], compare)
	}
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

// fit says where a parcel goes among the sites that have room.
type fit uint8

const (
	// firstFit: the first one; bestFit: the one that is left with the least room, CPU and memory weighed alike; evenFit: the one whose
	// room is used up most evenly.
	firstFit fit = iota
	bestFit
	evenFit
)

// put finds a site for the parcel, not counting one; nil if none has room.
func (k *packing) put(a *parcel, except *site, by fit) *site {
	var best *site
	least := int64(0)
	need := &a.pod.Class.Requests
	for _, x := range k.sites {
		k.steps--
		if x == except || x.gone || !x.holds(need) || !k.takes(x, a.pod.Class) {
			continue
		}
		if by == firstFit {
			best = x
			break
		}
		if left := x.left(need, by); best == nil || left < least {
			best, least = x, left
		}
	}
	if best != nil {
		best.take(need)
	}
	return best
}

// holds reports that there is room.
func (x *site) holds(need *resource.Vector) bool {
	if x.used.MilliCPU+need.MilliCPU > x.room.MilliCPU || x.used.Memory+need.Memory > x.room.Memory || x.used.Pods+need.Pods > x.room.Pods {
		return false
	}
	return need.EphemeralStorage == 0 && len(need.Extended) == 0 || x.used.Add(*need).Fits(x.room)
}

// left weighs what would be left of the room with the parcel in, in thousandths of what the node has.
func (x *site) left(need *resource.Vector, by fit) int64 {
	cpu := (x.room.MilliCPU - x.used.MilliCPU - need.MilliCPU) * 1000 / max(1, x.node.Allocatable.MilliCPU)
	memory := ((x.room.Memory - x.used.Memory - need.Memory) >> 20) * 1000 / max(1, x.node.Allocatable.Memory>>20)
	if by == evenFit {
		return max(cpu-memory, memory-cpu)*4 + cpu + memory
	}
	return cpu + memory
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
		at := k.put(a, x, firstFit)
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

// recipe is a way to pack: in which order, by which fit.
type recipe struct {
	order int
	fit   fit
}

// Orders of parcels: by CPU, by memory.
const (
	byCPU = iota
	byMemory
	orders
)

var (
	parcelOrders = [orders]func(a, b *parcel) int{compareParcels, compareByMemory}
	recipes      = []recipe{{byCPU, evenFit}, {byCPU, bestFit}, {byMemory, evenFit}, {byCPU, firstFit}}
)

// repack gives the pods of all sites that are gone new places, by the first recipe that finds one for each; false if none does, and then
// the pods are where they were.
func (k *packing) repack() bool {
	var room, need resource.Vector
	for _, x := range k.sites {
		if !x.gone {
			room.MilliCPU, room.Memory = room.MilliCPU+max(0, x.room.MilliCPU), room.Memory+max(0, x.room.Memory)
		}
	}
	k.moving = k.moving[:0]
	for _, a := range k.parcels[byCPU] {
		if a.home.gone {
			need.MilliCPU, need.Memory = need.MilliCPU+a.pod.Class.Requests.MilliCPU, need.Memory+a.pod.Class.Requests.Memory
			k.moving = append(k.moving, a)
		}
	}
	k.steps -= len(k.sites) + len(k.parcels[byCPU])
	if need.MilliCPU > room.MilliCPU || need.Memory > room.Memory {
		return false
	}
	k.before = k.before[:0]
	for _, a := range k.parcels[byCPU] {
		k.before = append(k.before, a.at)
	}
	for _, r := range recipes {
		if k.packAll(r) {
			return true
		}
	}
	for i, a := range k.parcels[byCPU] {
		a.at = k.before[i]
	}
	return false
}

// packAll places the pods of the sites that are gone by one recipe.
func (k *packing) packAll(r recipe) bool {
	for _, x := range k.sites {
		x.used = resource.Vector{}
	}
	for _, a := range k.parcels[r.order] {
		if !a.home.gone {
			a.at = a.home
			continue
		}
		if a.at = k.put(a, nil, r.fit); a.at == nil {
			return false
		}
	}
	return true
}

// take adds to what is used of the room.
func (x *site) take(need *resource.Vector) {
	if len(need.Extended) > 0 || len(x.used.Extended) > 0 {
		x.used = x.used.Add(*need)
		return
	}
	x.used.MilliCPU, x.used.Memory = x.used.MilliCPU+need.MilliCPU, x.used.Memory+need.Memory
	x.used.EphemeralStorage, x.used.Pods = x.used.EphemeralStorage+need.EphemeralStorage, x.used.Pods+need.Pods
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
