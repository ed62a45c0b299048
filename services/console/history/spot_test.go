package history

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millwright/planner/ledger"
)

// spot launches a spot instance at the time that the next record has.
func (x *teller) spot(pool string, price, onDemand int64) (claim string) {
	seq := x.tell(&ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: pool}}})
	claim = ledger.ClaimName("log", pool, seq, 0)
	x.tell(&ledger.Launched{Claim: claim, CapacityType: "spot", Price: price, OnDemandPrice: onDemand})
	return claim
}

// What spot saves is the difference of the prices for as long as the instances run, in the time that is
// asked for.
func TestWhatSpotInstancesSave(t *testing.T) {
	x := newTeller()
	x.launched("blue", 500_000)             // on demand
	first := x.spot("blue", 30_000, 90_000) // from 10:04
	x.spot("red", 60_000, 40_000)           // from 10:06, dearer than on demand
	x.spot("red", 60_000, 0)                // by an earlier version
	x.now = began.Add(4 * time.Hour).Add(3 * time.Minute)
	x.gone(first) // at 14:04
	now := began.Add(6*time.Hour + 6*time.Minute)
	want := Spot{
		Since: began,
		Items: []SpotSaving{
			{NodePool: "blue", Instances: 1, OnDemand: 360_000, Saved: 240_000},
			{NodePool: "red", Instances: 2, Running: 2, Unpriced: 1, PerHour: -20_000, OnDemand: 240_000, Saved: -120_000},
		},
		Total:      SpotSaving{Instances: 3, Running: 2, Unpriced: 1, PerHour: -20_000, OnDemand: 600_000, Saved: 120_000},
		Namespaces: []SpotShare{{"(not observed)", 600_000, 120_000}}, Teams: []SpotShare{},
	}
	if d := cmp.Diff(want, x.Savings(time.Time{}, now).Spot); d != "" {
		t.Error(d)
	}
	if told, want := x.Summary(time.Time{}, now), "Spot instances cost $0.4800 where on demand would have cost $0.6000: saved $0.1200."; !slices.Contains(told, want) {
		t.Errorf("the summary lacks %q: %q", want, told)
	}

	late := x.Savings(began.Add(2*time.Hour+30*time.Minute), now).Spot // from the beginning of that hour
	if want := began.Add(2 * time.Hour); !late.Since.Equal(want) {
		t.Errorf("it is counted since %v, want %v", late.Since, want)
	}
	if got, want := late.Items[0].Saved, int64(60_000*(2+4./60)); got != want {
		t.Errorf("of two hours and four minutes: %d, want %d", got, want)
	}
	if got, want := late.Items[1].Saved, int64(-20_000*(4+6./60)); got < want-1 || got > want+1 {
		t.Errorf("of what runs, for four hours and six minutes: %d, want %d but for rounding", got, want)
	}
	if after := x.Savings(began.Add(5*time.Hour), now).Spot; len(after.Items) != 1 || after.Items[0].NodePool != "red" {
		t.Errorf("after the first has ended: %+v", after.Items)
	}
}

// More than two months ago it is counted by days, and nothing is counted twice or lost.
func TestSpotInstancesOfLongAgo(t *testing.T) {
	x := newTeller()
	c := x.spot("blue", 10_000, 34_000)
	launched := x.now
	x.now = x.now.Add(100*24*time.Hour - time.Minute)
	x.gone(c)
	now := x.now.Add(100 * 24 * time.Hour)
	whole := x.Savings(time.Time{}, now).Spot
	if got, want := whole.Total.Saved, int64(100*24*24_000); got < want-200 || got > want {
		t.Errorf("of a hundred days: %d, want %d less what rounding takes of each day", got, want)
	}
	if want := launched.UTC().Truncate(24 * time.Hour); !whole.Since.Equal(want) {
		t.Errorf("since %v, want %v", whole.Since, want)
	}
	half := x.Savings(launched.Add(50*24*time.Hour), now).Spot.Total
	if got, least := half.Saved, int64(50*24*24_000)-200; got < least || got > least+24*24_000+200 {
		t.Errorf("of the second fifty days, begun up to a day earlier: %d, at least %d", got, least)
	}
	if half.Instances != 1 {
		t.Errorf("%d instances ended since", half.Instances)
	}
}

// The sums of spans are bounded, whatever NodePools there are, and what was forgotten does not come back.
func TestSumsOfSpotInstancesAreBounded(t *testing.T) {
	s := &spotSpans{newSpans[string, spotSums](time.Hour, 10)}
	c := &claim{pool: "blue", price: 1, onDemand: 2, since: began}
	for day := range 30 {
		s.add(c, began.Add(time.Duration(day)*24*time.Hour))
	}
	if len(s.sums) != s.keep || s.cells != s.keep {
		t.Errorf("%d spans and %d sums are kept, want %d", len(s.sums), s.cells, s.keep)
	}
	s.add(c, began)
	if len(s.sums) != s.keep || s.sums[s.number(began)] != nil {
		t.Error("an end that was told late brings back a span that was forgotten")
	}
}
