package terminator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/ledger"
)

// Larger pods go before smaller ones, from all nodes that commands take; a node that must be gone soon, or
// that nobody chose to take, waits for none.
func TestLargerPodsAreEvictedFirst(t *testing.T) {
	began := time.Unix(1000, 0)
	var w wave
	gone := map[types.UID]bool{}
	// let evicts what may go now, of nodes with pods of these sizes, and returns it.
	let := func(at time.Duration, settled bool, deadline time.Duration, nodes ...[]int64) string {
		var plans []plan
		for n, sizes := range nodes {
			p := plan{voluntary: true}
			if deadline > 0 {
				p.deadline = began.Add(at + deadline)
			}
			for i, size := range sizes {
				ref := ledger.PodRef{UID: types.UID(fmt.Sprintf("%d-%d-%d", n, i, size)), Name: fmt.Sprint(size)}
				if !gone[ref.UID] {
					p.evicts = append(p.evicts, eviction{ref, size})
				}
			}
			plans = append(plans, p)
		}
		w.inWaves(plans, began.Add(at), func(e eviction) bool { return !gone[e.ref.UID] }, func() bool { return settled })
		var names []string
		for _, p := range plans {
			for _, e := range p.evicts {
				gone[e.ref.UID] = true
				names = append(names, e.ref.Name)
			}
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	nodes := [][]int64{{1500, 100, 1400}, {1000, 90, 10}}
	for i, x := range []struct {
		at      time.Duration
		settled bool
		want    string
	}{
		{0, false, "1400 1500"},
		{time.Second, false, ""}, // what came in their place has no node yet
		{2 * time.Second, true, "1000"},
		{4 * time.Second, false, ""},
		{7 * time.Second, false, "100 90"}, // long enough
		{8 * time.Second, true, "10"},
	} {
		if got := let(x.at, x.settled, 0, nodes...); got != x.want {
			t.Errorf("step %d: %q go, want %q", i, got, x.want)
		}
	}
	let(9*time.Second, true, 0) // nothing is left
	if got := let(10*time.Second, false, 0, []int64{5}); got != "5" {
		t.Errorf("then of another node: %q", got)
	}
	if got := let(11*time.Second, false, time.Minute, []int64{7, 700}); got != "7 700" {
		t.Errorf("of a node that must be gone soon: %q", got)
	}
	if got := let(12*time.Second, false, time.Hour, []int64{7, 800}); got != "800" {
		t.Errorf("of a node with time: %q", got)
	}
	if got := let(13*time.Second, false, 0, []int64{7}, []int64{9000, 8}); got != "9000" {
		t.Errorf("of a node whose drain begins later: %q", got)
	}
}
