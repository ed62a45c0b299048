package cadence

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// began has roll-outs begin so long after the start, each at a node that the one before it brought.
func began(after ...time.Duration) (t *Table) {
	for i, d := range after {
		t = t.With("p", uint64(10*i+5), uint64(10*i+10), start.Add(d))
	}
	return t
}

// A roll-out lasts until a node that it has brought is replaced (disruption §4.1).
func TestARollOutBeginsWithANodeOfTheLastOne(t *testing.T) {
	table := began(0)
	for _, nights := range []time.Duration{0, day, 2 * day} {
		table = table.With("p", 9, 20, start.Add(nights))
		table = table.With("p", 0, 30, start.Add(nights)) // nobody knows what planned it
	}
	want(t, "roll-outs of nodes that were there", len(table.All()[0].Starts), 1)
	table = table.With("p", 11, 40, start.Add(3*day))
	want(t, "one of what the first brought", len(table.All()[0].Starts), 2)
	table = table.With("p", 41, 50, start.Add(3*day+59*time.Minute))
	want(t, "a correction", len(table.All()[0].Starts), 2)
	want(t, "which has begun all the same", table.All()[0].Seq, 50)
	before := table
	table = table.With("q", 0, 60, start.Add(4*day))
	want(t, "NodePools", len(table.All()), 2)
	want(t, "the table before it", len(before.All()), 1)
	table = table.With("q", 61, 70, start.Add(94*day))
	want(t, "NodePools, 91 days after the last of p", len(table.All()), 1)
}

func TestTheMedianOfTheIntervals(t *testing.T) {
	for name, c := range map[string]struct {
		after  []time.Duration
		median time.Duration
	}{
		"none":                       {nil, 0},
		"one roll-out":               {[]time.Duration{0}, 0},
		"one interval says nothing":  {[]time.Duration{0, day}, 0},
		"of two intervals the less":  {[]time.Duration{0, day, 4 * day}, day},
		"of three the one between":   {[]time.Duration{0, day, 4 * day, 6 * day}, 2 * day},
		"one that is far from usual": {[]time.Duration{0, 5 * day, 10 * day, 11 * day}, 5 * day},
		"only the last seven": {[]time.Duration{0, day, 2 * day, 3 * day, 4 * day, 9 * day, 14 * day, 19 * day, 24 * day, 29 * day, 34 * day},
			5 * day},
	} {
		t.Run(name, func(t *testing.T) {
			median, last, ok := began(c.after...).Interval("p")
			want(t, "known", ok, c.median > 0)
			want(t, "median", median, c.median)
			if ok {
				want(t, "last", last, start.Add(c.after[len(c.after)-1]))
			}
		})
	}
}

// A clock that was far ahead has not replaced anything in the future.
func TestNothingIsLaterThanNow(t *testing.T) {
	table := began(0, day, 40*day, 50*day).AsOf(start.Add(2 * day))
	want(t, "roll-outs", fmt.Sprint(table.All()[0].Starts), fmt.Sprint([]time.Time{start, start.Add(day), start.Add(2 * day)}))
	want(t, "none", began().AsOf(start), nil)
}

// However many there are, what is kept is bounded, in order, and the same after a checkpoint.
func TestATableIsBoundedAndSurvivesJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table *Table
		seq, at := uint64(0), start
		for range rapid.IntRange(1, 60).Draw(t, "commands") {
			seq, at = seq+1, at.Add(time.Duration(rapid.Int64Range(0, int64(20*day)).Draw(t, "later")))
			table = table.With(rapid.SampledFrom([]string{"p", "q", "r"}).Draw(t, "pool"), uint64(rapid.IntRange(0, int(seq)).Draw(t, "planned")), seq, at)
		}
		for _, r := range table.All() {
			if len(r.Starts) == 0 || len(r.Starts) > StartsMax || at.Sub(r.latest()) > keptFor || !slices.IsSortedFunc(r.Starts, time.Time.Compare) {
				t.Fatalf("kept: %+v at %s", r, at)
			}
		}
		data, err := json.Marshal(table)
		if err != nil {
			t.Fatal(err)
		}
		restored := new(Table)
		if err := json.Unmarshal(data, restored); err != nil || fmt.Sprint(restored.All()) != fmt.Sprint(table.All()) {
			t.Fatalf("restored %v of %v: %v", restored.All(), table.All(), err)
		}
	})
	if json.Unmarshal([]byte(`[{"nodePool":"p"}]`), new(Table)) == nil {
		t.Error("a NodePool without a roll-out was read")
	}
	var many *Table
	for i := range poolsMax + 5 {
		many = many.With(fmt.Sprint(i), 0, 1, start.Add(time.Duration(i)))
	}
	want(t, "NodePools", len(many.All()), poolsMax)
	_, oldest := many.pools["4"]
	want(t, "the oldest is forgotten first", oldest, false)
}
