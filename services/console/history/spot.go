package history

import (
	"cmp"
	"maps"
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
)

// Spot is what spot instances saved against the same types on demand in the same zones, by the prices at
// their launch: those of spot move afterwards, which no record tells.
type Spot struct {
	// Since is from when on it is counted: the beginning of the hour that was asked for, or of the day, if
	// that is more than two months ago.
	Since time.Time `json:"since,omitzero"`
	// Items by NodePool, at most itemsMax: further ones are in one with the name "(others)".
	Items []SpotSaving `json:"items"`
	Total SpotSaving   `json:"total"`
	// Namespaces and Teams are whose pods it was for, each adding up to Total (shares.go). Teams are told
	// once a record tells of a label that names them.
	Namespaces []SpotShare `json:"namespaces"`
	Teams      []SpotShare `json:"teams"`
}

// SpotSaving is what the spot instances of a NodePool saved.
type SpotSaving struct {
	NodePool string `json:"nodePool,omitempty"`
	// Instances that ran in that time; Unpriced are those of them whose record tells no on-demand price, as
	// those launched by versions before it was recorded: nothing is counted for them. Running run now.
	Instances int `json:"instances"`
	Unpriced  int `json:"unpriced"`
	Running   int `json:"running"`
	// PerHour is what the running ones save, in micro USD per hour.
	PerHour int64 `json:"perHour"`
	// OnDemand is what all would have cost on demand, in micro USD, Saved how much less they cost; negative
	// if spot was dearer.
	OnDemand int64 `json:"onDemand"`
	Saved    int64 `json:"saved"`
}

func (s *SpotSaving) add(o SpotSaving) {
	s.Instances, s.Unpriced, s.Running = s.Instances+o.Instances, s.Unpriced+o.Unpriced, s.Running+o.Running
	s.PerHour, s.OnDemand, s.Saved = s.PerHour+o.PerHour, s.OnDemand+o.OnDemand, s.Saved+o.Saved
}

// spotSums are of the instances of a NodePool that have ended: Instances and Unpriced of those that ended in
// a span, and what all of them cost in it.
type spotSums struct {
	Instances, Unpriced int
	OnDemand, Saved     int64
}

func (s spotSums) plus(o spotSums) spotSums {
	return spotSums{s.Instances + o.Instances, s.Unpriced + o.Unpriced, s.OnDemand + o.OnDemand, s.Saved + o.Saved}
}

// spotSpans are these sums by NodePool.
type spotSpans struct{ spans[string, spotSums] }

// add counts an instance from its launch to its end.
func (s *spotSpans) add(c *claim, end time.Time) {
	last := s.number(end)
	s.sum(last, c.pool, spotSums{Instances: 1, Unpriced: c.unpriced()})
	if c.unpriced() > 0 {
		return
	}
	for n := max(s.number(c.since), last-int64(s.keep)+1, s.floor); n <= last; n++ {
		from, to := later(c.since, s.begin(n)), s.begin(n+1)
		if end.Before(to) {
			to = end
		}
		onDemand, cost := micro(c.onDemand, to.Sub(from)), micro(c.price, to.Sub(from))
		s.sum(n, c.pool, spotSums{OnDemand: onDemand, Saved: onDemand - cost})
	}
}

// unpriced is 1 for a spot instance of which not both prices are known, else 0.
func (c *claim) unpriced() int {
	if c.onDemand == 0 || c.price == 0 {
		return 1
	}
	return 0
}

// onSpot notes that the instance of a claim, which was counted before, is a spot instance.
func (h *History) onSpot(p *ledger.Launched) {
	if c := h.claims[p.Claim]; c != nil && c.up && p.CapacityType == karpv1.CapacityTypeSpot {
		c.spot, c.onDemand = true, p.OnDemandPrice
	}
}

// spotEnded counts a spot instance that is no more.
func (h *History) spotEnded(c *claim, end time.Time) {
	if !c.spot || c.since.IsZero() {
		return
	}
	for i := range h.spot {
		h.spot[i].add(c, later(end, c.since)) // a clock may have been set back
	}
	c.spot = false
}

// spotSince sums up what spot instances saved from a time to now.
func (h *History) spotSince(since, now time.Time) Spot {
	since = later(since, h.first.Time)
	res := 0
	if s := &h.spot[0]; s.number(since) < max(s.floor, s.number(now)-int64(s.keep)+1) {
		res = 1
	}
	s := &h.spot[res]
	first := max(s.number(since), s.floor, s.number(now)-int64(s.keep)+1)
	out := Spot{Since: s.begin(first), Items: []SpotSaving{}}
	items := map[string]*SpotSaving{}
	count := func(pool string, x SpotSaving) {
		if items[pool] == nil && len(items) >= itemsMax {
			pool = others
		}
		if items[pool] == nil {
			items[pool] = &SpotSaving{NodePool: pool}
		}
		items[pool].add(x)
		out.Total.add(x)
	}
	for _, number := range slices.Sorted(maps.Keys(s.sums)) {
		for _, pool := range slices.Sorted(maps.Keys(s.sums[number])) {
			if x := s.sums[number][pool]; number >= first {
				count(pool, SpotSaving{Instances: x.Instances, Unpriced: x.Unpriced, OnDemand: x.OnDemand, Saved: x.Saved})
			}
		}
	}
	for _, c := range h.spotRunning() {
		x := SpotSaving{Instances: 1, Running: 1, Unpriced: c.unpriced()}
		if x.Unpriced == 0 {
			ran := now.Sub(later(c.since, out.Since))
			x.PerHour, x.OnDemand = c.onDemand-c.price, micro(c.onDemand, ran)
			x.Saved = x.OnDemand - micro(c.price, ran)
		}
		count(c.pool, x)
	}
	for _, pool := range slices.Sorted(maps.Keys(items)) {
		out.Items = append(out.Items, *items[pool])
	}
	h.shareOut(res, first, now, &out)
	return out
}

// spotRunning are the claims with a spot instance that has not ended, by NodePool.
func (h *History) spotRunning() []*claim {
	var list []*claim
	for _, c := range h.claims {
		if c.up && c.spot {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b *claim) int { return cmp.Compare(a.pool, b.pool) })
	return list
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
