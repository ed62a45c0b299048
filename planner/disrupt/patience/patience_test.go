package patience_test

import (
	"testing"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt/patience"
	"millwright/planner/ledger"
)

// command that takes a node of a price, in micro USD per hour, and evicts so many pods.
func command(price int64, evictions int) []*planner.Decision {
	return []*planner.Decision{{Payload: &ledger.CommandStarted{Reason: karpv1.DisruptionReasonUnderutilized,
		Candidates: make([]ledger.Candidate, 1), PriceBefore: price, Evictions: evictions}}}
}

func TestWait(t *testing.T) {
	const nodeCost = 10_000
	var nothing []*planner.Decision
	drift := command(230_000, 12)
	drift[0].Payload.(*ledger.CommandStarted).Reason = karpv1.DisruptionReasonDrifted
	proposed := []*planner.Decision{{Payload: &ledger.CommandProposed{}}}
	type look struct {
		at      time.Duration
		decided []*planner.Decision
		want    time.Duration // rounded to seconds
	}
	ours := command(230_000, 12) // saves 0.24 USD per hour
	for name, x := range map[string]struct {
		cost  int64
		looks []look
	}{
		"switched off":                        {0, []look{{0, ours, 0}}},
		"the example":                         {1000, []look{{0, ours, 3 * time.Minute}, {time.Minute, ours, 2 * time.Minute}, {179 * time.Second, ours, time.Second}, {181 * time.Second, ours, 0}}},
		"much is saved":                       {1000, []look{{0, command(2_390_000, 12), 18 * time.Second}}},
		"nobody is evicted":                   {1000, []look{{0, command(230_000, 0), 0}}},
		"drift":                               {1000, []look{{0, drift, 0}}},
		"who approves waits anyway":           {1000, []look{{0, proposed, 0}}},
		"the load comes back":                 {1000, []look{{0, ours, 3 * time.Minute}, {2 * time.Minute, nothing, 0}, {4 * time.Minute, ours, 3 * time.Minute}}},
		"nothing for a moment":                {1000, []look{{0, ours, 3 * time.Minute}, {time.Minute, ours, 2 * time.Minute}, {61 * time.Second, nothing, 0}, {70 * time.Second, ours, 2 * time.Minute}}},
		"nothing, twice":                      {1000, []look{{0, ours, 3 * time.Minute}, {time.Minute, nothing, 0}, {65 * time.Second, nothing, 0}, {71 * time.Second, ours, 3 * time.Minute}}},
		"a round outlives a moment":           {1000, []look{{0, ours, 3 * time.Minute}, {3*time.Minute + time.Second, ours, 0}, {182 * time.Second, nothing, 0}, {184 * time.Second, ours, 0}}},
		"a clock set back over it":            {1000, []look{{0, ours, 3 * time.Minute}, {time.Minute, nothing, 0}, {0, ours, 3 * time.Minute}}},
		"the lesser saving counts":            {1000, []look{{0, command(110_000, 12), 6 * time.Minute}, {2 * time.Minute, ours, 2 * time.Minute}}},
		"the rest of a round does not wait":   {1000, []look{{0, ours, 3 * time.Minute}, {3*time.Minute + time.Second, ours, 0}, {4 * time.Minute, command(10_000, 90), 0}}},
		"after a round it waits again":        {1000, []look{{0, ours, 3 * time.Minute}, {3*time.Minute + time.Second, ours, 0}, {4 * time.Minute, nothing, 0}, {5 * time.Minute, ours, 3 * time.Minute}}},
		"a round does not go on for ever":     {1000, []look{{0, ours, 3 * time.Minute}, {3*time.Minute + time.Second, ours, 0}, {14 * time.Minute, ours, 3 * time.Minute}}},
		"another decision in between":         {1000, []look{{0, ours, 3 * time.Minute}, {time.Minute, drift, 0}, {2 * time.Minute, ours, time.Minute}}},
		"the clock is set back":               {1000, []look{{time.Hour, ours, 3 * time.Minute}, {0, ours, 3 * time.Minute}, {time.Minute, ours, 2 * time.Minute}}},
		"a month later, as the clock has it":  {1000, []look{{0, command(10_000, 90), 4*time.Hour + 30*time.Minute}, {720 * time.Hour, command(10_000, 90), 4*time.Hour + 20*time.Minute}}},
		"dear evictions of a whole cluster":   {1_000_000_000, []look{{0, command(1, 150_000), 24 * time.Hour}, {time.Minute, command(5_000_000_000, 150_000), 24 * time.Hour}}},
		"set back while a round is under way": {1000, []look{{time.Hour, ours, 3 * time.Minute}, {64 * time.Minute, ours, 0}, {0, ours, 3 * time.Minute}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := patience.Patience{Cost: x.cost}
			for i, l := range x.looks {
				now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC).Add(l.at)
				if got := p.Wait(now, l.decided, nodeCost); got.Round(time.Second) != l.want {
					t.Errorf("look %d waits for %s, want %s", i, got, l.want)
				}
			}
		})
	}
}
