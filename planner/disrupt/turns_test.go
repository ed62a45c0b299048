package disrupt

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"millwright/planner/disrupt/internal/turn"
)

// However nodes come and go, one that stays is asked about in every third pass: a pass asks about a third of
// the nodes or more.
func TestNoCandidateWaitsMoreThanThreePasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		waited := map[string]int{}
		for i := range rapid.IntRange(1, 60).Draw(t, "nodes") {
			waited[fmt.Sprintf("n%03d", 2*i)] = 0
		}
		after := ""
		for range 12 {
			for _, name := range rapid.SliceOfN(rapid.IntRange(0, 150), 0, 1).Draw(t, "comes or goes") {
				n := fmt.Sprintf("n%03d", name)
				if _, ok := waited[n]; ok {
					delete(waited, n)
				} else {
					waited[n] = 0
				}
			}
			var names []string
			for n := range waited {
				names = append(names, n)
			}
			slices.Sort(names)
			in, next := turn.Of(names, after, (len(names)+turn.PassesMost-1)/turn.PassesMost)
			after = next
			for _, n := range names {
				if waited[n]++; in == nil || in[n] {
					waited[n] = 0
				}
				// One that came in between puts another one off by a pass at most.
				if waited[n] > turn.PassesMost {
					t.Fatalf("%s waits for %d passes", n, waited[n])
				}
			}
		}
	})
}
