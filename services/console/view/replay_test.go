package view_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"millwright/planner/ledger"
	"millwright/services/console/view"
	"millwright/store/audit"
)

// A decision of a recording comes out as recorded, and otherwise with another NodePool; what it was taken on
// has the pods that it is about. What is no decision, or has no stream, says so.
func TestADecisionTakenAgain(t *testing.T) {
	log, entries := opened(t, "../../../store/audit/testdata/v20/TestDeletingByHand.rec")
	with := func(stream audit.Stream) *view.View {
		return view.New(view.Config{Log: log, Stream: stream, Index: filled(t, log, 0), Versions: nothing, Now: time.Now})
	}
	v := with(log.from)
	i := slices.IndexFunc(entries, func(e ledger.Entry) bool {
		p, ok := e.Payload.(*ledger.ProvisioningPlanned)
		return ok && len(p.Claims) > 0
	})
	seq := entries[i].Seq
	again, err := v.Replay(t.Context(), "ann", seq)
	if err != nil || again.Result != view.ReplayIdentical || !again.Explained || again.Seq != seq {
		t.Errorf("%+v, %v", again, err)
	}
	facts, err := v.Facts(t.Context(), "ann", seq)
	if err != nil {
		t.Fatal(err)
	}
	planned := entries[i].Payload.(*ledger.ProvisioningPlanned)
	if len(facts.Pods) == 0 || len(facts.Pools) == 0 || facts.LedgerSeq != entries[i].LedgerSeq || facts.Pods[0].Node != "" {
		t.Errorf("%+v", facts)
	}
	none := "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: " + planned.Claims[0].NodePool + "}\nspec: {limits: {cpu: 0}, template: {spec: {requirements: []," +
		" nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: " + planned.Claims[0].NodeClassRef.Name + "}}}}\n"
	if !strings.Contains(facts.Manifests, "kind: NodePool\nmetadata:\n  name: "+planned.Claims[0].NodePool+"\n") || !strings.Contains(facts.Manifests, "nodeClassRef:") {
		t.Errorf("manifests as they were:\n%s", facts.Manifests)
	}
	// What the form begins with changes nothing, until a line of it is another one.
	edited := strings.Replace(facts.Manifests, "spec:\n", "spec:\n  limits:\n    cpu: \"0\"\n", 1)
	for manifests, same := range map[string]bool{"": true, none: false, facts.Manifests: true, edited: false} {
		x, err := v.Plan(t.Context(), "ann", view.PlanRequest{Record: seq, Manifests: manifests})
		if err != nil || len(x.Instead.Decisions) != 1 || (x.Instead.Changed == 0) != same || !same && x.Instead.Decisions[0].Instead.Refused == 0 {
			t.Errorf("%q: %+v, %v", manifests, x, err)
		}
	}
	for about, q := range map[string]view.PlanRequest{
		"instance types": {Record: seq, Catalog: "x"}, "can be changed": {Record: seq, Manifests: "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"},
		"2000000000 nodes": {Record: seq, Manifests: "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: {replicas: 2000000000, template: {spec: {requirements: []}}}\n"},
		"only decisions":   {Record: 1}, "prices[0]": {Record: seq, Prices: "prices: [{}]"},
	} {
		if _, err := v.Plan(t.Context(), "ann", q); !errors.Is(err, view.ErrQuestion) || !strings.Contains(err.Error(), about) {
			t.Errorf("%s: %v", about, err)
		}
	}
	if _, err := v.Replay(t.Context(), "ann", log.head+1); !errors.Is(err, view.ErrNotFound) {
		t.Error(err)
	}
	blind := with(nil)
	if again, err := blind.Replay(t.Context(), "ann", seq); err != nil || again.Result != view.ReplayNotReplayable || again.Detail != "no observation stream at hand" {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := blind.Facts(t.Context(), "ann", seq); !errors.Is(err, view.ErrQuestion) || !strings.Contains(err.Error(), "no observation stream at hand") {
		t.Error(err)
	}
}
