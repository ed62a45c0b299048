package history

import (
	"maps"
	"slices"
	"time"
)

// sumsMax bounds the sums of one resolution, over all spans.
const sumsMax = 200_000

// summed is what can be added up.
type summed[V any] interface{ plus(other V) V }

// spans holds the sums of the newest spans of one length, by the number of the span since 1970 and by a key.
// Spans below floor are forgotten.
type spans[K comparable, V summed[V]] struct {
	span  time.Duration
	keep  int
	sums  map[int64]map[K]V
	cells int
	floor int64
}

func newSpans[K comparable, V summed[V]](span time.Duration, keep int) spans[K, V] {
	return spans[K, V]{span: span, keep: keep, sums: map[int64]map[K]V{}}
}

func (s *spans[K, V]) number(at time.Time) int64 { return at.Unix() / int64(s.span/time.Second) }

func (s *spans[K, V]) begin(number int64) time.Time {
	return time.Unix(number*int64(s.span/time.Second), 0).UTC()
}

func (s *spans[K, V]) sum(number int64, key K, o V) {
	if number < s.floor {
		return
	}
	sums := s.sums[number]
	if sums == nil {
		sums = map[K]V{}
		s.sums[number] = sums
	}
	x, found := sums[key]
	if !found {
		s.cells++
	}
	sums[key] = x.plus(o)
	for !found && len(s.sums) > 1 && (len(s.sums) > s.keep || s.cells > sumsMax) {
		oldest := slices.Min(slices.Collect(maps.Keys(s.sums)))
		s.cells -= len(s.sums[oldest])
		delete(s.sums, oldest)
		s.floor = oldest + 1
	}
}

// savedSpans are spans as they are kept.
type savedSpans[K comparable, V any] struct {
	Floor int64
	Sums  map[int64]map[K]V
}

func (s *spans[K, V]) asSaved() savedSpans[K, V] {
	x := savedSpans[K, V]{Floor: s.floor, Sums: map[int64]map[K]V{}}
	for number, sums := range s.sums {
		x.Sums[number] = maps.Clone(sums)
	}
	return x
}

func (s *spans[K, V]) restore(x savedSpans[K, V]) {
	s.floor = x.Floor
	for number, sums := range x.Sums {
		s.sums[number] = sums
		s.cells += len(sums)
	}
}
