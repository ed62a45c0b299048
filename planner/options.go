package planner

import "millwright/planner/options"

// Options are the settings that can change a decision. They are recorded whole (OptionsSet).
type Options = options.Options

// RepairPolicy says how long a node may have a condition before it is replaced.
type RepairPolicy = options.RepairPolicy

// What follows from rebalance recommendations of EC2.
const (
	RebalanceIgnore  = options.RebalanceIgnore
	RebalanceReplace = options.RebalanceReplace
)

// DefaultAcceleratedWave is what services set Options.AcceleratedWave to.
const DefaultAcceleratedWave = options.DefaultAcceleratedWave

// DefaultStaticWave is what services set Options.StaticWave to.
const DefaultStaticWave = options.DefaultStaticWave

// DefaultOptions returns the documented defaults, as records have them that do not say otherwise.
func DefaultOptions() Options { return options.Default() }

// PresentOptions returns the documented defaults as services record them.
func PresentOptions() Options { return options.Present() }

// DefaultRepairPolicies are those of the AWS provider.
func DefaultRepairPolicies() []RepairPolicy { return options.DefaultRepairPolicies() }

// DecodeOptions reads what EncodeOptions wrote; options that are not named have their defaults, as have all
// of nil.
func DecodeOptions(data []byte) (Options, error) { return options.Decode(data) }

// EncodeOptions gives the bytes of ledger.OptionsSet; equal options give equal bytes.
func EncodeOptions(o Options) []byte { return options.Encode(o) }
