package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"millwright/store"
)

// Dir is the archive of one log. It is safe for concurrent use.
type Dir struct {
	path, logID string

	mu sync.Mutex
	// cursor is where the last Read stopped, so that reading on does not start the segment again.
	cursor *reader
}

// Open returns the archive of a log below root. The directory is made by the first segment.
func Open(root, logID string) *Dir {
	return &Dir{path: filepath.Join(root, logID), logID: logID}
}

// Path of the directory.
func (d *Dir) Path() string { return d.path }

// Close ends reading.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closeCursor()
	return nil
}

func (d *Dir) closeCursor() {
	if d.cursor != nil {
		d.cursor.close()
		d.cursor = nil
	}
}

// Segments returns the files in the order of their records, without the older ones that were pruned.
func (d *Dir) Segments() ([]Segment, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list archive: %w", err)
	}
	gone, err := d.pruned()
	if err != nil {
		return nil, err
	}
	var list []Segment
	for _, e := range entries {
		if s, ok := parseName(e.Name()); ok && s.Last > gone.Last {
			s.Path = filepath.Join(d.path, e.Name())
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b Segment) int { return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last)) })
	for i, s := range list {
		want := gone.Last + 1
		if i > 0 {
			want = list[i-1].Last + 1
		}
		if s.First != want {
			return nil, fmt.Errorf("archive %s: segment %s does not go on with record %d: %w", d.path, s.Name(), want, store.ErrCorrupt)
		}
	}
	return list, nil
}

// nextSequence is the first sequence after the segments.
func nextSequence(segments []Segment) uint64 {
	if len(segments) == 0 {
		return 1
	}
	return segments[len(segments)-1].Last + 1
}

// Read returns up to limit records from sequence from on; fewer where the archive ends, none if it ends
// before that.
func (d *Dir) Read(ctx context.Context, from uint64, limit int) ([]store.Record, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []store.Record
	for len(out) < limit {
		if err := ctx.Err(); err != nil {
			return out, fmt.Errorf("read archive: %w", err)
		}
		at := from + uint64(len(out))
		found, err := d.seek(at)
		if err != nil || !found {
			return out, err
		}
		s, found, err := d.cursor.record()
		if err != nil {
			d.closeCursor()
			return out, err
		}
		if !found {
			d.closeCursor()
			continue
		}
		out = append(out, s.Record)
	}
	return out, nil
}

// seek moves the cursor to just before a record; false if the archive does not hold it.
func (d *Dir) seek(seq uint64) (bool, error) {
	if d.cursor != nil && d.cursor.next == seq && d.cursor.segment.contains(seq) {
		return true, nil
	}
	d.closeCursor()
	segments, err := d.Segments()
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(segments, func(s Segment) bool { return s.contains(seq) })
	if i < 0 {
		return false, nil
	}
	if d.cursor, err = openSegment(segments[i], d.logID); err != nil {
		d.cursor = nil
		return false, err
	}
	if err := d.cursor.skip(seq); err != nil {
		d.closeCursor()
		return false, err
	}
	return true, nil
}
