package provision

import (
	"cmp"
	"slices"

	"millwright/planner/topology"
)

// packer looks for a cheaper way to pack the pods of the new claims, after the first plan is complete. It takes
// claims apart and packs their pods anew, by the same solver under another order or bound, and keeps what is cheaper.
// A pod keeps the preferences that are met for it, and never moves to a NodePool of less weight.
type packer struct {
	*solver
	// items are the pods of each new claim, in the order of the queue.
	items map[*bin][]*item
	// budget are the steps that are left; a try ends when steps reach stopAt.
	budget, stopAt int
	// enough is a price that is not worth improving upon.
	enough int64
	// guards watch what placed pods depend on; tries counts the tries, for them.
	guards map[*topology.Group]*guard
	tries  int
	// ranks are the weights of the templates as a position: 0 is the heaviest.
	ranks []int
}

const (
	// The search of a round takes at most stepsMin steps and stepsPerPod for each pod, and no more than stepsMax: about
	// half a second of one core. For very many pods it is stepsLeast for each, so that all can be packed anew once.
	stepsMin    = 400_000
	stepsPerPod = 800
	stepsMax    = 6_000_000
	stepsLeast  = 100
	// fewestMax bounds pods × claims of a try that asks the claims with the fewest pods first, for each pod passes by all
	// claims then.
	fewestMax = 1_500_000
	// failuresMax: a pass over parts ends after so many in a row that could not be packed cheaper. Those that waste most come first.
	failuresMax = 16
	// The search ends when the claims cost at most one part in enoughPart more than the lower bound.
	enoughPart = 500
)

// pack makes the new claims cheaper, as far as the budget goes: three fifths for all claims together, the rest for parts.
func (s *solver) pack() {
	p := s.packer()
	bins := p.bins()
	if p.podsOf(bins) == len(bins) {
		return // a pod alone is on the cheapest type it can have
	}
	for _, b := range bins {
		t := b.open.template
		t.demand = t.demand.Add(b.open.used)
	}
	floor := s.lowerBound(true)
	p.enough = addSaturated(floor, 1, floor/enoughPart)
	p.setGuards()
	pods := p.podsOf(bins)
	budget := max(min(stepsMax, stepsMin+stepsPerPod*pods), stepsLeast*pods)
	parts := budget * 2 / 5
	p.budget = budget - parts
	p.wholes()
	p.budget += parts
	p.parts()
}

// packer of the new claims, without guards.
func (s *solver) packer() *packer {
	p := &packer{solver: s, items: map[*bin][]*item{}}
	for _, it := range s.items {
		if it.bin != nil && it.bin.open != nil {
			p.items[it.bin] = append(p.items[it.bin], it)
		}
	}
	for _, b := range p.bins() {
		b.price = b.open.cost()
	}
	p.rank()
	return p
}

// bins are the new claims, in the order they were opened. Those that hold reserved capacity stay as they are.
func (p *packer) bins() []*bin {
	var list []*bin
	for _, b := range p.solver.bins {
		if b.open != nil && !b.gone && len(b.open.holds) == 0 {
			list = append(list, b)
		}
	}
	return list
}

func (p *packer) rank() {
	p.ranks = make([]int, len(p.templates))
	for i, t := range p.templates {
		if i == 0 {
			continue
		}
		p.ranks[i] = p.ranks[i-1]
		if weight(t.pool) != weight(p.templates[i-1].pool) {
			p.ranks[i]++
		}
	}
}

// strategy is one way to pack.
type strategy struct {
	ceiling
	order order
	// apartFirst: pods that keep others off their node come before the others, who fill what they leave.
	apartFirst bool
	// apart: claims that such a pod opens grow up to types that cost at most so many quarters of the demand's price
	// per claim; 0: as others do. Else the first of them takes all other pods, and each of the rest has a node of its own.
	apart int64
	// fewest: claims with the fewest pods are asked first, as in the reference (scheduling §7.3).
	fewest bool
}

// wholeStrategies are tried on all new claims together, those first that do best on many pods: the budget may end before the
// last. On generated batches each adds most to those before it.
var wholeStrategies = []strategy{
	{ceiling: ceiling{measure: bySum, waste: 100}, order: byTurns, apartFirst: true, apart: 3},
	{ceiling: ceiling{measure: byScarcest, waste: 20}, order: byTurns, apartFirst: true, apart: 4},
	{ceiling: ceiling{measure: byScarcest, waste: 100}, order: byShare, apartFirst: true, apart: 8},
	{ceiling: ceiling{measure: byScarcest, waste: 0}, order: byTurns, apart: 3},
	{ceiling: ceiling{measure: byScarcest, waste: 20}, order: byShare, apart: 4, fewest: true},
	{ceiling: ceiling{measure: byScarcest, waste: 0}, order: byShare, apartFirst: true, apart: 4},
	{ceiling: ceiling{measure: byScarcest, waste: 100}, apartFirst: true, apart: 3, fewest: true},
	{ceiling: ceiling{measure: bySum, waste: 0}, order: byMemory, apart: 8, fewest: true},
	{ceiling: ceiling{measure: byScarcest, waste: 0}, apart: 3},
	{ceiling: ceiling{measure: byScarcest, waste: 0}, order: byTurns, apart: 8, fewest: true},
	{ceiling: ceiling{waste: -1}, order: bySizeTurns, apartFirst: true, apart: 6},
	{ceiling: ceiling{measure: byScarcest, waste: 0}, order: bySizeTurns, apart: 3},
}

// wholes packs all new claims anew: those of NodePools of equal weight together, so that no pod is drawn to a NodePool
// of less weight.
func (p *packer) wholes() {
	ranks := p.ranks[len(p.ranks)-1] + 1
	fair := make([]int64, ranks)
	for r := range fair {
		fair[r] = fairPrice(p.ranked(r))
	}
	for i := range wholeStrategies {
		for r := range fair {
			if p.done() {
				return
			}
			st := wholeStrategies[i]
			bins := p.ranked(r)
			pods := p.podsOf(bins)
			if pods == len(bins) || st.fewest && pods*len(bins) > fewestMax {
				continue
			}
			st.apartMax = fair[r] * st.apart / 4
			p.try(bins, &st)
		}
	}
}

// done reports that more search can't pay, or that the budget is used up.
func (p *packer) done() bool {
	return p.budget <= 0 || priceOf(p.bins()) <= p.enough
}

// ranked are the new claims of the NodePools with a rank.
func (p *packer) ranked(rank int) []*bin {
	return slices.DeleteFunc(p.bins(), func(b *bin) bool { return p.ranks[b.open.template.index] != rank })
}

// fairPrice is what the pods of some claims cost on the types that are cheapest for the demand, per claim.
func fairPrice(bins []*bin) int64 {
	sum := int64(0)
	for _, b := range bins {
		sum += b.fair(byScarcest)
	}
	return sum / max(1, int64(len(bins)))
}

// fair is a claim's share of what the whole demand costs on the type that is cheapest for it, in micro USD.
func (b *bin) fair(m measure) int64 {
	r := b.open.state.ranking(m)
	if len(r.order) == 0 {
		return 0
	}
	return share(r.cost[r.order[0]], b.open)
}

// groupSizes are how many claims are packed anew together, in passes over all.
var groupSizes = []int{1, 2, 3, 4, 6, 2, 1}

func (p *packer) podsOf(bins []*bin) int {
	n := 0
	for _, b := range bins {
		n += len(b.added)
	}
	return n
}

// parts packs single claims, and few together, anew: those that waste most first.
func (p *packer) parts() {
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
func (p *packer) part(group []*bin) bool {
	dearest := int64(0)
	for _, b := range group {
		dearest = max(dearest, b.price)
	}
	for _, o := range []order{asQueued, byMemory} {
		for _, eighths := range []int64{7, 5, 4, 2} {
			for _, m := range []measure{byScarcest, bySum} {
				if p.budget <= 0 {
					return false
				}
				st := strategy{ceiling: ceiling{measure: m, waste: 100, priceMax: dearest * eighths / 8}, order: o}
				if p.try(group, &st) {
					return true
				}
			}
		}
		if len(group) > 1 && p.budget > 0 && p.try(group, &strategy{ceiling: ceiling{waste: -1}, order: o}) {
			return true
		}
	}
	return false
}

// wasteful lists the new claims by how much dearer they are than their share of the demand, dearest first.
func (p *packer) wasteful() []*bin {
	bins := p.bins()
	waste := make(map[*bin]int64, len(bins))
	for _, b := range bins {
		waste[b] = b.price - b.fair(bySum)
	}
	slices.SortStableFunc(bins, func(a, b *bin) int { return cmp.Compare(waste[b], waste[a]) })
	return bins
}

// share is what a claim's pods would cost if the whole demand cost so much, in micro USD.
func share(cost int64, o *openClaim) int64 {
	d := &o.template.demand
	return max(portion(cost, o.used.MilliCPU, d.MilliCPU), portion(cost, o.used.Memory, d.Memory)) >> costShift
}

// portion is cost × part / whole.
func portion(cost, part, whole int64) int64 {
	if cost == noPrice || whole <= 0 {
		return 0
	}
	return scaled(cost>>costShift, part, whole)
}

// try packs the pods of a group of claims anew. It keeps the outcome if it is better, and restores the group if not.
func (p *packer) try(group []*bin, st *strategy) bool {
	watched := p.watch(group)
	waiting := p.take(group)
	from := len(p.solver.bins)
	steps := p.steps
	p.ceiling, p.fewest, p.ordered = &st.ceiling, st.fewest, nil
	p.stopAt = p.steps + p.budget
	ok := p.packAnew(waiting, from, priceOf(group), st)
	p.ceiling, p.fewest = nil, false
	p.budget -= p.steps - steps + stepsWhole*len(waiting)
	return p.settle(ok && p.better(group, p.solver.bins[from:], waiting) && p.spared(watched, waiting), group, from, waiting)
}

// settle keeps the claims made since from in place of a group, or restores the group; it returns what it is told.
func (p *packer) settle(keep bool, group []*bin, from int, waiting []was) bool {
	if keep {
		p.keep(group, waiting)
	} else {
		p.undo(group, p.solver.bins[from:], waiting)
	}
	return keep
}

// was is where a pod was before a try.
type was struct {
	*item
	bin   *bin
	level int
	// keeps is the level of the preferences that are met as the plan stands; it must stay at that or a lower one.
	keeps int
}

// take removes claims and returns their pods in the order of the queue.
func (p *packer) take(group []*bin) []was {
	waiting := make([]was, 0, p.podsOf(group))
	for _, b := range group {
		for _, it := range p.items[b] {
			waiting = append(waiting, was{it, b, it.level, p.keeps(it)})
		}
	}
	for _, b := range group {
		b.gone = true
		b.uncount()
		o := b.open
		o.template.limits.reserve(o.reserved.Negated(), -1)
	}
	slices.SortFunc(waiting, func(a, b was) int { return cmp.Compare(a.at, b.at) })
	return waiting
}

// keeps is the level whose preferences are met as the plan stands: pods that came after this one may have undone what it got.
func (p *packer) keeps(it *item) int {
	levels := it.class.levels
	for i := it.level; i < len(levels); i++ {
		if !slices.ContainsFunc(levels[i].soft, func(c *topology.Constraint) bool { return !p.holds(it.bin, c) }) {
			return i
		}
	}
	return len(levels) - 1
}

func priceOf(bins []*bin) (sum int64) {
	for _, b := range bins {
		sum += b.price
	}
	return sum
}

// packAnew places the pods on claims that it opens; false if one finds no place, if they cost more than priceMax together,
// or at the end of the budget.
func (p *packer) packAnew(waiting []was, from int, priceMax int64, st *strategy) bool {
	for _, w := range waiting {
		w.item.bin = nil
		w.class.full.truncate(from)
		for _, lv := range w.class.levels {
			lv.cursor, lv.refusedAt, lv.deferredAt = from, -1, -1
			lv.dead.truncate(from)
		}
	}
	waiting = st.sorted(waiting)
	price := int64(0)
	for len(waiting) > 0 {
		var refused []was
		for _, w := range waiting {
			if p.steps > p.stopAt {
				return false
			}
			if !p.attemptLevels(w.item, w.keeps+1) {
				refused = append(refused, w)
				continue
			}
			now := w.item.bin.open.cost()
			price += now - w.item.bin.price
			if price > priceMax {
				return false
			}
			w.item.bin.price = now
		}
		if len(refused) == len(waiting) {
			return false
		}
		waiting = refused
	}
	return true
}

// better compares what a group became with what it was: cheaper, and for each further claim by a thousandth more; or
// as dear with fewer claims.
func (p *packer) better(group, fresh []*bin, waiting []was) bool {
	for _, b := range fresh {
		if len(b.open.holds) > 0 {
			return false
		}
	}
	before, after := priceOf(group), priceOf(fresh)
	more := len(fresh) - len(group)
	switch {
	case after > before, after == before && more >= 0:
		return false
	case more > 0 && before-after < before/1000*int64(min(more, 10)):
		return false
	}
	return p.keepsRank(waiting)
}

// keepsRank reports that no NodePool lost pods to one of less weight.
func (p *packer) keepsRank(waiting []was) bool {
	lead := make([]int, len(p.templates)+1)
	for _, w := range waiting {
		lead[p.ranks[w.bin.open.template.index]]--
		lead[p.ranks[w.item.bin.open.template.index]]++
	}
	sum := 0
	for _, n := range lead {
		if sum += n; sum < 0 {
			return false
		}
	}
	return true
}

func (p *packer) keep(group []*bin, waiting []was) {
	for _, b := range group {
		delete(p.items, b)
	}
	for _, w := range waiting {
		p.items[w.item.bin] = append(p.items[w.item.bin], w.item)
	}
}

func (p *packer) undo(group, fresh []*bin, waiting []was) {
	for _, b := range fresh {
		b.uncount()
		b.open.template.limits.reserve(b.open.reserved.Negated(), -1)
		if len(b.open.holds) > 0 {
			p.hold(b.open, nil)
		}
		p.discard(b)
	}
	p.solver.bins = p.solver.bins[:len(p.solver.bins)-len(fresh)]
	for _, b := range group {
		b.gone = false
		b.recount()
		b.open.template.limits.reserve(b.open.reserved, 1)
	}
	for _, w := range waiting {
		w.item.bin, w.item.level = w.bin, w.level
	}
}
