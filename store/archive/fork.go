package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"millwright/store"
	"millwright/store/record"
)

// Stored is implemented by logs that return live records as they are stored.
type Stored interface {
	// Stored returns up to limit live records from sequence from on, without what is stored separately as
	// blobs; none after the end.
	Stored(ctx context.Context, from uint64, limit int) ([]record.Stored, error)
}

// compare checks that live log and archive belong together: the archive holds the last record that is not
// live, and the live log the last one of the archive. Each record names the hash of the one before, so the
// records in between are the same too.
func (a *Archive) compare(ctx context.Context, live Stored, base store.Head, segments []Segment) error {
	if err := a.boundary(ctx, base); err != nil {
		return err
	}
	if err := a.openClaim(ctx, live, nextSequence(segments)); err != nil {
		return err
	}
	if len(segments) == 0 {
		return a.comparePruned(ctx, base)
	}
	end := nextSequence(segments) - 1
	if end <= base.Seq {
		return nil
	}
	archived, err := a.head(ctx, end)
	if err != nil {
		return err
	}
	page, err := live.Stored(ctx, end, 1)
	switch {
	case err != nil:
		return fmt.Errorf("compare log and archive: %w", err)
	case len(page) == 0:
		return fmt.Errorf("record %d is in the archive %s, and the log ends before: %w", end, a.Location(), ErrForked)
	case page[0].Hash != archived.Hash:
		return fmt.Errorf("record %d: the log's is not the one in the archive %s: %w", end, a.Location(), ErrForked)
	}
	return nil
}

// comparePruned checks an archive without segments: if records were pruned from it that are not archived
// according to the log, nothing says whether they were the log's. A broken-off SetAside leaves that.
func (a *Archive) comparePruned(ctx context.Context, base store.Head) error {
	gone, err := a.pruned(ctx)
	if err != nil || gone.Last <= base.Seq {
		return err
	}
	return fmt.Errorf("records up to %d were pruned from the archive %s, which holds none after them: %w", gone.Last, a.Location(), ErrForked)
}

// boundary checks that the last record that is not live is in the archive, with the hash from which the live
// chain continues.
func (a *Archive) boundary(ctx context.Context, base store.Head) error {
	if base.Seq == 0 {
		return nil
	}
	archived, err := a.head(ctx, base.Seq)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("%w: %w: %w", err, ErrIncomplete, store.ErrCorrupt)
	case err != nil:
		return err
	case archived != base:
		return fmt.Errorf("record %d: the archive's is not the one from which the live log goes on: %w: %w", base.Seq, ErrForked, store.ErrCorrupt)
	}
	return nil
}

// head is the place of an archived record.
func (a *Archive) head(ctx context.Context, seq uint64) (store.Head, error) {
	page, err := a.Read(ctx, seq, 1)
	switch {
	case err != nil:
		return store.Head{}, err
	case len(page) == 0:
		return store.Head{}, fmt.Errorf("record %d: is neither in the log nor in the archive %s: %w", seq, a.Location(), store.ErrNotFound)
	}
	return store.Head{Seq: seq, Hash: page[0].Hash}, nil
}

// SetAside resolves a fork in favour of the live log: the archive's records after its base are moved to a
// folder beside the segments, where nothing reads them; nothing is deleted. It returns that folder; "" if log
// and archive have not diverged.
func (a *Archive) SetAside(ctx context.Context, cluster string, live interface {
	Base
	Stored
}) (aside string, err error) {
	unlock, _, err := a.files.Lock(ctx)
	if err != nil {
		return "", fmt.Errorf("set aside: %w", err)
	}
	defer unlock()
	base, err := live.Base(ctx)
	if err != nil {
		return "", fmt.Errorf("set aside: %w", err)
	}
	segments, err := a.Segments(ctx)
	if err != nil {
		return "", err
	}
	if err := a.compare(ctx, live, base, segments); !errors.Is(err, ErrForked) || errors.Is(err, store.ErrCorrupt) {
		return "", err
	}
	folder, err := a.unusedFolder(ctx, base.Seq)
	if err == nil {
		err = a.setAside(ctx, cluster, segments, base.Seq, folder)
	}
	if err != nil {
		err = fmt.Errorf("set aside: %w", err)
	}
	return a.Location() + "/" + folder, err
}

// unusedFolder reserves a folder for what is set aside.
func (a *Archive) unusedFolder(ctx context.Context, last uint64) (string, error) {
	folder := fmt.Sprintf("forked-after-%d", last)
	for n := 2; ; n++ {
		err := a.files.Swap(ctx, markName, nil, fmt.Appendf(nil, "records after %d that are not those of log %s\n", last, a.logID))
		if errors.Is(err, fs.ErrExist) { // what a crash left
			err = a.files.Remove(ctx, markName)
			if err == nil {
				continue
			}
		}
		if err == nil {
			err = a.files.Move(ctx, markName, folder)
		}
		if !errors.Is(err, fs.ErrExist) || n > foldersMax {
			return folder, err
		}
		folder = fmt.Sprintf("forked-after-%d-%d", last, n)
	}
}

const (
	// markName is the first file of a folder: who moves it there has the folder.
	markName = "set-aside.txt"
	// foldersMax bounds how often one record is forked from.
	foldersMax = 1000
)

// setAside moves claims and segments of records after last into a folder, and then what says that some of
// these were pruned: the segments follow from it.
func (a *Archive) setAside(ctx context.Context, cluster string, segments []Segment, last uint64, folder string) error {
	a.dropCursor()
	first := last + 1
	for _, s := range segments {
		if s.Last > last {
			first = min(first, s.First)
		}
	}
	files, err := a.files.List(ctx)
	if err != nil {
		return err
	}
	for _, f := range files {
		if from, ok := claimedBy(f.Name); ok && from >= first {
			if err := a.files.Move(ctx, f.Name, folder); err != nil {
				return err
			}
		}
	}
	for i := len(segments) - 1; i >= 0 && segments[i].Last > last; i-- { // the last first, so that the rest has no gap
		if err := a.replace(ctx, cluster, segments, i, last, folder); err != nil {
			return err
		}
	}
	if gone, err := a.pruned(ctx); err != nil || gone.Last <= last {
		return err
	}
	return a.files.Move(ctx, prunedName, folder)
}

// replace moves a segment away. If some of its records stay, one that holds only these is there before it
// goes: readers see the longer one as long as both are there.
func (a *Archive) replace(ctx context.Context, cluster string, segments []Segment, i int, last uint64, folder string) error {
	s := segments[i]
	if s.First <= last {
		w, err := a.shortened(ctx, cluster, segments, i, last)
		if err != nil {
			return err
		}
		if _, err := w.publish(ctx, a.files); err != nil && !errors.Is(err, fs.ErrExist) { // of an attempt that broke off
			return err
		}
	}
	return a.files.Move(ctx, s.Name(), folder)
}

// shortened writes a segment with the records of another up to last, still without its final name.
func (a *Archive) shortened(ctx context.Context, cluster string, segments []Segment, i int, last uint64) (*writer, error) {
	prev, err := a.before(ctx, segments, i)
	if err != nil {
		return nil, err
	}
	r, err := a.openSegment(ctx, segments[i])
	if err != nil {
		return nil, err
	}
	defer r.close()
	w, err := newWriter(a.files, cluster, a.logID, prev)
	if err != nil {
		return nil, err
	}
	for w.last.Seq < last {
		s, found, err := r.record()
		if err == nil && !found {
			err = segments[i].corrupt("it ends before record %d", last)
		}
		var blobs [][]byte
		for _, blob := range r.blobs {
			blobs = append(blobs, blob)
		}
		if err == nil {
			err = w.addRecord(s, blobs)
		}
		if err != nil {
			return nil, w.abandon(err)
		}
	}
	if err := w.flush(); err != nil {
		return nil, w.abandon(err)
	}
	return w, nil
}
