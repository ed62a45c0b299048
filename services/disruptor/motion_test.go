package disruptor

import (
	"testing"
	"time"
)

// Consolidation waits while many pods come or go and until it is calm, and not for ever.
func TestConsolidationWaitsForACalmMoment(t *testing.T) {
	began := time.Unix(1000, 0)
	for name, x := range map[string]struct {
		// pods at each second, and the seconds in which the cluster is in motion.
		pods   func(second int) int
		moving func(second int) bool
	}{
		"nothing happens":          {func(int) int { return 1000 }, func(int) bool { return false }},
		"few pods go":              {func(s int) int { return 1000 - 4*s }, func(int) bool { return false }},
		"few of very many pods go": {func(s int) int { return 100_000 - 500*s }, func(int) bool { return false }},
		"scaled down in five seconds": {func(s int) int { return 1000 - 100*min(s, 5) },
			func(s int) bool { return s >= 1 && s < 5+3 }},
		"scaled up at once": {func(s int) int { return 10 + 500*min(s, 1) }, func(s int) bool { return s >= 1 && s < 1+3 }},
		"always in motion":  {func(s int) int { return 1000 + 500*(s%2) }, func(s int) bool { return s >= 1 && s < 31 }},
	} {
		m := &motion{}
		for second := range 40 {
			now := began.Add(time.Duration(second) * time.Second)
			if got := m.look(now, x.pods(second)); got != x.moving(second) {
				t.Errorf("%s: in motion after %d s: %v", name, second, got)
			}
		}
	}
}
