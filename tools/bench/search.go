package main

import (
	"context"
	"errors"
	"fmt"
)

const disruptPackage = "planner/disrupt"

// Aims of the search for what can go: time and memory of a pass by the number of nodes, the share of a pass
// that one more may take after a small change, and the planning time of a roll-out of 1,000 drifted nodes.
var passAims = []struct {
	nodes                 int
	seconds, millionBytes float64
}{{1000, 3, 0}, {5000, 30, 300}}

const (
	againAim        = 0.1
	driftAimSeconds = 10
)

// measureSearch searches clusters in which nothing can go, once whole and once more after a small change, and
// plans the replacement of every node.
func measureSearch(ctx context.Context, b *bench) ([]figure, error) {
	passes, err1 := b.goBench(ctx, disruptPackage, "^BenchmarkPass$", "1x")
	again, err2 := b.goBench(ctx, disruptPackage, "^BenchmarkAgain$/^1000$/^(nothing|pod-added|pod-removed)$", "2x")
	drift, err3 := b.goBench(ctx, disruptPackage, "^BenchmarkDrift$", "1x")
	err := errors.Join(err1, err2, err3)
	var figures []figure
	for _, aim := range passAims {
		r, missing := passes.findResult(fmt.Sprintf("Pass/%d", aim.nodes))
		if missing != nil {
			err = errors.Join(err, missing)
			continue
		}
		seconds, size := r.values["ns/op"]/1e9, r.values["peak-MB"]
		name := fmt.Sprintf("disrupt: a whole pass, %s nodes", count(float64(aim.nodes)))
		figures = append(figures, figure{name: name, aim: fmt.Sprintf("≤ %.0f s", aim.seconds),
			measured: fmt.Sprintf("%.2f s, %s nodes judged", seconds, count(r.values["judged"])), verdict: verdictOf(seconds <= aim.seconds)})
		memory := figure{name: name + ", memory besides the World", measured: fmt.Sprintf("%.0f MB", size)}
		if aim.millionBytes > 0 {
			memory.aim, memory.verdict = fmt.Sprintf("≤ %.0f MB", aim.millionBytes), verdictOf(size <= aim.millionBytes)
		}
		figures = append(figures, memory)
	}
	for _, change := range []string{"nothing", "pod-added", "pod-removed"} {
		r, missing := again.findResult("Again/1000/" + change)
		if missing != nil {
			err = errors.Join(err, missing)
			continue
		}
		share := r.values["again-ms"] / r.values["full-ms"]
		figures = append(figures, figure{name: "disrupt: one more pass, 1,000 nodes, change: " + change, aim: fmt.Sprintf("≤ %.0f %%", 100*againAim),
			measured: fmt.Sprintf("%.0f %% of a whole pass, %s", 100*share, millis(r.values["again-ms"])), verdict: verdictOf(share <= againAim)})
	}
	if r, missing := drift.findResult("Drift"); missing != nil {
		err = errors.Join(err, missing)
	} else {
		seconds := r.values["ns/op"] / 1e9
		figures = append(figures, figure{name: "disrupt: 1,000 drifted nodes under 10 %, planning in all", aim: fmt.Sprintf("≤ %d s", driftAimSeconds),
			measured: fmt.Sprintf("%.2f s in %.0f passes", seconds, r.values["passes"]), verdict: verdictOf(seconds <= driftAimSeconds)})
	}
	return figures, err
}
