package weeks

import (
	"context"
	"errors"
	"testing"

	"millwright/store/audit"
	"millwright/store/audit/whatif"
)

// What was recorded is planned again as it was, and with a change that changes nothing, too.
func TestATapeReplays(t *testing.T) {
	tape, result, err := Record(t.Context(), NewLargeScript(1, short, 2), Settings{Name: "recorded"})
	if err != nil {
		t.Fatal(err)
	}
	report, err := audit.Replay(t.Context(), tape.Log, tape.Stream, audit.Range{})
	if err != nil {
		t.Fatal(err)
	}
	if report.Planned != tape.Decisions || len(report.Divergences) > 0 || report.Skipped() > 0 || report.Derived == 0 || result.Commands == 0 {
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

// Who gives up waiting for a week is not kept.
func TestRecordingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("nobody waits")
	cancel(gone)
	if _, _, err := Record(ctx, NewScript(1, short), Settings{}); !errors.Is(err, gone) {
		t.Errorf("recorded after all: %v", err)
	}
}
