package packing

import (
	"cmp"
	"iter"
	"math"
	"math/bits"
	"slices"

	"millwright/planner/resource"
)

const (
	// neighbourhoodMax bounds the sites of a neighbourhood that stay, and those that are gone.
	neighbourhoodMax = 64
	// triesMax bounds the exchanges that are tried for one node more.
	triesMax = 6000
)

// neighbourhood is a part of the model that is packed anew as a whole: some sites that are gone, and those
// that stay and have their pods. Pods of other sites that lie there are packed with them; nothing else moves.
//
// Example: a, b and c stay, d and e are gone, their pods lie on a, b and c. To do with two nodes, shrink
// takes b away as well. Some pods find no place then, 1,500m of CPU in all. It keeps d in place of c, since d
// leaves a smaller rest, 500m, and e in place of a, which leaves none: d and e stay, a, b and c go.
type neighbourhood struct {
	k     *Model
	sites []*Site
	// parcels that it deals out while their sites are gone, in each order.
	parcels [orders][]*Parcel
	tries   int
	// live is a buffer.
	live []*Site
}

// neighbourhoods of all sites that are gone, one after the other as the model is then; a small cluster is a
// single one.
func (k *Model) neighbourhoods() iter.Seq[*neighbourhood] {
	return func(yield func(*neighbourhood) bool) {
		if len(k.sites) <= 2*neighbourhoodMax {
			yield(k.neighbourhood(k.sites))
			return
		}
		seen := map[*Site]bool{}
		for !k.spent() {
			part := k.nextPart(seen)
			if len(part) == 0 || !yield(k.neighbourhood(part)) {
				return
			}
		}
	}
}

// nextPart are the first sites that are gone and were not seen yet, and those that have their pods.
func (k *Model) nextPart(seen map[*Site]bool) (part []*Site) {
	in := map[*Site]bool{}
	kept, gone := 0, 0
	for _, x := range k.sites {
		if !x.gone || seen[x] {
			continue
		}
		var more []*Site
		for _, a := range x.pods {
			if !in[a.at] && !slices.Contains(more, a.at) {
				more = append(more, a.at)
			}
		}
		if gone == neighbourhoodMax || kept+len(more) > neighbourhoodMax && gone > 0 {
			break
		}
		seen[x] = true
		kept, gone = kept+len(more), gone+1
		for _, y := range append(more, x) {
			in[y] = true
			part = append(part, y)
		}
	}
	k.steps -= len(k.sites)
	return part
}

func (k *Model) neighbourhood(sites []*Site) *neighbourhood {
	h := &neighbourhood{k: k, sites: sites}
	in := make(map[*Site]bool, len(sites))
	for _, x := range sites {
		in[x] = true
	}
	for o := range h.parcels {
		k.steps -= len(k.parcels[o])
		for _, a := range k.parcels[o] {
			if in[a.home] || in[a.at] {
				h.parcels[o] = append(h.parcels[o], a)
			}
		}
	}
	return h
}

// state of a neighbourhood, to go back to.
type state struct {
	gone []bool
	used []resource.Vector
	at   []*Site
}

func (h *neighbourhood) save() (s state) {
	for _, x := range h.sites {
		s.gone, s.used = append(s.gone, x.gone), append(s.used, x.used)
	}
	for _, a := range h.parcels[byCPU] {
		s.at = append(s.at, a.at)
	}
	return s
}

func (h *neighbourhood) restore(s state) {
	for i, x := range h.sites {
		x.gone, x.used = s.gone[i], s.used[i]
	}
	for i, a := range h.parcels[byCPU] {
		a.at = s.at[i]
	}
}

// candidates that stay, or are gone, in an order.
func (h *neighbourhood) candidates(gone bool, compare func(a, b *Site) int) (list []*Site) {
	for _, x := range h.sites {
		if x.Candidate && x.gone == gone {
			list = append(list, x)
		}
	}
	slices.SortFunc(list, func(a, b *Site) int { return cmp.Or(compare(a, b), cmp.Compare(a.Node.Name, b.Node.Name)) })
	return list
}

func dearestToEmpty(a, b *Site) int  { return cmp.Compare(b.Cost, a.Cost) }
func cheapestToEmpty(a, b *Site) int { return cmp.Compare(a.Cost, b.Cost) }

// WorthMoving: to move pods that could stay has to save one part in so many of what those pods cost.
const WorthMoving = 5

// improve shrinks, if that is worth what is evicted for it in the end; if not, all is as before.
func (h *neighbourhood) improve() bool {
	k, start := h.k, h.save()
	bill, cost := k.Bill(), k.costOf(true)
	if k.spent() || !h.shrink() {
		return false
	}
	h.relieveAll()
	saved, more, all := bill-k.Bill(), k.costOf(true)-cost, k.costOf(true)+k.costOf(false)
	if saved > 0 && (more <= 0 || !less(saved*WorthMoving, all, bill, more)) {
		return true
	}
	h.restore(start)
	return false
}

// less reports a×b < c×d, of numbers that are not negative.
func less(a, b, c, d int64) bool {
	ah, al := bits.Mul64(uint64(a), uint64(b))
	ch, cl := bits.Mul64(uint64(c), uint64(d))
	return ah < ch || ah == ch && al < cl
}

// relieveAll relieves while the bill stays within a hundredth of what it is now.
func (h *neighbourhood) relieveAll() {
	h.k.billMax = h.k.Bill() + h.k.Bill()/100
	for !h.k.spent() && h.relieve() {
	}
}

// shrink takes one node more away, and keeps others in place of some until all pods have places. It reports
// whether that came to a smaller bill; if not, all is as before.
func (h *neighbourhood) shrink() bool {
	k, start := h.k, h.save()
	before := k.Bill()
	best, rest := h.first()
	if best == nil {
		h.restore(start)
		return false
	}
	best.gone = true
	bill := before - best.Price
	for h.tries = 0; rest > 0; {
		left, change := h.better(rest, before-bill)
		if left >= rest {
			h.restore(start)
			return false
		}
		rest, bill = left, bill+change
	}
	h.rest(1) // the last try may have been another one
	return true
}

// first is the node whose pods leave the smallest rest, of those that can be told of within the steps.
func (h *neighbourhood) first() (best *Site, least int64) {
	least = math.MaxInt64
	for _, x := range h.candidates(false, (*Site).before) {
		if h.k.spent() {
			return nil, 0
		}
		x.gone = true
		if rest := h.rest(least); rest < least {
			best, least = x, rest
		}
		x.gone = false
		if least == 0 {
			break
		}
	}
	return best, least
}

// better keeps a node that is gone in place of another, such that a smaller rest has no place and the bill
// grows by less than a bound. It returns the rest, the same if there is no such exchange, and by how much the
// bill grew.
func (h *neighbourhood) better(rest, bound int64) (left, change int64) {
	kept := h.candidates(false, (*Site).before)
	for _, g := range h.candidates(true, dearestToEmpty) {
		for _, a := range kept {
			if h.k.spent() || h.tries == triesMax {
				return rest, 0
			}
			if g.Price-a.Price >= bound {
				continue
			}
			h.tries++
			a.gone, g.gone = true, false
			if left := h.rest(rest); left < rest {
				return left, g.Price - a.Price
			}
			a.gone, g.gone = false, true
		}
	}
	return rest, 0
}

// relieve keeps a node that is costly to empty and takes another one in its place that is less so, while the
// bill stays within its bound. It reports whether there was one; if not, all is as before.
func (h *neighbourhood) relieve() bool {
	k, start := h.k, h.save()
	bill := k.Bill()
	kept := h.candidates(false, cheapestToEmpty)
	for _, g := range h.candidates(true, dearestToEmpty) {
		for _, x := range kept {
			if k.spent() || x.Cost >= g.Cost {
				break
			}
			if bill+g.Price-x.Price > k.billMax {
				continue
			}
			x.gone, g.gone = true, false
			if h.rest(1) == 0 {
				return true
			}
			x.gone, g.gone = false, true
		}
	}
	h.restore(start)
	return false
}

// restRecipes are tried until one leaves no rest.
var restRecipes = []recipe{{byCPU, evenFit}, {byMemory, evenFit}, {byCPU, bestFit}}

// rest packs the pods of all sites that are gone and returns the weight of those that found no place, the
// least by any recipe, or a bound if it is not below. Places hold if it is zero.
func (h *neighbourhood) rest(bound int64) int64 {
	h.live = h.live[:0]
	for _, x := range h.sites {
		if !x.gone {
			h.live = append(h.live, x)
		}
	}
	least := bound
	for _, r := range restRecipes {
		if least = h.deal(r, least); least == 0 {
			break
		}
	}
	return least
}

// deal packs by one recipe and returns the weight of what found no place, or the bound if it is not below.
func (h *neighbourhood) deal(r recipe, bound int64) (rest int64) {
	live := h.k.rank(h.live, r.fit)
	for _, a := range h.parcels[r.order] {
		if !a.home.gone {
			a.at = a.home
			continue
		}
		if a.at = h.k.put(live, a); a.at == nil {
			if rest += a.weight(); rest >= bound {
				return bound
			}
		}
	}
	return rest
}

// weight of a parcel without a place: CPU in thousandths, and 4 GiB of memory like one CPU.
func (a *Parcel) weight() int64 {
	need := &a.pod.Class.Requests
	return 1 + need.MilliCPU + need.Memory>>22
}
