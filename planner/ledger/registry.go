package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"
)

type podUID = types.UID

// NewPayload returns a pointer to a zero payload of a kind; nil for a kind this version doesn't know.
func NewPayload(k Kind) any {
	if withheld != "" && KindSet(withheld).Has(k) {
		return nil
	}
	switch k {
	case KindGenesis:
		return &Genesis{}
	case KindOptionsSet:
		return &OptionsSet{}
	case KindControlChanged:
		return &ControlChanged{}
	case KindModeChanged:
		return &ModeChanged{}
	case KindLedgerCheckpoint:
		return &LedgerCheckpoint{}
	case KindAlarmRaised:
		return &AlarmRaised{}
	case KindSegmentArchived:
		return &SegmentArchived{}
	case KindLogAdopted:
		return &LogAdopted{}
	case KindAggregatesRetired:
		return &AggregatesRetired{}
	case KindProvisioningPlanned, KindProvisioningWidened:
		return &ProvisioningPlanned{}
	case KindOrphanFound:
		return &OrphanFound{}
	case KindDriftJudged:
		return &DriftJudged{}
	}
	if p := newClaimPayload(k); p != nil {
		return p
	}
	return newNodePayload(k)
}

func newClaimPayload(k Kind) any {
	switch k {
	case KindClaimWithdrawn:
		return &ClaimWithdrawn{}
	case KindClaimCreated:
		return &ClaimCreated{}
	case KindLaunchRequested, KindFleetRequested:
		return &LaunchRequested{}
	case KindFleetAnswered:
		return &FleetAnswered{}
	case KindLaunched:
		return &Launched{}
	case KindLaunchFailed:
		return &LaunchFailed{}
	case KindClaimRegistered:
		return &ClaimRegistered{}
	case KindClaimInitialized:
		return &ClaimInitialized{}
	case KindClaimDoomed:
		return &ClaimDoomed{}
	case KindInstanceTerminated:
		return &InstanceTerminated{}
	case KindClaimClosed:
		return &ClaimClosed{}
	case KindClaimAdopted:
		return &ClaimAdopted{}
	}
	return nil
}

func newNodePayload(k Kind) any {
	switch k {
	case KindCommandProposed:
		return &CommandProposed{}
	case KindProposalAnswered:
		return &ProposalAnswered{}
	case KindProposalEnded:
		return &ProposalEnded{}
	case KindRolloutResumed:
		return &RolloutResumed{}
	case KindDrainOutStarted:
		return &DrainOutStarted{}
	case KindDrainOutEnded:
		return &DrainOutEnded{}
	case KindSurgeDecided:
		return &SurgeDecided{}
	case KindMemoryDiscovered:
		return &MemoryDiscovered{}
	case KindBundleTaken:
		return &BundleTaken{}
	case KindSharesObserved:
		return &SharesObserved{}
	case KindCommandStarted, KindCommandMovesStarted:
		return &CommandStarted{}
	case KindCommandReduced:
		return &CommandReduced{}
	case KindCommandConfirmed:
		return &CommandConfirmed{}
	case KindCommandSucceeded:
		return &CommandSucceeded{}
	case KindCommandRolledBack, KindCommandAbandoned:
		return &CommandRolledBack{}
	case KindDrainStarted:
		return &DrainStarted{}
	case KindDrainTierStarted:
		return &DrainTierStarted{}
	case KindNodeDrained:
		return &NodeDrained{}
	case KindDrainEnded:
		return &DrainEnded{}
	}
	return nil
}

// Known reports that this version folds records of the kind.
func (k Kind) Known() bool { return NewPayload(k) != nil }

// Ignorable reports that records of the kind are written with the ignorable bit.
func (k Kind) Ignorable() bool {
	switch k {
	case KindLedgerCheckpoint, KindAlarmRaised, KindSegmentArchived, KindLogAdopted, KindProposalAnswered, KindProposalEnded, KindRolloutResumed,
		KindDriftJudged, KindDrainOutStarted, KindDrainOutEnded, KindSurgeDecided, KindMemoryDiscovered, KindBundleTaken, KindSharesObserved:
		return true
	}
	return false
}

// Kinds returns the kinds this version knows, in order.
func Kinds() []Kind {
	var list []Kind
	for k := Kind(1); k < 100; k++ {
		if k.Known() {
			list = append(list, k)
		}
	}
	return list
}

// ControlChanged says how far the services are stopped from here on, and who wanted it.
type ControlChanged struct {
	Stop Stop   `json:"stop"`
	By   string `json:"by"`
	Why  string `json:"why"`
}

// RefusalDigest identifies the reasons of a refusal; never 0, so that it differs from no refusal.
func RefusalDigest(reasons []Refusal) uint64 {
	b, err := json.Marshal(reasons)
	if err != nil {
		panic("ledger: reasons cannot be encoded: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return max(binary.BigEndian.Uint64(sum[:8]), 1)
}

func hexHash(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}
