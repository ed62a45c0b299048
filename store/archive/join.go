package archive

import (
	"context"
	"errors"
	"fmt"

	"millwright/store"
)

// Joined is a log whose archived records read as if they were live.
type Joined struct {
	store.Log
	archive *Archive
}

// Join returns log and archive as one. Blobs of archived records are available only with the records.
func Join(log store.Log, archive *Archive) *Joined { return &Joined{Log: log, archive: archive} }

// Read implements store.Log. ErrCompacted: the record is in neither.
func (j *Joined) Read(ctx context.Context, from uint64, limit int) ([]store.Record, error) {
	if limit <= 0 {
		limit = store.DefaultReadLimit
	}
	from = max(from, 1)
	var out []store.Record
	for { // the next records may be archived between two reads
		live, err := j.Log.Read(ctx, from+uint64(len(out)), limit-len(out))
		out = append(out, live...)
		if !errors.Is(err, store.ErrCompacted) {
			return out, err
		}
		compacted := err
		archived, err := j.archive.Read(ctx, from+uint64(len(out)), limit-len(out))
		out = append(out, archived...)
		switch {
		case err != nil || len(out) == limit:
			return out, err
		case len(archived) == 0:
			return out, fmt.Errorf("%w; the archive %s does not hold it", compacted, j.archive.Location())
		}
	}
}

// Watch implements store.Log.
func (j *Joined) Watch(ctx context.Context, from uint64, fn func(store.Record) error) error {
	next := max(from, 1)
	for {
		err := j.Log.Watch(ctx, next, func(r store.Record) error {
			if err := fn(r); err != nil {
				return err
			}
			next = r.Seq + 1
			return nil
		})
		if !errors.Is(err, store.ErrCompacted) {
			return err
		}
		compacted := err
		page, err := j.archive.Read(ctx, next, store.DefaultReadLimit)
		for _, r := range page {
			if err := fn(r); err != nil {
				return err
			}
			next = r.Seq + 1
		}
		switch {
		case err != nil:
			return err
		case len(page) == 0:
			return fmt.Errorf("%w; the archive %s does not hold it", compacted, j.archive.Location())
		}
	}
}

// Base is implemented by logs whose older records can be archived.
type Base interface {
	// Base is the last record that is no longer live; zero if all are.
	Base(ctx context.Context) (store.Head, error)
}

// Base implements Base if the live log does; otherwise all records are live.
func (j *Joined) Base(ctx context.Context) (store.Head, error) {
	if live, ok := j.Log.(Base); ok {
		return live.Base(ctx)
	}
	return store.Head{}, nil
}

// Verify implements store.Log: the archive, the chain across its end, and the live log.
func (j *Joined) Verify(ctx context.Context) (uint64, error) {
	segments, err := j.archive.Verify(ctx)
	if err != nil {
		return lastOf(segments).Last, err
	}
	if err := j.VerifyBoundary(ctx); err != nil {
		return lastOf(segments).Last, err
	}
	return j.Log.Verify(ctx)
}

// Pruned is the last record that was deleted from the archive, 0 if none was.
func (j *Joined) Pruned(ctx context.Context) (uint64, error) {
	p, err := j.archive.pruned(ctx)
	return p.Last, err
}

// VerifyBoundary checks that the live log continues where the archive ends, and that they agree on the
// records both hold. ErrForked: they do not.
func (j *Joined) VerifyBoundary(ctx context.Context) error {
	base, err := j.Base(ctx)
	if err != nil {
		return err
	}
	segments, err := j.archive.Segments(ctx)
	if err != nil {
		return err
	}
	live, ok := j.Log.(Stored)
	if !ok {
		return j.archive.boundary(ctx, base)
	}
	return j.archive.compare(ctx, live, base, segments)
}

func lastOf(segments []Summary) Summary {
	if len(segments) == 0 {
		return Summary{}
	}
	return segments[len(segments)-1]
}
