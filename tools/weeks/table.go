package weeks

import (
	"context"
	"sync"
	"time"
)

// Seeds of the weeks that are compared.
var Seeds = []uint64{1, 2, 3, 4, 5}

// Sum of the weeks under one plane.
type Sum struct {
	Settings
	Result
}

// Compare plays all weeks, or the first part of each, under all planes, several at a time, and adds up the
// results of each plane. An error says that the context ended.
func Compare(ctx context.Context, length time.Duration, workers int) ([]Sum, error) {
	type task struct{ plane, seed int }
	results := make([][]Result, len(Planes))
	for i := range results {
		results[i] = make([]Result, len(Seeds))
	}
	tasks := make(chan task)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for t := range tasks {
				results[t.plane][t.seed], _ = Run(ctx, NewScript(Seeds[t.seed], length), Planes[t.plane]) // that the context ended is said below
			}
		})
	}
	for i := range Planes {
		for j := range Seeds {
			if ctx.Err() == nil {
				tasks <- task{i, j}
			}
		}
	}
	close(tasks)
	group.Wait()
	sums := make([]Sum, len(Planes))
	for i, p := range Planes {
		sums[i].Settings = p
		for _, r := range results[i] {
			sums[i].add(r)
		}
	}
	return sums, ctx.Err()
}

func (s *Sum) add(r Result) {
	s.Bill += r.Bill
	s.Evictions += r.Evictions
	s.Undone += r.Undone
	s.Forced += r.Forced
	s.Lost += r.Lost
	s.Bought += r.Bought
	s.Commands += r.Commands
	s.GivenUp += r.GivenUp
	s.Jobs += r.Jobs
	s.Waited += r.Waited
	s.NodesMost, s.PodsMost = max(s.NodesMost, r.NodesMost), max(s.PodsMost, r.PodsMost)
	s.Passes += r.Passes
}
