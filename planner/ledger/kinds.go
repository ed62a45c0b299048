package ledger

import "fmt"

// Kind of a record. Numbers are part of the log's format and never reused.
type Kind uint16

const (
	KindGenesis           Kind = 1
	KindOptionsSet        Kind = 2
	KindControlChanged    Kind = 3
	KindModeChanged       Kind = 4
	KindLedgerCheckpoint  Kind = 5 // ignorable
	KindAlarmRaised       Kind = 6 // ignorable
	KindSegmentArchived   Kind = 7 // ignorable
	KindLogAdopted        Kind = 8 // ignorable
	KindAggregatesRetired Kind = 9

	KindProvisioningPlanned Kind = 10
	KindClaimWithdrawn      Kind = 11
	KindProvisioningWidened Kind = 12

	KindClaimCreated       Kind = 20
	KindLaunchRequested    Kind = 21
	KindLaunched           Kind = 22
	KindLaunchFailed       Kind = 23
	KindClaimRegistered    Kind = 24
	KindClaimInitialized   Kind = 25
	KindClaimDoomed        Kind = 26
	KindInstanceTerminated Kind = 27
	KindClaimClosed        Kind = 28
	KindClaimAdopted       Kind = 29

	KindCommandProposed   Kind = 30
	KindCommandStarted    Kind = 31
	KindCommandConfirmed  Kind = 32
	KindCommandSucceeded  Kind = 33
	KindCommandRolledBack Kind = 34
	// KindCommandMovesStarted is a CommandStarted that also gives its pods their places; KindCommandAbandoned
	// a CommandRolledBack that takes the command's unused replacements along. Both change what a fold of the
	// plain kinds does not.
	KindCommandMovesStarted Kind = 35
	KindCommandAbandoned    Kind = 36
	KindCommandReduced      Kind = 37

	KindDrainStarted     Kind = 40
	KindDrainTierStarted Kind = 41
	KindNodeDrained      Kind = 42
	KindDrainEnded       Kind = 43

	// KindFleetRequested is a LaunchRequested for several claims, which one CreateFleet launches;
	// KindFleetAnswered closes the attempts of all of them.
	KindFleetRequested Kind = 44
	KindFleetAnswered  Kind = 45

	KindOrphanFound Kind = 50
	KindDriftJudged Kind = 51 // ignorable

	KindProposalAnswered Kind = 60 // ignorable
	KindProposalEnded    Kind = 61 // ignorable
	KindRolloutResumed   Kind = 62 // ignorable
	KindDrainOutStarted  Kind = 63 // ignorable
	KindDrainOutEnded    Kind = 64 // ignorable
	KindSurgeDecided     Kind = 65 // ignorable
	KindMemoryDiscovered Kind = 66 // ignorable
	KindBundleTaken      Kind = 67 // ignorable
	KindSharesObserved   Kind = 68 // ignorable
)

var kindNames = map[Kind]string{
	KindGenesis: "Genesis", KindOptionsSet: "OptionsSet", KindControlChanged: "ControlChanged", KindModeChanged: "ModeChanged",
	KindLedgerCheckpoint: "LedgerCheckpoint", KindAlarmRaised: "AlarmRaised", KindSegmentArchived: "SegmentArchived",
	KindLogAdopted: "LogAdopted", KindAggregatesRetired: "AggregatesRetired",
	KindProvisioningPlanned: "ProvisioningPlanned", KindClaimWithdrawn: "ClaimWithdrawn",
	KindProvisioningWidened: "ProvisioningWidened",
	KindClaimCreated:        "ClaimCreated", KindLaunchRequested: "LaunchRequested", KindLaunched: "Launched",
	KindLaunchFailed: "LaunchFailed", KindClaimRegistered: "ClaimRegistered", KindClaimInitialized: "ClaimInitialized",
	KindClaimDoomed: "ClaimDoomed", KindInstanceTerminated: "InstanceTerminated", KindClaimClosed: "ClaimClosed",
	KindClaimAdopted:    "ClaimAdopted",
	KindCommandProposed: "CommandProposed", KindCommandStarted: "CommandStarted", KindCommandConfirmed: "CommandConfirmed",
	KindCommandSucceeded: "CommandSucceeded", KindCommandRolledBack: "CommandRolledBack",
	KindCommandMovesStarted: "CommandMovesStarted", KindCommandAbandoned: "CommandAbandoned", KindCommandReduced: "CommandReduced",
	KindDrainStarted: "DrainStarted", KindDrainTierStarted: "DrainTierStarted", KindNodeDrained: "NodeDrained",
	KindDrainEnded:     "DrainEnded",
	KindFleetRequested: "FleetRequested", KindFleetAnswered: "FleetAnswered",
	KindOrphanFound: "OrphanFound", KindDriftJudged: "DriftJudged", KindProposalAnswered: "ProposalAnswered", KindProposalEnded: "ProposalEnded",
	KindRolloutResumed: "RolloutResumed", KindDrainOutStarted: "DrainOutStarted", KindDrainOutEnded: "DrainOutEnded", KindSurgeDecided: "SurgeDecided",
	KindMemoryDiscovered: "MemoryDiscovered", KindBundleTaken: "BundleTaken", KindSharesObserved: "SharesObserved",
}

func (k Kind) String() string {
	if s, ok := kindNames[k]; ok {
		return s
	}
	return fmt.Sprintf("Kind(%d)", uint16(k))
}

// Mode of the decider. A shadow record is closed when appended and never causes an effect.
type Mode string

const (
	ModeActive Mode = "active"
	ModeShadow Mode = "shadow"
)

// Names of the services, as they stand in records, leader keys and metrics.
const (
	ServiceWatcher     = "watcher"
	ServiceProvisioner = "provisioner"
	ServiceDisruptor   = "disruptor"
	ServiceTerminator  = "terminator"
	ServiceLifecycle   = "lifecycle"
)

// Aggregate names (DESIGN §4).
func PoolAggregate(nodePool string) string {
	if nodePool == "" {
		nodePool = "-" // nodes of no pool
	}
	return "pool/" + nodePool
}
func NodeAggregate(node string) string   { return "node/" + node }
func ClaimAggregate(claim string) string { return "claim/" + claim }
func CommandAggregate(id string) string  { return "command/" + id }

// ReservationAggregate of a capacity reservation is advanced by the launch requests that name it.
func ReservationAggregate(id string) string { return "reservation/" + id }

// CheckpointAggregate stands at the last LedgerCheckpoint.
const CheckpointAggregate = "ledger/checkpoint"
