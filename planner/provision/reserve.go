package provision

import (
	"maps"
	"math"
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/catalog"
	"millwright/planner/requirement"
)

// reservations counts the free instances of capacity reservations while claims are built (scheduling §7.6).
//
// A growing claim holds one instance of each reservation that one of its types could use, for it is not known
// yet which it will get. While some could be had, a pod opens no claim that got none, is not relaxed and goes
// to no later NodePool: it waits. Then, as the next round would do, each claim keeps one reservation and gives
// back the rest; and what is still not free counts as unavailable to the pods that wait.
type reservations struct {
	left map[string]int64
	// moved counts what was given back or became unavailable, so that what was refused is tried again.
	moved int
	// missed: the attempt under way found none free where one would do.
	missed bool
	// closed are unavailable from here on.
	closed map[string]bool
}

// newReservations reads the free instances of all catalogues, less what records tell of since EC2 counted them and what
// planned claims hold that are not launched; nil if there is no reserved capacity.
func newReservations(templates []*template, in *input) *reservations {
	var left map[string]int64
	for _, t := range templates {
		for key, n := range t.catalog.Reservations() {
			if left == nil {
				left = map[string]int64{}
			}
			n = in.freeReserved(key, n, t.catalog.ReservationsAt)
			if known, ok := left[key]; !ok || n < known {
				left[key] = n
			}
		}
	}
	if left == nil {
		return nil
	}
	r := &reservations{left: left, closed: map[string]bool{}}
	for i := range in.planned {
		if in.planned[i].claim.Instance != nil {
			continue // its launch is counted
		}
		for _, q := range in.planned[i].claim.Planned.Requirements {
			if q.Key == awsv1.LabelCapacityReservationID {
				for _, id := range q.Values {
					r.take(id)
				}
			}
		}
	}
	return r
}

// free counts the free instances of the reservations that the templates know and that are counted, by id; nil if there are none.
func (r *reservations) free(templates []*template) map[string]int64 {
	var counts map[string]int64
	for _, t := range templates {
		for i := range t.catalog.Shapes {
			s := &t.catalog.Shapes[i]
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

func (r *reservations) take(key string) {
	if n, ok := r.left[key]; ok && n != catalog.Unlimited {
		r.left[key] = n - 1
	}
}

func (r *reservations) giveBack(key string) {
	if n := r.left[key]; n != catalog.Unlimited {
		r.left[key] = n + 1
		r.moved++
	}
}

// reservations returns those, sorted, that types could use in state n.
func (n *state) reservations(types catalog.Bits) []string {
	var keys []string
	for _, i := range n.shapes {
		if key := n.template.catalog.Shapes[i].Reservation; key != "" && n.offered.shapes[i].Meets(types) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// holdable returns what a claim that holds some would hold with types in state n. ok is false if it would
// have to do without although reserved capacity is there.
func (s *solver) holdable(n *state, types catalog.Bits, holds []string) (keys []string, ok bool) {
	if s.reserved == nil {
		return nil, true
	}
	usable := n.reservations(types)
	if len(usable) == 0 {
		return nil, len(holds) == 0
	}
	for _, key := range usable {
		if slices.Contains(holds, key) || s.reserved.left[key] > 0 {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		s.reserved.missed = true
	}
	return keys, len(keys) > 0
}

// hold makes the claim hold keys and nothing else.
func (s *solver) hold(o *openClaim, keys []string) {
	for _, key := range o.holds {
		if !slices.Contains(keys, key) {
			s.reserved.giveBack(key)
		}
	}
	for _, key := range keys {
		if !slices.Contains(o.holds, key) {
			s.reserved.take(key)
		}
	}
	o.holds = keys
}

// missed reports, and forgets, that the attempt under way found no instance of a reservation free.
func (s *solver) missed() bool {
	if s.reserved == nil || !s.reserved.missed {
		return false
	}
	s.reserved.missed = false
	return true
}

// loosen is the next round for pods that wait for reserved capacity: it frees what claims hold in excess, or
// else gives up on what is not free. It reports whether trying again makes sense.
func (s *solver) loosen(refused []*item) bool {
	if s.reserved == nil || !slices.ContainsFunc(refused, func(it *item) bool { return it.deferred }) {
		return false
	}
	for _, it := range refused {
		it.deferred = false
	}
	return s.trimHolds() || s.closeReservations()
}

// trimHolds leaves each claim the reservation that is cheapest for it.
func (s *solver) trimHolds() bool {
	trimmed := false
	for _, b := range s.bins {
		if b.open == nil || len(b.open.holds) < 2 {
			continue
		}
		o := b.open
		if offers := o.template.priced(o); len(offers) > 0 {
			s.hold(o, []string{offers[0].reservation})
			trimmed = true
		}
	}
	return trimmed
}

// closeReservations makes what is not free unavailable for claims opened from here on.
func (s *solver) closeReservations() bool {
	any := false
	for _, key := range slices.Sorted(maps.Keys(s.reserved.left)) {
		if s.reserved.left[key] <= 0 && !s.reserved.closed[key] {
			s.reserved.closed[key], any = true, true
		}
	}
	if !any {
		return false
	}
	s.reserved.moved++
	for _, t := range s.templates {
		f := &offered{shapes: slices.Clone(t.offered.shapes), states: map[string]*state{}}
		for i := range f.shapes {
			if s.reserved.closed[t.catalog.Shapes[i].Reservation] {
				f.shapes[i] = catalog.NewBits(len(t.catalog.Types))
			}
		}
		t.offered = f
		t.root = t.state(t.base)
	}
	return true
}

// heldReservations reports that some of the types have, in state n, available reserved capacity of which other claims hold all.
func (s *solver) heldReservations(t *template, n *state, types catalog.Bits) bool {
	if s.reserved == nil {
		return false
	}
	return slices.ContainsFunc(t.catalog.Shapes, func(x catalog.Shape) bool {
		return s.reserved.closed[x.Reservation] && x.Offered.Meets(types) && n.set.CompatibleSet(x.Requirements, requirement.AllKnown)
	})
}

// reservedOnly narrows a finished claim that holds reservations to the types that can use them, unless
// minValues needs the others, and to what they demand of its nodes.
func (o *openClaim) reservedOnly(offers []pricedOffer, set requirement.Set) ([]pricedOffer, requirement.Set) {
	if len(o.holds) == 0 {
		return offers, set
	}
	set = set.Add(requirement.In(karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeReserved))
	if ids := o.reservationIDs(); len(ids) > 0 {
		set = set.Add(requirement.In(awsv1.LabelCapacityReservationID, ids...))
	}
	var kept []pricedOffer
	types := catalog.NewBits(len(o.template.catalog.Types))
	for _, x := range offers {
		if x.reservation != "" {
			kept = append(kept, x)
			types.Add(o.template.catalog.Type(x.InstanceType).Index)
		}
	}
	if len(o.template.unmet(o.state.set, types, o.minima)) > 0 {
		kept = offers
	}
	return kept, set
}

// reservationIDs of what the claim holds, where known.
func (o *openClaim) reservationIDs() []string {
	var ids []string
	for i := range o.template.catalog.Shapes {
		if s := &o.template.catalog.Shapes[i]; s.ReservationID != "" && slices.Contains(o.holds, s.Reservation) {
			ids = append(ids, s.ReservationID)
		}
	}
	return ids
}

// offers reports that the claim may get an offering of a shape: what it does not hold it may not, and if it
// holds something nothing else.
func (o *openClaim) offers(shape *catalog.Shape) bool {
	return len(o.holds) == 0 && shape.Reservation == "" || slices.Contains(o.holds, shape.Reservation)
}

// rankLast orders offerings that the claim may not get, but whose types minValues needs, after all others.
const rankLast = int64(math.MaxInt64)
