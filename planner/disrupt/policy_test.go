package disrupt_test

import (
	"testing"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/disrupt"
	pt "millwright/planner/plannertest"
)

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
