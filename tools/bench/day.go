package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	"millwright/store/audit"
	"millwright/store/audit/whatif"
	"millwright/tools/weeks"
)

// dayTimes is how many times as many pods as a week's script has make a cluster of about 1,000 nodes at its
// busiest, and daySearches how long a search in vain is left alone there: some 50 times as long as it takes.
const (
	dayTimes    = 80
	daySearches = 5 * time.Minute
	dayMost     = 90 * time.Second
)

// measureDay records a day of a large cluster, replays it, and replays it with another option, each time with
// the same result.
func measureDay(ctx context.Context, b *bench) ([]figure, error) {
	began := time.Now()
	tape, result, err := weeks.Record(ctx, weeks.NewLargeScript(1, b.day, b.dayTimes), weeks.Settings{ConsolidateAfter: time.Minute, SearchesEvery: daySearches})
	if err != nil {
		return nil, fmt.Errorf("record the day: %w", err)
	}
	made := time.Since(began)
	about := fmt.Sprintf("%s of a cluster of up to %d nodes and %d pods", b.day, result.NodesMost, result.PodsMost)
	began = time.Now()
	report, err := audit.Replay(ctx, tape.Log, tape.Stream, audit.Range{})
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	took := time.Since(began)
	figures := []figure{{name: about + ": replay",
		measured: fmt.Sprintf("%s for %d decisions, %d divergences (%d without their input not replayed), in %d records and %d messages of %d MB (made in %s)", took.Round(100*time.Millisecond), report.Replayed(), len(report.Divergences), report.Skipped(),
			report.Records, tape.Messages, tape.Bytes>>20, made.Round(time.Second)),
		aim: "≤ " + dayMost.String() + " on two cores, no divergence", verdict: verdictOf(took <= dayMost && len(report.Divergences) == 0)}}
	digest := ""
	for range b.dayRuns {
		request := whatif.Request{}
		if err := request.Change.SetOption("node-cost=0.05"); err != nil {
			return nil, err
		}
		began := time.Now()
		answer, err := whatif.Run(ctx, tape.Log, tape.Stream, request)
		if err != nil {
			return nil, fmt.Errorf("replay with a change: %w", err)
		}
		took = max(took, time.Since(began))
		text, err := json.Marshal(answer)
		if err != nil {
			return nil, fmt.Errorf("encode the answer: %w", err)
		}
		h := fnv.New64a()
		_, _ = h.Write(text) // it never fails
		if now := fmt.Sprintf("%d of %d changed, digest %x", answer.Changed, answer.Planned, h.Sum64()); digest == "" {
			digest = now
		} else if digest != now {
			return nil, fmt.Errorf("replay with a change: %s, and then %s", digest, now)
		}
	}
	figures = append(figures, figure{name: about + ": replay --option node-cost=0.05", measured: fmt.Sprintf("%s, the slowest of %d equal runs: %s", took.Round(100*time.Millisecond), b.dayRuns, digest),
		aim: "≤ " + dayMost.String() + " on two cores, each time the same", verdict: verdictOf(took <= dayMost)})
	return figures, nil
}
