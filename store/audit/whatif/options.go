package whatif

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"millwright/planner"
)

// optionSetters by the name of the flag of millwright that sets the option.
var optionSetters = map[string]func(value string) (func(*planner.Options), error){
	"node-cost":         dollarsOption(func(o *planner.Options, micro int64) { o.NodeCost = micro }),
	"eviction-cost":     dollarsOption(func(o *planner.Options, micro int64) { o.EvictionCost = micro }),
	"preference-policy": oneOf(func(o *planner.Options, v string) { o.PreferencePolicy = v }, "Respect", "Ignore"),
	"min-values-policy": oneOf(func(o *planner.Options, v string) { o.MinValuesPolicy = v }, "Strict", "BestEffort"),
	"feature-gates": func(value string) (func(*planner.Options), error) {
		scratch := planner.DefaultOptions()
		if err := scratch.SetFeatureGates(value); err != nil {
			return nil, err
		}
		return func(o *planner.Options) { _ = o.SetFeatureGates(value) }, nil // it was read before
	},
}

// OptionNames are those that SetOption knows, sorted.
func OptionNames() []string {
	var names []string
	for name := range optionSetters {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// SetOption adds NAME=VALUE to the change, with the names and values of the flags of millwright.
func (c *Change) SetOption(text string) error {
	name, value, ok := strings.Cut(text, "=")
	setter := optionSetters[name]
	switch {
	case !ok:
		return fmt.Errorf("option %q: must be NAME=VALUE", text)
	case setter == nil:
		return fmt.Errorf("option %q: must be one of %s", name, strings.Join(OptionNames(), ", "))
	}
	set, err := setter(value)
	if err != nil {
		return fmt.Errorf("option %s: %w", name, err)
	}
	before := c.Options
	c.Options = func(o *planner.Options) {
		if before != nil {
			before(o)
		}
		set(o)
	}
	return nil
}

func dollarsOption(set func(*planner.Options, int64)) func(string) (func(*planner.Options), error) {
	return func(value string) (func(*planner.Options), error) {
		usd, err := strconv.ParseFloat(value, 64)
		if err != nil || !(usd >= 0 && usd <= 1000) {
			return nil, fmt.Errorf("%q must be USD from 0 to 1000", value)
		}
		return func(o *planner.Options) { set(o, int64(math.Round(usd*1e6))) }, nil
	}
}

func oneOf(set func(*planner.Options, string), values ...string) func(string) (func(*planner.Options), error) {
	return func(value string) (func(*planner.Options), error) {
		if !slices.Contains(values, value) {
			return nil, fmt.Errorf("%q must be %s", value, strings.Join(values, " or "))
		}
		return func(o *planner.Options) { set(o, value) }, nil
	}
}
