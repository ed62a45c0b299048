package archive

import (
	"context"
	"fmt"
	"io"
	"slices"

	"millwright/store"
)

// Read returns up to limit records from sequence from on; fewer where the archive ends, none if it ends
// before that.
func (a *Archive) Read(ctx context.Context, from uint64, limit int) ([]store.Record, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []store.Record
	for len(out) < limit {
		if err := ctx.Err(); err != nil {
			return out, fmt.Errorf("read archive: %w", err)
		}
		at := from + uint64(len(out))
		found, err := a.seek(ctx, at)
		if err != nil || !found {
			return out, err
		}
		s, found, err := a.cursor.record()
		if err != nil {
			a.cache.drop(a.logID, a.cursor.segment)
			a.closeCursor()
			return out, err
		}
		if !found {
			a.closeCursor()
			continue
		}
		out = append(out, s.Record)
	}
	return out, nil
}

// seek moves the cursor to just before a record; false if the archive does not hold it. It lists the segments
// anew, for others may have pruned them or set them aside.
func (a *Archive) seek(ctx context.Context, seq uint64) (bool, error) {
	if a.cursor != nil && a.cursor.next == seq && a.cursor.segment.contains(seq) {
		return true, nil
	}
	a.closeCursor()
	segments, err := a.Segments(ctx)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(segments, func(s Segment) bool { return s.contains(seq) })
	if i < 0 {
		return false, nil
	}
	err = a.begin(ctx, segments[i], seq)
	return err == nil, err
}

// begin opens a segment just before a record.
func (a *Archive) begin(ctx context.Context, s Segment, seq uint64) error {
	r, err := a.openSegment(ctx, s)
	if err != nil {
		return err
	}
	if err := r.skip(seq); err != nil {
		r.close()
		a.cache.drop(a.logID, s)
		return err
	}
	a.cursor = r
	return nil
}

// openSegment opens a segment for reading, from the cache if there is one.
func (a *Archive) openSegment(ctx context.Context, s Segment) (*reader, error) {
	file, err := a.open(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	r, err := newReader(file, s, a.logID)
	if err != nil {
		a.cache.drop(a.logID, s)
	}
	return r, err
}

func (a *Archive) open(ctx context.Context, s Segment) (io.ReadCloser, error) {
	if a.cache == nil {
		return a.files.Open(ctx, s.Name())
	}
	return a.cache.open(ctx, a.files, a.logID, s)
}
