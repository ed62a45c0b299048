package overlay

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	"millwright/planner"
	"millwright/planner/catalog"
	"millwright/planner/options"
	"millwright/planner/requirement"
	"millwright/planner/resource"
	"millwright/planner/world"
)

// Reasons of an OverlayProblem.
const (
	overlayInvalid  = "RuntimeValidation"
	overlayConflict = "Conflict"
)

// overlay is a NodeOverlay, read.
type overlay struct {
	name     string
	weight   int32
	set      requirement.Set
	price    func(p, unit int64) int64 // nil if it does not change prices; unit of p make a micro USD
	capacity resource.Vector
	names    []corev1.ResourceName
}

var (
	priceForm      = regexp.MustCompile(`^\d+(\.\d+)?$`)
	adjustmentForm = regexp.MustCompile(`^[+-]\d*\.?\d+%?$`)
	wellKnown      = []corev1.ResourceName{resource.CPU, resource.Memory, resource.EphemeralStorage, resource.Pods}
)

// Pool is a NodePool with its catalogue; Pools are all of them, with what is wrong with NodeOverlays.
type (
	Pool    = world.OverlaidPool
	Pools   = world.OverlaidPools
	Problem = world.OverlayProblem
)

// Of applies the NodeOverlays to all pools; nil without NodeOverlays, or if their gate is off. It is computed
// once per change in the World.
func Of(s *planner.Snapshot) *Pools {
	w := s.World
	if !s.Options.NodeOverlays || len(w.NodeOverlays()) == 0 {
		return nil
	}
	return w.Overlaid(s.Options.Revision, func() *Pools {
		o := &Pools{}
		for _, p := range w.NodePools() {
			o.Pools = append(o.Pools, Pool{NodePool: p, Catalog: CatalogOf(w, p)})
		}
		apply(w.NodeOverlays(), o, s.Options.Revision)
		return o
	})
}

// Problems are the NodeOverlays that are not applied, by name.
func Problems(s *planner.Snapshot) []Problem {
	if o := Of(s); o != nil {
		return o.Problems
	}
	return nil
}

// Catalog is what EC2 offers to the claims of a NodePool, as NodeOverlays change it. Claims of no pool, or of
// one with another NodeClass, have their NodeClass's. nil if it was not seen.
func Catalog(s *planner.Snapshot, nodePool, nodeClass string) *catalog.Catalog {
	plain := s.World.Catalog(nodeClass)
	o := Of(s)
	if o == nil || plain == nil {
		return plain
	}
	if p, ok := o.ByName(nodePool); ok && p.Catalog != nil && p.Catalog.NodeClass == plain.NodeClass {
		return p.Catalog
	}
	return plain
}

// apply gives each pool the catalogue that the NodeOverlays make of its own (scheduling §13): the heaviest
// first, then by name descending; of each price and resource the first counts. One that would change what
// another of the same weight has changed is not applied at all.
func apply(list []*karpv1alpha1.NodeOverlay, pools *Pools, revision int) {
	var overlays []*overlay
	for _, x := range list {
		o, err := readOverlay(x)
		if err != nil {
			pools.Problems = append(pools.Problems, Problem{NodeOverlay: x.Name, Reason: overlayInvalid, Message: err.Error()})
			continue
		}
		overlays = append(overlays, o)
	}
	if len(overlays) == 0 {
		return
	}
	slices.SortFunc(overlays, func(a, b *overlay) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), strings.Compare(b.name, a.name))
	})
	// owners are the overlays that count; rivals the lightest so far, which may lie below a heavier one.
	owners, rivals := map[overlayTarget]*overlay{}, map[overlayTarget]*overlay{}
	for _, o := range overlays {
		targets := targetsOf(o, pools.Pools)
		if at := slices.IndexFunc(targets, func(t overlayTarget) bool { x := rivals[t]; return x != nil && x.weight == o.weight }); at >= 0 {
			pools.Problems = append(pools.Problems, Problem{NodeOverlay: o.name, Reason: overlayConflict,
				Message: fmt.Sprintf("changes %s, as nodeoverlay %s of the same weight does", targets[at], rivals[targets[at]].name)})
			continue
		}
		for _, t := range targets {
			if owners[t] == nil {
				owners[t] = o
			}
			if rivals[t] == nil || revision >= options.Revision1 {
				rivals[t] = o
			}
		}
	}
	resources := map[poolType][]corev1.ResourceName{}
	for t := range owners {
		if t.offering < 0 {
			resources[poolType{t.pool, t.instanceType}] = append(resources[poolType{t.pool, t.instanceType}], t.resource)
		}
	}
	made := makings{types: map[making]*catalog.InstanceType{}, revision: revision}
	for i := range pools.Pools {
		made.overlay(&pools.Pools[i], owners, resources)
	}
	slices.SortFunc(pools.Problems, func(a, b Problem) int { return strings.Compare(a.NodeOverlay, b.NodeOverlay) })
}

type poolType struct{ pool, instanceType string }

// overlayTarget is one price or one resource of a pool's type.
type overlayTarget struct {
	pool, instanceType string
	// offering by index, for a price; -1 and resource else.
	offering int
	resource corev1.ResourceName
}

func (t overlayTarget) String() string {
	if t.offering >= 0 {
		return "the price of " + t.instanceType
	}
	return fmt.Sprintf("%s of %s", t.resource, t.instanceType)
}

func readOverlay(x *karpv1alpha1.NodeOverlay) (*overlay, error) {
	if x.Spec.Requirements == nil && x.Spec.Price == nil && x.Spec.PriceAdjustment == nil && x.Spec.Capacity == nil {
		return nil, errors.New("the spec cannot be read") // none that the API server accepts is empty
	}
	o := &overlay{name: x.Name}
	if x.Spec.Weight != nil {
		o.weight = *x.Spec.Weight
	}
	for _, r := range x.Spec.Requirements {
		if err := requirement.Validate(karpv1.NodeSelectorRequirementWithMinValues{Key: r.Key, Operator: r.Operator, Values: r.Values}); err != nil {
			return nil, err
		}
		o.set = o.set.Add(requirement.New(r.Key, r.Operator, r.Values...))
	}
	switch price, adjustment := x.Spec.Price, x.Spec.PriceAdjustment; {
	case price != nil && adjustment != nil:
		return nil, errors.New("cannot set both 'price' and 'priceAdjustment'")
	case price != nil && !priceForm.MatchString(*price):
		return nil, fmt.Errorf("invalid price %q", *price)
	case adjustment != nil && !adjustmentForm.MatchString(*adjustment):
		return nil, fmt.Errorf("invalid priceAdjustment %q", *adjustment)
	case price != nil:
		fixed := microOf(*price)
		o.price = func(_, unit int64) int64 { return fixed * unit }
	case adjustment != nil:
		o.price = adjuster(*adjustment)
	}
	o.capacity = resource.From(x.Spec.Capacity)
	for name := range x.Spec.Capacity {
		if slices.Contains(wellKnown, name) {
			return nil, fmt.Errorf("invalid resource restricted: %s", name)
		}
		o.names = append(o.names, name)
	}
	slices.Sort(o.names)
	return o, nil
}

// microOf converts USD in words to micro USD, half a millionth up.
func microOf(text string) int64 {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0
	}
	r.Mul(r, big.NewRat(1_000_000, 1))
	return round(r, priceMax)
}

// priceMax is a million USD per hour. More counts as that, so that sums and multiples stay within int64.
const priceMax = 1_000_000_000_000

// round a half up; what is beyond most, or below its opposite, is that.
func round(r *big.Rat, most int64) int64 {
	switch {
	case r.Cmp(big.NewRat(most, 1)) >= 0:
		return most
	case r.Cmp(big.NewRat(-most, 1)) <= 0:
		return -most
	}
	r.Add(r, big.NewRat(1, 2))
	return new(big.Int).Div(r.Num(), r.Denom()).Int64()
}

// adjuster adds an amount or a share; a price never falls below 0.
func adjuster(text string) func(p, unit int64) int64 {
	share, relative := strings.CutSuffix(text, "%")
	if !relative {
		delta := microOf(text)
		return func(p, unit int64) int64 { return min(max(0, p+delta*unit), priceMax*unit) }
	}
	r, _ := new(big.Rat).SetString(share)
	factor := new(big.Rat).Add(big.NewRat(1, 1), new(big.Rat).Quo(r, big.NewRat(100, 1)))
	return func(p, unit int64) int64 {
		return max(0, round(new(big.Rat).Mul(big.NewRat(p, 1), factor), priceMax*unit))
	}
}

// targetsOf lists what an overlay would change: the prices of the offerings that meet its requirements, and
// the resources of each type with such an offering.
func targetsOf(o *overlay, pools []Pool) []overlayTarget {
	var targets []overlayTarget
	for i := range pools {
		p := &pools[i]
		if p.Catalog == nil {
			continue
		}
		base := requirement.FromLabels(p.NodePool.Spec.Template.Labels).Add(requirement.In(karpv1.NodePoolLabelKey, p.NodePool.Name)).Only(o.set)
		for at := range p.Catalog.MatchingSet(o.set).Members() { // the others cannot be meant
			t := p.Catalog.Types[at]
			of := base.Intersection(t.Requirements.Only(o.set)) // other keys do not matter to what is Compatible
			if !of.CompatibleSet(o.set, requirement.NoneKnown) {
				continue
			}
			hit := false
			for j := range t.Offerings {
				if !of.Intersection(t.Offerings[j].Requirements.Only(o.set)).CompatibleSet(o.set, requirement.NoneKnown) {
					continue
				}
				hit = true
				if o.price != nil {
					targets = append(targets, overlayTarget{p.NodePool.Name, t.Name, j, ""})
				}
			}
			for _, name := range o.names {
				if hit {
					targets = append(targets, overlayTarget{p.NodePool.Name, t.Name, -1, name})
				}
			}
		}
	}
	return targets
}

// makings are the types and catalogues that overlays were applied to, so that pools for which they come to
// the same share them.
type makings struct {
	types    map[making]*catalog.InstanceType
	pools    []madePool
	revision int
}

// making is what a type was made from: one of a catalogue, and the names of the overlays of each price and
// resource.
type making struct {
	from     *catalog.InstanceType
	overlays string
}

type madePool struct {
	from  *catalog.Catalog
	types []*catalog.InstanceType
	Pool
}

// findPool returns the pool that was made of the same, in which only the NodePool is another.
func (m *makings) findPool(from *catalog.Catalog, types []*catalog.InstanceType) (Pool, bool) {
	for _, p := range m.pools {
		if p.from == from && slices.Equal(p.types, types) {
			return p.Pool, true
		}
	}
	return Pool{}, false
}

// overlay replaces the pool's catalogue if an overlay changes something in it. What no overlay changes stays
// shared.
func (m *makings) overlay(p *Pool, owners map[overlayTarget]*overlay, resources map[poolType][]corev1.ResourceName) {
	if p.Catalog == nil {
		return
	}
	var types []*catalog.InstanceType
	prices, capacities := map[string]bool{}, map[string]bool{}
	for _, t := range p.Catalog.Types {
		c := change{pool: p.NodePool.Name, from: t, owners: owners, resources: slices.Sorted(slices.Values(resources[poolType{p.NodePool.Name, t.Name}]))}
		priced, key := c.key()
		if key == "" {
			continue
		}
		of := making{t, key}
		if m.types[of] == nil {
			m.types[of] = c.build(m.revision)
		}
		types = append(types, m.types[of])
		if priced {
			prices[t.Name] = true
		}
		if len(c.resources) > 0 {
			capacities[t.Name] = true
		}
	}
	if len(types) == 0 {
		return
	}
	from := p.Catalog
	if same, ok := m.findPool(from, types); ok {
		p.Catalog, p.PriceOverlaid, p.CapacityOverlaid = same.Catalog, same.PriceOverlaid, same.CapacityOverlaid
		return
	}
	amounts := m.revision >= options.Revision8 && len(capacities) > 0
	p.Catalog, p.PriceOverlaid, p.CapacityOverlaid = from.With(types, amounts), prices, capacities
	m.pools = append(m.pools, madePool{from, types, *p})
}

// change of one type of a pool.
type change struct {
	pool      string
	from      *catalog.InstanceType
	owners    map[overlayTarget]*overlay
	resources []corev1.ResourceName
}

// price is the overlay of the price of the j-th offering, nil if there is none; capacity is that of a
// resource.
func (c *change) price(j int) *overlay {
	return c.owners[overlayTarget{c.pool, c.from.Name, j, ""}]
}

func (c *change) capacity(name corev1.ResourceName) *overlay {
	return c.owners[overlayTarget{c.pool, c.from.Name, -1, name}]
}

// key names what is changed by which overlay, "" if nothing is.
func (c *change) key() (priced bool, key string) {
	var text strings.Builder
	for j := range c.from.Offerings {
		if o := c.price(j); o != nil {
			priced = true
			fmt.Fprintf(&text, "%d %s\n", j, o.name)
		}
	}
	for _, name := range c.resources {
		fmt.Fprintf(&text, "%s %s\n", name, c.capacity(name).name)
	}
	return priced, text.String()
}

// build returns the type as the overlays change it.
func (c *change) build(revision int) *catalog.InstanceType {
	changed := *c.from
	changed.Offerings = slices.Clone(c.from.Offerings)
	for j := range changed.Offerings {
		o := c.price(j)
		if o == nil {
			continue
		}
		x := &changed.Offerings[j]
		if x.Reservation == "" {
			x.Price = o.price(x.Price, 1)
			continue
		}
		own := *x.Where // it may be shared
		own.Rank, x.Price = reservedPrice(o, x, revision)
		x.Where = &own
	}
	for _, name := range c.resources {
		if changed.Hardware == c.from.Hardware {
			own := *c.from.Hardware // the type's is shared by all catalogues
			changed.Hardware = &own
		}
		changed.Capacity.Set(name, c.capacity(name).capacity.Get(name))
	}
	return &changed
}

// reservedPrice is what an overlay makes of the price of reserved capacity, in pico and micro USD. It is far
// below a micro USD, of which a share would be nothing; that was so by the rules before Revision8.
func reservedPrice(o *overlay, x *catalog.Offering, revision int) (pico, micro int64) {
	const unit = catalog.PicoPerMicro
	if revision < options.Revision8 {
		micro = o.price(x.Price, 1)
		return micro * unit, micro
	}
	pico = o.price(x.Rank, unit)
	return pico, (pico + unit/2) / unit
}

// CatalogOf is what EC2 offers to a pool, without overlays; nil if it was not seen.
func CatalogOf(w *world.World, p *karpv1.NodePool) *catalog.Catalog {
	if ref := p.Spec.Template.Spec.NodeClassRef; ref != nil {
		return w.Catalog(ref.Name)
	}
	return nil
}
