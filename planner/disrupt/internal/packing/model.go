package packing

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/requirement"
	"millwright/planner/resource"
	"millwright/planner/world"
)

// Model of a cluster in which sets of nodes can be taken away fast. It knows rooms, sizes, taints and node
// selectors, and nothing of topology, volumes and ports: what it finds has to be tried by the provisioning
// planner.
type Model struct {
	// sites in the order in which pods are put there: those that are no candidates first, then the candidates
	// that are kept most gladly, so that nodes that can be emptied stay so.
	sites []*Site
	// parcels of all candidates, in each order of the recipes.
	parcels [orders][]*Parcel
	// moving are the parcels of the sites that are gone, in each order; before is a buffer.
	moving [orders][]*Parcel
	before []*Site
	// ranking is a buffer.
	ranking ranking
	// fits says, by class and site, whether taints and labels allow it, as far as that was asked.
	fits map[*world.PodClass][]verdict
	// steps are left; a part of the search ends when they fall to its floor. billMax bounds the bill while
	// evictions are saved.
	steps, floor int
	billMax      int64
}

// Site is a node in the model.
type Site struct {
	Node *planner.StateNode
	// Room is what its own pods, and pods that are on their way to it, leave free.
	Room resource.Vector
	// Price in micro USD per hour includes what a node costs by itself; Cost is what its evictions cost, in
	// grains, and at least 1.
	Price, Cost int64
	// Candidate may be taken away.
	Candidate bool

	// pods that move if a candidate goes, those of candidates largest first.
	pods []*Parcel
	gone bool
	// index among the sites.
	index int
	// used is what the parcels put here take of the room.
	used resource.Vector
	// need is what its own parcels request.
	need size
}

// Parcel is a pod that may move.
type Parcel struct {
	pod  *world.Pod
	home *Site
	at   *Site
	// rank among the parcels, in each order.
	rank [orders]int32
	// fits of its class.
	fits []verdict
}

// Sites are all nodes.
func (k *Model) Sites() []*Site { return k.sites }

// New returns a model without nodes that may spend so many looks of a pod at a site on its search.
func New(steps int) *Model { return &Model{fits: map[*world.PodClass][]verdict{}, steps: steps} }

// Add adds a node, with the pods that move if it goes. Solve comes after the last one.
func (k *Model) Add(x *Site, pods []*world.Pod) {
	for _, pod := range pods {
		x.pods = append(x.pods, &Parcel{pod: pod, home: x, at: x})
	}
	k.sites = append(k.sites, x)
}

// Exhausted reports that the search ended because its steps were spent.
func (k *Model) Exhausted() bool { return k.steps <= 0 }

// verdict on a class of pods on a site.
type verdict uint8

const (
	unknown verdict = iota
	allowed
	refused
)

// order of candidates: the one that saves most per eviction first, then by name.
func (a *Site) before(b *Site) int {
	ah, al := bits.Mul64(uint64(a.Price), uint64(b.Cost))
	bh, bl := bits.Mul64(uint64(b.Price), uint64(a.Cost))
	return cmp.Or(cmp.Compare(bh, ah), cmp.Compare(bl, al), cmp.Compare(a.Node.Name, b.Node.Name))
}

func compareParcels(a, b *Parcel) int {
	ra, rb := &a.pod.Class.Requests, &b.pod.Class.Requests
	return cmp.Or(cmp.Compare(rb.MilliCPU, ra.MilliCPU), cmp.Compare(rb.Memory, ra.Memory), cmp.Compare(a.pod.UID, b.pod.UID))
}

// arrange orders sites and parcels, once.
func (k *Model) arrange() {
	slices.SortFunc(k.sites, func(a, b *Site) int {
		if a.Candidate != b.Candidate {
			if a.Candidate {
				return 1
			}
			return -1
		}
		return b.before(a)
	})
	for i, x := range k.sites {
		x.index = i
		for _, a := range x.pods {
			if k.fits[a.pod.Class] == nil {
				k.fits[a.pod.Class] = make([]verdict, len(k.sites))
			}
			a.fits = k.fits[a.pod.Class]
		}
	}
	k.sortParcels()
}

// size is what parcels are sorted by before their UIDs.
type size struct{ cpu, memory int64 }

// sizes numbers the different sizes of parcels.
type sizes struct {
	byClass map[*world.PodClass]int
	bySize  map[size]int
	list    []size
}

func (z *sizes) of(c *world.PodClass) int {
	n, known := z.byClass[c]
	if known {
		return n
	}
	x := size{c.Requests.MilliCPU, c.Requests.Memory}
	if n, known = z.bySize[x]; !known {
		n = len(z.list)
		z.bySize[x], z.list = n, append(z.list, x)
	}
	z.byClass[c] = n
	return n
}

// sortParcels sorts the parcels of all candidates in each order, and those of each candidate in the first.
// There are many parcels of few sizes, so they are sorted by UID once, and then dealt out by size.
func (k *Model) sortParcels() {
	type named struct {
		prefix uint64
		size   int
		*Parcel
	}
	var list []named
	var count []int
	z := sizes{map[*world.PodClass]int{}, map[size]int{}, nil}
	for _, x := range k.sites {
		if !x.Candidate {
			continue
		}
		for _, a := range x.pods {
			n := z.of(a.pod.Class)
			if n == len(count) {
				count = append(count, 0)
			}
			list = append(list, named{prefix(a.pod.UID), n, a})
			count[n]++
			x.need.cpu, x.need.memory = x.need.cpu+z.list[n].cpu, x.need.memory+z.list[n].memory
		}
		x.pods = x.pods[:0]
	}
	slices.SortFunc(list, func(a, b named) int {
		if a.prefix != b.prefix {
			return cmp.Compare(a.prefix, b.prefix)
		}
		return cmp.Compare(a.pod.UID, b.pod.UID)
	})
	for o, compare := range sizeOrders {
		next, at := make([]int32, len(count)), int32(0)
		for _, x := range slices.SortedFunc(slices.Values(z.list), compare) {
			n := z.bySize[x]
			next[n], at = at, at+int32(count[n])
		}
		k.parcels[o] = make([]*Parcel, len(list))
		for _, a := range list {
			k.parcels[o][next[a.size]] = a.Parcel
			a.rank[o] = next[a.size]
			next[a.size]++
		}
	}
	for _, a := range k.parcels[byCPU] {
		a.home.pods = append(a.home.pods, a)
	}
}

// prefix is the first eight bytes of a UID, which decide nearly always, as a number that compares alike.
func prefix(uid types.UID) uint64 {
	var b [8]byte
	copy(b[:], uid)
	return binary.BigEndian.Uint64(b[:])
}

// takes reports that the node allows the parcel, by taints and labels.
func takes(x *Site, a *Parcel) bool {
	v := &a.fits[x.index]
	if *v == unknown {
		if *v = refused; allows(x.Node, a.pod.Class.Spec) {
			*v = allowed
		}
	}
	return *v == allowed
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
	// firstFit: the first one; bestFit: the one that is left with the least room, CPU and memory weighed
	// alike; evenFit: the one whose room is used up most evenly.
	firstFit fit = iota
	bestFit
	evenFit
)

// firstSiteFor finds the first site with room for the parcel, not counting one; nil if there is none.
func (k *Model) firstSiteFor(a *Parcel, except *Site) *Site {
	need := &a.pod.Class.Requests
	for _, x := range k.sites {
		k.steps--
		if x != except && !x.gone && x.hasRoomFor(need) && takes(x, a) {
			x.takeRoom(need)
			return x
		}
	}
	return nil
}

// hasRoomFor reports that there is room.
func (x *Site) hasRoomFor(need *resource.Vector) bool {
	if x.used.MilliCPU+need.MilliCPU > x.Room.MilliCPU || x.used.Memory+need.Memory > x.Room.Memory || x.used.Pods+need.Pods > x.Room.Pods {
		return false
	}
	return need.EphemeralStorage == 0 && len(need.Extended) == 0 || x.used.Add(*need).Fits(x.Room)
}

// left weighs what would be left of the room with the parcel in, in thousandths of what the node has.
func (x *Site) left(need *resource.Vector, by fit) int64 {
	cpu := (x.Room.MilliCPU - x.used.MilliCPU - need.MilliCPU) * 1000 / max(1, x.Node.Allocatable.MilliCPU)
	memory := ((x.Room.Memory - x.used.Memory - need.Memory) >> 20) * 1000 / max(1, x.Node.Allocatable.Memory>>20)
	if by == evenFit {
		return max(cpu-memory, memory-cpu)*4 + cpu + memory
	}
	return cpu + memory
}

// remove takes a candidate away if its pods, and those that were put there, find places; else all is as
// before.
func (k *Model) remove(x *Site) bool {
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
		at := k.firstSiteFor(a, x)
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
	// sizeOrders are descending.
	sizeOrders = [orders]func(a, b size) int{
		func(a, b size) int { return cmp.Or(cmp.Compare(b.cpu, a.cpu), cmp.Compare(b.memory, a.memory)) },
		func(a, b size) int { return cmp.Or(cmp.Compare(b.memory, a.memory), cmp.Compare(b.cpu, a.cpu)) },
	}
	recipes = []recipe{{byCPU, evenFit}, {byCPU, bestFit}, {byMemory, evenFit}, {byCPU, firstFit}}
)

// repack gives the pods of all sites that are gone new places, by the first recipe that finds one for each;
// false if none does, and then the pods are where they were. The other pods are at home, but for those of the
// sites that have just come back, which go home.
func (k *Model) repack(flipped []*Site) bool {
	k.gather()
	k.before = k.before[:0]
	for _, a := range k.moving[byCPU] {
		k.before = append(k.before, a.at)
	}
	home := k.sendHome(flipped)
	for _, r := range recipes {
		if k.packAll(r) {
			return true
		}
	}
	for i, a := range k.moving[byCPU] {
		a.at = k.before[i]
	}
	for i, a := range home {
		a.at = k.before[len(k.moving[byCPU])+i]
	}
	return false
}

// sendHome has the pods of sites that have come back go home, and notes behind those of before where they
// were.
func (k *Model) sendHome(flipped []*Site) (home []*Parcel) {
	for _, x := range flipped {
		if x.gone {
			continue
		}
		for _, a := range x.pods {
			k.before = append(k.before, a.at)
			a.at, home = x, append(home, a)
		}
	}
	return home
}

// gather collects the parcels of the sites that are gone, in each order.
func (k *Model) gather() {
	for o := range k.moving {
		k.moving[o] = k.moving[o][:0]
	}
	n := 0
	for _, x := range k.sites {
		if x.gone {
			n += len(x.pods)
		}
	}
	for o := range k.moving {
		if n > len(k.parcels[o])/16 {
			for _, a := range k.parcels[o] {
				if a.home.gone {
					k.moving[o] = append(k.moving[o], a)
				}
			}
			continue
		}
		for _, x := range k.sites {
			if x.gone {
				k.moving[o] = append(k.moving[o], x.pods...)
			}
		}
		slices.SortFunc(k.moving[o], func(a, b *Parcel) int { return cmp.Compare(a.rank[o], b.rank[o]) })
	}
}

// packAll places the pods of the sites that are gone by one recipe.
func (k *Model) packAll(r recipe) bool {
	all := k.rank(k.sites, r.fit)
	for _, a := range k.moving[r.order] {
		if a.at = k.put(all, a); a.at == nil {
			return false
		}
	}
	return true
}

// takeRoom adds to what is used of the room.
func (x *Site) takeRoom(need *resource.Vector) {
	if len(need.Extended) > 0 || len(x.used.Extended) > 0 {
		x.used = x.used.Add(*need)
		return
	}
	x.used.MilliCPU, x.used.Memory = x.used.MilliCPU+need.MilliCPU, x.used.Memory+need.Memory
	x.used.EphemeralStorage, x.used.Pods = x.used.EphemeralStorage+need.EphemeralStorage, x.used.Pods+need.Pods
}

// clear has nothing put on the site. It writes no pointer that is nil already: that would cost more than the
// rest.
func (x *Site) clear() {
	if x.used.Extended != nil {
		x.used.Extended = nil
	}
	x.used.MilliCPU, x.used.Memory, x.used.EphemeralStorage, x.used.Pods = 0, 0, 0, 0
}

// Candidates that stay, or are gone, in the order in which they would go.
func (k *Model) Candidates(gone bool) []*Site {
	var list []*Site
	for _, x := range k.sites {
		if x.Candidate && x.gone == gone {
			list = append(list, x)
		}
	}
	slices.SortFunc(list, (*Site).before)
	return list
}

// Places are where the pods of the sites that are gone were put.
func (k *Model) Places() map[types.UID]string {
	m := map[types.UID]string{}
	for _, x := range k.sites {
		if x.gone {
			for _, a := range x.pods {
				m[a.pod.UID] = a.at.Node.Name
			}
		}
	}
	return m
}

// Evictions counts the pods that would move.
func (x *Site) Evictions() (n int) {
	for _, a := range x.pods {
		if !planner.IsVirtual(a.pod.Class) {
			n++
		}
	}
	return n
}

// Requests of the pods that would move.
func (x *Site) Requests() (sum resource.Vector) {
	for _, a := range x.pods {
		sum = sum.Add(a.pod.Class.Requests)
	}
	return sum
}
