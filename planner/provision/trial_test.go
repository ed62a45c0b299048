package provision

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"millwright/planner/provision/internal/place"
	"millwright/planner/provision/internal/solve"
)

// change of a plan: a node that is removed and whose pods move, a new claim that is taken apart, or a trial
// with changes of its own.
type change struct {
	node, claim int
	trial       []change
	keep        bool
}

func drawChanges(t *rapid.T, depth int) (list []change) {
	for range rapid.IntRange(1, 4).Draw(t, "changes") {
		x := change{node: -1, claim: -1}
		switch what := rapid.IntRange(0, 4).Draw(t, "what"); {
		case what == 0:
			x.claim = rapid.IntRange(0, 3).Draw(t, "claim")
		case what < 3 || depth == 0:
			x.node = rapid.IntRange(0, 6).Draw(t, "node")
		default:
			x.trial, x.keep = drawChanges(t, depth-1), rapid.Bool().Draw(t, "keep")
		}
		list = append(list, x)
	}
	return list
}

// trialRun makes changes to a plan.
type trialRun struct {
	*solve.Solver
	t *rapid.T
	// moved are the items of pods that ran on removed nodes.
	moved []*solve.Item
	// skip leaves out the trials that are not kept.
	skip bool
}

func (r *trialRun) apply(list []change) {
	for _, x := range list {
		switch {
		case x.trial != nil && r.skip && !x.keep:
		case x.trial != nil:
			before, moved := r.text(), len(r.moved)
			r.Begin(solve.Unbounded)
			r.apply(x.trial)
			if x.keep {
				r.Commit()
				continue
			}
			r.Revert()
			r.moved = r.moved[:moved]
			if after := r.text(); after != before {
				r.t.Fatalf("reverting left\n%s\nit was\n%s", after, before)
			}
		case x.claim >= 0:
			r.takeApart(x.claim)
		default:
			r.removeNode(x.node)
		}
	}
}

// takeApart places the pods of the n-th new claim anew, on claims that are opened for them or on none.
func (r *trialRun) takeApart(n int) {
	var claims []*place.Bin
	for b := range r.Claims() {
		claims = append(claims, b)
	}
	if n >= len(claims) {
		return
	}
	items := map[*place.Bin][]*solve.Item{}
	for _, it := range append(slices.Clone(r.Items), r.moved...) {
		if it.Bin == claims[n] {
			items[it.Bin] = append(items[it.Bin], it)
		}
	}
	r.TakeApart(claims[n:n+1], items)
	r.Place(slices.Clone(items[claims[n]]), &solve.Mode{})
}

func (r *trialRun) removeNode(n int) {
	at := 0
	for b, node := range r.Nodes() {
		if at++; at != n+1 || b.Gone {
			continue
		}
		r.Remove(b)
		var waiting []*solve.Item
		for _, it := range append(slices.Clone(r.Items), r.moved...) {
			if it.Bin == b {
				r.Relocate(it)
				waiting = append(waiting, it)
			}
		}
		for _, p := range node.State.Pods {
			it := &solve.Item{Pod: p, Class: r.ClassOf(p)}
			r.moved, waiting = append(r.moved, it), append(waiting, it)
		}
		r.Place(waiting, &solve.Mode{})
	}
}

// text of all that a revert must restore, but for what nodes offer: they are completed when first tried.
func (r *trialRun) text() string {
	var b strings.Builder
	for _, x := range r.Bins {
		fmt.Fprintf(&b, "bin %d gone %t:", x.Index, x.Gone)
		for _, p := range x.Added {
			fmt.Fprintf(&b, " %s", p.Name)
		}
		if o := x.Open(); o != nil {
			fmt.Fprintf(&b, " open %v used %v reserved %v room %v ports %d", o.Types, o.Used, o.Reserved, o.Room, len(x.Ports))
		}
		b.WriteString("\n")
	}
	for _, x := range r.Templates {
		fmt.Fprintf(&b, "left of %s: %v\n", x.Name, x.Limits.Left)
	}
	for i, g := range r.Compiler.Topologies.Space.Groups() {
		fmt.Fprintf(&b, "group %d:", i)
		n := len(r.Bins)
		if !g.Hostname() {
			n = g.Domains.Len()
		}
		for at := range n {
			fmt.Fprintf(&b, " %d", g.Count(at))
		}
		fmt.Fprintf(&b, " in all %d\n", g.Total())
	}
	for _, it := range append(slices.Clone(r.Items), r.moved...) {
		at := -1
		if it.Bin != nil {
			at = it.Bin.Index
		}
		fmt.Fprintf(&b, "%s on %d at level %d\n", it.Pod.Name, at, it.Level)
	}
	return b.String()
}

// TestTrialsNest: reverting a trial within a trial restores what was there when it began, and what comes
// after is as if it had not been tried; committing it leaves the outer one to be reverted whole.
func TestTrialsNest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, _ := drawRunning(t)
		for i := range rapid.IntRange(0, 5).Draw(t, "pending") {
			c.put(newPod(fmt.Sprint("pending-", i), map[string]string{"cpu": rapid.SampledFrom([]string{"1", "3", "7"}).Draw(t, "cpu")}))
		}
		changes := drawChanges(t, 3)
		run := func(skip bool) string {
			in := inputOf(c.snapshot(), Scenario{})
			in.Simulated = true
			for _, n := range in.Nodes {
				in.Mobile = append(in.Mobile, n.Pods...)
			}
			r := &trialRun{Solver: solve.Solve(in), t: t, skip: skip}
			before := r.text()
			r.Begin(solve.Unbounded)
			r.apply(changes)
			after := r.text()
			r.Revert()
			r.moved = nil
			if got := r.text(); got != before {
				t.Fatalf("reverting everything left\n%s\nit was\n%s", got, before)
			}
			return after
		}
		if got, want := run(false), run(true); got != want {
			t.Fatalf("%+v\nwith reverted trials:\n%s\nwithout:\n%s", changes, got, want)
		}
	})
}
