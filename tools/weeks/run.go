package weeks

import (
	"context"
	"time"
)

// Settings of a plane.
type Settings struct {
	Name string
	// Reference: the consolidation of Karpenter, as docs/reference/disruption.md has it; else Millwright's.
	Reference bool
	// PriceOrder: candidates by price over disruption cost, and no pods moved to nodes inside their
	// consolidateAfter, as 1.14 has it; else by disruption cost times the share of life left. Only with
	// Reference.
	PriceOrder bool
	// Balanced is the consolidationPolicy; else WhenEmptyOrUnderutilized.
	Balanced bool
	// ConsolidateAfter of the NodePools.
	ConsolidateAfter time.Duration
	// CostPerEviction, in USD as text: a DisruptionPolicy demands that what is saved in an hour is worth the
	// evictions; "": there is none. Only without Reference.
	CostPerEviction string
	// Ban: a DisruptionPolicy keeps pods from being moved to nodes inside their consolidateAfter. Only
	// without Reference, for PriceOrder does so anyway.
	Ban bool
	// EvictionCost is the option of that name, in micro USD. Only without Reference.
	EvictionCost int64
	// Patience is the option --consolidation-patience, in micro USD. Only without Reference.
	Patience int64
	// SearchesEvery is how long a search of consolidation in vain is left alone; 0: 30 s. Only without
	// Reference.
	SearchesEvery time.Duration
}

// Planes that are compared; the first is Millwright's as it comes.
var Planes = []Settings{
	{Name: "Millwright", ConsolidateAfter: time.Minute},
	{Name: "Millwright, destination Ban", ConsolidateAfter: time.Minute, Ban: true},
	{Name: "Millwright, consolidateAfter 0s"},
	{Name: "Millwright, 0s, --consolidation-patience 0.001", Patience: 1000, SearchesEvery: loopEvery},
	{Name: "Millwright, 0s, --consolidation-patience 0.0025", Patience: 2500, SearchesEvery: loopEvery},
	{Name: "Millwright, 0s, --consolidation-patience 0.005", Patience: 5000, SearchesEvery: loopEvery},
	{Name: "Millwright, --eviction-cost 0.01", ConsolidateAfter: time.Minute, EvictionCost: 10_000},
	{Name: "Millwright, payBack", ConsolidateAfter: time.Minute, CostPerEviction: "0.05"},
	{Name: "1.13", Reference: true, ConsolidateAfter: time.Minute},
	{Name: "1.14", Reference: true, PriceOrder: true, ConsolidateAfter: time.Minute},
	{Name: "1.14, consolidateAfter 0s", Reference: true, PriceOrder: true},
	{Name: "1.14, Balanced", Reference: true, PriceOrder: true, Balanced: true, ConsolidateAfter: time.Minute},
}

// Result of a week.
type Result struct {
	// Bill in USD.
	Bill float64
	// Evictions by voluntary commands; Undone are those whose pod had been moved within the hour before.
	// Forced are evictions from nodes that expired, failed or were taken back; Lost are the latter nodes.
	Evictions, Undone, Forced, Lost int
	// Bought nodes; Commands of consolidation and emptiness; those GivenUp.
	Bought, Commands, GivenUp int
	// Most nodes and pods at a time.
	NodesMost, PodsMost int
	// Passes in which the plane looked for something to disrupt.
	Passes int
	// Jobs that ended, and how long pods waited in all.
	Jobs   int
	Waited time.Duration
	// Digest of everything that happened.
	Digest uint64
}

// Run plays a week under a plane. An error says that the context ended.
func Run(ctx context.Context, s *Script, p Settings) (Result, error) {
	c := newCluster(s)
	if p.Reference {
		c.plane = newReference(c, p)
	} else {
		c.plane = newMillwright(c, p)
	}
	err := c.run(ctx)
	return c.result, err
}
