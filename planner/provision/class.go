package provision

import (
	"fmt"
	"math/bits"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/planner/requirement"
	"millwright/planner/resource"
	"millwright/planner/topology"
	"millwright/planner/world"
)

// class is a set of pods that are equal to the solver: one PodClass, and equal volumes.
type class struct {
	pod       *world.PodClass
	namespace string
	// strict: nodeSelector and one required term; any one set suffices. No preferences, no volumes.
	strict   []requirement.Set
	topology classTopology
	// apart: the pods must keep others off their node, by anti-affinity or spread.
	apart    bool
	requests resource.Vector
	// full are the bins that hold no further pod with these requests, shared by all classes that request the same.
	full    *growingBits
	ports   []hostPort
	volumes *podVolumes
	// levels from all preferences kept to none. Empty if the pods are invalid.
	levels []*level
	// invalid is why the pods are not planned for at all.
	invalid []ledger.Refusal
	// ours is false if the pods asked not to run on our nodes.
	ours bool
	// excluded nodes, by name, are not offered to the class.
	excluded map[string]bool
	// refused says why there was no place at the end.
	refused []ledger.Refusal
}

// level is one step of relaxation (scheduling §7.7).
type level struct {
	class *class
	// alternatives: any one suffices (ORed terms, times volume alternatives).
	alternatives []*alternative
	// strictTaints: PreferNoSchedule taints count.
	strictTaints bool
	// constraints on the topology, and the same by what they look at; soft are those that lower levels do without.
	constraints []*topology.Constraint
	soft        []*topology.Constraint
	byPlace     []*topology.Constraint
	byKey       []keyed
	// alone are the groups of which a place must count no pod.
	alone []*topology.Group
	// cursor: every bin before it refused the level for good; dead: these after it did too.
	cursor int
	dead   growingBits
	// refusedAt is the stamp of the last attempt that failed.
	refusedAt int
	// deferredAt is the stamp of the last attempt that has to wait for reserved capacity.
	deferredAt int
	// closed holds the templates, by index, that refused the level for good.
	closed catalog.Bits
}

// alternative is a conjunction of requirements, shared by all classes that demand the same.
type alternative struct {
	set requirement.Set
	id  int
}

// interner makes equal requirement sets the same alternative.
type interner struct {
	byKey map[string]*alternative
	list  []*alternative
}

func (in *interner) alternative(s requirement.Set) *alternative {
	key := s.Key()
	if a, ok := in.byKey[key]; ok {
		return a
	}
	a := &alternative{set: s, id: len(in.list)}
	if in.byKey == nil {
		in.byKey = map[string]*alternative{}
	}
	in.byKey[key] = a
	in.list = append(in.list, a)
	return a
}

// compiler turns pods into classes.
type compiler struct {
	interner
	volumes volumeSource
	respect bool // preferences count
	// preferNoSchedule: some template or node has such a taint.
	preferNoSchedule bool
	templates        int
	classes          map[classKey]*class
	full             map[string]*growingBits // by requests
	topologies       *topologies
}

// classKey: pods that share it are equal to the solver.
type classKey struct {
	class     *world.PodClass
	namespace string
	volumes   string
}

func (c *compiler) class(p *world.Pod) *class {
	key := classKey{p.Class, p.Namespace, ""}
	if len(p.Class.Spec.Volumes) == 0 {
		if k, ok := c.classes[key]; ok {
			return k
		}
		return c.compile(key, nil, nil)
	}
	v, err := volumesOf(c.volumes, p)
	switch {
	case err != nil:
		key.volumes = "!" + err.Error()
	case v != nil:
		key.volumes = v.key()
	}
	if k, ok := c.classes[key]; ok {
		return k
	}
	return c.compile(key, v, err)
}

func (c *compiler) compile(key classKey, volumes *podVolumes, volumeErr error) *class {
	pc := key.class
	k := &class{pod: pc, namespace: key.namespace, requests: pc.Requests, ports: hostPortsOf(pc.Spec), volumes: volumes, ours: true}
	c.classes[key] = k
	k.full = c.fullOf(&k.requests)
	if err := ValidatePod(pc.Spec); err != nil {
		k.ours = err != requirement.ErrNotOurs
		k.invalid = []ledger.Refusal{{Constraint: constraintPod, Message: err.Error()}}
	} else if volumeErr != nil {
		k.invalid = []ledger.Refusal{{Constraint: constraintVolumes, Message: volumeErr.Error()}}
	}
	k.strict = podTerms(pc.Spec)
	c.topologies.compile(k, c.respect)
	c.addLevels(k)
	return k
}

// fullOf returns the set that classes with these requests share.
func (c *compiler) fullOf(v *resource.Vector) *growingBits {
	id := fmt.Sprint(*v)
	if c.full[id] == nil {
		if c.full == nil {
			c.full = map[string]*growingBits{}
		}
		c.full[id] = &growingBits{}
	}
	return c.full[id]
}

// addLevels builds the steps of relaxation (scheduling §7.7): preferred pod affinity, anti-affinity and node
// affinity terms go one by one, the heaviest first, then ScheduleAnyway spreads, then PreferNoSchedule taints.
func (c *compiler) addLevels(k *class) {
	t := &k.topology
	var preferred []corev1.PreferredSchedulingTerm
	if c.respect {
		preferred = requirement.PreferredTerms(k.pod.Spec)
	}
	affinity, anti, spread := t.softAffinity, t.softAnti, t.softSpread
	add := func(strictTaints bool) {
		var preference *corev1.NodeSelectorTerm
		if len(preferred) > 0 {
			preference = &preferred[0].Preference
		}
		c.addLevel(k, preference, slices.Concat(affinity, anti, spread), strictTaints)
	}
	add(true)
	for range t.softAffinity {
		affinity = affinity[1:]
		add(true)
	}
	for range t.softAnti {
		anti = anti[1:]
		add(true)
	}
	for len(preferred) > 0 {
		preferred = preferred[1:]
		add(true)
	}
	for range t.softSpread {
		spread = spread[1:]
		add(true)
	}
	if c.preferNoSchedule {
		add(false)
	}
}

func (c *compiler) addLevel(k *class, preference *corev1.NodeSelectorTerm, soft []*topology.Constraint, strictTaints bool) {
	lv := &level{class: k, soft: soft, constraints: slices.Concat(k.topology.hard, soft), strictTaints: strictTaints, closed: catalog.NewBits(c.templates), refusedAt: -1, deferredAt: -1}
	lv.splitByKey()
	for _, set := range required(k, preference) {
		if a := c.alternative(set); !slices.Contains(lv.alternatives, a) {
			lv.alternatives = append(lv.alternatives, a)
		}
	}
	k.levels = append(k.levels, lv)
}

// required lists the sets any of which suffices: nodeSelector and one required term, the preference, and
// one volume alternative.
func required(k *class, preference *corev1.NodeSelectorTerm) []requirement.Set {
	sets := k.strict
	if preference != nil {
		sets = slices.Clone(sets)
		for i := range sets {
			sets[i] = sets[i].Intersection(requirement.FromNodeSelector(nil, *preference))
		}
	}
	if k.volumes == nil || len(k.volumes.alternatives) == 0 {
		return sets
	}
	var product []requirement.Set
	for _, s := range sets {
		for _, v := range k.volumes.alternatives {
			product = append(product, s.Intersection(v))
		}
	}
	return product
}

// growingBits is a set of numbers.
type growingBits []uint64

func (g growingBits) has(i int) bool { return i/64 < len(g) && g[i/64]&(1<<(i%64)) != 0 }

// remove takes i out.
func (g *growingBits) remove(i int) {
	if i/64 < len(*g) {
		(*g)[i/64] &^= 1 << (i % 64)
	}
}

// word w holds the numbers from 64w on.
func (g growingBits) word(w int) uint64 {
	if w < len(g) {
		return g[w]
	}
	return 0
}

func (g *growingBits) add(i int) {
	for i/64 >= len(*g) {
		*g = append(*g, 0)
	}
	(*g)[i/64] |= 1 << (i % 64)
}

// busy is a word of the bins that refused the level for good, as far as is known without asking.
func (lv *level) busy(w int) uint64 {
	set := lv.dead.word(w) | lv.class.full.word(w)
	for _, g := range lv.alone {
		set |= g.Taken(w)
	}
	return set
}

// next is the first bin from i on that is worth asking; it may be past the end.
func (lv *level) next(i, end int) int {
	for w := i / 64; w*64 < end; w++ {
		open := ^lv.busy(w)
		if w == i/64 {
			open &= ^uint64(0) << (i % 64)
		}
		if open != 0 {
			return w*64 + bits.TrailingZeros64(open)
		}
	}
	return end
}

// ValidatePod says why a pod is not planned for: it refuses our nodes (requirement.ErrNotOurs), or demands
// what it may not (scheduling §2.2), or needs what is not supported yet.
func ValidatePod(spec *corev1.PodSpec) error {
	if err := requirement.ValidatePod(spec); err != nil {
		return err
	}
	if len(spec.ResourceClaims) > 0 {
		return errResourceClaims
	}
	return nil
}

// truncate removes all from n on.
func (g *growingBits) truncate(n int) {
	if n/64 >= len(*g) {
		return
	}
	(*g)[n/64] &= 1<<(n%64) - 1
	*g = (*g)[:n/64+1]
}
