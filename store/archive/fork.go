package archive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

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
func (d *Dir) compare(ctx context.Context, live Stored, base store.Head, segments []Segment) error {
	if err := d.boundary(ctx, base); err != nil {
		return err
	}
	end := nextSequence(segments) - 1
	if end <= base.Seq {
		return nil
	}
	archived, err := d.head(ctx, end)
	if err != nil {
		return err
	}
	page, err := live.Stored(ctx, end, 1)
	switch {
	case err != nil:
		return fmt.Errorf("compare log and archive: %w", err)
	case len(page) == 0:
		return fmt.Errorf("record %d is in the archive %s, and the log ends before: %w", end, d.path, ErrForked)
	case page[0].Hash != archived.Hash:
		return fmt.Errorf("record %d: the log's is not the one in the archive %s: %w", end, d.path, ErrForked)
	}
	return nil
}

// boundary checks that the last record that is not live is in the archive, with the hash from which the live
// chain continues.
func (d *Dir) boundary(ctx context.Context, base store.Head) error {
	if base.Seq == 0 {
		return nil
	}
	archived, err := d.head(ctx, base.Seq)
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
func (d *Dir) head(ctx context.Context, seq uint64) (store.Head, error) {
	page, err := d.Read(ctx, seq, 1)
	switch {
	case err != nil:
		return store.Head{}, err
	case len(page) == 0:
		return store.Head{}, fmt.Errorf("record %d: is neither in the log nor in the archive %s: %w", seq, d.path, store.ErrNotFound)
	}
	return store.Head{Seq: seq, Hash: page[0].Hash}, nil
}

// SetAside resolves a fork in favour of the live log: the archive's records after its base are moved to a
// separate directory beside the segments, where nothing reads them; nothing is deleted. It returns that
// directory; "" if log and archive have not diverged.
func (d *Dir) SetAside(ctx context.Context, cluster string, live interface {
	Base
	Stored
}) (aside string, err error) {
	unlock, err := d.lock()
	if err != nil {
		return "", fmt.Errorf("set aside: %w", err)
	}
	defer unlock()
	base, err := live.Base(ctx)
	if err != nil {
		return "", fmt.Errorf("set aside: %w", err)
	}
	segments, err := d.Segments()
	if err != nil {
		return "", err
	}
	if err := d.compare(ctx, live, base, segments); !errors.Is(err, ErrForked) || errors.Is(err, store.ErrCorrupt) {
		return "", err
	}
	aside = filepath.Join(d.path, fmt.Sprintf("forked-after-%d", base.Seq))
	for n := 2; exists(aside); n++ {
		aside = filepath.Join(d.path, fmt.Sprintf("forked-after-%d-%d", base.Seq, n))
	}
	if err := os.Mkdir(aside, 0o700); err != nil {
		return "", fmt.Errorf("set aside: %w", err)
	}
	d.mu.Lock()
	d.closeCursor()
	d.mu.Unlock()
	for i := len(segments) - 1; i >= 0 && segments[i].Last > base.Seq; i-- { // the last first, so that the rest has no gap
		if err := d.move(cluster, segments, i, base.Seq, aside); err != nil {
			return aside, fmt.Errorf("set aside: %w", err)
		}
	}
	return aside, errors.Join(syncDir(aside), syncDir(d.path))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// move moves a segment away, and puts one in its place that holds its records up to last, if there are any.
func (d *Dir) move(cluster string, segments []Segment, i int, last uint64, aside string) error {
	s := segments[i]
	away := func() error { return os.Rename(s.Path, filepath.Join(aside, s.Name())) }
	if s.First > last {
		return away()
	}
	w, err := d.shortened(cluster, segments, i, last)
	if err != nil {
		return err
	}
	if err := away(); err != nil {
		return w.abandon(err)
	}
	_, err = w.publish()
	return err
}

// shortened writes a segment with the records of another up to last, still without its final name.
func (d *Dir) shortened(cluster string, segments []Segment, i int, last uint64) (*writer, error) {
	prev, err := d.before(segments, i)
	if err != nil {
		return nil, err
	}
	r, err := openSegment(segments[i], d.logID)
	if err != nil {
		return nil, err
	}
	defer r.close()
	w, err := newWriter(d.path, cluster, d.logID, store.Head{Seq: prev.Last, Hash: prev.Hash}, prev.SHA256)
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
