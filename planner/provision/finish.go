package provision

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/planner/requirement"
	"millwright/planner/resource"
	"millwright/planner/world"
)

// finisher turns open claims into planned ones. What claims of equal state and types share is made once.
type finisher struct {
	typesMax int
	strict   bool
	shared   map[string]*shape
}

// shape is the part of a planned claim that depends only on its state, types and minima.
type shape struct {
	types        []*catalog.InstanceType // in price order, cut
	names        []string
	offers       []pricedOffer // the cheapest of each type
	requirements []karpv1.NodeSelectorRequirementWithMinValues
	labels       map[string]string
	annotations  map[string]string
	capacity     resource.Vector
	overhead     resource.Vector
	unmet        []string
}

// finish returns the claim, or why it can't be made: cutting its types broke minValues (scheduling §10).
func (f *finisher) finish(b *bin) (ledger.PlannedClaim, *shape, error) {
	o := b.open
	t := o.template
	s := f.shape(o)
	if f.strict && len(s.unmet) > 0 {
		return ledger.PlannedClaim{}, nil, fmt.Errorf("pod didn’t schedule because NodePool couldn’t meet minValues requirements, "+
			"validating minValues, minValues requirement is not met for label(s) (label(s)=%s) (NodePool=%s)", s.unmet, t.name)
	}
	spec := &t.pool.Spec.Template.Spec
	p := ledger.PlannedClaim{
		NodePool: t.name, NodePoolUID: t.pool.UID, NodeClassRef: *spec.NodeClassRef,
		Labels: s.labels, Annotations: s.annotations, Taints: spec.Taints, StartupTaints: spec.StartupTaints,
		Requirements: s.requirements, InstanceTypes: s.names, Requests: o.used.Add(s.overhead), Capacity: s.capacity,
		Pods: refs(b.added), ExpireAfter: spec.ExpireAfter, Cheapest: s.offers[0].OfferingPrice,
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
		list[i] = podRef(p)
	}
	return list
}

func podRef(p *world.Pod) ledger.PodRef {
	return ledger.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
}

func (f *finisher) shape(o *openClaim) *shape {
	key := o.key()
	if s, ok := f.shared[key]; ok {
		return s
	}
	t := o.template
	s := &shape{overhead: t.overheadOf(o.types)}
	offers, set := o.reservedOnly(t.priced(o), o.state.set)
	s.offers = offers[:min(len(offers), f.typesMax)]
	kept := catalog.NewBits(len(t.catalog.Types))
	for _, offer := range s.offers {
		it := t.catalog.Type(offer.InstanceType)
		s.types, s.names = append(s.types, it), append(s.names, it.Name)
		kept.Add(it.Index)
	}
	s.capacity = capacityMax(t.catalog, kept)
	minima, relaxed := o.minima, o.relaxed
	s.unmet = t.unmet(o.state.set, kept, minima)
	if len(s.unmet) > 0 && !f.strict {
		minima, relaxed = t.reached(o.state.set, kept, minima), true
	}
	s.annotations = t.annotations(relaxed)
	t.overlayAnnotations(s.annotations, s.names)
	final := o.finalSet(set, kept, s.names)
	if relaxed {
		final = withMinima(final, minima)
	}
	s.requirements, s.labels = final.Entries(), t.labels(final)
	f.shared[key] = s
	return s
}

// key identifies what of the claim a shape depends on.
func (o *openClaim) key() string {
	b := []byte(o.template.name)
	b = append(b, 0)
	b = append(b, o.state.set.Key()...)
	for _, w := range o.types {
		b = strconv.AppendUint(append(b, ','), w, 36)
	}
	for _, m := range o.minima {
		b = strconv.AppendInt(append(b, '#'), int64(m.n), 10)
	}
	for _, key := range o.holds {
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

// priced returns the cheapest offering of each of the claim's types, cheapest first; of equal ones the bigger, then by name. A claim that
// holds reservations gets what they stand for; its types that are none of them come last.
func (t *template) priced(o *openClaim) []pricedOffer {
	compatible := make([]bool, len(o.state.offered.shapes))
	for _, i := range o.state.shapes {
		compatible[i] = true
	}
	var offers []pricedOffer
	for i := range o.types.Members() {
		if best, ok := t.cheapest(o, i, compatible); ok {
			offers = append(offers, best)
		}
	}
	size := t.bySize()
	slices.SortFunc(offers, func(a, b pricedOffer) int {
		return cmp.Or(cmp.Compare(boolInt(a.rank == rankLast), boolInt(b.rank == rankLast)),
			cmp.Compare(a.MicroUSDPerHour, b.MicroUSDPerHour), cmp.Compare(a.rank, b.rank), cmp.Compare(size[a.index], size[b.index]))
	})
	return offers
}

// cheapest offering of the i-th type among the compatible shapes.
func (t *template) cheapest(o *openClaim, i int, compatible []bool) (best pricedOffer, ok bool) {
	it := t.catalog.Types[i]
	for j := range it.Offerings {
		x := &it.Offerings[j]
		if !compatible[x.Shape] || !x.Available || !o.state.offered.shapes[x.Shape].Has(i) {
			continue
		}
		rank := x.Rank
		if !o.offers(&t.catalog.Shapes[x.Shape]) {
			if len(o.holds) == 0 || x.Reservation != "" {
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

// overheadOf is the DaemonSets' share, the least over the groups still possible.
func (t *template) overheadOf(types catalog.Bits) resource.Vector {
	var v resource.Vector
	first := true
	for i := range t.groups {
		g := &t.groups[i]
		if !g.types.Meets(types) {
			continue
		}
		if first {
			v, first = g.overhead, false
		} else {
			v = v.Min(g.overhead)
		}
	}
	return v
}

// finalSet narrows the claim's requirements to the types kept and the capacity types they can be had in.
func (o *openClaim) finalSet(set requirement.Set, kept catalog.Bits, names []string) requirement.Set {
	t := o.template
	var capacityTypes []string
	for _, i := range o.state.shapes {
		if shape := &t.catalog.Shapes[i]; o.state.offered.shapes[i].Meets(kept) && o.offers(shape) {
			capacityTypes = append(capacityTypes, shape.CapacityType)
		}
	}
	set = set.Without(corev1.LabelHostname).Add(
		requirement.In(corev1.LabelInstanceTypeStable, names...),
		requirement.In(karpv1.CapacityTypeLabelKey, capacityTypes...),
	)
	return set
}

// withMinima demands what BestEffort has left of the pool's minima.
func withMinima(set requirement.Set, minima []minimum) requirement.Set {
	for _, m := range minima {
		set = set.Replace(set.Get(m.key).WithMinValues(m.n))
	}
	return set
}

// labels are the template's, and one value for each requirement key of the user's own (scheduling §10).
func (t *template) labels(set requirement.Set) map[string]string {
	labels := maps.Clone(t.pool.Spec.Template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[karpv1.NodePoolLabelKey] = t.name
	labels[awsv1.LabelEC2NodeClass] = t.pool.Spec.Template.Spec.NodeClassRef.Name
	for _, r := range set.Requirements() {
		if requirement.AllKnown.Has(r.Key()) || requirement.Restricted(r.Key()) || !t.base.Has(r.Key()) {
			continue
		}
		if _, given := labels[r.Key()]; given {
			continue
		}
		if v, ok := concrete(r); ok {
			labels[r.Key()] = v
		}
	}
	return labels
}

// concrete picks a value r allows: the first listed, or the least integer from the bound or 0 on.
func concrete(r requirement.Requirement) (string, bool) {
	if !r.Complement() {
		if len(r.Values()) == 0 {
			return "", false
		}
		return r.Values()[0], true
	}
	gte, lte, _ := r.Bounds()
	n := max(gte, 0)
	if n > lte {
		n = gte
	}
	for range len(r.Values()) + 1 {
		if v := strconv.FormatInt(n, 10); r.Has(v) {
			return v, true
		}
		n++
	}
	return "", false
}

// annotations are the template's, the pool's hash and, if the pool has minima, whether they were relaxed.
func (t *template) annotations(relaxed bool) map[string]string {
	a := maps.Clone(t.pool.Spec.Template.Annotations)
	if a == nil {
		a = map[string]string{}
	}
	maps.Copy(a, t.hashAnnotations())
	if len(t.minima) > 0 {
		a[karpv1.MinValuesRelaxedAnnotationKey] = strconv.FormatBool(relaxed)
	}
	return a
}
