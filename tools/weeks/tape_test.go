package weeks

import (
	"testing"

	"millwright/store/audit"
	"millwright/store/audit/whatif"
)

// What was recorded is planned again as it was, and with a change that changes nothing, too.
func TestATapeReplays(t *testing.T) {
	tape, result := Record(NewLargeScript(1, short, 2), Settings{Name: "recorded"})
	report, err := audit.Replay(t.Context(), tape.Log, tape.Stream, audit.Range{})
	if err != nil {
		t.Fatal(err)
	}
	if report.Planned != tape.Decisions || len(report.Divergences) > 0 || result.Commands == 0 {
		t.Errorf("%d decisions, %d planned again, %d commands, divergences %v, not replayed %v", tape.Decisions, report.Planned, result.Commands, report.Divergences, report.NotReplayable)
	}
	same, err := whatif.Run(t.Context(), tape.Log, tape.Stream, whatif.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if same.Planned != tape.Decisions || same.Changed != 0 {
		t.Errorf("with no change: %d planned again, %d changed", same.Planned, same.Changed)
	}
}
