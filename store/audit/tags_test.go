package audit_test

import (
	"testing"

	"millwright/events"
	"millwright/planner"
	"millwright/planner/claim"
	"millwright/planner/disrupt"
	"millwright/planner/drift"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/planner/world"
	"millwright/tools/archtest/jsontags"
)

// TestRecordsNameTheirKeys: what records, their explanations, the facts in them and checkpoints hold as JSON
// names each key in a tag, so that a field can be renamed.
func TestRecordsNameTheirKeys(t *testing.T) {
	persisted := []any{
		provision.Explanation{}, disrupt.Explanation{}, disrupt.Verdict{}, claim.Explanation{}, drift.Explanation{}, // of decisions
		claim.Input{}, drift.Input{}, planner.Options{}, // facts inside payloads
		events.Catalog{}, events.CatalogInstanceType{}, events.Interruption{}, world.Instance{}, world.Unreadable{}, // in checkpoints of the World
	}
	for _, k := range ledger.Kinds() {
		persisted = append(persisted, ledger.NewPayload(k))
	}
	for _, field := range jsontags.Missing(persisted...) {
		t.Errorf("%s has no key in a json tag", field)
	}
}
