package audit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/store"
)

// Visit is a decision with what it was taken on, of versions that nothing changes.
type Visit struct {
	ledger.Entry
	Snapshot *planner.Snapshot
	// Search is the Snapshot of the search that the other one confirmed; nil if there was only one.
	Search *planner.Snapshot
}

// Walk calls visit for the decisions of a range that planners of this version took on a Snapshot, by its
// position in the stream. Nothing is planned: the Report counts the decisions and says which of them were not
// visited, and why. It returns an error only if the log or the stream cannot be read.
func Walk(ctx context.Context, log Log, stream Stream, r Range, visit func(Visit)) (Report, error) {
	p := newReplayer(1)
	p.visit, p.searches = visit, map[uint64]*planner.Snapshot{}
	p.renamed.log, _ = log.(Renamed)
	if err := p.readLog(ctx, log, r); err != nil {
		return p.report, err
	}
	if err := p.replayWorlds(ctx, stream); err != nil {
		return p.report, err
	}
	p.finish()
	return p.report, nil
}

// visited hands one out, once the Snapshot of its search was seen too.
func (p *replayer) visited(t task, s *planner.Snapshot) {
	e := t.Entry
	if s.OptionsSeq != e.OptionsSeq {
		p.skip(e, fmt.Sprintf("options of record %d were in force, the log says %d", e.OptionsSeq, s.OptionsSeq))
		return
	}
	if t.search {
		p.searches[e.Seq] = s
		return
	}
	v := Visit{Entry: e, Snapshot: s, Search: p.searches[e.Seq]}
	delete(p.searches, e.Seq)
	if _, confirmed := searchOf(e); confirmed && v.Search == nil {
		return // why is said already
	}
	p.visit(v)
}

// PassOf names the pass of a command: those with equal ones were decided together. It is false for what is no
// command, or one that a person approved.
func PassOf(e ledger.Entry) (from ledger.SearchFrom, ok bool) {
	if started := startedBy(e); started != nil && started.Proposal == "" {
		return started.SearchFrom, true
	}
	return from, false
}

func startedBy(e ledger.Entry) *ledger.CommandStarted {
	switch p := e.Payload.(type) {
	case *ledger.CommandProposed:
		return &p.Command
	case *ledger.CommandStarted:
		return p
	}
	return nil
}

// Again plans what the service of a decision planned, on other Snapshots than it had: search is that of its
// search, nil if it had none of its own. Of a command it gives all that its pass comes to. It is empty if
// nothing is decided; ok is false if no planner of this version decides on such records.
func Again(e ledger.Entry, s, search *planner.Snapshot) (list []*planner.Decision, ok bool) {
	if from, pass := PassOf(e); pass {
		list, _ = disrupt.PlansFrom(s, from)
		return list, true
	}
	var d *planner.Decision
	again := planners[e.Kind]
	switch {
	case startedBy(e) != nil:
		d = replanAnswer(s, e)
	case again == nil:
		return nil, false
	case search == nil:
		d = again(s, e)
	default:
		if found := searchAgain(search, e); found.Decision != nil {
			if _, plans := found.Decision.Payload.(*ledger.ProvisioningPlanned); !plans {
				d = found.Decision
			} else {
				d, _ = provision.Confirm(found, s)
			}
		}
	}
	if d != nil {
		list = []*planner.Decision{d}
	}
	return list, true
}

// FirstDifference names the first field in which two payloads differ, with both values.
func FirstDifference(recorded, planned any) string { return firstDifference(recorded, planned) }

// FirstSince is the first record at or after a time, head+1 if there is none. It reads about a page for each
// binary digit of head. Records whose clock was wrong, a few in a row at most, do not lead it astray: it goes
// by the middle one of the times of neighbours. Next to the time that is asked for they may be on the wrong
// side.
func FirstSince(ctx context.Context, log Log, head uint64, at time.Time) (uint64, error) {
	const neighbours = 15
	low, high := uint64(1), head+1
	for high-low > 2*neighbours {
		middle := low + (high-low)/2
		records, err := readPresent(ctx, log, middle, neighbours)
		switch {
		case err != nil:
			return 0, err
		case records == nil:
			low = middle + 1
			continue
		}
		slices.SortFunc(records, func(a, b store.Record) int { return a.Time.Compare(b.Time) })
		if records[len(records)/2].Time.Before(at) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	// What the times of neighbours say is right to within their number.
	for seq, end := low-min(low-1, neighbours), min(head+1, high+neighbours); seq < end; {
		records, err := readPresent(ctx, log, seq, int(end-seq))
		if err != nil {
			return 0, err
		}
		for _, r := range records {
			if !r.Time.Before(at) {
				return r.Seq, nil
			}
		}
		seq += max(1, uint64(len(records)))
	}
	return min(head+1, high+neighbours), nil
}

// readPresent reads records of which there is at least one; nil if the first is not there any more.
func readPresent(ctx context.Context, log Log, from uint64, limit int) ([]store.Record, error) {
	records, err := log.Read(ctx, from, limit)
	switch {
	case isCompacted(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read record %d: %w", from, err)
	case len(records) == 0:
		return nil, fmt.Errorf("read record %d: the log ends before it: %w", from, store.ErrCorrupt)
	}
	return slices.Clone(records), nil
}

// skipDerived notes the decisions of a range that no Snapshot can change.
func (p *replayer) skipDerived(e ledger.Entry) bool {
	if p.visit == nil || !slices.Contains(derived, e.Kind) {
		return false
	}
	p.decision(e)
	p.skip(e, "they follow from facts that their records carry, and not from a Snapshot")
	return true
}
