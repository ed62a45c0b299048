package options

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// GateNodeOverlay is the feature gate of NodeOverlays: off unless set, as in Karpenter (reference: operations
// §1). What Karpenter's other gates switch on, reserved capacity and static NodePools, is always on here.
const GateNodeOverlay = "NodeOverlay"

// GateSpotToSpot is the feature gate of consolidation from spot to spot: off unless set (reference:
// disruption §5).
const GateSpotToSpot = "SpotToSpotConsolidation"

// GateNodeRepair is the feature gate of node repair: off unless set (reference: lifecycle §10).
const GateNodeRepair = "NodeRepair"

// GateCapacityBuffer is the feature gate of CapacityBuffers: off unless set (reference: operations §1).
const GateCapacityBuffer = "CapacityBuffer"

// gates of Karpenter by their names, with what each switches here; nil: it is always on.
var gates = map[string]func(*Options, bool){
	GateNodeOverlay:    func(o *Options, on bool) { o.NodeOverlays = on },
	GateSpotToSpot:     func(o *Options, on bool) { o.SpotToSpot = on },
	GateNodeRepair:     func(o *Options, on bool) { o.NodeRepair = on },
	GateCapacityBuffer: func(o *Options, on bool) { o.CapacityBuffers = on },
	"Drift":            nil,
	"ReservedCapacity": nil,
	"StaticCapacity":   nil,
}

// SetFeatureGates reads "Name=bool,…". Gates that are not named keep their value; unknown names are ignored
// (reference: operations §1), see UnknownFeatureGates.
func (o *Options) SetFeatureGates(text string) error {
	for pair := range strings.SplitSeq(text, ",") {
		pair = strings.TrimSpace(pair)
		if pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("feature gate %q has no value: must be Name=true or Name=false", pair)
		}
		on, err := strconv.ParseBool(strings.TrimSpace(value))
		if err != nil {
			return fmt.Errorf("feature gate %s: %q is neither true nor false", name, value)
		}
		if set := gates[strings.TrimSpace(name)]; set != nil {
			set(o, on)
		}
	}
	return nil
}

// FeatureGates are the names that SetFeatureGates knows, sorted.
func FeatureGates() []string { return slices.Sorted(maps.Keys(gates)) }

// UnknownFeatureGates are the names in "Name=bool,…" that SetFeatureGates ignores, in their order; case
// counts, as in Karpenter.
func UnknownFeatureGates(text string) []string {
	var unknown []string
	for pair := range strings.SplitSeq(text, ",") {
		name, _, _ := strings.Cut(pair, "=")
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if _, known := gates[name]; !known && !slices.Contains(unknown, name) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}
