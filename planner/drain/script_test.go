package drain_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"millwright/planner/drain"
	"millwright/planner/ledger"
	"millwright/planner/plannertest/script"
)

// TestRules runs the rules of lifecycle §8, written in the language of package script with these verbs:
//
//	drain NODE [TIME]   the drain begins; with a deadline after that time
//	taken NODE          before that: a command takes the node, whose NodeClaim is c and NODE
//	step NODE [paced]   prints what the drain has to do, and records the tier that it starts; paced: the deadline does not count yet
//	owner NODE [OPTION…]
//	                    records what becomes of the pods that the step asks about, if their Deployment is so: deployment, replicas, strategy,
//	                    maxSurge, maxUnavailable, paused, failure (words joined by _)
func TestRules(t *testing.T) {
	script.Run(t, "testdata/rules/*.txt", map[string]script.Verb{"drain": drainVerb, "step": stepVerb, "taken": takenVerb, "owner": ownerVerb})
}

func takenVerb(c *script.Case, a *script.Args) {
	node := a.Next()
	claim := c.Snapshot().StateNode(node).Claim
	rec := c.Record(ledger.KindCommandStarted, &ledger.CommandStarted{Reason: "Underutilized",
		Candidates: []ledger.Candidate{{Claim: claim.Name, ClaimUID: claim.UID, Node: node, NodePool: "p"}}})
	c.Record(ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: ledger.CommandID(c.Ledger.LogID(), rec)})
}

func ownerVerb(c *script.Case, a *script.Args) {
	node := a.Next()
	facts := ledger.SurgeFacts{Strategy: "RollingUpdate", Replicas: 1, MaxSurge: "25%", MaxUnavailable: "25%"}
	for a.More() {
		switch k, v := a.Option(); k {
		case "deployment":
			facts.Deployment = v
		case "replicas":
			n, err := strconv.Atoi(v)
			c.Check(err)
			facts.Replicas = int32(n)
		case "strategy":
			facts.Strategy = v
		case "maxSurge":
			facts.MaxSurge = v
		case "maxUnavailable":
			facts.MaxUnavailable = v
		case "paused":
			facts.Paused = v == "true"
		case "failure":
			facts.Failure = strings.ReplaceAll(v, "_", " ")
		default:
			c.Check(fmt.Errorf("owner knows no %q", k))
		}
	}
	st := drain.Plan(c.Snapshot(), node)
	r := &ledger.SurgeDecided{Node: node, Command: st.Surge.Command, Policy: st.Surge.Policy}
	for i := range st.Surge.Questions {
		q := &st.Surge.Questions[i]
		facts.Owner, facts.Volume = q.Facts.Owner, q.Facts.Volume
		r.Owners = append(r.Owners, q.Answer(facts, st.Surge.Within, c.Clock))
	}
	c.Check(drain.ReplaySurge(r))
	for i := range r.Owners {
		o := &r.Owners[i]
		if o.Refused != "" {
			c.Printf("%s: %s\n", refNames(o.Pods), o.Refused)
		} else {
			c.Printf("%s: replaced by %s until %s\n", refNames(o.Pods), o.Facts.Deployment, o.Until.Format(time.TimeOnly))
		}
	}
	c.Record(ledger.KindSurgeDecided, r)
}

func refNames(refs []ledger.PodRef) string {
	var list []string
	for _, r := range refs {
		list = append(list, r.Name)
	}
	return strings.Join(list, " ")
}

func drainVerb(c *script.Case, a *script.Args) {
	d := &ledger.DrainStarted{Node: a.Next(), Reason: "deleted"}
	if n := c.Snapshot().StateNode(d.Node); n != nil && n.Claim != nil {
		d.Claim, d.ClaimUID = n.Claim.Name, n.Claim.UID
	}
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
	for _, q := range st.Surge.Questions {
		c.Printf("asks about %s: %s\n", refNames(q.Pods), q.Because)
	}
	if held := st.Surge.Held(); len(held) > 0 {
		c.Printf("replaced first: %s\n", refNames(held))
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
		if len(r.Late) > 0 {
			c.Printf("late: %s\n", refNames(r.Late))
		}
		c.Record(ledger.KindDrainTierStarted, r)
	}
}
