package step

import (
	"errors"
	"fmt"
	"time"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/services/internal/service"
)

// Invalid returns why a Snapshot may not be used (DESIGN §2), as a reason from a closed set and as an error;
// "" and nil if it may. refuted are records that Nodes name although the log has no such record.
func Invalid(s *planner.Snapshot, need service.Freshness, logID string, refuted ...uint64) (string, error) {
	if need == service.ForEffects {
		return "", nil
	}
	w := s.World
	if !w.Synced() {
		return "unsynced", errors.New("no resync is folded yet")
	}
	if need == service.ForDisruption && w.Torn() {
		return "torn", errors.New("observations are missing since the last resync")
	}
	position := w.Position()
	if named := s.Ledger.HighestPosition(position.Incarnation); position.Sequence < named {
		return "world_behind", fmt.Errorf("the world is at %d, a record names %d", position.Sequence, named)
	}
	if named := w.NamedRecords(logID).Highest(refuted...); s.Ledger.Seq() < named {
		return "ledger_behind", fmt.Errorf("the ledger is at %d, an object names record %d", s.Ledger.Seq(), named)
	}
	if w.AsOf().IsZero() {
		return "stale", errors.New("no heartbeat is folded yet")
	}
	if ahead := w.AsOf().Sub(s.Now); ahead > ledger.ClockTolerance {
		return "ahead", fmt.Errorf("the watcher's clock is %s ahead of this process's", ahead.Round(time.Millisecond))
	}
	if age, limit := s.Now.Sub(w.AsOf()), freshness(s.Options, need); age > limit {
		return "stale", fmt.Errorf("the world is %s old, %s are allowed", age.Round(time.Millisecond), limit)
	}
	return "", nil
}

func freshness(o planner.Options, need service.Freshness) time.Duration {
	if need == service.ForDisruption {
		return o.DisruptFreshness
	}
	return o.ProvisionFreshness
}
