package history

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millwright/planner/ledger"
)

// at sets the time that the next record has, in minutes since the beginning.
func (x *teller) at(minutes int) { x.now = began.Add(time.Duration(minutes-1) * time.Minute) }

// shared tells of two spot instances: one of blue from 10:15 to 12:15 for 0.03 USD in place of 0.09, and one
// of red from 11:45 on for 0.02 in place of 0.08, and whose pods were seen in the first two hours.
func shared(t *testing.T) *teller {
	t.Helper()
	x := newTeller()
	x.at(14)
	blue := x.spot("blue", 30_000, 90_000)
	x.at(60)
	x.tell(&ledger.SharesObserved{Label: "team", Hour: began, Spot: []ledger.SpotShare{
		{NodePool: "blue", Namespace: "shop", Team: "pay", OnDemand: 1500, Cost: 500}, {NodePool: "blue", Namespace: "web", OnDemand: 500, Cost: 500}}})
	x.tell(&ledger.SharesObserved{Label: "team", Hour: began, Spot: []ledger.SpotShare{{NodePool: "blue", Namespace: "told again", OnDemand: 1, Cost: 1}}})
	x.at(104)
	x.spot("red", 20_000, 80_000)
	x.at(120)
	x.tell(&ledger.SharesObserved{Hour: began.Add(time.Hour), Spot: []ledger.SpotShare{{NodePool: "blue", Namespace: "shop", OnDemand: 7, Cost: 7}}})
	x.at(135)
	x.gone(blue)
	return x
}

// A NodePool's saving of an hour is shared out by what was seen in it: on demand by what the pods would have
// cost on demand, and the cost by what they cost.
func TestWhoseSavingsOfSpotAre(t *testing.T) {
	x := shared(t)
	now := began.Add(165 * time.Minute)
	// 10:15 to 11: 67,500 on demand, 22,500 paid; 3/4 and half of it are shop's, 1/4 and half web's.
	// 11 to 12: 90,000 and 30,000, all shop's. 12 to 12:15, which nobody saw: 22,500 and 7,500.
	// Red, 11:45 to 12:45, nobody saw: 80,000 and 20,000.
	want := []SpotShare{{"(not observed)", 102_500, 75_000}, {"shop", 50_625 + 90_000, 39_375 + 60_000}, {"web", 16_875, 5_625}}
	got := x.Savings(time.Time{}, now).Spot
	if d := cmp.Diff(want, got.Namespaces); d != "" {
		t.Error(d)
	}
	// The record of the second hour is of a console without a label.
	want = []SpotShare{{"(no label)", 16_875, 5_625}, {"(not observed)", 192_500, 135_000}, {"pay", 50_625, 39_375}}
	if d := cmp.Diff(want, got.Teams); d != "" {
		t.Error(d)
	}
	// From 12 on red is seen: 60,000 and 15,000, of which a quarter is for shop's pods.
	x.Observe(&ledger.SharesObserved{Label: "team", Hour: began.Add(2 * time.Hour), Spot: []ledger.SpotShare{
		{NodePool: "red", Namespace: "shop", Team: "pay", OnDemand: 400, Cost: 100}, {NodePool: "red", OnDemand: 1200, Cost: 300}}})
	got = x.Savings(began.Add(2*time.Hour), now).Spot
	want = []SpotShare{{"(not observed)", 22_500, 15_000}, {"(unrequested)", 45_000, 33_750}, {"shop", 15_000, 11_250}}
	if d := cmp.Diff(want, got.Namespaces); d != "" || got.Total.Saved != 60_000 {
		t.Error(got.Total, d)
	}
	if d := cmp.Diff([]string{"By namespace, spot saved: (unrequested) $0.0337, (not observed) $0.0150, shop $0.0112.", "By label team, spot saved: (unrequested) $0.0337, (not observed) $0.0150, pay $0.0112."},
		forWhom(x.Savings(began.Add(2*time.Hour), now))); d != "" {
		t.Error(d)
	}
	x.tell(&ledger.SharesObserved{Label: "team", Hour: began.Add(2 * time.Hour), Spot: []ledger.SpotShare{{NodePool: "red", Namespace: "late", OnDemand: 4, Cost: 1}}})
	if got := x.Savings(began.Add(2*time.Hour), now).Spot.Namespaces; len(got) != 2 || got[1] != (SpotShare{"late", 60_000, 45_000}) {
		t.Errorf("what is on record does not count in place of what was seen: %+v", got)
	}
}

// Spans between now and what somebody's clock recorded ages ahead are not gone through one by one.
func TestAClockThatIsAgesAhead(t *testing.T) {
	x := shared(t)
	now := began.Add(165 * time.Minute)
	want := x.Savings(began.Add(time.Minute), now).Spot.Namespaces
	x.now = began.AddDate(90_000, 0, 0)
	x.gone(x.spot("green", 30_000, 90_000))
	got := x.Savings(began.Add(time.Minute), now).Spot.Namespaces
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if d := got[i].OnDemand - want[i].OnDemand; got[i].Name != want[i].Name || d < 0 || d > 90_000 {
			t.Errorf("%+v, before %+v", got[i], want[i])
		}
	}
}

// Two months later the same is shared out by days.
func TestSharesOfLongAgo(t *testing.T) {
	x := shared(t)
	got := x.Savings(time.Time{}, began.Add(100*24*time.Hour)).Spot
	// That day blue cost 180,000 on demand and 60,000; seen were 1507:500 on demand and 507:500 paid.
	sum := SpotShare{}
	for _, s := range got.Namespaces {
		sum.OnDemand, sum.Saved = sum.OnDemand+s.OnDemand, sum.Saved+s.Saved
	}
	if got.Since != began.Truncate(24*time.Hour) || sum.OnDemand != got.Total.OnDemand || sum.Saved != got.Total.Saved || len(got.Namespaces) != 3 {
		t.Fatalf("%+v", got)
	}
	if web, on, paid := got.Namespaces[2], int64(180_000*500/2007), int64(60_000*500/1007); web.Name != "web" || web.OnDemand-on > 1 || on > web.OnDemand || web.Saved-(on-paid) > 1 || on-paid-1 > web.Saved {
		t.Errorf("%+v, want %d less %d", web, on, paid)
	}
}

// A command's pods count for their teams, as far as a record tells them.
func TestTeamsOfACommand(t *testing.T) {
	x := newTeller()
	a, b, c := x.launched("p", 300_000), x.launched("p", 100_000), x.launched("q", 50_000)
	seq := x.tell(&ledger.CommandStarted{Reason: "Underutilized", Candidates: []ledger.Candidate{node(a, "p", 300_000, "shop", "shop", "web"), node(b, "p", 100_000, "web"), node(c, "q", 50_000)}})
	id := ledger.CommandID("log", seq)
	if x.TeamsTold(id, a) {
		t.Error("teams are told before there is a record")
	}
	x.tell(&ledger.CommandSucceeded{ID: id})
	if got := x.Savings(time.Time{}, x.now); len(got.Teams) != 0 || got.TeamLabel != "" {
		t.Errorf("without a label: %+v", got)
	}
	x.tell(&ledger.SharesObserved{Label: "team", Moved: []ledger.MovedPods{{Command: id, Claim: a, Teams: map[string]int{"pay": 1, "": 1}}, {Command: "unknown", Claim: a}, {Command: id, Claim: "unknown"}}})
	x.tell(&ledger.SharesObserved{Label: "team", Moved: []ledger.MovedPods{{Command: id, Claim: a, Teams: map[string]int{"again": 3}}}})
	want := []TeamSaving{
		{"(no label)", 1, 1, 1, 100_000, 0}, {"(no pods)", 1, 1, 0, 50_000, 0}, {"(not observed)", 1, 1, 2, 200_000, 0}, {"pay", 1, 0, 1, 100_000, 0}}
	got := x.Savings(time.Time{}, x.now)
	if d := cmp.Diff(want, got.Teams); d != "" || got.TeamLabel != "team" {
		t.Error(got.TeamLabel, d)
	}
	if !x.TeamsTold(id, a) || x.TeamsTold(id, b) || x.TeamsTold("unknown", a) {
		t.Error("it is not known of which claims the teams are told")
	}
	told := forWhom(got)
	if want := "By label team, commands promised to save: (not observed) $0.2000/h, (no label) $0.1000/h, pay $0.1000/h, (no pods) $0.0500/h."; len(told) != 1 || told[0] != want {
		t.Errorf("%q, want %q", told, want)
	}
}

// Whatever namespaces there are, an answer has a bounded number of them, which add up to all.
func TestSharesAreBounded(t *testing.T) {
	x := newTeller()
	x.at(14)
	x.spot("blue", 10_000_000, 30_000_000)
	p := &ledger.SharesObserved{Hour: began}
	for i := range itemsMax + 50 {
		p.Spot = append(p.Spot, ledger.SpotShare{NodePool: "blue", Namespace: fmt.Sprintf("n%04d", i), OnDemand: int64(10_000 + i), Cost: int64(10_000 + i)})
	}
	x.tell(p)
	got := x.Savings(time.Time{}, began.Add(time.Hour)).Spot
	var sum SpotShare
	for _, s := range got.Namespaces {
		sum.OnDemand, sum.Saved = sum.OnDemand+s.OnDemand, sum.Saved+s.Saved
	}
	if len(got.Namespaces) != itemsMax+1 || got.Namespaces[0].Name != others || got.Namespaces[1].Name != "n0050" || sum.OnDemand != got.Total.OnDemand || sum.Saved != got.Total.Saved {
		t.Errorf("%d names, the first are %v, in sum %+v of %+v", len(got.Namespaces), got.Namespaces[:2], sum, got.Total)
	}
}

// An hour whose weights are forgotten, since there are many owners, is shared out by those of its day.
func TestHoursThatAreForgotten(t *testing.T) {
	x := shared(t)
	hours := &x.shares[0]
	hours.floor = hours.number(began) + 1
	delete(hours.sums, hours.number(began))
	// 10:15 to 11: 67,500 on demand, 22,500 paid, of which 500 parts of the day's 2007 and 1007 are web's.
	got := x.Savings(time.Time{}, began.Add(165*time.Minute)).Spot.Namespaces
	if len(got) != 3 || got[2] != (SpotShare{"web", 16_817, 16_817 - 11_172}) || got[0] != (SpotShare{"(not observed)", 102_500, 75_000}) {
		t.Errorf("%+v", got)
	}
}

// What records with times ahead of the console's clock tell of is of the spans that they say.
func TestSpansAheadOfTheClock(t *testing.T) {
	x := shared(t)
	want := []SpotShare{{"(not observed)", 22_500, 15_000}, {"shop", 50_625 + 90_000, 39_375 + 60_000}, {"web", 16_875, 5_625}}
	if d := cmp.Diff(want, x.Savings(time.Time{}, began.Add(30*time.Minute)).Spot.Namespaces); d != "" {
		t.Error(d)
	}
}

func TestSharesAreKept(t *testing.T) {
	x := shared(t)
	a := x.launched("p", 10)
	id := ledger.CommandID("log", x.tell(&ledger.CommandStarted{Candidates: []ledger.Candidate{node(a, "p", 10, "shop")}}))
	x.tell(&ledger.SharesObserved{Label: "team", Moved: []ledger.MovedPods{{Command: id, Claim: a, Teams: map[string]int{"pay": 1}}}})
	x.tell(&ledger.CommandSucceeded{ID: id})
	file := filepath.Join(t.TempDir(), "history")
	if err := x.Save(file); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(file, "log")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(x.Savings(time.Time{}, x.now), loaded.Savings(time.Time{}, x.now)); d != "" {
		t.Error(d)
	}
}
