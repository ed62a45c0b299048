package audit

import (
	"encoding/json"
	"strings"
	"testing"

	"millwright/planner/ledger"
	"millwright/planner/provision"
)

func TestTheStoryOfABuffer(t *testing.T) {
	virtual := []ledger.PodRef{{UID: "u-0", Namespace: "default", Name: "capacity-buffer-my-web-0"}, {UID: "u-1", Namespace: "default", Name: "capacity-buffer-my-web-1"}}
	x, err := json.Marshal(provision.Explanation{Buffers: []provision.BufferExplanation{{Buffer: "default/my-web", Replicas: 2, Nodes: 1, NewClaims: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	entries := []ledger.Entry{
		{Seq: 1, Kind: ledger.KindGenesis, Payload: &ledger.Genesis{LogID: "0123456789abcdef0123456789abcdef"}},
		{Seq: 2, Kind: ledger.KindProvisioningPlanned, Explanation: x, Payload: &ledger.ProvisioningPlanned{
			Claims: []ledger.PlannedClaim{{NodePool: "p", Pods: virtual[:1]}}, Placements: []ledger.Placement{{Node: "n", Pods: virtual[1:]}}}},
		{Seq: 3, Kind: ledger.KindProvisioningPlanned, Payload: &ledger.ProvisioningPlanned{Placements: []ledger.Placement{{Node: "n", Pods: []ledger.PodRef{{UID: "v", Namespace: "default", Name: "capacity-buffer-my-web-0"}}}}}},
		{Seq: 4, Kind: ledger.KindCommandStarted, Payload: &ledger.CommandStarted{Candidates: []ledger.Candidate{{Node: "n", Virtual: virtual[1:]}}}},
	}
	lines := Why(entries, "capacitybuffer/default/my-web")
	if len(lines) != 2 || lines[0].Seq != 2 || lines[1].Seq != 4 {
		t.Fatalf("lines %+v", lines)
	}
	text := lines[0].Text + strings.Join(lines[0].Details, "; ")
	for _, part := range []string{"waits for node n", "of 2 pods 1 fit on nodes, 0 on claims that are not nodes yet, 1 on new claims, 0 nowhere"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in %s", part, text)
		}
	}
}
