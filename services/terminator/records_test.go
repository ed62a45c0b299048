package terminator

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
)

func TestARecordThatCannotBeEncodedHindersNoOthers(t *testing.T) {
	s := &Service{logger: zerolog.Nop()}
	never := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	_, err := audit.DecisionDraft(planner.Basis{}, planner.Decision{Kind: ledger.KindDrainStarted, Payload: &ledger.DrainStarted{Node: "n", Deadline: never}})
	if err == nil {
		t.Fatal("it can be encoded")
	}
	if got := s.hindering(lost(fmt.Errorf("start drain of node n: %w", err), err)); got != nil {
		t.Errorf("the step fails: %v", got)
	}
	for _, err := range []error{store.ErrConflict, errors.New("the log is away")} {
		if s.hindering(lost(err, err)) == nil {
			t.Errorf("nothing is tried again after %v", err)
		}
	}
	if err := s.hindering(nil); err != nil {
		t.Error(err)
	}
}
