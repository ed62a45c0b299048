package place

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/bitset"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/planner/options"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/requirement"
	"millwright/planner/resource"
	"millwright/planner/world"
)

// Finisher turns open claims into planned ones. What claims of equal state and types share is made once.
type Finisher struct {
	typesMax int
	strict   bool
	// lowers: no minValues is above the number of values. single: a claim keeps one reservation.
	lowers, single bool
	shared         map[string]*Shape
}

// Shape is the part of a planned claim that depends only on its state, types and minima.
type Shape struct {
	types        []*catalog.InstanceType // in price order, cut
	names        []string
	Offers       []pricedOffer // the cheapest of each type
	requirements []karpv1.NodeSelectorRequirementWithMinValues
	labels       map[string]string
	annotations  map[string]string
	capacity     resource.Vector
	overhead     resource.Vector
	unmet        []string
}

// Finish returns the claim, or why it cannot be made: limiting its types broke minValues (scheduling §10).
func (f *Finisher) Finish(b *Bin) (ledger.PlannedClaim, *Shape, error) {
	o := b.Open()
	t := o.Template
	s := f.shape(o)
	if f.strict && len(s.unmet) > 0 {
		return ledger.PlannedClaim{}, nil, fmt.Errorf("pod didn’t schedule because NodePool couldn’t meet minValues requirements, "+
			"validating minValues, minValues requirement is not met for label(s) (label(s)=%s) (NodePool=%s)", s.unmet, t.Name)
	}
	spec := &t.Pool.Spec.Template.Spec
	p := ledger.PlannedClaim{
		NodePool: t.Name, NodePoolUID: t.Pool.UID, NodeClassRef: *spec.NodeClassRef,
		Labels: s.labels, Annotations: s.annotations, Taints: spec.Taints, StartupTaints: spec.StartupTaints,
		Requirements: s.requirements, InstanceTypes: s.names, Requests: o.Used.Add(s.overhead), Capacity: s.capacity,
		Pods: refs(b.Added), ExpireAfter: spec.ExpireAfter, Cheapest: s.Offers[0].OfferingPrice,
	}
	if g := spec.TerminationGracePeriod; g != nil {
		d := time.Duration(g.Duration)
		p.TerminationGracePeriod = &d
	}
	return p, s, nil
}

func refs(pods []*world.Pod) []ledger.PodRef {
	list := make([]ledger.PodRef, len(pods))
	for i, p := range pods {
		list[i] = PodRef(p)
	}
	return list
}

func PodRef(p *world.Pod) ledger.PodRef {
	return ledger.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
}

// Shapes counts those that it remembers.
func (f *Finisher) Shapes() int { return len(f.shared) }

func (f *Finisher) shape(o *OpenClaim) *Shape {
	key := o.key()
	if s, ok := f.shared[key]; ok {
		return s
	}
	if f.single {
		o = o.withOneReservation()
	}
	t := o.Template
	s := &Shape{overhead: t.OverheadOf(o.Types)}
	offers, set := o.reservedOnly(o.priced(), o.State.Set)
	s.Offers = offers[:min(len(offers), f.typesMax)]
	kept := bitset.New(len(t.Catalog.Types))
	for _, offer := range s.Offers {
		it := t.Catalog.Type(offer.InstanceType)
		s.types, s.names = append(s.types, it), append(s.names, it.Name)
		kept.Add(it.Index)
	}
	s.capacity = offer.CapacityMax(t.Catalog, kept)
	minima, relaxed := o.Minima, o.Relaxed
	s.unmet = t.Unmet(o.State.Set, kept, minima)
	if len(s.unmet) > 0 && !f.strict {
		minima, relaxed = t.Reached(o.State.Set, kept, minima), true
	}
	s.annotations = t.Annotations(relaxed)
	t.OverlayAnnotations(s.annotations, s.names)
	final := o.finalSet(set, kept, s.names)
	if relaxed {
		final = withMinima(final, minima)
	}
	if f.lowers {
		final = withinValues(final)
	}
	s.requirements, s.labels = final.Entries(), t.Labels(final)
	f.shared[key] = s
	return s
}

// key identifies the parts of the claim that a shape depends on.
func (o *OpenClaim) key() string {
	b := []byte(o.Template.Name)
	b = append(b, 0)
	b = append(b, o.State.Set.Key()...)
	for _, w := range o.Types {
		b = strconv.AppendUint(append(b, ','), w, 36)
	}
	for _, m := range o.Minima {
		b = strconv.AppendInt(append(b, '#'), int64(m.N), 10)
	}
	for _, key := range o.Holds {
		b = append(append(b, '!'), key...)
	}
	return string(b)
}

// pricedOffer is the cheapest offering of a type. rank orders equal prices; reservation is the one it stands
// for, "" if none.
type pricedOffer struct {
	ledger.OfferingPrice
	rank        int64
	reservation string
	index       int // of the type
}

// priced returns the cheapest offering of each of the claim's types, cheapest first; of equal ones the
// larger, then by name. A claim that holds reservations gets the offerings they stand for; types without one
// come last.
func (o *OpenClaim) priced() []pricedOffer {
	t := o.Template
	compatible := make([]bool, len(o.State.Offered.Shapes))
	for _, i := range o.State.Shapes {
		compatible[i] = true
	}
	var offers []pricedOffer
	for i := range o.Types.Members() {
		if best, ok := o.cheapestOf(i, compatible); ok {
			offers = append(offers, best)
		}
	}
	size := t.BySize()
	slices.SortFunc(offers, func(a, b pricedOffer) int {
		return cmp.Or(cmp.Compare(boolInt(a.rank == rankLast), boolInt(b.rank == rankLast)),
			cmp.Compare(a.MicroUSDPerHour, b.MicroUSDPerHour), cmp.Compare(a.rank, b.rank), cmp.Compare(size[a.index], size[b.index]))
	})
	return offers
}

// cheapestOf is the cheapest offering of the i-th type among the compatible shapes.
func (o *OpenClaim) cheapestOf(i int, compatible []bool) (best pricedOffer, ok bool) {
	t := o.Template
	it := t.Catalog.Types[i]
	for j := range it.Offerings {
		x := &it.Offerings[j]
		if !compatible[x.Shape] || !x.Available || !o.State.Offered.Shapes[x.Shape].Has(i) {
			continue
		}
		rank := x.Rank
		if !o.offers(&t.Catalog.Shapes[x.Shape]) {
			if len(o.Holds) == 0 || x.Reservation != "" {
				continue
			}
			rank = rankLast
		}
		price := ledger.OfferingPrice{InstanceType: it.Name, Zone: x.Zone, CapacityType: x.CapacityType, MicroUSDPerHour: x.Price, ReservationID: x.ReservationID}
		offer := pricedOffer{price, rank, x.Reservation, i}
		if !ok || offer.cheaper(&best) {
			best, ok = offer, true
		}
	}
	return best, ok
}

func (a *pricedOffer) cheaper(b *pricedOffer) bool {
	if last := a.rank == rankLast; last != (b.rank == rankLast) {
		return !last
	}
	return a.MicroUSDPerHour < b.MicroUSDPerHour || a.MicroUSDPerHour == b.MicroUSDPerHour && a.rank < b.rank
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// finalSet narrows the claim's requirements to the types kept and the capacity types available for them.
func (o *OpenClaim) finalSet(set requirement.Set, kept bitset.Set, names []string) requirement.Set {
	t := o.Template
	var capacityTypes []string
	for _, i := range o.State.Shapes {
		if shape := &t.Catalog.Shapes[i]; o.State.Offered.Shapes[i].Meets(kept) && o.offers(shape) {
			capacityTypes = append(capacityTypes, shape.CapacityType)
		}
	}
	set = set.Without(corev1.LabelHostname).Add(
		requirement.In(corev1.LabelInstanceTypeStable, names...),
		requirement.In(karpv1.CapacityTypeLabelKey, capacityTypes...),
	)
	return set
}

// withMinima requires what BestEffort has left of the pool's minima.
func withMinima(set requirement.Set, minima []offer.Minimum) requirement.Set {
	for _, m := range minima {
		set = set.Replace(set.Get(m.Key).WithMinValues(m.N))
	}
	return set
}

// withinValues lowers minValues to the values that are left: the API refuses NodeClaims that demand more. It
// is about what a claim is narrowed to although its types can have more, such as capacity types.
func withinValues(set requirement.Set) requirement.Set {
	for _, r := range set.Requirements() {
		if n := len(r.Values()); r.Operator() == corev1.NodeSelectorOpIn && n < r.MinValues() {
			set = set.Replace(r.WithMinValues(n))
		}
	}
	return set
}

// rankLast orders offerings that the claim may not get, but whose types minValues needs, after all others.
const rankLast = int64(math.MaxInt64)

// NewFinisher of claims under the options.
func NewFinisher(o *planner.Options) *Finisher {
	return &Finisher{
		typesMax: max(1, o.InstanceTypesMax), strict: o.MinValuesPolicy != offer.MinValuesBestEffort,
		lowers: o.Revision >= options.Revision1, single: o.Revision >= options.Revision8, shared: map[string]*Shape{},
	}
}
