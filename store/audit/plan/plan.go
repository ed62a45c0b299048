package plan

import (
	"math"
	"time"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/planner/world"
)

// Config says what to plan.
type Config struct {
	// Sources of objects.
	Sources []Source
	// Catalog has the instance types of every NodePool.
	Catalog Source
	// Prices replace those known; only for RunOn and RunDisruptionOn.
	Prices Source
	// Now is the time of the plan.
	Now time.Time
	// PreferencePolicy and MinValuesPolicy as in planner.Options; "" is the default.
	PreferencePolicy, MinValuesPolicy string
	// FeatureGates as of planner.Options.SetFeatureGates; those not named have their default.
	FeatureGates string
	// NodeTime is how long a roll-out takes for one wave of nodes; 0: DefaultNodeTime. Only for
	// RunDisruptionOn.
	NodeTime time.Duration
	// NodeCost as in planner.Options, in USD; nil: the default.
	NodeCost *float64
	// EvictionCost as in planner.Options, in USD; nil: the default.
	EvictionCost *float64
	// Clock tells how long planning took; nil: the report does not say.
	Clock func() time.Time
	// Stop is asked between the steps of a plan of disruption: true ends it where it is. nil: never.
	Stop func() bool
	// Workloads: Deployments, StatefulSets, ReplicaSets and Jobs stand for as many pending pods as they ask
	// for, beside the pods that there are; PodsMost bounds them and the replicas of static NodePools, 0:
	// PodsMostDefault.
	Workloads bool
	PodsMost  int
}

// PodsMostDefault is for a Config that names no bound.
const PodsMostDefault = 10_000

// stopwatch returns how long ago it was called; 0 without a clock.
func (c Config) stopwatch() func() time.Duration {
	if c.Clock == nil {
		return func() time.Duration { return 0 }
	}
	start := c.Clock()
	return func() time.Duration { return c.Clock().Sub(start) }
}

// Run reads the input and plans. An *InputError says what is wrong with it.
func Run(c Config) (*Report, error) {
	types, err := readCatalog(c.Catalog)
	if err != nil {
		return nil, err
	}
	w, err := load(c, types)
	if err != nil {
		return nil, err
	}
	took := c.stopwatch()
	s, err := c.snapshot(w, ledger.New(""))
	if err != nil {
		return nil, err
	}
	_, round := provision.Plan(s)
	return newReport(round, s.Options.StaticWave, types.exact, took()), nil
}

// Load reads the input into a World that is synced as of Now.
func Load(c Config) (*world.World, error) {
	types, err := readCatalog(c.Catalog)
	if err != nil {
		return nil, err
	}
	return load(c, types)
}

func load(c Config, types *catalogFile) (*world.World, error) {
	f := newFeeder(c.Now)
	gates := planner.DefaultOptions()
	if err := gates.SetFeatureGates(c.FeatureGates); err != nil {
		return nil, err
	}
	f.buffers, f.workloads = gates.CapacityBuffers, newWorkloads(c)
	for _, s := range c.Sources {
		if err := s.each(f.document); err != nil {
			return nil, err
		}
	}
	return f.finish(types), nil
}

func (c Config) snapshot(w *world.World, l *ledger.Ledger) (*planner.Snapshot, error) {
	s := planner.NewSnapshot(w, l, c.Now)
	if s.OptionsSeq == 0 { // no log: planned as services would
		s.Options = planner.PresentOptions()
	}
	if c.PreferencePolicy != "" {
		s.Options.PreferencePolicy = c.PreferencePolicy
	}
	if c.MinValuesPolicy != "" {
		s.Options.MinValuesPolicy = c.MinValuesPolicy
	}
	if c.NodeCost != nil {
		s.Options.NodeCost = int64(math.Round(*c.NodeCost * 1e6))
	}
	if c.EvictionCost != nil {
		s.Options.EvictionCost = int64(math.Round(*c.EvictionCost * 1e6))
	}
	return s, s.Options.SetFeatureGates(c.FeatureGates)
}
