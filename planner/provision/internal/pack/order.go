package pack

import (
	"cmp"
	"math/bits"
	"slices"

	"millwright/planner/provision/internal/offer"
)

// order in which a strategy packs pods. Equal ones stay as they are in the queue.
type order uint8

const (
	// asQueued: CPU, then memory, descending.
	asQueued order = iota
	// byMemory: memory, then CPU, descending.
	byMemory
	// byShare: by the larger share of the demand, descending.
	byShare
	// byTurns: pods that ask more of CPU and pods that ask more of memory take turns, so that every node gets
	// its part of both. Sorted by size alone, the last nodes would get all small pods with much memory, and
	// leave their CPU unused.
	byTurns
	// bySizeTurns: by the larger share, descending in powers of two, and by turns among those of one power.
	bySizeTurns
)

// turn is a pod that is being sorted.
type turn struct {
	movingItem
	// cpu and memory are its shares of the demand; those with the higher bucket come first, then those with
	// the higher key.
	cpu, memory, key int64
	bucket           int
}

// repellingBucket is more than any power of two.
const repellingBucket = 64

// sorted returns the pods in the order of the strategy.
func (st *strategy) sorted(waiting []movingItem) []movingItem {
	if st.order == asQueued && !st.repellingFirst {
		return waiting
	}
	list := st.turns(waiting)
	if st.order == byTurns || st.order == bySizeTurns {
		return takeTurns(list)
	}
	out := make([]movingItem, len(list))
	for i := range list {
		out[i] = list[i].movingItem
	}
	return out
}

// turns are the pods, sorted. In the queue pods that are alike follow each other, so it is runs of them that
// are sorted.
func (st *strategy) turns(waiting []movingItem) []turn {
	list := make([]turn, len(waiting))
	var runs []run
	for i, w := range waiting {
		list[i] = st.turn(w)
		if n := len(runs); n == 0 || runs[n-1].bucket != list[i].bucket || runs[n-1].key != list[i].key {
			runs = append(runs, run{key: list[i].key, bucket: list[i].bucket, from: i})
		}
		runs[len(runs)-1].end = i + 1
	}
	slices.SortStableFunc(runs, func(a, b run) int {
		return cmp.Or(cmp.Compare(b.bucket, a.bucket), cmp.Compare(b.key, a.key))
	})
	sorted := make([]turn, 0, len(list))
	for _, r := range runs {
		sorted = append(sorted, list[r.from:r.end]...)
	}
	return sorted
}

// run is a part of the queue whose pods have one bucket and one key.
type run struct {
	key               int64
	bucket, from, end int
}

func (st *strategy) turn(w movingItem) turn {
	d, r := &w.previous.Open().Template.Demand, &w.Class.Requests
	t := turn{movingItem: w, cpu: offer.Scaled(offer.ShareUnit, r.MilliCPU, d.MilliCPU), memory: offer.Scaled(offer.ShareUnit, r.Memory, d.Memory)}
	switch st.order {
	case byMemory:
		t.key = r.Memory
	case byShare:
		t.key = max(t.cpu, t.memory)
	case byTurns:
		t.key = t.cpu - t.memory
	case bySizeTurns:
		t.key, t.bucket = t.cpu-t.memory, bits.Len64(uint64(max(t.cpu, t.memory)))
	}
	if st.repellingFirst && w.Class.RepelsPeers {
		t.bucket += repellingBucket
	}
	return t
}

// takeTurns takes from each bucket, sorted from the most CPU to the most memory, the first or the last pod:
// whichever brings the sums of both shares closer.
func takeTurns(list []turn) []movingItem {
	out := make([]movingItem, 0, len(list))
	var cpu, memory int64
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].bucket == list[0].bucket {
			n++
		}
		low, high := 0, n
		for low < high {
			var next *turn
			if cpu <= memory {
				next = &list[low]
				low++
			} else {
				high--
				next = &list[high]
			}
			cpu, memory = cpu+next.cpu, memory+next.memory
			out = append(out, next.movingItem)
		}
		list = list[n:]
	}
	return out
}
