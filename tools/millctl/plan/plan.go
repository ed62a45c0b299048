package plan

import (
	"io"
	"math"
	"time"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/planner/world"
)

// Config says what to plan.
type Config struct {
	// Files and directories with objects; "-" is Stdin. In a directory every .yaml, .yml and .json below it
	// counts.
	Files []string
	Stdin io.Reader
	// Catalog is the file with the instance types of every NodePool.
	Catalog string
	// Prices is a file with prices that replace those known; only for RunOn.
	Prices string
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
	start := time.Now()
	s, err := c.snapshot(w, ledger.New(""))
	if err != nil {
		return nil, err
	}
	_, round := provision.Plan(s)
	return newReport(round, types.exact, time.Since(start)), nil
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
	sources, err := listSources(c.Files, c.Catalog, c.Stdin)
	if err != nil {
		return nil, err
	}
	f := newFeeder(c.Now)
	gates := planner.DefaultOptions()
	if err := gates.SetFeatureGates(c.FeatureGates); err != nil {
		return nil, err
	}
	f.buffers = gates.CapacityBuffers
	for _, s := range sources {
		if err := s.each(f.document); err != nil {
			return nil, err
		}
	}
	return f.finish(types), nil
}

func (c Config) snapshot(w *world.World, l *ledger.Ledger) (*planner.Snapshot, error) {
	s := planner.NewSnapshot(w, l, c.Now)
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
