package disrupt_test

import (
	"fmt"
	"testing"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/disrupt"
	pt "millwright/planner/plannertest"
)

// Now is Monday, 2 March 2026, 11:00 UTC, noon in Berlin; nodes are an hour old.
func TestPoliciesKeepNodes(t *testing.T) {
	for name, tc := range map[string]struct {
		spec    string
		message string // "" if the node goes
		until   string
	}{
		"a policy of other NodePools": {spec: `{nodePoolSelector: {matchLabels: {team: other}}, pause: {until: "2027-01-01T00:00:00Z"}}`},
		"a policy of this NodePool": {spec: `{nodePoolSelector: {matchLabels: {team: mine}}, pause: {until: "2026-03-02T12:00:00Z", reason: audit}}`,
			message: `DisruptionPolicy "d" pauses disruption until 2026-03-02T12:00:00Z: audit`, until: "12:00"},
		"a pause that has ended":    {spec: `{pause: {until: "2026-03-02T11:00:00Z"}}`},
		"a node that is too young":  {spec: `{minNodeAge: 90m}`, message: `DisruptionPolicy "d" keeps nodes younger than 1h30m0s`, until: "11:30"},
		"a node that is old enough": {spec: `{minNodeAge: 1h}`},
		"outside of a window to come": {spec: `{windows: [{action: Allow, schedule: "0 2 * * *", duration: 2h}]}`,
			message: `DisruptionPolicy "d" allows disruption for reason Empty from 2026-03-03T02:00:00Z`, until: "02:00"},
		"a window opens as it ends elsewhere": {spec: `{windows: [{action: Allow, schedule: "0 2 * * *", duration: 2h}, {action: Allow, schedule: "0 11 * * 1", duration: 1h}]}`},
		"a window by the clock of Berlin":     {spec: `{windows: [{action: Allow, schedule: "0 12 * * *", duration: 1h, timeZone: Europe/Berlin}]}`},
		"not in UTC": {spec: `{windows: [{action: Allow, schedule: "0 12 * * *", duration: 1h}]}`,
			message: `DisruptionPolicy "d" allows disruption for reason Empty from 2026-03-02T12:00:00Z`, until: "12:00"},
		"a window that denies": {spec: `{windows: [{action: Allow, schedule: "0 * * * *", duration: 1h}, {action: Deny, schedule: "0 9 * * 1-5", duration: 8h}]}`,
			message: `DisruptionPolicy "d" denies disruption for reason Empty until 2026-03-02T17:00:00Z`, until: "17:00"},
		"a window that has just closed":       {spec: `{windows: [{action: Deny, schedule: "0 10 * * *", duration: 1h}]}`},
		"a window for other reasons":          {spec: `{windows: [{action: Deny, schedule: "* * * * *", duration: 1h, reasons: [Drifted, Underutilized]}]}`},
		"a schedule that can't be read":       {spec: `{windows: [{action: Deny, schedule: "never", duration: 1h}]}`, message: `DisruptionPolicy "d" can't be read: spec.windows[0].schedule: parse schedule "never": expected exactly 5 fields, found 1: [never]`},
		"a time zone that is unknown":         {spec: `{windows: [{action: Deny, schedule: "0 10 * * *", duration: 1h, timeZone: Mars/Base}]}`, message: `DisruptionPolicy "d" can't be read: spec.windows[0].timeZone: time zone "Mars/Base" is not in the IANA database`},
		"a selector that can't be read":       {spec: `{nodePoolSelector: {matchExpressions: [{key: a, operator: Like}]}}`, message: `DisruptionPolicy "d" can't be read: spec.nodePoolSelector: "Like" is not a valid label selector operator`},
		"savings do not hold for empty nodes": {spec: `{savings: {minPerHour: "10", minPercent: 100, minPerEviction: "1", payBack: {costPerEviction: "100"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(pt.Pool("p", team), "a")
			c.See(pt.Policy("d", tc.spec))
			d, r := disrupt.Plan(c.Snapshot())
			message, until := "", ""
			if b := r.Nodes[0].Blocked; b != nil {
				message = b.Message
				want(t, "object", b.Object, "DisruptionPolicy d")
				if !b.Until.IsZero() {
					until = b.Until.Format("15:04")
					want(t, "wakes", r.WakeAt, b.Until)
				}
			}
			want(t, "message", message, tc.message)
			want(t, "until", until, tc.until)
			want(t, "goes", taken(d) == "a", tc.message == "")
		})
	}
}

func team(p *karpv1.NodePool) { p.Labels = map[string]string{"team": "mine"} }

// All policies that select a NodePool hold, whatever the order of their names.
func TestTheStrictestPolicyCounts(t *testing.T) {
	c := cluster(pt.Pool("p"), "a")
	c.See(pt.Policy("a", `{minNodeAge: 1m}`), pt.Policy("b", `{minNodeAge: 3h}`), pt.Policy("c", `{}`))
	_, r := disrupt.Plan(c.Snapshot())
	want(t, "object", r.Nodes[0].Blocked.Object, "DisruptionPolicy b")
}

// protected pods keep their node.
var protected = pt.Annotation(karpv1.DoNotDisruptAnnotationKey, "true")

// m5.xlarge costs 0.192 USD per hour, m5.large 0.096. A pod without annotations weighs 1.
func TestPoliciesAskForSavings(t *testing.T) {
	deleted := []any{sized("x", "a", "1", "1Gi"), sized("y", "b", "1", "1Gi"), sized("z", "b", "1", "1Gi", protected)} // a's pod goes to b: saves 0.192
	replaced := []any{sized("x", "a", "1", "6Gi")}                                                                     // a new m5.large: saves 0.096
	for name, tc := range map[string]struct {
		spec    string
		objects []any
		why     string
	}{
		"as much as is saved":            {`{savings: {minPerHour: "0.192", minPercent: 100, minPerEviction: "0.192"}}`, deleted, ""},
		"more than is saved":             {`{savings: {minPerHour: "0.192001"}}`, deleted, `DisruptionPolicy "d": saves 0.192 USD per hour, minPerHour is 0.192001`},
		"more than is saved by the pod":  {`{savings: {minPerEviction: "0.2"}}`, deleted, `DisruptionPolicy "d": saves 0.192 USD per hour with 1 evictions, minPerEviction is 0.2`},
		"half of the price":              {`{savings: {minPercent: 50}}`, replaced, ""},
		"more than half of the price":    {`{savings: {minPercent: 51}}`, replaced, `DisruptionPolicy "d": saves 0.096 of 0.192 USD per hour, minPercent is 51`},
		"paid back within the horizon":   {`{savings: {payBack: {costPerEviction: "0.96", horizon: 10h}}}`, replaced, ""},
		"not paid back":                  {`{savings: {payBack: {costPerEviction: "0.97", horizon: 10h}}}`, replaced, `DisruptionPolicy "d": saves 0.96 USD in 10h0m0s, its 1 evictions cost 0.97`},
		"the horizon is a day otherwise": {`{savings: {payBack: {costPerEviction: "2.31"}}}`, replaced, `DisruptionPolicy "d": saves 2.304 USD in 24h0m0s, its 1 evictions cost 2.31`},
	} {
		t.Run(name, func(t *testing.T) {
			c := busy(pt.Pool("p", onDemand, expireAfterAWeek), []string{"a", "b"}[:len(tc.objects)/2+1], tc.objects...)
			c.See(pt.Policy("d", tc.spec))
			d, r := disrupt.Plan(c.Snapshot())
			want(t, "something is done", d != nil, tc.why == "")
			if tc.why != "" {
				want(t, "message", r.Nodes[0].Blocked.Message, tc.why)
			}
		})
	}
}

func expireAfterAWeek(p *karpv1.NodePool) {
	week := 7 * 24 * time.Hour
	p.Spec.Template.Spec.ExpireAfter.Duration = &week
}

// The new state lasts as long as its nodes do at most.
func TestPayBackEndsWithExpiration(t *testing.T) {
	c := busy(pt.Pool("p", onDemand, func(p *karpv1.NodePool) {
		hour := time.Hour
		p.Spec.Template.Spec.ExpireAfter.Duration = &hour
	}), []string{"a"}, sized("x", "a", "1", "6Gi"))
	c.See(pt.Policy("d", `{savings: {payBack: {costPerEviction: "0.1", horizon: 240h}}}`))
	d, r := disrupt.Plan(c.Snapshot())
	want(t, "command", told(d), "")
	want(t, "message", r.Nodes[0].Blocked.Message, `DisruptionPolicy "d": saves 0.096 USD in 1h0m0s, its 1 evictions cost 0.1`)
}

// A node whose many pods are not worth it does not keep another one.
func TestSavingsAreMeasuredByNode(t *testing.T) {
	var objects []any
	for i := range 8 {
		objects = append(objects, sized(fmt.Sprintf("many-%d", i), "a", "100m", "128Mi"))
	}
	objects = append(objects, sized("one", "b", "200m", "256Mi"), sized("big", "c", "2", "4Gi", protected))
	c := busy(pt.Pool("p", onDemand, pt.Budgets()), []string{"a", "b", "c"}, objects...)
	without, _ := disrupt.Plan(c.Snapshot())
	want(t, "both go", taken(without), "a b")
	c.See(pt.Policy("d", `{savings: {minPerEviction: "0.1"}}`))
	d, r := disrupt.Plan(c.Snapshot())
	want(t, "taken", taken(d), "b")
	want(t, "why a stays", r.Nodes[0].Blocked.Message, `DisruptionPolicy "d": saves 0.192 USD per hour with 8 evictions, minPerEviction is 0.1`)
}

// A command that was started is confirmed only if the policies still let it.
func TestAPauseStopsACommandBeforeItIsConfirmed(t *testing.T) {
	c := cluster(pt.Pool("p"), "a")
	s := c.Snapshot()
	d, _ := disrupt.Plan(s)
	seq := c.Decide(s, d)
	c.See(pt.Node("a", pt.InPool("p"), pt.Marked(seq)), pt.Policy("d", `{pause: {until: "2026-03-03T00:00:00Z"}}`))
	v := disrupt.Confirm(c.Snapshot(), c.Snapshot().Ledger.Commands()[0])
	want(t, "outcome", v.Outcome, disrupt.Rollback)
}

func TestPolicyStatus(t *testing.T) {
	c := cluster(pt.Pool("p", team), "a")
	p := pt.Policy("d", `{nodePoolSelector: {matchLabels: {team: mine}}, windows: [{action: Allow, schedule: "0 2 * * *", duration: 2h, timeZone: Europe/Berlin},
  {action: Deny, schedule: "0 10 2 * *", duration: 2h}]}`)
	s := c.Snapshot()
	selected, openings, fault := disrupt.PolicyStatus(p, s.World.NodePools(), s.Now)
	want(t, "selected", selected, 1)
	want(t, "fault", fault, "")
	want(t, "openings", len(openings), 10)
	want(t, "the first is open already", openings[0].From.UTC().Format(time.RFC3339), "2026-03-02T10:00:00Z")
	want(t, "the next", openings[1].From.UTC().Format(time.RFC3339), "2026-03-03T01:00:00Z")
	want(t, "ends", openings[1].Until.UTC().Format(time.RFC3339), "2026-03-03T03:00:00Z")
	_, openings, fault = disrupt.PolicyStatus(pt.Policy("d", `{windows: [{action: Allow, schedule: "0 0 30 2 *", duration: 1h}]}`), nil, s.Now)
	want(t, "openings that never come", len(openings), 0)
	want(t, "is no fault", fault, "")
}

// Two nodes of two pods each: the first command takes as many as the hour allows, the rest waits until that
// hour is over.
func TestEvictionsPerHour(t *testing.T) {
	objects := []any{sized("big", "c", "1", "4Gi", protected)}
	for i, node := range []string{"a", "a", "b", "b"} {
		objects = append(objects, sized(fmt.Sprintf("x-%d", i), node, "200m", "256Mi"))
	}
	c := busy(pt.Pool("p", onDemand, pt.Budgets()), []string{"a", "b", "c"}, objects...)
	c.See(pt.Policy("d", `{maxEvictionsPerHour: 3}`))
	d, _ := disrupt.Plan(c.Snapshot())
	want(t, "first", taken(d), "a")
	c.Decide(c.Snapshot(), d)
	d, r := disrupt.Plan(c.Snapshot())
	want(t, "then", taken(d), "")
	want(t, "why", r.Nodes[1].Blocked.Message, `DisruptionPolicy "d" lets 3 pods of NodePool "p" move in an hour, 2 have`)
	want(t, "until", r.Nodes[1].Blocked.Until.Sub(c.Snapshot().Now), time.Hour)
	c.See(pt.Policy("d", `{maxEvictionsPerHour: 0}`))
	c.Advance(time.Hour)
	_, r = disrupt.Plan(c.Snapshot())
	want(t, "none at all", r.Nodes[1].Blocked.Cause, disrupt.CauseRate)
	c.See(pt.Policy("d", `{maxEvictionsPerHour: 1}`))
	d, _ = disrupt.Plan(c.Snapshot())
	want(t, "one with more, if nothing else moved", taken(d), "b")
}
