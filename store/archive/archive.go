package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"millwright/store"
)

// Archive holds the older records of one log. It is safe for concurrent use.
type Archive struct {
	files Files
	// cache is nil if files are read where they are.
	cache *Cache
	logID string

	// mu is held for moments: whoever reads has the cursor for himself meanwhile.
	mu sync.Mutex
	// cursor is where the last Read stopped, so that reading on does not start the segment again.
	cursor *reader
	// dropped counts how often it was to be forgotten: one that was taken before is not put back.
	dropped int
}

// Open returns the archive of a log in a directory below root. The directory is made by the first segment.
func Open(root, logID string) *Archive { return New(Directory(filepath.Join(root, logID)), nil, logID) }

// New returns the archive of a log in the files, which are this log's alone.
func New(files Files, cache *Cache, logID string) *Archive {
	return &Archive{files: files, cache: cache, logID: logID}
}

// Location of the files: a path, or a URL.
func (a *Archive) Location() string { return a.files.Location() }

// Close ends reading.
func (a *Archive) Close() error {
	a.dropCursor()
	return nil
}

// dropCursor forgets where the last Read stopped, also for one that is under way.
func (a *Archive) dropCursor() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dropped++
	if a.cursor != nil {
		a.cursor.close()
		a.cursor = nil
	}
}

// takeCursor hands out the cursor, if there is one before a record in its segment.
func (a *Archive) takeCursor(seq uint64) (r *reader, dropped int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cursor != nil && a.cursor.next <= seq && a.cursor.segment.contains(seq) {
		r, a.cursor = a.cursor, nil
	}
	return r, a.dropped
}

// putCursor keeps one for the next Read.
func (a *Archive) putCursor(r *reader, dropped int) {
	if r == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if dropped != a.dropped {
		r.close()
		return
	}
	if a.cursor != nil {
		a.cursor.close()
	}
	a.cursor = r
}

// Segments returns the files in the order of their records, without the older ones that were pruned.
func (a *Archive) Segments(ctx context.Context) ([]Segment, error) {
	files, err := a.files.List(ctx)
	if err != nil {
		return nil, err
	}
	var list []Segment
	cut := false // by the first segments' removal
	for _, f := range files {
		cut = cut || f.Name == prunedName
		if s, ok := parseName(f.Name); ok {
			s.Path, s.Bytes, s.version = a.Location()+"/"+f.Name, f.Bytes, f.Version
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(x, y Segment) int { return cmp.Or(cmp.Compare(x.First, y.First), cmp.Compare(x.Last, y.Last)) })
	list = withoutShortened(list)
	next := uint64(1)
	if cut || len(list) > 0 && list[0].First > 1 {
		gone, err := a.pruned(ctx)
		if err != nil {
			return nil, err
		}
		next = gone.Last + 1
		list = slices.DeleteFunc(list, func(s Segment) bool { return s.Last <= gone.Last })
	}
	for _, s := range list {
		if s.First != next {
			return nil, fmt.Errorf("archive %s: segment %s does not go on with record %d: %w", a.Location(), s.Name(), next, store.ErrCorrupt)
		}
		next = s.Last + 1
	}
	return list, nil
}

// withoutShortened leaves out segments that are there to take the place of a longer one, as long as that one
// has not been set aside.
func withoutShortened(sorted []Segment) []Segment {
	kept := sorted[:0]
	for i, s := range sorted {
		if i+1 == len(sorted) || sorted[i+1].First != s.First {
			kept = append(kept, s)
		}
	}
	return kept
}

// nextSequence is the first sequence after the segments.
func nextSequence(segments []Segment) uint64 {
	if len(segments) == 0 {
		return 1
	}
	return segments[len(segments)-1].Last + 1
}

// small reads a file of a few bytes; nil if there is none.
func (a *Archive) small(ctx context.Context, name string) ([]byte, error) {
	in, err := a.files.Open(ctx, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read archive: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(in, smallBytesMax))
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, fmt.Errorf("read %s of archive %s: %w", name, a.Location(), err)
	}
	return data, nil
}

// smallBytesMax bounds the files that are no segments.
const smallBytesMax = 1 << 16
