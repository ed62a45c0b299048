package packing

import (
	"cmp"
	"slices"
)

// Solve looks for the nodes to take away. First each in its turn, in the order of what is saved per eviction.
// Then, to make the bill smaller, it gives up nodes whose pods do not fit at first and keeps others until
// they do, and packs all pods anew with one more gone, or with other nodes in place of some. At last, as long
// as the bill is within a hundredth of the best, nodes that are costly to empty are kept in place of others.
// Each part leaves half of its steps to the next.
func (k *Model) Solve() {
	k.arrange()
	for _, x := range k.Candidates(false) {
		if !k.spent() {
			k.remove(x)
		}
	}
	k.floor = k.steps / 2
	for h := range k.neighbourhoods() {
		for h.improve() {
		}
	}
	k.floor = k.steps / 2
	for !k.spent() && (k.grow() || k.exchange()) {
	}
	k.floor = 0
	for h := range k.neighbourhoods() {
		h.relieveAll()
	}
}

// spent reports that a part of the search has to end.
func (k *Model) spent() bool { return k.steps <= k.floor }

// Bill is what the sites that stay cost.
func (k *Model) Bill() (sum int64) {
	for _, x := range k.sites {
		if !x.gone {
			sum += x.Price
		}
	}
	return sum
}

// costOf the evictions of all candidates that are gone, or that stay.
func (k *Model) costOf(gone bool) (sum int64) {
	for _, x := range k.sites {
		if x.Candidate && x.gone == gone {
			sum += x.Cost
		}
	}
	return sum
}

// balance is the room of the sites that stay, and what the parcels of those that are gone need of it.
type balance struct{ room, need size }

func (k *Model) balance() (b balance) {
	for _, x := range k.sites {
		b.count(x, x.gone, 1)
	}
	return b
}

func (b *balance) count(x *Site, gone bool, times int64) {
	if gone {
		b.need.cpu, b.need.memory = b.need.cpu+times*x.need.cpu, b.need.memory+times*x.need.memory
	} else {
		b.room.cpu, b.room.memory = b.room.cpu+times*max(0, x.Room.MilliCPU), b.room.memory+times*max(0, x.Room.Memory)
	}
}

// enough reports that there may be room for all if some sites are flipped.
func (b balance) enough(flipped []*Site) bool {
	for _, x := range flipped {
		b.count(x, x.gone, -1)
		b.count(x, !x.gone, 1)
	}
	return b.need.cpu <= b.room.cpu && b.need.memory <= b.room.memory
}

// flip makes the sites that are gone stay and the others go, if all pods find places then. now is the balance
// before.
func (k *Model) flip(now balance, list ...*Site) bool {
	k.steps -= len(k.sites) + len(k.parcels[byCPU])
	if !now.enough(list) {
		return false
	}
	for _, x := range list {
		x.gone = !x.gone
	}
	if k.repack(list) {
		return true
	}
	for _, x := range list {
		x.gone = !x.gone
	}
	return false
}

// grow takes one more node away.
func (k *Model) grow() bool {
	now := k.balance()
	for _, x := range k.Candidates(false) {
		if k.spent() {
			return false
		}
		if k.flip(now, x) {
			return true
		}
	}
	return false
}

// exchangesMax bounds the nodes that an exchange looks at on each side.
const exchangesMax = 24

// exchange takes one or two nodes away and keeps one in their place that is cheaper than they are.
func (k *Model) exchange() bool {
	kept, gone, now := k.Candidates(false), k.Candidates(true), k.balance()
	slices.SortStableFunc(gone, func(a, b *Site) int { return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(b.Cost, a.Cost)) })
	kept, gone = kept[:min(len(kept), exchangesMax)], gone[:min(len(gone), exchangesMax)]
	for _, g := range gone {
		for i, a := range kept {
			if k.spent() {
				return false
			}
			if a.Price > g.Price && k.flip(now, a, g) {
				return true
			}
			for _, b := range kept[:i] {
				if a.Price+b.Price > g.Price && !k.spent() && k.flip(now, a, b, g) {
					return true
				}
			}
		}
	}
	return false
}
