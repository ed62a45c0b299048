package payback

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt/internal/policy"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
)

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// bought is a NodePool p with nodes n0, n1, … that were made so long after Start, and so many pods of web-1
// on n0, 30 seconds later. It is six hours after Start.
func bought(pods int, after ...time.Duration) *pt.Cluster {
	c := pt.New(pt.Pool("p"))
	for i, d := range after {
		name := fmt.Sprintf("n%d", i)
		c.AddNode(name, "p")
		c.See(pt.Claim(name+"-claim", name, "p", func(o *karpv1.NodeClaim) { o.CreationTimestamp = metav1.NewTime(pt.Start.Add(d)) }))
	}
	for i := range pods {
		c.See(pt.Pod(fmt.Sprintf("web-1-%02d", i), pt.On("n0"), func(o *corev1.Pod) { o.CreationTimestamp = metav1.NewTime(pt.Start.Add(30 * time.Second)) }))
	}
	c.Advance(6 * time.Hour)
	return c
}

func rule(c *pt.Cluster, change func(*planner.Options)) (*Rule, *planner.StateNode) {
	s := c.Snapshot()
	s.Options.EvictionCost, s.Options.EvictionHorizon = 10_000, time.Hour
	if change != nil {
		change(&s.Options)
	}
	return New(s, policy.ByPool(s)), s.StateNode("n0")
}

// How long a saving counts, by what the NodePool has bought; ten pods at a cent pay within it for 0.1 USD.
// The rules: disruption §5.
func TestASavingCountsForAsLongAsTheNodePoolWillDoWithoutTheNode(t *testing.T) {
	const now, m = 6 * time.Hour, time.Minute
	for name, tc := range map[string]struct {
		after []time.Duration
		life  time.Duration
		until time.Duration // after Start, of a saving that needs two hours
	}{
		"nothing was bought for six hours":                     {[]time.Duration{0}, 6 * time.Hour, 0},
		"one node a moment ago":                                {[]time.Duration{now - m}, time.Hour, now - m + 2*time.Hour},
		"several at a time count once":                         {[]time.Duration{now - 5*m, now - 4*m, now - 3*m, now - 2*m, now}, time.Hour, now + 2*time.Hour},
		"the third purchase in three hours halves it":          {[]time.Duration{now - 170*m, now - 90*m, now - 10*m}, 30 * m, now - 170*m + 3*time.Hour},
		"the fourth again":                                     {[]time.Duration{now - 170*m, now - 90*m, now - 50*m, now - 10*m}, 15 * m, now - 170*m + 3*time.Hour},
		"it is never less than five minutes":                   {[]time.Duration{now - 170*m, now - 90*m, now - 70*m, now - 50*m, now - 30*m, now - 20*m, now - m}, 5 * m, now - 170*m + 3*time.Hour},
		"nor than it has done without already":                 {[]time.Duration{now - 170*m, now - 90*m, now - 80*m, now - 60*m, now - 50*m, now - 40*m}, 40 * m, now - 170*m + 3*time.Hour},
		"what was bought more than three hours ago is no sign": {[]time.Duration{0, 60 * m, 120 * m, 170 * m}, now - 170*m, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, n := rule(bought(10, tc.after...), nil)
			want(t, "life", r.life([]*planner.StateNode{n}), tc.life)
			just := int64(100_000 * time.Hour / tc.life)
			want(t, "what just pays", r.Evictions(just+1, n) == nil, true)
			refused := r.Evictions(just-1, n)
			if refused == nil {
				t.Fatal("a little less pays too")
			}
			if tc.until == 0 {
				return
			}
			if late := r.Evictions(50_000, n); late == nil || late.Until.Sub(pt.Start).Truncate(time.Minute) != tc.until {
				t.Errorf("looks again: %+v, want %s after the start", late, tc.until)
			}
		})
	}
}

// Nothing refuses what evicts nobody, what a policy answers for, or anything if evictions cost nothing.
func TestWhatEvictionsCost(t *testing.T) {
	now := 6*time.Hour - time.Minute
	r, n := rule(bought(10, now), nil)
	refused := r.Evictions(99_000, n)
	if refused == nil {
		t.Fatal("ten evictions pay for 0.099 USD")
	}
	want(t, "text", refused.Text, "saves 0.099 USD in 1h0m0s, its 10 evictions cost 0.1")
	want(t, "moved lately", refused.Again, false)
	want(t, "nothing saved", r.Evictions(0, n) != nil, true)
	want(t, "when that changes", r.Evictions(0, n).Until, time.Time{})

	r, n = rule(bought(10, now), func(o *planner.Options) { o.EvictionCost = 0 })
	want(t, "free of charge", r.Evictions(0, n) == nil, true)
	r, n = rule(bought(0, now), nil)
	want(t, "nobody", r.Evictions(0, n) == nil, true)
	r, n = rule(bought(10, now), func(o *planner.Options) { o.EvictionHorizon = 2 * time.Hour })
	want(t, "twice the horizon", r.Evictions(50_000, n) == nil, true)

	c := bought(10, now)
	c.See(pt.Policy("d", `{savings: {payBack: {costPerEviction: "0"}}}`))
	r, n = rule(c, nil)
	want(t, "a policy that says what evictions cost", r.Evictions(0, n) == nil, true)
	c.See(pt.Policy("d", `{savings: {minPerHour: "0"}}`))
	r, n = rule(c, nil)
	want(t, "a policy that does not", r.Evictions(0, n) != nil, true)

	c = bought(0, now)
	c.See(pt.Pod("dear", pt.On("n0"), pt.Annotation("controller.kubernetes.io/pod-deletion-cost", "134217728")))
	r, n = rule(c, nil)
	want(t, "a pod of twice the cost", r.Evictions(19_999, n) != nil && r.Evictions(20_000, n) == nil, true)

	c = bought(10, now)
	c.See(pt.Pool("p", func(p *karpv1.NodePool) { p.Spec.Template.Spec.ExpireAfter = karpv1.NewDuration(30 * time.Minute) }))
	r, n = rule(c, nil)
	want(t, "nodes that live for half an hour", r.Evictions(199_000, n) != nil && r.Evictions(200_000, n) == nil, true)
}

// moveOf is a command that moves a pod of web-1 to a node, or with "" to a new claim, whose name it returns.
func moveOf(c *pt.Cluster, to string) string {
	pod := ledger.PodRef{UID: "u", Namespace: "default", Name: "web-1-old"}
	started := &ledger.CommandStarted{Reason: "Underutilized", Method: "single", Evictions: 1,
		Candidates: []ledger.Candidate{{Node: "gone", Claim: "gone-claim", NodePool: "p", Pods: []ledger.PodRef{pod}}}}
	if to != "" {
		started.Placements = []ledger.Placement{{Node: to, Pods: []ledger.PodRef{pod}}}
	} else {
		started.Replacements = []ledger.PlannedClaim{{NodePool: "p", Pods: []ledger.PodRef{pod}}}
	}
	seq := c.Decide(c.Snapshot(), &planner.Decision{Kind: ledger.KindCommandMovesStarted, Payload: started})
	c.Record(ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: ledger.CommandID(pt.LogID, seq)})
	return ledger.ClaimName(pt.LogID, "p", seq, 0)
}

// A pod that a command moved to a node costs a hundred times as much for an hour: a dollar, and the others a
// cent.
func TestPodsMovedToANodeAreLeftThere(t *testing.T) {
	c := bought(3, 6*time.Hour-time.Minute)
	moveOf(c, "n0")
	comes := c.Clock.Add(40 * time.Second)
	c.See(pt.Pod("web-1-new", pt.On("n0"), func(o *corev1.Pod) { o.CreationTimestamp = metav1.NewTime(comes) }),
		pt.Pod("api-1-new", pt.On("n0"), func(o *corev1.Pod) { o.CreationTimestamp = metav1.NewTime(comes) }))
	c.Advance(10 * time.Minute)
	r, n := rule(c, nil)
	refused := r.Evictions(1_039_000, n)
	if refused == nil || r.Evictions(1_040_000, n) != nil {
		t.Fatalf("four cents and a dollar are not the bound: %+v", refused)
	}
	want(t, "text", refused.Text, "saves 1.039 USD in 1h0m0s, its 5 evictions cost 1.04, for 1 of the pods were moved within 60 minutes")
	want(t, "moved lately", refused.Again, true)
	want(t, "until", r.Evictions(50_000, n).Until, comes.Add(time.Hour).UTC())
	c.Advance(comes.Add(time.Hour).Sub(c.Clock))
	r, n = rule(c, nil)
	want(t, "an hour after it came", r.Evictions(50_000, n) == nil, true)
}

// Pods of the same owner on a node that no command moved anything to are new ones: nothing is the matter with
// them.
func TestPodsBesideThoseMovedCostNoMore(t *testing.T) {
	c := bought(0, 6*time.Hour-time.Minute, 0)
	moveOf(c, "n1")
	c.See(pt.Pod("web-1-new", pt.On("n0"), func(o *corev1.Pod) { o.CreationTimestamp = metav1.NewTime(c.Clock.Add(time.Minute)) }))
	c.Advance(10 * time.Minute)
	r, n := rule(c, nil)
	want(t, "its eviction pays", r.Evictions(10_000, n) == nil, true)

	claim := moveOf(c, "")
	c.See(pt.Claim(claim, "n0", "p"))
	c.See(pt.Pod("web-1-newer", pt.On("n0"), func(o *corev1.Pod) { o.CreationTimestamp = metav1.NewTime(c.Clock.Add(time.Minute)) }))
	c.Gone(pt.Claim("n0-claim", "n0", "p"))
	c.Advance(2 * time.Minute)
	r, n = rule(c, nil)
	want(t, "the claim of the node", n.ClaimName(), claim)
	want(t, "on a replacement that a command made for it", r.Evictions(100_000, n) != nil, true)
}

// A replacement that a command wanted is no purchase.
func TestReplacementsOfCommandsAreNoPurchases(t *testing.T) {
	c := bought(10, 0)
	claim := moveOf(c, "")
	c.See(pt.Node("new", pt.InPool("p")), pt.Claim(claim, "new", "p", func(o *karpv1.NodeClaim) { o.CreationTimestamp = metav1.NewTime(c.Clock) }))
	r, n := rule(c, nil)
	want(t, "life", r.life([]*planner.StateNode{n}), 6*time.Hour)
	want(t, "its claim is seen", r.s.StateNode("new").ClaimName(), claim)
}

// A pod may be moved again within half an hour if half an hour of savings pays a cent for it: the rule that
// holds whatever evictions cost.
func TestAgainAtItsBound(t *testing.T) {
	c := bought(0, 0)
	moveOf(c, "")
	for i := range 3 {
		c.See(pt.Pod(fmt.Sprintf("web-1-new%d", i), pt.On("n0"), func(o *corev1.Pod) { o.CreationTimestamp = metav1.NewTime(c.Clock) }))
	}
	r, n := rule(c, nil)
	want(t, "just", r.Again(60_000, n) == nil, true)
	want(t, "not quite", r.Again(59_999, n) != nil, true)
	r, n = rule(bought(3, 0), nil)
	want(t, "no pod that was moved", r.Again(-1, n) == nil, true)
}

// However much the NodePool buys and drifts, a saving counts for a policy neither for longer than its horizon
// and the NodePool's expireAfter, nor for less than five minutes of them; what does not pay by now pays at
// the moment that is named, if nothing else happens, or time can change nothing. The rules: disruption §4.1.
func TestALifeIsWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minutes := func(name string, least, most int) time.Duration {
			return time.Duration(rapid.IntRange(least, most).Draw(t, name)) * time.Minute
		}
		var after []time.Duration
		for range rapid.IntRange(0, 6).Draw(t, "purchases") {
			after = append(after, minutes("bought", 0, 6*60))
		}
		c := bought(1, append([]time.Duration{0}, after...)...)
		horizon, expires := minutes("horizon", 1, 3000), minutes("expireAfter", 0, 3000)
		c.See(pt.Policy("d", fmt.Sprintf(`{savings: {payBack: {costPerEviction: "0.05", horizon: %s}}}`, horizon)))
		most := horizon
		if expires > 0 {
			c.See(pt.Pool("p", func(p *karpv1.NodePool) { p.Spec.Template.Spec.ExpireAfter = karpv1.NewDuration(expires) }))
			most = min(most, expires)
		}
		for range rapid.IntRange(0, 5).Draw(t, "roll-outs") {
			c.Advance(minutes("later", 0, 2000))
			rollOut(c)
		}
		c.Advance(minutes("now", 0, 4000))
		at := func() (life policy.Life, text string, until time.Time) {
			s := c.Snapshot()
			s.Options.EvictionHorizon, s.Options.PayBackHistory = time.Hour, true
			policies := policy.ByPool(s)
			r, p := New(s, policies), policies["p"][0]
			text, until = r.Shortfall(p, "p", Trade{Saved: 100_000, Evictions: 1, Weight: planner.EvictionCostUnit / policy.CostGrain})
			return r.lifeFor(p, "p"), text, until
		}
		life, text, until := at()
		if life.Length > most || life.Length < min(5*time.Minute, most) || life.Bound == "" {
			t.Fatalf("%+v of %s", life, most)
		}
		if pays := life.Length >= 30*time.Minute; pays != (text == "") || pays && !until.IsZero() {
			t.Fatalf("%+v: %q until %s", life, text, until)
		}
		if text == "" {
			return
		}
		if until.IsZero() != (most < 30*time.Minute) {
			t.Fatalf("%+v of %s: %q until %s", life, most, text, until)
		}
		for looks := 0; !until.IsZero(); looks++ { // whoever looks whenever it is told to finds that it pays
			if !until.After(c.Clock) || looks > 10 {
				t.Fatalf("%+v at %s: %q until %s", life, c.Clock, text, until)
			}
			c.Advance(until.Sub(c.Clock))
			life, _, until = at()
		}
		if life.Length < 30*time.Minute && most >= 30*time.Minute {
			t.Fatalf("it never pays: %+v", life)
		}
	})
}

// rollOut has drift begin to replace nodes that the roll-out before it has brought.
func rollOut(c *pt.Cluster) {
	planned := c.Record(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: "p"}}})
	name := ledger.ClaimName(pt.LogID, "p", planned, 0)
	seq := c.Decide(c.Snapshot(), &planner.Decision{Kind: ledger.KindCommandStarted, Payload: &ledger.CommandStarted{
		Reason: karpv1.DisruptionReasonDrifted, Rollout: true, Candidates: []ledger.Candidate{{Claim: name, NodePool: "p"}}}})
	c.Record(ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: ledger.CommandID(pt.LogID, seq)})
	c.Record(ledger.KindClaimWithdrawn, &ledger.ClaimWithdrawn{Claim: name})
}
