package archive

import (
	"context"
	"fmt"
	"io"
	"slices"

	"millwright/store"
)

// Read returns up to limit records from sequence from on; fewer where the archive ends, none if it ends
// before that. While it waits for the store nobody waits for it.
func (a *Archive) Read(ctx context.Context, from uint64, limit int) (out []store.Record, err error) {
	r, dropped := a.takeCursor(from)
	defer func() { a.putCursor(r, dropped) }()
	if r != nil && r.skip(from) != nil { // what it cannot skip is read anew, and reported then
		r.close()
		r = nil
	}
	for len(out) < limit {
		if err := ctx.Err(); err != nil {
			return out, fmt.Errorf("read archive: %w", err)
		}
		if r == nil {
			if r, err = a.seek(ctx, from+uint64(len(out))); err != nil || r == nil {
				return out, err
			}
		}
		s, found, err := r.record()
		if err != nil {
			a.cache.drop(a.logID, r.segment)
		}
		if err != nil || !found {
			r.close()
			r = nil
		}
		if err != nil {
			return out, err
		}
		if found {
			out = append(out, s.Record)
		}
	}
	return out, nil
}

// seek opens the segment of a record just before it; nil if the archive does not hold it. It lists the
// segments anew, for others may have pruned them or set them aside.
func (a *Archive) seek(ctx context.Context, seq uint64) (*reader, error) {
	segments, err := a.Segments(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(segments, func(s Segment) bool { return s.contains(seq) })
	if i < 0 {
		return nil, nil
	}
	r, err := a.openSegment(ctx, segments[i])
	if err != nil {
		return nil, err
	}
	if err := r.skip(seq); err != nil {
		r.close()
		a.cache.drop(a.logID, segments[i])
		return nil, err
	}
	return r, nil
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
