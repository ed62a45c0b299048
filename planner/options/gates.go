package options

import (
	"fmt"
	"strconv"
	"strings"
)

// GateNodeOverlay is the feature gate of NodeOverlays: off unless set, as in Karpenter (reference: operations
// §1). What Karpenter's other gates of planning switch on, reserved capacity and static NodePools, is always
// on here.
const GateNodeOverlay = "NodeOverlay"

// GateSpotToSpot is the feature gate of consolidation from spot to spot: off unless set (reference:
// disruption §5).
const GateSpotToSpot = "SpotToSpotConsolidation"

// GateNodeRepair is the feature gate of node repair: off unless set (reference: lifecycle §10).
const GateNodeRepair = "NodeRepair"

// GateCapacityBuffer is the feature gate of CapacityBuffers: off unless set (reference: operations §1).
const GateCapacityBuffer = "CapacityBuffer"

// SetFeatureGates reads "Name=bool,…". Gates that are not named keep their value; unknown names are ignored.
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
		switch strings.TrimSpace(name) {
		case GateNodeOverlay:
			o.NodeOverlays = on
		case GateSpotToSpot:
			o.SpotToSpot = on
		case GateNodeRepair:
			o.NodeRepair = on
		case GateCapacityBuffer:
			o.CapacityBuffers = on
		}
	}
	return nil
}
