package provision

import (
	"cmp"
	"slices"

	"millwright/planner/topology"
)

// packer looks for a cheaper way to pack the pods of the new claims, after the first plan is complete. It takes
// claims apart and packs their pods anew, by the same solver under another order or bound, and keeps what is cheaper.
// A pod keeps the preferences that were met for it, and never moves to a NodePool of less weight.
type packer struct {
	*solver
	// items are the pods of each new claim, in the order of the queue.
	items map[*bin][]*item
	price map[*bin]int64
	// budget are the steps that are left; a try ends when steps reach stopAt.
	budget, stopAt int
	// guards watch what placed pods depend on; tries counts the tries, for them.
	guards map[*topology.Group]*guard
	tries  int
	// ranks are the weights of the templates as a position: 0 is the heaviest.
	ranks []int
}

const (
	// The search of a round takes at most stepsMin steps and stepsPerPod for each pod, and no more than stepsMax: about
	// half a second of one core.
	stepsMin    = 400_000
	stepsPerPod = 800
	stepsMax    = 6_000_000
	// fewestMax bounds pods × claims of a try that asks the claims with the fewest pods first, for each pod passes by all
	// claims then.
	fewestMax = 1_500_000
)

// pack makes the new claims cheaper, as far as the budget goes.
func (s *solver) pack() {
	p := &packer{solver: s, items: map[*bin][]*item{}, price: map[*bin]int64{}}
	for _, it := range s.items {
		if it.bin != nil && it.bin.open != nil {
			p.items[it.bin] = append(p.items[it.bin], it)
		}
	}
	bins := p.bins()
	if !slices.ContainsFunc(bins, func(b *bin) bool { return len(b.added) > 1 }) {
		return // a pod alone is on the cheapest type it can have
	}
	for _, b := range bins {
		p.price[b] = b.open.cheapest()
		t := b.open.template
		t.demand = t.demand.Add(b.open.used)
	}
	p.budget = min(stepsMax, stepsMin+stepsPerPod*p.podsOf(bins))
	p.rank()
	p.setGuards()
	p.wholes()
	p.parts()
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
	// fewest: claims with the fewest pods are asked first, as in the reference (scheduling §7.3).
	fewest bool
}

type order uint8

const (
	// asQueued: CPU, then memory, descending.
	asQueued order = iota
	// byMemory: memory, then CPU, descending.
	byMemory
	// byShare: by the larger share of the demand, descending.
	byShare
)

// wholeStrategies are tried on all new claims together, the most promising ones first.
var wholeStrategies = []strategy{
	{ceiling: ceiling{waste: -1}, fewest: true},
	{ceiling: ceiling{measure: byScarcest, waste: 20}},
	{ceiling: ceiling{measure: byScarcest, waste: 20}, fewest: true},
	{ceiling: ceiling{measure: bySum, waste: 50}, fewest: true},
	{ceiling: ceiling{measure: byScarcest, waste: 100}, fewest: true, order: byShare},
	{ceiling: ceiling{measure: bySum, waste: 50}},
	{ceiling: ceiling{measure: byScarcest, waste: 100}, order: byShare},
	{ceiling: ceiling{measure: byScarcest, waste: 0}, order: byMemory},
	{ceiling: ceiling{measure: bySum, waste: 0}},
	{ceiling: ceiling{waste: -1}, order: byShare},
	{ceiling: ceiling{measure: byScarcest, waste: 250}},
}

// wholes packs all new claims anew.
func (p *packer) wholes() {
	for i := range wholeStrategies {
		if p.budget <= 0 {
			return
		}
		bins := p.bins()
		if wholeStrategies[i].fewest && p.podsOf(bins)*len(bins) > fewestMax {
			continue
		}
		p.try(bins, &wholeStrategies[i])
	}
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
		list := p.wasteful()
		for len(list) > 0 && p.budget > 0 {
			group := list[:min(size, len(list))]
			list = list[len(group):]
			p.part(group)
		}
	}
}

// part packs a few claims cheaper: by fewer and by smaller types, until one way works.
func (p *packer) part(group []*bin) bool {
	dearest := int64(0)
	for _, b := range group {
		dearest = max(dearest, p.price[b])
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
		o := b.open
		r := o.state.ranking(bySum)
		fair := int64(0)
		if len(r.order) > 0 {
			i := r.order[0]
			fair = share(r.cost[i], o)
		}
		waste[b] = p.price[b] - fair
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
	ok := p.packAnew(waiting, from, st)
	p.ceiling, p.fewest = nil, false
	p.budget -= p.steps - steps + stepsWhole*len(waiting)
	fresh := p.solver.bins[from:]
	if ok && p.better(group, fresh, waiting) && p.spared(watched, waiting) {
		p.keep(group, waiting)
		return true
	}
	p.undo(group, fresh, waiting)
	return false
}

// was is where a pod was before a try.
type was struct {
	*item
	bin   *bin
	level int
}

// take removes claims and returns their pods in the order of the queue.
func (p *packer) take(group []*bin) []was {
	var waiting []was
	for _, b := range group {
		b.gone = true
		b.uncount()
		o := b.open
		o.template.limits.reserve(o.reserved.Negated(), -1)
		for _, it := range p.items[b] {
			waiting = append(waiting, was{it, b, it.level})
		}
	}
	slices.SortFunc(waiting, func(a, b was) int { return cmp.Compare(a.at, b.at) })
	return waiting
}

// packAnew places the pods on claims that it opens; false if one finds no place, or at the end of the budget.
func (p *packer) packAnew(waiting []was, from int, st *strategy) bool {
	for _, w := range waiting {
		w.item.bin = nil
		for _, lv := range w.class.levels {
			lv.cursor, lv.refusedAt, lv.deferredAt = from, -1, -1
			lv.dead.truncate(from)
		}
	}
	waiting = p.sorted(waiting, st.order)
	for len(waiting) > 0 {
		var refused []was
		for _, w := range waiting {
			if p.steps > p.stopAt {
				return false
			}
			if !p.attemptLevels(w.item, w.level+1) {
				refused = append(refused, w)
			}
		}
		if len(refused) == len(waiting) {
			return false
		}
		waiting = refused
	}
	return true
}

// sorted returns the pods in an order; equal ones stay as they are in the queue.
func (p *packer) sorted(waiting []was, o order) []was {
	if o == asQueued {
		return waiting
	}
	list := slices.Clone(waiting)
	slices.SortStableFunc(list, func(a, b was) int {
		ra, rb := &a.class.requests, &b.class.requests
		if o == byShare {
			d := &a.bin.open.template.demand
			ka, kb := max(scaled(1<<20, ra.MilliCPU, d.MilliCPU), scaled(1<<20, ra.Memory, d.Memory)),
				max(scaled(1<<20, rb.MilliCPU, d.MilliCPU), scaled(1<<20, rb.Memory, d.Memory))
			return cmp.Compare(kb, ka)
		}
		return cmp.Or(cmp.Compare(rb.Memory, ra.Memory), cmp.Compare(rb.MilliCPU, ra.MilliCPU))
	})
	return list
}

// better compares what a group became with what it was: cheaper, and for each further claim by a thousandth more; or
// as dear with fewer claims.
func (p *packer) better(group, fresh []*bin, waiting []was) bool {
	var before, after int64
	for _, b := range group {
		before += p.price[b]
	}
	for _, b := range fresh {
		if len(b.open.holds) > 0 {
			return false
		}
		p.price[b] = b.open.cheapest()
		after += p.price[b]
	}
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
		delete(p.price, b)
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
		delete(p.price, b)
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
