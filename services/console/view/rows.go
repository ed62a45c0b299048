package view

import (
	"context"
	"fmt"
	"slices"
	"time"

	"millwright/planner/ledger"
	"millwright/services/console/index"
	"millwright/store/audit"
	"millwright/store/audit/subjects"
)

const (
	// rowsTimeout bounds the reading of a page, batchMin the records that are read at once for it.
	rowsTimeout = 20 * time.Second
	batchMin    = 50
	// clockSlack is by how much the times of neighbouring records may go backwards.
	clockSlack = time.Hour
)

// reachesBack reports whether the records before one are indexed.
func (v *View) reachesBack(first uint64) bool {
	if v.cfg.Past == nil || first <= 1 {
		return false
	}
	_, covered := v.cfg.Past.Covers(first)
	return covered
}

// Extent is the first record that is told of, and the log's head as last seen.
func (v *View) Extent() (first, head uint64) {
	first, _, head = v.cfg.Index.Extent()
	if v.cfg.Past != nil {
		if from, covered := v.cfg.Past.Covers(first); covered {
			first = min(first, from)
		}
	}
	return first, head
}

// Rows returns up to limit rows that the filter wants, newest first, below a sequence; 0: from the newest on.
// more reports that there may be others further back. Archived records are among them.
func (v *View) Rows(ctx context.Context, f index.Filter, below uint64, limit int) (rows []index.Row, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, rowsTimeout)
	defer cancel()
	if below == 0 && !f.Until.IsZero() {
		_, head := v.Extent()
		if below, err = audit.FirstSince(ctx, v.cfg.Log, head, f.Until.Add(clockSlack)); err != nil {
			return nil, false, fmt.Errorf("look for the records of %s: %w", f.Until.UTC().Format(time.RFC3339), err)
		}
	}
	rows, more = v.cfg.Index.List(f, below, limit)
	first, _, _ := v.cfg.Index.Extent()
	if more || !v.reachesBack(first) {
		return rows, more, nil
	}
	if below == 0 || below > first {
		below = first
	}
	for more = true; more; {
		if len(rows) > limit {
			return rows[:limit], true, nil
		}
		seqs, further := v.older(f, below, max(limit+1-len(rows), batchMin))
		if len(seqs) == 0 {
			break
		}
		known := map[uint64]ledger.Entry{}
		if err := subjects.Read(ctx, v.cfg.Log, seqs, known); err != nil {
			return nil, false, fmt.Errorf("read older records: %w", err)
		}
		for _, seq := range slices.Backward(seqs) {
			e, found := known[seq]
			if !found {
				continue
			}
			if e.Time.Before(f.Since.Add(-clockSlack)) {
				further = false
				break
			}
			row, about := index.RowOf(e, v.cfg.Log.ID())
			if f.Wants(&row) && (f.Object == "" || slices.Contains(about, f.Object)) {
				rows = append(rows, row)
			}
		}
		below, more = seqs[0], further
	}
	if more = len(rows) > limit; more {
		rows = rows[:limit]
	}
	return rows, more, nil
}

// older are the sequences of records below one that a filter may want, in order, and whether there are more.
func (v *View) older(f index.Filter, below uint64, limit int) (seqs []uint64, more bool) {
	var groups [][]string
	if f.Object != "" {
		groups = append(groups, []string{f.Object})
	}
	if len(f.Kinds) > 0 {
		var marks []string
		for _, k := range f.Kinds {
			marks = append(marks, subjects.KindMark(k))
		}
		groups = append(groups, marks)
	}
	if f.Decisions {
		groups = append(groups, []string{subjects.DecisionMark()})
	}
	if len(groups) > 0 {
		return v.cfg.Past.Find(groups, below, limit)
	}
	first, _ := v.cfg.Past.Covers(below)
	for seq := below - 1; seq >= first && seq > 0 && len(seqs) < limit; seq-- {
		seqs = append(seqs, seq)
	}
	slices.Reverse(seqs)
	return seqs, len(seqs) > 0 && seqs[0] > first
}
