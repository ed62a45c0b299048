package audit

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Outcomes are noted in the order of the decisions, however long each takes, and no more are planned at a
// time than there are slots.
func TestOutcomesAreNotedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newReplayer(2)
		var planning, most atomic.Int64
		work := func(d time.Duration) {
			if n := planning.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(d)
			planning.Add(-1)
		}
		var want []string
		for i := range 100 {
			name := fmt.Sprint(i)
			want = append(want, name)
			search := begin(p, func() string {
				work(time.Duration(100-i) * time.Millisecond)
				return name
			})
			p.noteLater(then(p, search, func(found string) compared {
				work(time.Millisecond)
				return compared{divergence: &Divergence{Detail: found}}
			}))
		}
		p.noteAll(0)
		p.planning.Wait()
		var got []string
		for _, d := range p.report.Divergences {
			got = append(got, d.Detail)
		}
		if !slices.Equal(got, want) || p.report.Planned != 100 || most.Load() != 2 {
			t.Errorf("%d planned, at most %d at a time, noted %v", p.report.Planned, most.Load(), got)
		}
	})
}

// A planner that panics does so where the replay was asked for, also for what waits for it.
func TestAPlannerThatPanicsDoesSoWhereReplayWasAsked(t *testing.T) {
	p := newReplayer(2)
	p.noteLater(then(p, begin(p, func() int { panic("no such plan") }), func(int) compared { return compared{} }))
	defer func() {
		if got := recover(); got != "no such plan" {
			t.Errorf("recovered %v", got)
		}
		p.planning.Wait()
	}()
	p.noteAll(0)
}
