package fold

import (
	"context"
	"fmt"
	"slices"
	"time"

	"millwright/services/internal/clock"
)

// A kubelet may annotate its own Node, and so could name a record of the future there, for which all planning
// would wait (step.Invalid, ledger_behind). Whoever writes a record's number on a Node has appended the
// record before. So if the log, read after such an annotation was seen, ends before the record, the
// annotation is not ours. Those of NodeClaims count in any case: only administrators and Millwright write
// them, and in a log restored from an old backup they keep names from being given twice.

const (
	// refuteEvery is how often Nodes are looked at; refuteTimeout bounds reading the head of the log.
	refuteEvery   = 5 * time.Second
	refuteTimeout = 5 * time.Second
)

// Refuted are the records that Nodes name although the log had no such record when they were seen.
func (s *State) Refuted() []uint64 {
	if list := s.refuted.Load(); list != nil {
		return *list
	}
	return nil
}

// watchRecordsOfNodes keeps Refuted up to date until ctx ends. What cannot be looked up stays as it was.
func (s *State) watchRecordsOfNodes(ctx context.Context) error {
	for clock.Sleep(ctx, refuteEvery) == nil {
		if err := s.refuteRecords(ctx); err != nil && ctx.Err() == nil {
			s.logger.Warn().Err(err).Msg("records named by nodes could not be looked up")
		}
	}
	return nil
}

func (s *State) refuteRecords(ctx context.Context) error {
	w, l, err := s.Versions()
	if err != nil {
		return nil //nolint:nilerr // it stands down, and says so elsewhere
	}
	named := w.NamedRecords(s.Log.ID()).OfNodesAfter(l.Seq())
	if len(named) == 0 {
		s.refuted.Store(nil)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, refuteTimeout)
	defer cancel()
	head, err := s.Log.Head(ctx) // later than the annotations
	if err != nil {
		return fmt.Errorf("read head of log: %w", err)
	}
	first, _ := slices.BinarySearch(named, head.Seq+1)
	refuted := slices.Clone(named[first:])
	if !slices.Equal(refuted, s.Refuted()) {
		s.logger.Warn().Uints64("records", refuted[:min(len(refuted), 5)]).Uint64("head", head.Seq).
			Msg("nodes are annotated with records that the log does not have; the annotations are ignored")
	}
	s.refuted.Store(&refuted)
	s.signals.Broadcast()
	return nil
}
