package history

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millwright/planner/ledger"
	"millwright/store/audit"
	"millwright/store/audit/recording"
)

var began = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// teller gives a History records one after the other, a minute apart.
type teller struct {
	*History
	seq uint64
	now time.Time
}

func newTeller() *teller { return &teller{History: New("log"), now: began} }

func (x *teller) tell(payload any) uint64 {
	x.seq++
	x.now = x.now.Add(time.Minute)
	x.Add(ledger.Entry{Seq: x.seq, Time: x.now, Mode: ledger.ModeActive, Payload: payload})
	return x.seq
}

func (x *teller) launched(pool string, price int64) (claim string) {
	seq := x.tell(&ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: pool}}})
	claim = ledger.ClaimName("log", pool, seq, 0)
	x.tell(&ledger.Launched{Claim: claim, Price: price})
	return claim
}

func (x *teller) gone(claim string) {
	x.tell(&ledger.InstanceTerminated{Claim: claim})
	x.tell(&ledger.ClaimClosed{Claim: claim})
}

func node(claim, pool string, price int64, namespaces ...string) ledger.Candidate {
	c := ledger.Candidate{Claim: claim, NodePool: pool, Price: price}
	for _, n := range namespaces {
		c.Pods = append(c.Pods, ledger.PodRef{Namespace: n})
	}
	return c
}

func TestACommandIsSharedOutWithoutARest(t *testing.T) {
	x := newTeller()
	a, b := x.launched("blue", 300_001), x.launched("red", 100_000)
	seq := x.tell(&ledger.CommandStarted{Reason: "Underutilized", PriceBefore: 400_001, PriceAfter: 150_000,
		Candidates:   []ledger.Candidate{node(a, "blue", 300_001, "shop", "shop", "web"), node(b, "red", 100_000)},
		Replacements: []ledger.PlannedClaim{{NodePool: "blue"}}})
	id := ledger.CommandID("log", seq)
	if got := x.Savings(time.Time{}, x.now); got.Running != 1 || got.Total.Commands != 0 {
		t.Errorf("before it has ended: %+v", got)
	}
	x.tell(&ledger.Launched{Claim: ledger.ClaimName("log", "blue", seq, 0), Price: 170_000}) // dearer than planned
	x.tell(&ledger.CommandSucceeded{ID: id})
	got := x.Savings(time.Time{}, x.now)
	want := ReasonSaving{Commands: 1, Nodes: 2, Evictions: 3, Promised: 250_001, Realized: -170_000}
	if got.Total != want {
		t.Errorf("before the instances have ended: %+v, want %+v", got.Total, want)
	}
	x.gone(a)
	x.gone(b)
	x.gone(b) // told again
	got = x.Savings(time.Time{}, x.now)
	if want.Realized = 230_001; got.Total != want {
		t.Errorf("%+v, want %+v", got.Total, want)
	}
	var sum ReasonSaving
	for _, i := range got.Items {
		sum.Promised, sum.Realized, sum.Evictions, sum.Nodes = sum.Promised+i.Promised, sum.Realized+i.Realized, sum.Evictions+i.Evictions, sum.Nodes+i.Nodes
	}
	if sum.Commands = 1; sum != want {
		t.Errorf("the shares add up to %+v, want %+v", sum, want)
	}
	names := []string{}
	for _, i := range got.Items {
		names = append(names, i.NodePool+"/"+i.Namespace)
	}
	if d := cmp.Diff([]string{"blue/shop", "blue/web", "red/"}, names); d != "" {
		t.Error(d)
	}
	if shop := got.Items[0]; shop.Evictions != 2 || shop.Promised < 2*got.Items[1].Promised-2 || shop.Promised > 2*got.Items[1].Promised+2 {
		t.Errorf("two of three pods have %+v, the third %+v", shop, got.Items[1])
	}
	if late := x.Savings(x.now, x.now); late.Total.Commands != 0 {
		t.Errorf("since now: %+v", late.Total)
	}
}

func TestWhatWasGivenUpSavesNothing(t *testing.T) {
	x := newTeller()
	a, b := x.launched("p", 10), x.launched("p", 20)
	seq := x.tell(&ledger.CommandStarted{Reason: "Empty", PriceBefore: 30, Candidates: []ledger.Candidate{node(a, "p", 10), node(b, "p", 20)}})
	x.tell(&ledger.CommandReduced{ID: ledger.CommandID("log", seq), Dropped: []ledger.DroppedNode{{Claim: b}}})
	x.tell(&ledger.CommandSucceeded{ID: ledger.CommandID("log", seq)})
	x.gone(a)
	x.gone(b) // by something else
	seq = x.tell(&ledger.CommandStarted{Reason: "Empty", PriceBefore: 7, Candidates: []ledger.Candidate{node("c", "p", 7)}})
	x.tell(&ledger.CommandRolledBack{ID: ledger.CommandID("log", seq)})
	x.tell(&ledger.CommandSucceeded{ID: "of before the first record"})
	got := x.Savings(time.Time{}, x.now)
	if want := (ReasonSaving{Commands: 1, Nodes: 1, Promised: 10, Realized: 10}); got.Total != want || got.RolledBack != 1 {
		t.Errorf("%+v, %d rolled back", got.Total, got.RolledBack)
	}
}

// The curve ends with what there is now, and goes back by what the records say.
func TestTheCurve(t *testing.T) {
	x := newTeller()
	a := x.launched("p", 100)
	b := x.launched("q", 40)
	x.gone(a)
	x.Add(ledger.Entry{Seq: x.seq, Time: x.now, Payload: &ledger.AlarmRaised{}})                                                      // told again
	x.Add(ledger.Entry{Seq: x.seq + 1, Time: x.now, Mode: ledger.ModeShadow, Payload: &ledger.Launched{Claim: "shadow", Price: 999}}) // never done
	got := x.Timeline(began, x.now, Filter{}, 1, 40)
	nodes, prices := []int{}, []int64{}
	for _, p := range got.Points {
		nodes, prices = append(nodes, p.Nodes), append(prices, p.MicroUSDPerHour)
	}
	if d := cmp.Diff([]int{0, 1, 1, 2, 1}, nodes) + cmp.Diff([]int64{0, 100, 100, 140, 40}, prices); d != "" {
		t.Error(d)
	}
	pool := "q"
	got = x.Timeline(began, x.now, Filter{NodePool: &pool}, 1, 40)
	if n := len(got.Points); n != 2 || got.Points[1].Launched != 1 || got.Points[1].Nodes != 1 || got.Points[0].Nodes != 0 {
		t.Errorf("of one NodePool: %+v", got.Points)
	}
	for span, seconds := range map[time.Duration]int64{time.Hour: 60, 48 * time.Hour: 3600, 90 * 24 * time.Hour: 86400, 20 * 365 * 24 * time.Hour: 86400} {
		if got := x.Timeline(x.now, x.now.Add(span), Filter{}, 1, 40); got.Seconds != seconds || len(got.Points) == 0 {
			t.Errorf("over %s: spans of %d seconds, %d of them", span, got.Seconds, len(got.Points))
		}
		if got := x.Timeline(x.now.Add(-span), x.now, Filter{}, 1, 40); got.Seconds != 60 || len(got.Points) == 0 {
			t.Errorf("over %s of a log that is minutes old: spans of %d seconds, %d of them", span, got.Seconds, len(got.Points))
		}
	}
	x.seq += 2 // one was the shadow's, one is missed
	x.gone(b)
	if first, _, missed := x.Extent(); first != 1 || missed != 1 {
		t.Errorf("from %d, missed %d", first, missed)
	}
}

// Years of records, commands and NodePools take no more room than is set aside.
func TestWhatIsHeldIsBounded(t *testing.T) {
	x := newTeller()
	for i := range commandsMax + 2000 {
		x.now = x.now.Add(time.Hour)
		x.tell(&ledger.CommandStarted{Reason: "Empty", PriceBefore: 1, Candidates: []ledger.Candidate{node(fmt.Sprint("claim-", i), fmt.Sprint("pool-", i), 1, fmt.Sprint("ns-", i))}})
		x.tell(&ledger.CommandSucceeded{ID: ledger.CommandID("log", x.seq)})
	}
	if len(x.commands) != commandsMax || len(x.order) != commandsMax || len(x.taking) != commandsMax {
		t.Errorf("%d commands, %d in order, %d claims taken", len(x.commands), len(x.order), len(x.taking))
	}
	for i, r := range x.rings {
		if len(r.spans) > resolutions[i].keep || r.cells > cellsMax {
			t.Errorf("%d spans of %s with %d cells", len(r.spans), r.span, r.cells)
		}
	}
	got := x.Savings(time.Time{}, x.now)
	if len(got.Items) != itemsMax+1 || got.Total.Commands != commandsMax || !got.Kept {
		t.Errorf("%d items, %+v", len(got.Items), got.Total)
	}
	if !slices.ContainsFunc(got.Items, func(s Saving) bool { return s.NodePool == others && s.Commands == commandsMax-itemsMax }) {
		t.Error("what is too much is not summed up")
	}
}

// Over the log of an end-to-end test it comes to what the Ledger does.
func TestARecordedLog(t *testing.T) {
	from, err := recording.Open("../../../store/audit/testdata/v20/TestPodsGetNodesAndEmptyNodesGo_in_one_process.rec")
	if err != nil {
		t.Fatal(err)
	}
	list, err := from.Read(t.Context(), 1, 1<<20)
	if err != nil || len(list) == 0 {
		t.Fatal(len(list), err)
	}
	var x *History
	var l *ledger.Ledger
	succeeded := 0
	for _, rec := range list {
		e, err := audit.Decode(rec)
		if err != nil {
			t.Fatal(err)
		}
		if g, ok := e.Payload.(*ledger.Genesis); ok {
			x, l = New(g.LogID), ledger.New(g.LogID)
		}
		if e.Kind == ledger.KindCommandSucceeded {
			succeeded++
		}
		x.Add(e)
		if err := l.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	nodes, price := 0, int64(0)
	for _, c := range l.Claims() {
		if c.Instance != nil && !c.Terminated {
			nodes, price = nodes+1, price+c.Instance.Price
		}
	}
	last := list[len(list)-1].Time
	points := x.Timeline(list[0].Time, last, Filter{}, nodes, price).Points
	first := points[0]
	if first.Nodes-first.nodes != 0 || first.MicroUSDPerHour-first.price != 0 {
		t.Errorf("it begins with %d nodes for %d", first.Nodes-first.nodes, first.MicroUSDPerHour-first.price)
	}
	if got := x.Savings(time.Time{}, last); got.Total.Commands != succeeded || succeeded == 0 || got.Total.Promised <= 0 || got.Total.Realized != got.Total.Promised {
		t.Errorf("%d commands succeeded, savings are %+v", succeeded, got.Total)
	}
}

func TestInSentences(t *testing.T) {
	x := newTeller()
	if got := x.Summary(began, began); len(got) != 1 || got[0] != "Since 2026-03-02 10:00 UTC nothing was decided or done." {
		t.Error(got)
	}
	a, b := x.launched("p", 100_000), x.launched("p", 50_000)
	x.tell(&ledger.LaunchFailed{Claim: "c"})
	seq := x.tell(&ledger.CommandStarted{Reason: "Empty", PriceBefore: 100_000, Candidates: []ledger.Candidate{node(a, "p", 100_000, "shop")}})
	x.tell(&ledger.CommandSucceeded{ID: ledger.CommandID("log", seq)})
	x.gone(a)
	x.tell(&ledger.ClaimDoomed{Claim: b, Reason: "spot_interrupted"})
	want := []string{
		"Since 2026-03-02 10:01 UTC 0 decisions were taken.",
		"2 NodeClaims were planned and 2 instances launched.",
		"1 launch failed.",
		"1 command succeeded (Empty 1), took 1 node and moved 1 pod: promised $0.1000/h, realized so far $0.1000/h.",
		"1 NodeClaim was taken without regard to budgets (spot_interrupted 1).",
		"1 instance ended.",
		"In sum: 1 instance more, $0.0500/h more than before.",
	}
	if d := cmp.Diff(want, x.Summary(began, x.now)); d != "" {
		t.Error(d)
	}
}

// One record of a clock that was a month ahead does not draw all later ones to its own time.
func TestARecordFromTheFutureKeepsNothingElseFromItsTime(t *testing.T) {
	x := newTeller()
	x.seq++
	x.Add(ledger.Entry{Seq: x.seq, Time: began.Add(30 * 24 * time.Hour), Mode: ledger.ModeActive, Payload: &ledger.AlarmRaised{}})
	x.launched("blue", 100)
	for _, p := range x.Timeline(began, x.now, Filter{}, 1, 100).Points {
		if p.Launched == 1 && p.At.Equal(x.now.Truncate(time.Minute)) {
			return
		}
	}
	t.Error("the launch is not counted at its time")
}

// What happened is counted by reason too, whichever record says so; nodes and cost are those of the NodePool
// whatever else is asked for.
func TestATimelineByKindAndReason(t *testing.T) {
	x := newTeller()
	a, b, c := x.launched("blue", 300_000), x.launched("blue", 200_000), x.launched("red", 100_000)
	seq := x.tell(&ledger.CommandStarted{Reason: "Drifted", Candidates: []ledger.Candidate{node(a, "blue", 300_000)}})
	x.tell(&ledger.CommandSucceeded{ID: ledger.CommandID("log", seq)})
	x.tell(&ledger.DrainStarted{Node: "a", Claim: a, Reason: "Drifted"})
	x.gone(a)
	x.tell(&ledger.ClaimDoomed{Claim: b, Reason: "expired"})
	x.gone(b)
	x.tell(&ledger.LaunchFailed{Claim: c, Reason: "InsufficientInstanceCapacity"})
	blue := "blue"
	for name, w := range map[string]struct {
		filter Filter
		want   Sums
	}{
		"drifted":                   {Filter{Reason: "drifted"}, Sums{Commands: 1, Drains: 1, Ended: 1}},
		"expired":                   {Filter{Reason: "expired"}, Sums{Doomed: 1, Ended: 1}},
		"ended for drift":           {Filter{Reason: "Drifted", Kind: "ended"}, Sums{Ended: 1}},
		"ended":                     {Filter{Kind: "ended"}, Sums{Ended: 2}},
		"failed":                    {Filter{Kind: "failed"}, Sums{Failed: 1}},
		"failed in blue":            {Filter{Kind: "failed", NodePool: &blue}, Sums{}},
		"drains of blue":            {Filter{Kind: "drains", NodePool: &blue}, Sums{Drains: 1}},
		"what never was the reason": {Filter{Reason: "Empty"}, Sums{}},
	} {
		tl := x.Timeline(began, x.now, w.filter, 1, 100_000)
		sum := Sums{}
		most := 0
		for _, p := range tl.Points {
			sum.add(p.Sums)
			most = max(most, p.Nodes)
		}
		sum.nodes, sum.price = 0, 0
		if sum != w.want {
			t.Errorf("%s: %+v, want %+v", name, sum, w.want)
		}
		if w.filter.NodePool == nil && most != 3 {
			t.Errorf("%s: %d nodes at most", name, most)
		}
		if !slices.Equal(tl.Reasons, []string{"Drifted", "InsufficientInstanceCapacity", "expired"}) {
			t.Errorf("%s: reasons %q", name, tl.Reasons)
		}
	}
}

// The History of a story counts, of a fleet, the claims of the story alone.
func TestAHistoryOfOneObject(t *testing.T) {
	at := func(seq uint64, payload any) ledger.Entry {
		return ledger.Entry{Seq: seq, Time: began.Add(time.Duration(seq) * time.Minute), Mode: ledger.ModeActive, Payload: payload}
	}
	mine, other := ledger.ClaimName("log", "p", 1, 0), ledger.ClaimName("log", "p", 1, 1)
	h := Of("log", []ledger.Entry{
		at(1, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: "p"}, {NodePool: "p"}}}),
		at(3, &ledger.FleetAnswered{Launched: []ledger.Launched{{Claim: mine, Price: 5}, {Claim: other, Price: 7}}}),
	}, map[string]bool{mine: true})
	if nodes, price := h.Running(); nodes != 1 || price != 5 {
		t.Errorf("%d nodes at %d", nodes, price)
	}
	tl := h.Timeline(began, began.Add(time.Hour), Filter{}, 1, 5)
	if len(tl.Points) != 2 || tl.Points[0].Planned != 1 || tl.Points[1].Launched != 1 || tl.Points[1].Nodes != 1 || tl.Points[0].Nodes != 0 || tl.Missed != 0 {
		t.Errorf("%+v", tl)
	}
}
