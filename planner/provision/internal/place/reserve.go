package place

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/bitset"
	"millwright/planner/catalog"
	"millwright/planner/options"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/requirement"
)

// Reservations counts the free instances of capacity reservations while claims are built (scheduling §7.6).
//
// A growing claim holds one instance of each reservation that one of its types could use, because it is not
// known yet which it will get. While some could be had, a pod that got none opens no claim, is not relaxed
// and is sent to no later NodePool: it waits. Then, as the next round would do, each claim keeps one
// reservation and gives back the rest; and what is still not free counts as unavailable to the pods that
// wait.
type Reservations struct {
	left map[string]int64
	// Moved counts what was given back or became unavailable, so that refused pods are tried again.
	Moved int
	// closed are unavailable from here on.
	closed map[string]bool
}

// newReservations reads the free instances of all catalogues, less what records say since EC2 counted them
// and what unlaunched planned claims hold; nil if there is no reserved capacity.
func newReservations(templates []*offer.Template, in *Input) *Reservations {
	var left map[string]int64
	for _, t := range templates {
		for key, n := range t.Catalog.Reservations() {
			if left == nil {
				left = map[string]int64{}
			}
			n = in.FreeReserved(key, n, t.Catalog.ReservationsAt)
			if known, ok := left[key]; !ok || n < known {
				left[key] = n
			}
		}
	}
	if left == nil {
		return nil
	}
	r := &Reservations{left: left, closed: map[string]bool{}}
	for i := range in.Planned {
		if in.Planned[i].Claim.Instance != nil {
			continue // its launch is counted
		}
		for _, q := range in.Planned[i].Claim.Planned.Requirements {
			if q.Key == awsv1.LabelCapacityReservationID && (isNaming(&q) || in.Options.Revision < options.Revision8) {
				for _, id := range q.Values {
					r.takeInstance(id)
				}
			}
		}
	}
	return r
}

// isNaming reports that a requirement on the id says which reservations a claim may have, and not which it
// may not have.
func isNaming(q *karpv1.NodeSelectorRequirementWithMinValues) bool {
	return q.Operator == corev1.NodeSelectorOpIn
}

// Free counts the free instances of the reservations that the templates know and that are counted, by id; nil
// if there are none.
func (r *Reservations) Free(templates []*offer.Template) map[string]int64 {
	var counts map[string]int64
	for _, t := range templates {
		for i := range t.Catalog.Shapes {
			s := &t.Catalog.Shapes[i]
			if s.ReservationID == "" || r != nil && r.left[s.Reservation] == catalog.Unlimited {
				continue
			}
			if counts == nil {
				counts = map[string]int64{}
			}
			counts[s.ReservationID] = 0
			if r != nil {
				counts[s.ReservationID] = max(0, r.left[s.Reservation])
			}
		}
	}
	return counts
}

func (r *Reservations) takeInstance(key string) {
	if n, ok := r.left[key]; ok && n != catalog.Unlimited {
		r.left[key] = n - 1
	}
}

func (r *Reservations) giveInstanceBack(key string) {
	if n := r.left[key]; n != catalog.Unlimited {
		r.left[key] = n + 1
		r.Moved++
	}
}

// Holdable returns what a claim that holds some would hold with types in state n. ok is false if it would
// have to do without, although reserved capacity exists.
func (r *Reservations) Holdable(n *offer.State, types bitset.Set, holds []string) (keys []string, ok bool) {
	if r == nil {
		return nil, true
	}
	usable := n.Reservations(types)
	if len(usable) == 0 {
		return nil, len(holds) == 0
	}
	for _, key := range usable {
		if slices.Contains(holds, key) || r.left[key] > 0 {
			keys = append(keys, key)
		}
	}
	return keys, len(keys) > 0
}

// Hold makes the claim hold keys and nothing else.
func (r *Reservations) Hold(o *OpenClaim, keys []string) {
	for _, key := range o.Holds {
		if !slices.Contains(keys, key) {
			r.giveInstanceBack(key)
		}
	}
	for _, key := range keys {
		if !slices.Contains(o.Holds, key) {
			r.takeInstance(key)
		}
	}
	o.Holds = keys
}

// TrimHolds leaves each claim the reservation that is cheapest for it.
func (l *Layout) TrimHolds() bool {
	trimmed := false
	for _, b := range l.Bins {
		o := b.Open()
		if o == nil || len(o.Holds) < 2 {
			continue
		}
		if offers := o.priced(); len(offers) > 0 {
			l.Reserved.Hold(o, []string{offers[0].reservation})
			trimmed = true
		}
	}
	return trimmed
}

// withOneReservation is the claim with just the reservation that is cheapest for it: it needs one instance,
// and nothing that it names is free to others until it is launched. A claim whose minValues needs the types
// of several keeps them.
func (o *OpenClaim) withOneReservation() *OpenClaim {
	if len(o.Holds) < 2 {
		return o
	}
	one := *o
	one.Holds = []string{o.priced()[0].reservation}
	types := bitset.New(len(o.Template.Catalog.Types))
	for _, x := range one.priced() {
		types.Add(x.index)
	}
	if len(o.Template.Unmet(o.State.Set, types, o.Minima)) > 0 {
		return o
	}
	return &one
}

// CloseReservations makes what is not free unavailable for claims opened from here on.
func (l *Layout) CloseReservations() bool {
	any := false
	for _, key := range slices.Sorted(maps.Keys(l.Reserved.left)) {
		if l.Reserved.left[key] <= 0 && !l.Reserved.closed[key] {
			l.Reserved.closed[key], any = true, true
		}
	}
	if !any {
		return false
	}
	l.Reserved.Moved++
	if l.Changes != nil {
		l.Changes.narrowed = true
	}
	for _, t := range l.Templates {
		f := &offer.Offered{Shapes: slices.Clone(t.Offered.Shapes), States: map[string]*offer.State{}}
		for i := range f.Shapes {
			if l.Reserved.closed[t.Catalog.Shapes[i].Reservation] {
				f.Shapes[i] = bitset.New(len(t.Catalog.Types))
			}
		}
		t.Offered = f
		t.Root = t.State(t.Base)
	}
	return true
}

// HeldReservations reports that some of the types have, in state n, available reserved capacity that other
// claims hold completely.
func (l *Layout) HeldReservations(t *offer.Template, n *offer.State, types bitset.Set) bool {
	if l.Reserved == nil {
		return false
	}
	return slices.ContainsFunc(t.Catalog.Shapes, func(x catalog.Shape) bool {
		return l.Reserved.closed[x.Reservation] && x.Offered.Meets(types) && n.Set.CompatibleSet(x.Requirements, requirement.AllKnown)
	})
}

// reservedOnly narrows a finished claim that holds reservations to the types that can use them, unless
// minValues needs the others, and to what they demand of its nodes.
func (o *OpenClaim) reservedOnly(offers []pricedOffer, set requirement.Set) ([]pricedOffer, requirement.Set) {
	if len(o.Holds) == 0 {
		return offers, set
	}
	set = set.Add(requirement.In(karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeReserved))
	if ids := o.reservationIDs(); len(ids) > 0 {
		set = set.Add(requirement.In(awsv1.LabelCapacityReservationID, ids...))
	}
	var kept []pricedOffer
	types := bitset.New(len(o.Template.Catalog.Types))
	for _, x := range offers {
		if x.reservation != "" {
			kept = append(kept, x)
			types.Add(o.Template.Catalog.Type(x.InstanceType).Index)
		}
	}
	if len(o.Template.Unmet(o.State.Set, types, o.Minima)) > 0 {
		kept = offers
	}
	return kept, set
}

// reservationIDs of what the claim holds, where known.
func (o *OpenClaim) reservationIDs() []string {
	var ids []string
	for i := range o.Template.Catalog.Shapes {
		if s := &o.Template.Catalog.Shapes[i]; s.ReservationID != "" && slices.Contains(o.Holds, s.Reservation) {
			ids = append(ids, s.ReservationID)
		}
	}
	return ids
}

// offers reports that the claim may get an offering of a shape: one that it does not hold it may not, and if
// it holds something, nothing else.
func (o *OpenClaim) offers(shape *catalog.Shape) bool {
	return len(o.Holds) == 0 && shape.Reservation == "" || slices.Contains(o.Holds, shape.Reservation)
}
