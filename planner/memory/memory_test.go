package memory

import (
	"fmt"
	"testing"
	"time"
)

var start = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

func seen(name string, bytes int64, after time.Duration) Amount {
	return Amount{Key: Key{name, "images"}, Bytes: bytes, Seen: start.Add(after)}
}

// The least that a node was seen with counts; a day later it is worth saying that it is still so, and 60 days
// later it is forgotten.
func TestTheLeastMemorySeenCounts(t *testing.T) {
	var table *Table
	const day = 24 * time.Hour
	for i, c := range []struct {
		amount Amount
		learns bool
		counts int64
	}{
		{seen("m5.large", 0, 0), false, 0},
		{seen("m5.large", 800, 0), true, 800},
		{seen("m5.large", 800, time.Hour), false, 800},
		{seen("m5.large", 900, 2*day), false, 800},
		{seen("m5.large", 799, time.Hour), true, 799},
		{seen("m5.large", 799, 2*day), true, 799},
	} {
		if got := table.Learns(c.amount); got != c.learns {
			t.Errorf("%d: %+v is new: %t", i, c.amount, got)
		}
		table = table.With(c.amount)
		if a, _ := table.Get(c.amount.Key); a.Bytes != c.counts {
			t.Errorf("%d: %d counts, want %d", i, a.Bytes, c.counts)
		}
	}
	if larger := seen("m5.large", 900, 62*day); !table.Learns(larger) || table.With(larger).All()[0] != larger {
		t.Error("what was last seen 60 days ago counts no longer, also if no other type has said anything since")
	}
	table = table.With(seen("c5.large", 400, 61*day))
	if n := len(table.All()); n != 2 {
		t.Errorf("59 days later %d are known", n)
	}
	table = table.With(seen("c5.large", 399, 62*day))
	if n := len(table.All()); n != 1 {
		t.Errorf("60 days later %d are known", n)
	}
}

func TestTheTableIsBounded(t *testing.T) {
	var all []Amount
	for i := range tableMax {
		all = append(all, Amount{Key: Key{fmt.Sprint("type-", i), "images"}, Bytes: 1, Seen: start.Add(time.Duration(i))})
	}
	table := Restore(all).With(seen("another", 1, time.Hour))
	if _, oldest := table.Get(Key{"type-0", "images"}); oldest || len(table.All()) != tableMax {
		t.Errorf("%d amounts, the one seen longest ago: %t", len(table.All()), oldest)
	}
}

// Only sets with the same images are the same, in whatever order; and what is of other images does not count.
func TestImagesAreSets(t *testing.T) {
	if Images([]string{"a", "b"}) != Images([]string{"b", "a", "b"}) || Images([]string{"a", "b"}) == Images([]string{"ab"}) || Images(nil) != "" {
		t.Error("sets of images are confused")
	}
	table := Restore([]Amount{{Key: Key{"m5.large", "x"}, Bytes: 1}, {Key: Key{"m5.large", "y"}, Bytes: 2}})
	if of := table.Of("y"); len(of) != 1 || of[0].Bytes != 2 {
		t.Errorf("of other images: %v", of)
	}
}

func TestNothingIsSeenInTheFuture(t *testing.T) {
	table := Restore([]Amount{seen("m5.large", 1, time.Hour), seen("c5.large", 1, -time.Hour)}).AsOf(start)
	for _, a := range table.All() {
		if a.Seen.After(start) {
			t.Errorf("%+v", a)
		}
	}
}
