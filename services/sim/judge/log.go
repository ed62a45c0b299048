package judge

import (
	"context"
	"maps"
	"slices"
)

// CheckLog demands that the log is chained, keeps what it acknowledged, and advances aggregates as it says.
func (s *Judge) CheckLog() {
	ctx := context.Background()
	head, _ := s.Log.Head(ctx)
	if last, err := s.Log.Verify(ctx); err != nil || last != head.Seq {
		s.Violate(CheckLog, "verified up to %d of %d: %v", last, head.Seq, err)
	}
	for _, e := range s.Entries {
		for _, name := range e.Advances {
			if at, err := s.Log.Aggregate(ctx, name); err != nil || at != s.book.aggregates[name] {
				s.Violate(CheckLog, "aggregate %s is at %d, by the records at %d (%v)", name, at, s.book.aggregates[name], err)
			}
		}
	}
	for _, seq := range slices.Sorted(maps.Keys(s.Acknowledged)) {
		recs, err := s.Log.Read(ctx, seq, 1)
		if err != nil || len(recs) != 1 || recs[0].Seq != seq || recs[0].Hash != s.Acknowledged[seq] {
			s.Violate(CheckLog, "record %d is not what was acknowledged (%v)", seq, err)
		}
	}
}
