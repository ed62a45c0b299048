package drain_test

import (
	"testing"
	"time"

	"millwright/planner/drain"
	"millwright/planner/ledger"
	"millwright/planner/plannertest/script"
)

// TestRules runs the rules of lifecycle §8, written in the language of package script with these verbs:
//
//	drain NODE [TIME]   the drain begins; with a deadline after that time
//	step NODE [paced]   prints what the drain has to do, and records the tier that it starts; paced: the deadline does not count yet
func TestRules(t *testing.T) {
	script.Run(t, "testdata/rules/*.txt", map[string]script.Verb{"drain": drainVerb, "step": stepVerb})
}

func drainVerb(c *script.Case, a *script.Args) {
	d := &ledger.DrainStarted{Node: a.Next(), Reason: "deleted"}
	if a.More() {
		d.Deadline = c.Clock.Add(a.Duration(a.Next()))
	}
	c.Record(ledger.KindDrainStarted, d)
}

func stepVerb(c *script.Case, a *script.Args) {
	node, plan := a.Next(), drain.Plan
	if a.More() && a.Next() == "paced" {
		plan = drain.PlanPaced
	}
	st := plan(c.Snapshot(), node)
	if st.DeadlineInvalid != "" {
		c.Printf("the deadline %q can't be read\n", st.DeadlineInvalid)
	}
	if m := st.Message(); m != "" {
		c.Printf("tier %d: %s\n", st.Tier, m)
	}
	for _, list := range []struct {
		what  string
		names string
	}{{"evict", names(st.Evict)}, {"held", names(st.Held)}, {"leaving", names(st.Leaving)}, {"stuck", names(st.Stuck)}} {
		if list.names != "" {
			c.Printf("%s: %s\n", list.what, list.names)
		}
	}
	for _, d := range st.Delete {
		c.Printf("delete %s within %d s\n", d.Pod.Name, d.GraceSeconds)
	}
	for _, v := range st.Volumes {
		c.Printf("attached: %s\n", v)
	}
	if st.Done() {
		c.Printf("done\n")
	}
	if !st.WakeAt.IsZero() {
		c.Printf("looks again at %s\n", st.WakeAt.UTC().Format(time.TimeOnly))
	}
	if r := st.TierStarted(c.Ledger.Drain(node)); r != nil {
		c.Printf("records tier %d\n", r.Tier)
		c.Record(ledger.KindDrainTierStarted, r)
	}
}
