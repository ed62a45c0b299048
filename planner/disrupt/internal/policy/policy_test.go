package policy

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
)

// utc reads "2026-03-29 00:30" as UTC.
func utc(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func readable(t *testing.T, spec string) *Policy {
	t.Helper()
	p := read(pt.Policy("d", spec))
	if p.fault != "" {
		t.Fatal(p.fault)
	}
	return p
}

func want[T comparable](t *testing.T, what string, got, expected T) {
	t.Helper()
	if got != expected {
		t.Errorf("%s: got %v, want %v", what, got, expected)
	}
}

// In Berlin clocks go from 02:00 to 03:00 on 29 March 2026 at 01:00 UTC, and from 03:00 back to 02:00 on
// 25 October at 01:00 UTC. Windows begin by the clock of their zone and last as long as they say.
func TestWindowsOverTheChangeOfClocks(t *testing.T) {
	for name, c := range map[string]struct {
		schedule, duration, now string
		from, until             string
		open                    bool
	}{
		"the night before clocks go forward ends an hour later by the clock": {"0 22 * * *", "8h", "2026-03-29 00:59", "2026-03-28 21:00", "2026-03-29 05:00", true},
		"it ends after its duration":                                         {"0 22 * * *", "8h", "2026-03-29 05:00", "2026-03-29 20:00", "2026-03-30 04:00", false},
		"from that day on it begins an hour earlier in UTC":                  {"0 22 * * *", "8h", "2026-03-29 20:00", "2026-03-29 20:00", "2026-03-30 04:00", true},
		"a time that is left out passes without an opening":                  {"30 2 * * *", "10m", "2026-03-29 00:00", "2026-03-30 00:30", "2026-03-30 00:40", false},
		"the day before it there was one":                                    {"30 2 * * *", "10m", "2026-03-28 01:35", "2026-03-28 01:30", "2026-03-28 01:40", true},
		"a time that comes twice opens at the first":                         {"30 2 * * *", "10m", "2026-10-25 00:35", "2026-10-25 00:30", "2026-10-25 00:40", true},
		"and again at the second":                                            {"30 2 * * *", "10m", "2026-10-25 00:40", "2026-10-25 01:30", "2026-10-25 01:40", false},
		"from that day on it begins an hour later in UTC":                    {"0 22 * * *", "8h", "2026-10-25 20:30", "2026-10-25 21:00", "2026-10-26 05:00", false},
		"a window at its first instant":                                      {"0 12 * * *", "1h", "2026-07-01 10:00", "2026-07-01 10:00", "2026-07-01 11:00", true},
		"a window at its end has closed":                                     {"0 12 * * *", "1h", "2026-07-01 11:00", "2026-07-02 10:00", "2026-07-02 11:00", false},
		"of openings that overlap the one that began first counts":           {"0 * * * *", "2h", "2026-07-01 10:30", "2026-07-01 09:00", "2026-07-01 11:00", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := readable(t, `{windows: [{action: Allow, schedule: "`+c.schedule+`", duration: `+c.duration+`, timeZone: Europe/Berlin}]}`)
			from, until, open := p.windows[0].at(utc(t, c.now))
			want(t, "from", Clock(from), Clock(utc(t, c.from)))
			want(t, "until", Clock(until), Clock(utc(t, c.until)))
			want(t, "open", open, c.open)
		})
	}
}

func TestAScheduleThatNeverComesOpensNever(t *testing.T) {
	p := readable(t, `{windows: [{action: Allow, schedule: "0 0 30 2 *", duration: 1h}]}`)
	b := p.closed(karpv1.DisruptionReasonEmpty, utc(t, "2026-03-02 11:00"))
	want(t, "message", b.Message, `DisruptionPolicy "d" allows disruption for reason Empty at no time that ever comes`)
	want(t, "ends by time", b.Until.IsZero(), true)
	_, openings, _ := Status(p.DisruptionPolicy, nil, utc(t, "2026-03-02 11:00"))
	want(t, "openings", len(openings), 0)
}

func TestStatusNamesTheNextOpenings(t *testing.T) {
	other := pt.Pool("other")
	other.Labels = map[string]string{"team": "other"}
	o := pt.Policy("d", `{nodePoolSelector: {matchLabels: {team: other}}, windows: [{action: Deny, schedule: "0 12 * * *", duration: 2h}, {action: Allow, schedule: "0 * * * *", duration: 30m}]}`)
	selected, openings, fault := Status(o, []*karpv1.NodePool{pt.Pool("p"), other}, utc(t, "2026-03-02 11:10"))
	want(t, "fault", fault, "")
	want(t, "selected", selected, 1)
	want(t, "openings", len(openings), openingsMax)
	want(t, "the one that is open", Clock(openings[0].From.Time), "2026-03-02T11:00:00Z")
	want(t, "of two at once the shorter first", string(openings[1].Action)+string(openings[2].Action), "AllowDeny")
	for i := range openings[1:] {
		if openings[i+1].From.Before(&openings[i].From) {
			t.Errorf("opening %d begins before the one it follows", i+1)
		}
	}
	o.Spec.Windows[1].Duration = metav1.Duration{}
	selected, openings, fault = Status(o, []*karpv1.NodePool{other}, utc(t, "2026-03-02 11:10"))
	want(t, "what can't be read", fault, "spec.windows[1].duration: must be positive, got 0s")
	want(t, "still selects", selected, 1)
	want(t, "and opens", len(openings), 0)
}

// What blocks first is what is named: what can't be read, the pause, the age, then windows.
func TestBlockNamesTheFirstCause(t *testing.T) {
	now := utc(t, "2026-03-02 11:00")
	node := &planner.StateNode{Claim: &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}}
	p := read(pt.Policy("d", `{pause: {until: "2026-03-02T12:00:00Z"}, minNodeAge: 90m, windows: [{action: Deny, schedule: "0 11 * * *", duration: 3h}], savings: {minPerHour: "a"}}`))
	for _, c := range []struct {
		cause string
		until string
		drop  func()
	}{
		{Unreadable, "", func() { p.fault = "" }},
		{Paused, "2026-03-02T12:00:00Z", func() { p.Spec.Pause.Until = metav1.NewTime(now) }},
		{TooYoung, "2026-03-02T11:30:00Z", func() { p.Spec.MinNodeAge.Duration = time.Hour }},
		{Window, "2026-03-02T14:00:00Z", func() { p.windows = nil }},
	} {
		b := p.Block(node, karpv1.DisruptionReasonEmpty, now)
		if b == nil {
			t.Fatalf("%s does not block", c.cause)
		}
		until := ""
		if !b.Until.IsZero() {
			until = Clock(b.Until)
		}
		want(t, "cause", b.Cause, c.cause)
		want(t, "until of "+c.cause, until, c.until)
		c.drop()
	}
	if b := p.Block(node, karpv1.DisruptionReasonEmpty, now); b != nil {
		t.Errorf("still blocked: %s", b.Message)
	}
}

// All that is asked for must be saved, exactly.
func TestShortfallAtItsBounds(t *testing.T) {
	const weight = planner.EvictionCostUnit / CostGrain
	short := func(life *karpv1.NodePool, spec string, saved, before, evictions, grains int64) string {
		return readable(t, `{savings: `+spec+`}`).Shortfall(saved, before, evictions, grains, life)
	}
	brief := pt.Pool("p")
	hour := time.Hour
	brief.Spec.Template.Spec.ExpireAfter.Duration = &hour
	for name, c := range map[string]struct {
		spec                             string
		saved, before, evictions, grains int64
		pool                             *karpv1.NodePool
		message                          string
	}{
		"nothing is asked for":   {`{}`, 0, 0, 9, 9 * weight, nil, ""},
		"minPerHour, just":       {`{minPerHour: "0.05"}`, 50_000, 0, 0, 0, nil, ""},
		"minPerHour, not quite":  {`{minPerHour: "0.05"}`, 49_999, 0, 0, 0, nil, `saves 0.049999 USD per hour, minPerHour is 0.05`},
		"minPercent, just":       {`{minPercent: 30}`, 30_000, 100_000, 0, 0, nil, ""},
		"minPercent, not quite":  {`{minPercent: 30}`, 29_999, 100_000, 0, 0, nil, `saves 0.029999 of 0.1 USD per hour, minPercent is 30`},
		"minPercent of much":     {`{minPercent: 100}`, 1 << 60, 1<<60 + 1, 0, 0, nil, `saves 1152921504606.846976 of 1152921504606.846977 USD per hour, minPercent is 100`},
		"minPerEviction, just":   {`{minPerEviction: "0.01"}`, 30_000, 0, 3, 0, nil, ""},
		"minPerEviction, not so": {`{minPerEviction: "0.01"}`, 29_999, 0, 3, 0, nil, `saves 0.029999 USD per hour with 3 evictions, minPerEviction is 0.01`},
		"paid back in a day":     {`{payBack: {costPerEviction: "0.24"}}`, 20_000, 0, 2, 2 * weight, nil, ""},
		"not paid back in a day": {`{payBack: {costPerEviction: "0.24"}}`, 19_999, 0, 2, 2 * weight, nil, `saves 0.479976 USD in 24h0m0s, its 2 evictions cost 0.48`},
		"pods that weigh half":   {`{payBack: {costPerEviction: "0.24"}}`, 10_000, 0, 2, weight, nil, ""},
		"in a horizon of its own": {`{payBack: {costPerEviction: "0.24", horizon: 48h}}`, 10_000, 0, 2, 2 * weight, nil,
			""},
		"nodes that live shorter": {`{payBack: {costPerEviction: "0.24", horizon: 48h}}`, 10_000, 0, 2, 2 * weight, brief, `saves 0.01 USD in 1h0m0s, its 2 evictions cost 0.48`},
	} {
		t.Run(name, func(t *testing.T) {
			message := c.message
			if message != "" {
				message = `DisruptionPolicy "d": ` + message
			}
			want(t, "message", short(c.pool, c.spec, c.saved, c.before, c.evictions, c.grains), message)
		})
	}
}

func TestAmountsAreReadExactly(t *testing.T) {
	for text, micro := range map[string]int64{"0": 0, "1": 1_000_000, "0.05": 50_000, "0.000001": 1, "999999999.999999": 999_999_999_999_999} {
		got, err := microUSD(&text)
		if err != nil || got != micro {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, micro)
		}
		want(t, "written", USD(got), text)
	}
	for _, text := range []string{"-1", "+1", "1e3", "0.0000001", "1000000000", "1,5", "a", "1.-5"} {
		if got, err := microUSD(&text); err == nil {
			t.Errorf("%q is %d, want an error", text, got)
		}
	}
}

// The hour begins with each command; what is more than an hour old does not count.
func TestEvictionsPerHour(t *testing.T) {
	c := pt.New()
	start := func(pods int) {
		moved := make([]ledger.PodRef, pods)
		c.Decide(c.Snapshot(), &planner.Decision{Kind: ledger.KindCommandStarted, Payload: &ledger.CommandStarted{Candidates: []ledger.Candidate{{NodePool: "p", Pods: moved}}}})
	}
	start(2)
	c.Advance(30 * time.Minute)
	start(1)
	p := readable(t, `{maxEvictionsPerHour: 4}`)
	none := readable(t, `{maxEvictionsPerHour: 0}`)
	node, elsewhere := &planner.StateNode{NodePool: "p"}, &planner.StateNode{NodePool: "q"}
	s := c.Snapshot()
	want(t, "one more", p.BlockByRate(s, node, 1) == nil, true)
	b := p.BlockByRate(s, node, 2)
	want(t, "two more", b.Message, `DisruptionPolicy "d" lets 4 pods of NodePool "p" move in an hour, 3 have`)
	want(t, "until the first is an hour old", b.Until.Sub(s.Now), 30*time.Minute)
	want(t, "a node without pods", p.BlockByRate(s, node, 0) == nil, true)
	want(t, "a big one where nothing moved", p.BlockByRate(s, elsewhere, 9) == nil, true)
	want(t, "nothing may move at all", none.BlockByRate(s, elsewhere, 1) == nil, false)

	nodes := []*planner.StateNode{{Name: "big", NodePool: "q"}, {Name: "small", NodePool: "q"}, {Name: "empty", NodePool: "q"}, {Name: "free", NodePool: "r"}}
	pods := map[string]int{"big": 9, "small": 1, "free": 9}
	kept, why := TooMany(s, map[string][]*Policy{"p": {p}, "q": {p}}, nodes, func(n *planner.StateNode) int { return pods[n.Name] })
	if len(kept) != 1 || kept[0].Name != "small" {
		t.Errorf("kept %v, want the one after the big one", kept)
	}
	want(t, "why", why, `DisruptionPolicy "d" lets 4 pods of NodePool "q" move in an hour`)
	c.Advance(30 * time.Minute)
	want(t, "an hour after the first", p.BlockByRate(c.Snapshot(), node, 3) == nil, true)
}

// The strictest approval counts: the shortest life, and all policies by name.
func TestApprovalFor(t *testing.T) {
	byPool := map[string][]*Policy{
		"p": {read(pt.Policy("b", `{approval: {}}`)), read(pt.Policy("c", `{approval: {reasons: [Drifted], expireAfter: 1m}}`))},
		"q": {read(pt.Policy("a", `{approval: {expireAfter: 2h}}`)), read(pt.Policy("b", `{approval: {}}`))},
		"r": {read(pt.Policy("d", `{}`))},
	}
	command := func(reason karpv1.DisruptionReason, pools ...string) *ledger.CommandStarted {
		started := &ledger.CommandStarted{Reason: reason}
		for _, pool := range pools {
			started.Candidates = append(started.Candidates, ledger.Candidate{NodePool: pool})
		}
		return started
	}
	if a := ApprovalFor(byPool, command(karpv1.DisruptionReasonEmpty, "r")); a != nil {
		t.Errorf("no policy asks, got %v", *a)
	}
	a := ApprovalFor(byPool, command(karpv1.DisruptionReasonEmpty, "p", "q", "p"))
	if len(a.Policies) != 2 || a.Policies[0] != "a" || a.Policies[1] != "b" {
		t.Errorf("policies %v, want a and b", a.Policies)
	}
	want(t, "life", a.Life, 2*time.Hour)
	want(t, "of a day, if none says less", ApprovalFor(byPool, command(karpv1.DisruptionReasonEmpty, "p")).Life, 24*time.Hour)
	want(t, "for its reasons", ApprovalFor(byPool, command(karpv1.DisruptionReasonDrifted, "p")).Life, time.Minute)
}
