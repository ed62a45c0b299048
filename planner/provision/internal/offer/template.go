package offer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/bitset"
	"millwright/planner/catalog"
	"millwright/planner/provision/internal/demand"
	"millwright/planner/requirement"
	"millwright/planner/resource"
)

// Template is a NodePool that may open claims.
type Template struct {
	Index   int
	Pool    *karpv1.NodePool
	Name    string
	Catalog *catalog.Catalog
	// Base is what every claim of the pool requires: spec requirements, labels, NodePool, NodeClass.
	Base requirement.Set
	// Offered is what is available now.
	Offered *Offered
	// Proven holds, by shape, the types that are available and not unproven; nil if that is all.
	Proven []bitset.Set
	Root   *State
	Groups []daemonGroup
	Limits limits
	Minima []Minimum
	// priceOverlaid and capacityOverlaid as in poolInput.
	priceOverlaid, capacityOverlaid map[string]bool
	// Prefers: it has a PreferNoSchedule taint.
	Prefers bool
	// netOf is what each type has for pods; demand is what the pods of the pool's new claims request.
	netOf []resource.Vector
	// Extended are the resources, sorted, other than CPU, memory, storage and pods that pods of the round
	// request.
	Extended []corev1.ResourceName
	Demand   resource.Vector
	// NodeCost is what a node costs by itself, in micro USD per hour; sizes remembers bySize.
	NodeCost int64
	sizes    []int32
	// hash holds the annotations of the pool's hash once they were needed; made caches for each hash whether
	// it is the pool's.
	hash map[string]string
	made map[poolHash]bool
}

// NewTemplates returns the pools that may open claims, in the order they are tried: weight descending,
// name descending (scheduling §7.1). The others come back as problems, by name.
func NewTemplates(in *Input) ([]*Template, []PoolProblem) {
	pools := slices.Clone(in.Pools)
	slices.SortFunc(pools, func(a, b PoolInput) int {
		return cmp.Or(cmp.Compare(Weight(b.NodePool), Weight(a.NodePool)), cmp.Compare(b.NodePool.Name, a.NodePool.Name))
	})
	var templates []*Template
	var problems []PoolProblem
	for i := range pools {
		t, problem := newTemplate(in, &pools[i])
		if problem != nil {
			problems = append(problems, *problem)
			continue
		}
		t.Index = len(templates)
		templates = append(templates, t)
	}
	slices.SortFunc(problems, func(a, b PoolProblem) int { return strings.Compare(a.NodePool, b.NodePool) })
	return templates, problems
}

func Weight(p *karpv1.NodePool) int32 {
	if p.Spec.Weight == nil {
		return 0
	}
	return *p.Spec.Weight
}

func newTemplate(in *Input, p *PoolInput) (*Template, *PoolProblem) {
	if problem := ineligible(p.NodePool); problem != nil {
		return nil, problem
	}
	base, err := TemplateRequirements(p.NodePool)
	if err != nil {
		return nil, &PoolProblem{p.NodePool.Name, problemInvalid, err.Error()}
	}
	t := &Template{
		Pool: p.NodePool, Name: p.NodePool.Name, Catalog: p.Catalog, Base: base,
		Prefers: demand.HasPreferNoSchedule(p.NodePool.Spec.Template.Spec.Taints), priceOverlaid: p.PriceOverlaid, capacityOverlaid: p.CapacityOverlaid,
		NodeCost: in.Options.NodeCost,
	}
	if t.Catalog == nil {
		return nil, &PoolProblem{p.NodePool.Name, problemNotSeen, fmt.Sprintf("the instance types of EC2NodeClass %q are not known yet", p.NodePool.Spec.Template.Spec.NodeClassRef.Name)}
	}
	available, proven := in.OfferedBy(t.Catalog, p.NodePool.Spec.Template.Spec.NodeClassRef.Name)
	t.Offered, t.Proven = &Offered{Shapes: available, States: map[string]*State{}}, proven
	for _, r := range base.Requirements() {
		if r.MinValues() > 0 {
			t.Minima = append(t.Minima, Minimum{r.Key(), r.MinValues()})
		}
	}
	t.Root = t.State(base)
	if problem := t.filteredOut(in.Options.MinValuesPolicy != MinValuesBestEffort); problem != "" {
		return nil, &PoolProblem{p.NodePool.Name, ProblemNoTypes, problem}
	}
	t.Groups = daemonGroups(in.Daemons, t)
	t.Limits = newLimits(p)
	return t, nil
}

// TemplateRequirements is what every claim of a pool demands.
func TemplateRequirements(p *karpv1.NodePool) (requirement.Set, error) {
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

// Taints that pods must tolerate.
func (t *Template) Taints() []corev1.Taint { return t.Pool.Spec.Template.Spec.Taints }

const noCompatibleTypes = "NodePool requirements filtered out all compatible available instance types"

// filteredOut is the text for a pool without a type that meets its own requirements and is available.
func (t *Template) filteredOut(strict bool) string {
	if t.Base.Impossible() || !t.Root.Usable.Any() {
		return noCompatibleTypes
	}
	if strict && len(t.Unmet(t.Root.Set, t.Root.Usable, t.Minima)) > 0 {
		return noCompatibleTypes + " due to minValues incompatibility"
	}
	return ""
}

// Launchable are the types that a claim with these requirements may become.
func Launchable(cat *catalog.Catalog, set requirement.Set) bitset.Set {
	shapes := make([]bitset.Set, len(cat.Shapes))
	for i := range shapes {
		shapes[i] = cat.Shapes[i].Offered
	}
	var compatible []int
	fit := cat.Offered(set, shapes, &compatible)
	fit.And(cat.MatchingSet(set))
	return fit
}

// DomainValues lists the values of key that claims of the pool can have. Availability does not count.
func (t *Template) DomainValues(key string) []string {
	r, defined := t.Base.Lookup(key)
	if !t.Catalog.Knows(key) {
		if !defined || r.Complement() {
			return nil
		}
		return r.Values()
	}
	matching := t.Catalog.MatchingSet(t.Base)
	var values []string
	for _, v := range t.Catalog.Values(key) {
		if (!defined || r.Has(v)) && t.Catalog.Having(key, v).Meets(matching) {
			values = append(values, v)
		}
	}
	return values
}
