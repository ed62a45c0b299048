package policy

import (
	"testing"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/options"
	pt "millwright/planner/plannertest"
)

func readable(t *testing.T, spec string) *Policy {
	t.Helper()
	p := read(pt.Policy("d", spec), options.PresentRevision)
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

// All that is asked for must be saved, exactly.
func TestShortfallAtItsBounds(t *testing.T) {
	const weight = planner.EvictionCostUnit / CostGrain
	short := func(pool *karpv1.NodePool, spec string, saved, before, evictions, grains int64) string {
		p := readable(t, `{savings: `+spec+`}`)
		life, _ := p.LifeMost(pool)
		text, _ := p.Shortfall(saved, before, evictions, grains, Life{Length: life})
		return text
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
		"p": {read(pt.Policy("b", `{approval: {}}`), options.PresentRevision), read(pt.Policy("c", `{approval: {reasons: [Drifted], expireAfter: 1m}}`), options.PresentRevision)},
		"q": {read(pt.Policy("a", `{approval: {expireAfter: 2h}}`), options.PresentRevision), read(pt.Policy("b", `{approval: {}}`), options.PresentRevision)},
		"r": {read(pt.Policy("d", `{}`), options.PresentRevision)},
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
