package demand

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/ledger"
	"millwright/planner/options"
	"millwright/planner/provision/internal/volume"
	"millwright/planner/requirement"
	"millwright/planner/resource"
	"millwright/planner/topology"
	"millwright/planner/world"
)

// interner makes equal requirement sets the same alternative.
type interner struct {
	byKey map[string]*Alternative
	list  []*Alternative
}

func (in *interner) Alternative(s requirement.Set) *Alternative {
	key := s.Key()
	if a, ok := in.byKey[key]; ok {
		return a
	}
	a := &Alternative{Set: s, Id: len(in.list)}
	if in.byKey == nil {
		in.byKey = map[string]*Alternative{}
	}
	in.byKey[key] = a
	in.list = append(in.list, a)
	return a
}

// Compiler turns pods into classes.
type Compiler struct {
	interner
	options *options.Options
	volumes volume.Holders
	respect bool // preferences count
	// preferNoSchedule: some template or node has such a taint.
	preferNoSchedule bool
	Classes          map[ClassKey]*Class
	requests         map[string]int // numbers what classes request
	Topologies       *topologies
}

// ClassKey: pods that share it are equal to the planner.
type ClassKey struct {
	class     *world.PodClass
	namespace string
	volumes   string
}

func (c *Compiler) Class(p *world.Pod) *Class {
	key := ClassKey{p.Class, p.Namespace, ""}
	if len(p.Class.Spec.Volumes) == 0 {
		if k, ok := c.Classes[key]; ok {
			return k
		}
		return c.compile(key, nil, nil)
	}
	v, err := volume.Of(c.volumes, p, c.options)
	if err == nil && c.options.Revision >= options.Revision8 {
		err = volume.Held(c.volumes, p)
	}
	switch {
	case err != nil:
		key.volumes = "!" + err.Error()
	case v != nil:
		key.volumes = v.Key()
	}
	if k, ok := c.Classes[key]; ok {
		return k
	}
	return c.compile(key, v, err)
}

func (c *Compiler) compile(key ClassKey, volumes *volume.Volumes, volumeErr error) *Class {
	pc := key.class
	k := &Class{Index: len(c.Classes), Pod: pc, namespace: key.namespace, Requests: pc.Requests, Ports: HostPortsOf(pc.Spec, c.options), Volumes: volumes, Ours: true}
	c.Classes[key] = k
	k.Request = c.requestOf(&k.Requests)
	if err := ValidatePod(pc.Spec); err != nil {
		k.Ours = err != requirement.ErrNotOurs
		k.Invalid = []ledger.Refusal{{Constraint: constraintPod, Message: err.Error()}}
	} else if volumeErr != nil {
		k.Invalid = []ledger.Refusal{{Constraint: ConstraintVolumes, Message: volumeErr.Error()}}
	}
	k.Strict = PodTerms(pc.Spec)
	c.Topologies.compile(k, c.respect)
	c.addLevels(k)
	return k
}

// requestOf numbers requests: equal ones have the same number.
func (c *Compiler) requestOf(v *resource.Vector) int {
	id := fmt.Sprint(*v)
	n, known := c.requests[id]
	if !known {
		if c.requests == nil {
			c.requests = map[string]int{}
		}
		n = len(c.requests)
		c.requests[id] = n
	}
	return n
}

// addLevels builds the steps of relaxation (scheduling §7.7): preferred pod affinity, anti-affinity and node
// affinity terms go one by one, the heaviest first, then ScheduleAnyway spreads, then PreferNoSchedule
// taints.
func (c *Compiler) addLevels(k *Class) {
	t := &k.Topology
	var preferred []corev1.PreferredSchedulingTerm
	if c.respect {
		preferred = requirement.PreferredTerms(k.Pod.Spec)
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

func (c *Compiler) addLevel(k *Class, preference *corev1.NodeSelectorTerm, soft []*topology.Constraint, strictTaints bool) {
	lv := &Level{Class: k, Soft: soft, Constraints: slices.Concat(k.Topology.Hard, soft), StrictTaints: strictTaints}
	lv.splitByKey()
	for _, set := range required(k, preference) {
		if a := c.Alternative(set); !slices.Contains(lv.Alternatives, a) {
			lv.Alternatives = append(lv.Alternatives, a)
		}
	}
	k.Levels = append(k.Levels, lv)
}

// required lists the sets any of which suffices: nodeSelector and one required term, the preference, and one
// volume alternative.
func required(k *Class, preference *corev1.NodeSelectorTerm) []requirement.Set {
	sets := k.Strict
	if preference != nil {
		sets = slices.Clone(sets)
		for i := range sets {
			sets[i] = sets[i].Intersection(requirement.FromNodeSelector(nil, *preference))
		}
	}
	if k.Volumes == nil || len(k.Volumes.Alternatives) == 0 {
		return sets
	}
	var product []requirement.Set
	for _, s := range sets {
		for _, v := range k.Volumes.Alternatives {
			product = append(product, s.Intersection(v))
		}
	}
	return product
}

var errResourceClaims = errors.New("pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter")

// ValidatePod says why a pod is not planned for: it refuses our nodes (requirement.ErrNotOurs), or requires
// something forbidden (scheduling §2.2), or needs something that is not supported yet.
func ValidatePod(spec *corev1.PodSpec) error {
	if err := requirement.ValidatePod(spec); err != nil {
		return err
	}
	if len(spec.ResourceClaims) > 0 {
		return errResourceClaims
	}
	return nil
}

// PodTerms are the sets any of which satisfies a pod: nodeSelector and one term of its required affinity.
func PodTerms(spec *corev1.PodSpec) []requirement.Set {
	base := requirement.FromNodeSelector(spec.NodeSelector)
	terms := requirement.RequiredTerms(spec)
	if len(terms) == 0 {
		return []requirement.Set{base}
	}
	var sets []requirement.Set
	for _, t := range terms {
		if len(t.MatchExpressions) > 0 {
			sets = append(sets, base.Intersection(requirement.FromNodeSelector(nil, t)))
		}
	}
	return sets
}

// NewCompiler of pods. respect: preferences count; preferNoSchedule: some NodePool or node has a taint of
// that effect.
func NewCompiler(o *options.Options, volumes volume.Holders, namespaces []topology.Namespace, respect, preferNoSchedule bool) *Compiler {
	return &Compiler{
		options: o, volumes: volumes, respect: respect, preferNoSchedule: preferNoSchedule, Classes: map[ClassKey]*Class{}, Topologies: newTopologies(namespaces, o),
	}
}
