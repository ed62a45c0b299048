package pack

import (
	"cmp"
	"slices"

	"millwright/planner/provision/internal/offer"
	"millwright/planner/provision/internal/place"
	"millwright/planner/provision/internal/solve"
	"millwright/planner/topology"
)

// Packer looks for a cheaper way to pack the pods of the new claims, after the first plan is complete. It
// takes claims apart and repacks their pods, by the same solver in another order or with another bound, and
// keeps what is cheaper. A pod keeps the preferences that are met for it, and never moves to a NodePool of
// lower weight.
type Packer struct {
	*solve.Solver
	// items are the pods of each new claim, in the order of the queue.
	items map[*place.Bin][]*solve.Item
	// budget is the number of steps left; a try ends when steps reach stopAt.
	budget, stopAt int
	// enough is a price that is not worth improving upon.
	enough int64
	// guards watch what placed pods depend on; tries counts the tries, for them.
	guards map[*topology.Group]*guard
	tries  int
	// ranks are the weights of the templates as a position: 0 is the highest weight.
	ranks []int
}

const (
	// The search of a round takes at most stepsMin steps plus stepsPerPod for each pod, and no more than
	// stepsMax: about half a second of one core. For very many pods it is stepsLeast for each, so that all
	// can be repacked once.
	stepsMin    = 400_000
	stepsPerPod = 800
	stepsMax    = 6_000_000
	stepsLeast  = 100
	// failuresMax: a pass over parts ends after this many in a row that could not be packed cheaper. The most
	// wasteful come first.
	failuresMax = 16
	// The search ends when the claims cost at most one part in enoughPart more than the lower bound.
	enoughPart = 500
)

// Repack makes the new claims cheaper, as far as the budget allows: three fifths of it for all claims
// together, the rest for parts.
func Repack(s *solve.Solver) {
	p := NewPacker(s)
	bins := p.bins()
	if p.podsOf(bins) == len(bins) {
		return // a single pod is already on the cheapest type that it can use
	}
	for _, b := range bins {
		t := b.Open().Template
		t.Demand = t.Demand.Add(b.Open().Used)
	}
	floor := LowerBound(s, true)
	p.enough = offer.AddSaturated(floor, 1, floor/enoughPart)
	p.setGuards()
	pods := p.podsOf(bins)
	budget := max(min(stepsMax, stepsMin+stepsPerPod*pods), stepsLeast*pods)
	parts := budget * 2 / 5
	p.budget = budget - parts
	p.wholes()
	p.budget += parts
	p.parts()
}

// NewPacker of the new claims, without guards.
func NewPacker(s *solve.Solver) *Packer {
	p := &Packer{Solver: s, items: map[*place.Bin][]*solve.Item{}}
	for _, it := range s.Items {
		if it.Bin != nil && it.Bin.Open() != nil {
			p.items[it.Bin] = append(p.items[it.Bin], it)
		}
	}
	for _, b := range p.bins() {
		b.Open().Price = b.Open().Cost()
	}
	p.rank()
	return p
}

// bins are the new claims, in the order they were opened. Those that hold reserved capacity, or try what was
// not there before, stay as they are.
func (p *Packer) bins() []*place.Bin {
	var list []*place.Bin
	for b, o := range p.Claims() {
		if len(o.Holds) == 0 && o.Probes == nil {
			list = append(list, b)
		}
	}
	return list
}

func (p *Packer) rank() {
	p.ranks = make([]int, len(p.Templates))
	for i, t := range p.Templates {
		if i == 0 {
			continue
		}
		p.ranks[i] = p.ranks[i-1]
		if offer.Weight(t.Pool) != offer.Weight(p.Templates[i-1].Pool) {
			p.ranks[i]++
		}
	}
}

// strategy is one way to pack.
type strategy struct {
	offer.Ceiling
	order order
	// repellingFirst: pods that keep others off their node come before the others, who fill what they leave.
	repellingFirst bool
	// repelling: claims that such a pod opens grow up to types that cost at most this many quarters of the
	// demand's price per claim; 0: like the others. Otherwise the first of them would take all other pods,
	// and each of the rest would have a node of its own.
	repelling int64
	// fewest: claims with the fewest pods are tried first, as in the reference (scheduling §7.3).
	fewest bool
}

// wholeStrategies are tried on all new claims together, first those that do best on many pods: the budget may
// end before the last. On generated batches each adds most to those before it.
var wholeStrategies = []strategy{
	{Ceiling: offer.Ceiling{Measure: offer.BySum, Waste: 100}, order: byTurns, repellingFirst: true, repelling: 3},
	{Ceiling: offer.Ceiling{Measure: offer.ByScarcest, Waste: 20}, order: byTurns, repellingFirst: true, repelling: 4},
	{Ceiling: offer.Ceiling{Measure: offer.ByScarcest, Waste: 100}, order: byShare, repellingFirst: true, repelling: 8},
	{Ceiling: offer.Ceiling{Measure: offer.ByScarcest, Waste: 0}, order: byTurns, repelling: 3},
	{Ceiling: offer.Ceiling{Measure: offer.ByScarcest, Waste: 20}, order: byShare, repelling: 4, fewest: true},
	{Ceiling: offer.Ceiling{Measure: offer.ByScarcest, Waste: 0}, order: byShare, repellingFirst: true, repelling: 4},
	{Ceiling: offer.Ceiling{Measure: offer.ByScarcest, Waste: 100}, repellingFirst: true, repelling: 3, fewest: true},
	{Ceiling: offer.Ceiling{Measure: offer.BySum, Waste: 0}, order: byMemory, repelling: 8, fewest: true},
	{Ceiling: offer.Ceiling{Measure: offer.ByScarcest, Waste: 0}, repelling: 3},
	{Ceiling: offer.Ceiling{Measure: offer.ByScarcest, Waste: 0}, order: byTurns, repelling: 8, fewest: true},
	{Ceiling: offer.Ceiling{Waste: -1}, order: bySizeTurns, repellingFirst: true, repelling: 6},
	{Ceiling: offer.Ceiling{Measure: offer.ByScarcest, Waste: 0}, order: bySizeTurns, repelling: 3},
}

// wholes repacks all new claims: those of NodePools of equal weight together, so that no pod is moved to a
// NodePool of lower weight.
func (p *Packer) wholes() {
	ranks := p.ranks[len(p.ranks)-1] + 1
	fairs := make([]int64, ranks)
	for r := range fairs {
		fairs[r] = fairPrice(p.ranked(r))
	}
	for i := range wholeStrategies {
		for r := range fairs {
			if p.done() {
				return
			}
			st := wholeStrategies[i]
			bins := p.ranked(r)
			pods := p.podsOf(bins)
			if pods == len(bins) || st.fewest && pods*len(bins) > solve.FewestMax {
				continue
			}
			st.RepellingMax = fairs[r] * st.repelling / 4
			p.try(bins, &st)
		}
	}
}

// done reports that further search cannot pay off, or that the budget is used up.
func (p *Packer) done() bool {
	return p.budget <= 0 || priceOf(p.bins()) <= p.enough
}

// ranked are the new claims of the NodePools with a rank.
func (p *Packer) ranked(rank int) []*place.Bin {
	return slices.DeleteFunc(p.bins(), func(b *place.Bin) bool { return p.ranks[b.Open().Template.Index] != rank })
}

// fairPrice is what the pods of some claims cost on the types that are cheapest for the demand, per claim.
func fairPrice(bins []*place.Bin) int64 {
	sum := int64(0)
	for _, b := range bins {
		sum += fair(b, offer.ByScarcest)
	}
	return sum / max(1, int64(len(bins)))
}

// fair is a claim's share of what the whole demand costs on the type that is cheapest for it, in micro USD.
func fair(b *place.Bin, m offer.Measure) int64 {
	r := b.Open().State.Ranking(m)
	if len(r.Order) == 0 {
		return 0
	}
	return share(r.Cost[r.Order[0]], b.Open())
}

// groupSizes are how many claims are repacked together, in passes over all.
var groupSizes = []int{1, 2, 3, 4, 6, 2, 1}

func (p *Packer) podsOf(bins []*place.Bin) int {
	n := 0
	for _, b := range bins {
		n += len(b.Added)
	}
	return n
}

// parts repacks single claims, and a few together, the most wasteful first.
func (p *Packer) parts() {
	for _, size := range groupSizes {
		if p.done() {
			return
		}
		list, failures := p.wasteful(), 0
		for len(list) > 0 && p.budget > 0 && failures < failuresMax {
			group := list[:min(size, len(list))]
			list = list[len(group):]
			if p.part(group) {
				failures = 0
			} else {
				failures++
			}
		}
	}
	if !p.done() {
		p.exacts()
	}
}

// part packs a few claims cheaper: by fewer and by smaller types, until one way works.
func (p *Packer) part(group []*place.Bin) bool {
	dearest := int64(0)
	for _, b := range group {
		dearest = max(dearest, b.Open().Price)
	}
	for _, o := range []order{asQueued, byMemory} {
		for _, eighths := range []int64{7, 5, 4, 2} {
			for _, m := range []offer.Measure{offer.ByScarcest, offer.BySum} {
				if p.budget <= 0 {
					return false
				}
				st := strategy{Ceiling: offer.Ceiling{Measure: m, Waste: 100, PriceMax: dearest * eighths / 8}, order: o}
				if p.try(group, &st) {
					return true
				}
			}
		}
		if len(group) > 1 && p.budget > 0 && p.try(group, &strategy{Ceiling: offer.Ceiling{Waste: -1}, order: o}) {
			return true
		}
	}
	return false
}

// wasteful lists the new claims by how much more they cost than their share of the demand, the most expensive
// first.
func (p *Packer) wasteful() []*place.Bin {
	bins := p.bins()
	waste := make(map[*place.Bin]int64, len(bins))
	for _, b := range bins {
		waste[b] = b.Open().Price - fair(b, offer.BySum)
	}
	slices.SortStableFunc(bins, func(a, b *place.Bin) int { return cmp.Compare(waste[b], waste[a]) })
	return bins
}

// share is what a claim's pods would cost if the whole demand cost this much, in micro USD.
func share(cost int64, o *place.OpenClaim) int64 {
	d := &o.Template.Demand
	return max(portion(cost, o.Used.MilliCPU, d.MilliCPU), portion(cost, o.Used.Memory, d.Memory)) >> offer.CostShift
}

// portion is cost × part / whole.
func portion(cost, part, whole int64) int64 {
	if cost == offer.NoPrice || whole <= 0 {
		return 0
	}
	return offer.Scaled(cost>>offer.CostShift, part, whole)
}

// repacking is a trial in which the pods of a group of claims look for a cheaper place.
type repacking struct {
	group []*place.Bin
	// watched is what others rely on that the pods count for.
	watched []guarded
	// waiting are the pods in the order of the queue.
	waiting []movingItem
}

// movingItem is a pod that is being repacked, and the claim where it was before.
type movingItem struct {
	*solve.Item
	previous *place.Bin
	// keeps is the level of the preferences that are met in the present plan; it must stay at that or a lower
	// one.
	keeps int
}

// try repacks the pods of a group of claims, and keeps the outcome if it is better.
func (p *Packer) try(group []*place.Bin, st *strategy) bool {
	r := p.takeApart(group)
	steps := p.Steps
	m := solve.Mode{Ceiling: &st.Ceiling}
	if st.fewest {
		m.Fewest = &solve.FewestFirst{}
	}
	p.stopAt = p.Steps + p.budget
	ok := p.packAnew(r.waiting, priceOf(group), st, &m)
	p.budget -= p.Steps - steps + place.StepsWhole*len(r.waiting)
	return p.keepIf(ok && p.better(&r) && p.preservesOthers(&r), &r)
}

// takeApart begins a trial in which the claims of a group are gone and their pods may go to claims that it
// opens.
func (p *Packer) takeApart(group []*place.Bin) repacking {
	r := repacking{group: group, watched: p.watch(group), waiting: make([]movingItem, 0, p.podsOf(group))}
	for _, b := range group {
		for _, it := range p.items[b] {
			r.waiting = append(r.waiting, movingItem{it, b, p.Keeps(it)})
		}
	}
	slices.SortFunc(r.waiting, func(a, b movingItem) int { return cmp.Compare(a.At, b.At) })
	p.Begin(solve.Bounds{ClaimsMax: -1, OwnClaims: true})
	p.TakeApart(group, p.items)
	return r
}

// keepIf ends the trial: it keeps the claims that it opened in place of the group, or restores the group. It
// returns keep.
func (p *Packer) keepIf(keep bool, r *repacking) bool {
	if !keep {
		p.Revert()
		return false
	}
	p.Commit()
	for _, b := range r.group {
		delete(p.items, b)
	}
	for _, w := range r.waiting {
		p.items[w.Item.Bin] = append(p.items[w.Item.Bin], w.Item)
	}
	return true
}

// Keeps is the level whose preferences are met in the present plan: pods that came after this one may have
// undone what it got.
func (p *Packer) Keeps(it *solve.Item) int {
	levels := it.Class.Levels
	for i := it.Level; i < len(levels); i++ {
		if !slices.ContainsFunc(levels[i].Soft, func(c *topology.Constraint) bool { return !p.Holds(it.Bin, c) }) {
			return i
		}
	}
	return len(levels) - 1
}

func priceOf(bins []*place.Bin) (sum int64) {
	for _, b := range bins {
		sum += b.Open().Price
	}
	return sum
}

// packAnew places the pods on claims that the trial opens; false if one finds no place, if they cost more
// than priceMax together, or at the end of the budget.
func (p *Packer) packAnew(waiting []movingItem, priceMax int64, st *strategy, m *solve.Mode) bool {
	waiting = st.sorted(waiting)
	price := int64(0)
	for len(waiting) > 0 {
		var refused []movingItem
		for _, w := range waiting {
			if p.Steps > p.stopAt {
				return false
			}
			if !p.AttemptLevels(w.Item, w.keeps+1, m) {
				refused = append(refused, w)
				continue
			}
			o := w.Item.Bin.Open()
			now := o.Cost()
			price += now - o.Price
			if price > priceMax {
				return false
			}
			o.Price = now
		}
		if len(refused) == len(waiting) {
			return false
		}
		waiting = refused
	}
	return true
}

// better compares what a group became with what it was: it must be cheaper, by a thousandth more for each
// further claim; or cost the same with fewer claims.
func (p *Packer) better(r *repacking) bool {
	fresh := p.Trial.Opened(p.Solver)
	for _, b := range fresh {
		if len(b.Open().Holds) > 0 || b.Open().Probes != nil {
			return false
		}
	}
	before, after := priceOf(r.group), priceOf(fresh)
	more := len(fresh) - len(r.group)
	switch {
	case after > before, after == before && more >= 0:
		return false
	case more > 0 && before-after < before/1000*int64(min(more, 10)):
		return false
	}
	return p.keepsRank(r.waiting)
}

// keepsRank reports that no NodePool lost pods to one of lower weight.
func (p *Packer) keepsRank(waiting []movingItem) bool {
	lead := make([]int, len(p.Templates)+1)
	for _, w := range waiting {
		lead[p.ranks[w.previous.Open().Template.Index]]--
		lead[p.ranks[w.Item.Bin.Open().Template.Index]]++
	}
	sum := 0
	for _, n := range lead {
		if sum += n; sum < 0 {
			return false
		}
	}
	return true
}
