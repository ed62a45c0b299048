package provision

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/catalog"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/planner/requirement"
	"millwright/planner/resource"
)

// template is a NodePool that may open claims.
type template struct {
	index   int
	pool    *karpv1.NodePool
	name    string
	catalog *catalog.Catalog
	// base is what every claim of the pool says: spec requirements, labels, NodePool, NodeClass.
	base requirement.Set
	// offered is what is available now.
	offered *offered
	root    *state
	groups  []daemonGroup
	limits  limits
	minima  []minimum
	// priceOverlaid and capacityOverlaid as in poolInput.
	priceOverlaid, capacityOverlaid map[string]bool
	// prefers: it has a PreferNoSchedule taint.
	prefers bool
	// netOf is what each type has for pods; demand is what the pods of the pool's new claims request.
	netOf []resource.Vector
	// extended are the resources, sorted, beside CPU, memory, storage and pods that pods of the round request.
	extended []corev1.ResourceName
	demand   resource.Vector
	// nodeCost is what a node costs by itself, in micro USD per hour; sizes remembers bySize.
	nodeCost int64
	sizes    []int32
	// hash holds the annotations of the pool's hash once they were asked for; made says of each hash that was asked about whether it
	// is the pool's.
	hash map[string]string
	made map[poolHash]bool
}

// poolHash is a hash with its version, as a claim bears it.
type poolHash struct{ hash, version string }

// hashAnnotations of the template that claims are made of now: the pool's own annotation may still be of an earlier one.
func (t *template) hashAnnotations() map[string]string {
	if t.hash == nil {
		t.hash = claim.PoolAnnotations(t.pool)
	}
	return t.hash
}

// hasMade reports whether a claim with these annotations was made of the pool's present template.
func (t *template) hasMade(annotations map[string]string) bool {
	h := poolHash{annotations[karpv1.NodePoolHashAnnotationKey], annotations[karpv1.NodePoolHashVersionAnnotationKey]}
	same, asked := t.made[h]
	if !asked {
		same, _ = claim.SamePoolHash(t.pool, h.hash, h.version)
		if t.made == nil {
			t.made = map[poolHash]bool{}
		}
		t.made[h] = same
	}
	return same
}

// daemonGroup is a set of instance types on which the same DaemonSets run.
type daemonGroup struct {
	types    catalog.Bits
	overhead resource.Vector
	ports    []hostPort
}

// minimum demands a number of distinct values among the instance types.
type minimum struct {
	key string
	n   int
}

// Passing reports a problem that a new NodePool has until its NodeClass is resolved.
func (p *PoolProblem) Passing() bool {
	return p.Reason == problemNotReady || p.Reason == problemNotSeen
}

// PoolProblem says why a NodePool opens no claims.
type PoolProblem struct {
	NodePool string `json:"nodePool"`
	// Reason is one of the problem constants.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Reasons of a PoolProblem.
const (
	problemNotReady    = "NotReady"
	problemDeleting    = "Deleting"
	problemStatic      = "Static"
	problemUnsupported = "UnsupportedNodeClass"
	problemInvalid     = "InvalidRequirements"
	problemNoTypes     = "NoCompatibleInstanceTypes"
	problemNotSeen     = "InstanceTypesNotSeen"
)

// newTemplates returns the pools that may open claims, in the order they are tried: weight descending,
// name descending (scheduling §7.1). The others come back as problems, by name.
func newTemplates(in *input) ([]*template, []PoolProblem) {
	pools := slices.Clone(in.pools)
	slices.SortFunc(pools, func(a, b poolInput) int {
		return cmp.Or(cmp.Compare(weight(b.pool), weight(a.pool)), cmp.Compare(b.pool.Name, a.pool.Name))
	})
	var templates []*template
	var problems []PoolProblem
	for i := range pools {
		t, problem := newTemplate(in, &pools[i])
		if problem != nil {
			problems = append(problems, *problem)
			continue
		}
		t.index = len(templates)
		templates = append(templates, t)
	}
	slices.SortFunc(problems, func(a, b PoolProblem) int { return strings.Compare(a.NodePool, b.NodePool) })
	return templates, problems
}

func weight(p *karpv1.NodePool) int32 {
	if p.Spec.Weight == nil {
		return 0
	}
	return *p.Spec.Weight
}

func newTemplate(in *input, p *poolInput) (*template, *PoolProblem) {
	if problem := ineligible(p.pool); problem != nil {
		return nil, problem
	}
	base, err := templateRequirements(p.pool)
	if err != nil {
		return nil, &PoolProblem{p.pool.Name, problemInvalid, err.Error()}
	}
	t := &template{
		pool: p.pool, name: p.pool.Name, catalog: p.catalog, base: base,
		prefers: hasPreferNoSchedule(p.pool.Spec.Template.Spec.Taints), priceOverlaid: p.priceOverlaid, capacityOverlaid: p.capacityOverlaid,
		nodeCost: in.options.NodeCost,
	}
	if t.catalog == nil {
		return nil, &PoolProblem{p.pool.Name, problemNotSeen, fmt.Sprintf("the instance types of EC2NodeClass %q are not known yet", p.pool.Spec.Template.Spec.NodeClassRef.Name)}
	}
	t.offer(in.unavailable, in.closedZones(p.pool.Spec.Template.Spec.NodeClassRef.Name))
	for _, r := range base.Requirements() {
		if r.MinValues() > 0 {
			t.minima = append(t.minima, minimum{r.Key(), r.MinValues()})
		}
	}
	t.root = t.state(base)
	if problem := t.filteredOut(in.options.MinValuesPolicy != MinValuesBestEffort); problem != "" {
		return nil, &PoolProblem{p.pool.Name, problemNoTypes, problem}
	}
	t.groups = daemonGroups(in.daemons, t)
	t.limits = newLimits(p)
	return t, nil
}

// ineligible says why a pool is not for pods at all; nil if it is.
func ineligible(p *karpv1.NodePool) *PoolProblem {
	switch {
	case p.DeletionTimestamp != nil:
		return &PoolProblem{p.Name, problemDeleting, "nodepool is being deleted"}
	case p.Spec.Replicas != nil:
		return &PoolProblem{p.Name, problemStatic, "nodepool is static"}
	}
	return unready(p)
}

// unready says why a pool can have no claims now; nil if it can.
func unready(p *karpv1.NodePool) *PoolProblem {
	ref := p.Spec.Template.Spec.NodeClassRef
	switch {
	case ref == nil || ref.Group != awsv1.Group || ref.Kind != "EC2NodeClass":
		return &PoolProblem{p.Name, problemUnsupported, "nodepool refers to a NodeClass that is not supported"}
	}
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type != karpv1.ConditionTypeReady {
			continue
		}
		if c.Status == "True" {
			return nil
		}
		return &PoolProblem{p.Name, problemNotReady, strings.TrimSuffix("nodepool is not ready: "+cmp.Or(c.Message, c.Reason), ": ")}
	}
	return &PoolProblem{p.Name, problemNotReady, "nodepool is not ready: no Ready condition"}
}

// templateRequirements is what every claim of a pool demands.
func templateRequirements(p *karpv1.NodePool) (requirement.Set, error) {
	spec := &p.Spec.Template.Spec
	s, err := requirement.FromClaim(spec.Requirements)
	if err != nil {
		return s, fmt.Errorf("nodepool requirements are invalid: %w", err)
	}
	s = s.Intersection(requirement.FromLabels(p.Spec.Template.Labels))
	return s.Add(
		requirement.In(karpv1.NodePoolLabelKey, p.Name),
		requirement.In(awsv1.LabelEC2NodeClass, spec.NodeClassRef.Name),
	), nil
}

// taints that pods must tolerate.
func (t *template) taints() []corev1.Taint { return t.pool.Spec.Template.Spec.Taints }

// offer takes the unavailable offerings out of the catalogue's shapes, and all of zones without a subnet that has free addresses.
func (t *template) offer(unavailable []ledger.OfferingKey, closedZones []string) {
	shapes := make([]catalog.Bits, len(t.catalog.Shapes))
	owned := make([]bool, len(shapes))
	for i := range shapes {
		shapes[i] = t.catalog.Shapes[i].Offered
		if slices.Contains(closedZones, t.catalog.Shapes[i].Zone) {
			shapes[i], owned[i] = catalog.NewBits(len(t.catalog.Types)), true
		}
	}
	for _, u := range unavailable {
		it := t.catalog.Type(u.InstanceType)
		if it == nil {
			continue
		}
		for i := range shapes {
			s := &t.catalog.Shapes[i]
			if s.Zone != u.Zone || s.CapacityType != u.CapacityType || !shapes[i].Has(it.Index) {
				continue
			}
			if !owned[i] {
				shapes[i], owned[i] = shapes[i].Clone(), true
			}
			shapes[i].Remove(it.Index)
		}
	}
	t.offered = &offered{shapes: shapes, states: map[string]*state{}}
}

const noCompatibleTypes = "NodePool requirements filtered out all compatible available instance types"

// filteredOut is the text for a pool without a type that meets its own requirements and is available.
func (t *template) filteredOut(strict bool) string {
	if t.base.Impossible() || !t.root.usable.Any() {
		return noCompatibleTypes
	}
	if strict && len(t.unmet(t.root.set, t.root.usable, t.minima)) > 0 {
		return noCompatibleTypes + " due to minValues incompatibility"
	}
	return ""
}

// reached lowers minima to what the types reach.
func (t *template) reached(set requirement.Set, types catalog.Bits, minima []minimum) []minimum {
	lower := make([]minimum, len(minima))
	for i, m := range minima {
		lower[i] = minimum{m.key, t.distinct(set, types, m.key, m.n)}
	}
	return lower
}

// unmet lists the keys of minima that the types do not reach; values the claim excludes do not count.
func (t *template) unmet(set requirement.Set, types catalog.Bits, minima []minimum) []string {
	var keys []string
	for _, m := range minima {
		if t.distinct(set, types, m.key, m.n) < m.n {
			keys = append(keys, m.key)
		}
	}
	return keys
}

// distinct counts the values of key among the types, up to enough.
func (t *template) distinct(set requirement.Set, types catalog.Bits, key string, enough int) int {
	r, n := set.Get(key), 0
	for _, v := range t.catalog.Values(key) {
		if n < enough && r.Has(v) && t.catalog.Having(key, v).Meets(types) {
			n++
		}
	}
	return n
}

// daemonGroups divides the pool's types by which DaemonSets run on them. DaemonSets tolerate
// PreferNoSchedule, and see the labels of a finished node.
func daemonGroups(daemons []daemonInput, t *template) []daemonGroup {
	groups := []daemonGroup{{types: t.catalog.All()}}
	set := daemonSet(t.base)
	for i := range daemons {
		on := daemonTypes(&daemons[i], set, t.taints(), t.catalog)
		if !on.Any() {
			continue
		}
		ports := hostPortsOf(daemons[i].spec)
		var split []daemonGroup
		for _, g := range groups {
			with, without := g.types.Clone(), g.types.Clone()
			with.And(on)
			for j := range on.Members() {
				without.Remove(j)
			}
			if with.Any() {
				split = append(split, daemonGroup{with, g.overhead.Add(daemons[i].requests), slices.Concat(g.ports, ports)})
			}
			if without.Any() {
				split = append(split, daemonGroup{without, g.overhead, g.ports})
			}
		}
		groups = split
	}
	return groups
}

// daemonSet adds the labels that nodes get once they are registered and initialized.
func daemonSet(s requirement.Set) requirement.Set {
	return s.Without(karpv1.NodeRegisteredLabelKey, karpv1.NodeInitializedLabelKey).Add(
		requirement.In(karpv1.NodeRegisteredLabelKey, "true"), requirement.In(karpv1.NodeInitializedLabelKey, "true"))
}

// daemonTypes returns the types on which a DaemonSet's pods run, of a claim with these requirements.
func daemonTypes(d *daemonInput, set requirement.Set, taints []corev1.Taint, c *catalog.Catalog) catalog.Bits {
	on := catalog.NewBits(len(c.Types))
	if untolerated(taints, d.spec.Tolerations, false) != nil {
		return on
	}
	for _, terms := range podTerms(d.spec) {
		if set.CompatibleSet(terms, requirement.AllKnown) {
			on.Or(c.MatchingSet(terms))
		}
	}
	return on
}

// podTerms are the sets any of which a pod demands: nodeSelector and one term of its required affinity.
func podTerms(spec *corev1.PodSpec) []requirement.Set {
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
