package ledger

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"millwright/planner/cadence"
	"millwright/planner/ledger/failing"
	"millwright/planner/memory"
)

// TestTheCheckpointHoldsAllOfTheState: whoever adds a field to the state adds it to WriteCheckpoint and
// ReadCheckpoint, and then here.
func TestTheCheckpointHoldsAllOfTheState(t *testing.T) {
	held := strings.Fields("logID cluster seq lastTime optionsSeq options backoff modes claims commands drains proposals evictions offerings subnets reservations " +
		"verdicts aggregates positions shadow adopted failing rollouts returns drainOuts drifts memory control controlSeq controlAt")
	claim := strings.Fields("Name Planned PlannedSeq WidenedSeq Earlier CommandID NodePool State UID Attempt Open Failed OpenSeq OpenedAt Instance " +
		"Node RegisteredAt Doomed TakenBy RolledOut RolledOutTo KeptAt Returned Inherited Terminated Capacity")
	for _, c := range []struct {
		of   reflect.Type
		held []string
	}{
		{reflect.TypeFor[state](), slices.Insert(held, 2, "replaced")}, // whoever has a log with pseudonyms says which
		{reflect.TypeFor[Claim](), claim},
		{reflect.TypeFor[Command](), strings.Fields("ID Seq State Started At")},
		{reflect.TypeFor[Proposal](), strings.Fields("ID Seq At State Proposed Answer")},
		{reflect.TypeFor[ProposalAnswered](), strings.Fields("ID Approved By Why For Until")},
		{reflect.TypeFor[Evicted](), strings.Fields("Command At Pods Owners To")},
		{reflect.TypeFor[Drain](), strings.Fields("Started Seq Tier TierPods Drained Surges At")},
		{reflect.TypeFor[Verdict](), strings.Fields("Seq Node Claim Digest Pod Since Excluded")},
		{reflect.TypeFor[UnavailableOffering](), strings.Fields("Until Failures Code Seq")},
		{reflect.TypeFor[reservation](), strings.Fields("Changes Full")},
		{reflect.TypeFor[PodRef](), strings.Fields("UID Namespace Name")},
		{reflect.TypeFor[failing.Count](), strings.Fields("Failures Until")},
		{reflect.TypeFor[LostReturns](), strings.Fields("Times At")},
		{reflect.TypeFor[Surge](), strings.Fields("Seq At Deployment Until")},
		{reflect.TypeFor[DrainOut](), strings.Fields("Seq At Claim ClaimUID NodePool Policy Ended")},
		{reflect.TypeFor[cadence.Rollouts](), strings.Fields("NodePool Seq Starts")},
		{reflect.TypeFor[memory.Amount](), strings.Fields("Key Bytes Seen")},
		{reflect.TypeFor[Rollout](), strings.Fields("Target Replaced At Halted")},
		{reflect.TypeFor[RolloutHalt](), strings.Fields("At Command Reason")},
	} {
		var fields []string
		for i := range c.of.NumField() {
			fields = append(fields, c.of.Field(i).Name)
		}
		if !slices.Equal(fields, c.held) {
			t.Errorf("%s has the fields %v, its checkpoint those of %v", c.of, fields, c.held)
		}
	}
}
