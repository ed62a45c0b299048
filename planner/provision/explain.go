package provision

import (
	"encoding/json"
	"slices"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/provision/internal/place"
)

// Explanation of a ProvisioningPlanned record: what was weighed and why the rest lost. Prices in micro USD
// per hour.
type Explanation struct {
	// Pods that needed a place: Kept where a record had put them, Placed on nodes and earlier claims, Planned
	// on the new claims, Refused.
	Pods    int `json:"pods"`
	Kept    int `json:"kept"`
	Placed  int `json:"placed"`
	Planned int `json:"planned"`
	Refused int `json:"refused"`
	// Nodes and claims that were asked first.
	Nodes         int   `json:"nodes"`
	EarlierClaims int   `json:"earlierClaims"`
	PricePerHour  int64 `json:"pricePerHour"`
	// LowerBound is a price that no plan can go below that gives the pods of the new claims to the same
	// NodePools; what is above it is bought for whole nodes and for spread.
	LowerBound  int64                `json:"lowerBound,omitempty"`
	Claims      []ClaimExplanation   `json:"claims,omitempty"`
	Widened     []WidenedExplanation `json:"widened,omitempty"`
	Pools       []offer.PoolProblem  `json:"poolsLeftOut,omitempty"`
	Unavailable []ledger.OfferingKey `json:"unavailableOfferings,omitempty"`
	// Unproven offerings lacked capacity when they were asked last: one claim at a time may rely on them
	// alone.
	Unproven []ledger.OfferingKey `json:"unprovenOfferings,omitempty"`
	// FullSubnets are marked as without free addresses.
	FullSubnets []string `json:"fullSubnets,omitempty"`
	// Reservations of capacity by id: how many instances were free before the round.
	Reservations map[string]int64 `json:"reservations,omitempty"`
	// Buffers are the CapacityBuffers whose virtual pods took part, by namespace and name.
	Buffers []BufferExplanation `json:"buffers,omitempty"`
	// ClaimsLeftOut counts claims not listed for want of room.
	ClaimsLeftOut int `json:"claimsLeftOut,omitempty"`
}

// ClaimExplanation of one new claim.
type ClaimExplanation struct {
	// Index of the claim in the record.
	Index    int                  `json:"index"`
	NodePool string               `json:"nodePool"`
	Pods     int                  `json:"pods"`
	Chosen   ledger.OfferingPrice `json:"chosen"`
	// InstanceTypes counts those handed to launch; Alternatives are the next cheapest.
	InstanceTypes int                    `json:"instanceTypes"`
	Alternatives  []ledger.OfferingPrice `json:"alternatives,omitempty"`
	// PoolsRejected stand before NodePool in order and refused the claim's first pod.
	PoolsRejected []ledger.Refusal `json:"poolsRejected,omitempty"`
}

// WidenedExplanation of a planned claim that takes more pods; its price is not in PricePerHour.
type WidenedExplanation struct {
	Claim string `json:"claim"`
	// Added counts the pods that came; Before is what was chosen for those it had.
	Added  int                  `json:"added"`
	Before ledger.OfferingPrice `json:"before"`
	Chosen ledger.OfferingPrice `json:"chosen"`
	// InstanceTypes counts those handed to launch now.
	InstanceTypes int `json:"instanceTypes"`
}

// BufferExplanation says where the room of a CapacityBuffer is.
type BufferExplanation struct {
	Buffer string `json:"buffer"`
	// Replicas is for how many pods there is to be room: on Nodes, on Claims that are planned or not nodes
	// yet, on NewClaims of this record; for Refused there is none.
	Replicas  int32 `json:"replicas"`
	Nodes     int   `json:"nodes,omitempty"`
	Claims    int   `json:"claims,omitempty"`
	NewClaims int   `json:"newClaims,omitempty"`
	Refused   int   `json:"refused,omitempty"`
	// Problem is why there are none: a reference that is not found.
	Problem string `json:"problem,omitempty"`
	// Reasons of the first refusal, one per NodePool.
	Reasons []ledger.Refusal `json:"reasons,omitempty"`
}

// explainBuffers says of each CapacityBuffer where its room is.
func explainBuffers(s *planner.Snapshot, verdicts []PodVerdict) []BufferExplanation {
	var list []BufferExplanation
	at := map[string]int{}
	for _, b := range s.Buffers() {
		at[b.Key()] = len(list)
		list = append(list, BufferExplanation{Buffer: b.Key(), Replicas: b.Replicas, Problem: b.Message})
	}
	for i := range verdicts {
		v := &verdicts[i]
		n, ok := at[v.Buffer]
		if !ok {
			continue
		}
		x := &list[n]
		switch {
		case len(v.Reasons) > 0:
			if x.Refused++; x.Refused == 1 {
				x.Reasons = v.Reasons[:min(len(v.Reasons), reasonsShown)]
			}
		case v.NewClaim > 0:
			x.NewClaims++
		case v.Claim != "":
			x.Claims++
		default:
			x.Nodes++
		}
	}
	return list
}

// recorded are the CapacityBuffers that an explanation has room for.
func recorded(all []BufferExplanation) []BufferExplanation {
	list := slices.Clone(all[:min(len(all), buffersShown)])
	for i := reasonsShown; i < len(list); i++ {
		list[i].Reasons = nil
	}
	return list
}

// An explanation has room for so many CapacityBuffers, and refusals of so many, of so many NodePools each.
const (
	buffersShown = 50
	reasonsShown = 5
)

const (
	alternativesShown = 5
	unavailableShown  = 50
	// explanationMax leaves room below the 64 KiB a record takes.
	explanationMax = 56 << 10
)

// explainClaim lists what was weighed for a claim.
func (d *decision) explainClaim(index int, b *place.Bin, p *ledger.PlannedClaim, sh *place.Shape) ClaimExplanation {
	e := ClaimExplanation{
		Index: index, NodePool: p.NodePool, Pods: len(b.Added), Chosen: p.Cheapest, InstanceTypes: len(sh.Offers),
	}
	for _, x := range sh.Offers[1:min(len(sh.Offers), 1+alternativesShown)] {
		e.Alternatives = append(e.Alternatives, x.OfferingPrice)
	}
	first := d.solver.Compiler.Class(b.Added[0])
	for _, t := range d.solver.Templates[:b.Open().Template.Index] {
		e.PoolsRejected = append(e.PoolsRejected, d.why.Diagnose(t, first))
	}
	return e
}

// fit leaves out claims from the end until the explanation is small enough.
func (e *Explanation) fit() {
	e.Unavailable = e.Unavailable[:min(len(e.Unavailable), unavailableShown)]
	e.Unproven = e.Unproven[:min(len(e.Unproven), unavailableShown)]
	e.FullSubnets = e.FullSubnets[:min(len(e.FullSubnets), unavailableShown)]
	size := 0
	if b, err := json.Marshal(e.Buffers); err == nil {
		size = len(b)
	}
	for i := range e.Claims {
		b, err := json.Marshal(&e.Claims[i])
		if size += len(b) + 1; err != nil || size > explanationMax-len(e.Pools)*256-unavailableShown*80-len(e.Unproven)*80 {
			e.ClaimsLeftOut = len(e.Claims) - i
			e.Claims = e.Claims[:i]
			return
		}
	}
}
