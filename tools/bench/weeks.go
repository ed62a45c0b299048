package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"millwright/tools/weeks"
)

// measureWeeks plays five synthetic weeks, or the first part of each, under Millwright's planners and under
// Karpenter's rules.
func measureWeeks(ctx context.Context, b *bench) ([]figure, error) {
	sums, err := weeks.Compare(ctx, b.week, runtime.GOMAXPROCS(0))
	if err != nil {
		return nil, fmt.Errorf("play the weeks: %w", err)
	}
	bill, evictions := math.Inf(1), math.MaxInt
	for _, s := range sums {
		if s.Reference {
			bill, evictions = min(bill, s.Bill), min(evictions, s.Evictions)
		}
	}
	var figures []figure
	for i := range sums {
		figures = append(figures, weeksFigure(&sums[i], b.week, bill, evictions))
	}
	return figures, nil
}

// weeksFigure is the row of a plane; the first has aims, by the best bill and the fewest evictions of the
// reference.
func weeksFigure(s *weeks.Sum, length time.Duration, bill float64, evictions int) figure {
	undone := 0.0
	if s.Evictions > 0 {
		undone = 100 * float64(s.Undone) / float64(s.Evictions)
	}
	f := figure{name: fmt.Sprintf("five times %s: %s", length, s.Name),
		measured: fmt.Sprintf("$%.2f, %d evictions, %.1f %% of moves undone within an hour; %d nodes bought, pods waited %s",
			s.Bill, s.Evictions, undone, s.Bought, s.Waited.Round(time.Minute))}
	if s.Reference {
		return f
	}
	f.aim = fmt.Sprintf("≤ $%.2f, ≤ %d evictions, ≤ 1 %%", bill, evictions*4/10)
	f.verdict = verdictOf(s.Bill <= bill && s.Evictions <= evictions*4/10 && undone <= 1)
	return f
}
