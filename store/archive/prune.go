package archive

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"millwright/store"
	"millwright/store/record"
)

// prunedName is the file that says which records were deleted from the archive.
const prunedName = "pruned.json"

// pruned is the last segment that was deleted; the first remaining one continues from it.
type pruned struct {
	Last   uint64 `json:"last"`
	Hash   string `json:"hash"`
	SHA256 string `json:"sha256"`
}

// pruned is zero if nothing was deleted.
func (d *Dir) pruned() (p pruned, err error) {
	data, err := os.ReadFile(filepath.Join(d.path, prunedName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p, nil
	case err != nil:
		return p, fmt.Errorf("read archive: %w", err)
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("%s of archive %s: %w: %w", prunedName, d.path, err, store.ErrCorrupt)
	}
	return p, nil
}

// before is what the segment at an index follows, without records and bytes; zero if it is the first of all.
func (d *Dir) before(segments []Segment, i int) (sum Summary, err error) {
	if i > 0 {
		return d.tail(segments[i-1])
	}
	p, err := d.pruned()
	if err != nil || p.Last == 0 {
		return sum, err
	}
	hash, err := hex.DecodeString(p.Hash)
	if err != nil || len(hash) != len(sum.Hash) {
		return sum, fmt.Errorf("%s of archive %s: hash %q: %w", prunedName, d.path, p.Hash, store.ErrCorrupt)
	}
	sum.Last, sum.SHA256 = p.Last, p.SHA256
	copy(sum.Hash[:], hash)
	return sum, nil
}

// tail is the part of a segment's Summary that the next one follows.
func (d *Dir) tail(s Segment) (sum Summary, err error) {
	last, err := d.last(s)
	if err != nil {
		return sum, err
	}
	sum.Segment, sum.Hash = s, last.Hash
	sum.SHA256, sum.Bytes, err = digest(s.Path)
	return sum, err
}

// last is the last record of a segment.
func (d *Dir) last(s Segment) (record.Stored, error) {
	r, err := openSegment(s, d.logID)
	if err != nil {
		return record.Stored{}, err
	}
	defer r.close()
	if err := r.skip(s.Last); err != nil {
		return record.Stored{}, err
	}
	rec, found, err := r.record()
	if err == nil && !found {
		err = s.corrupt("it ends before record %d", s.Last)
	}
	return rec, err
}

// Prune deletes the segments, oldest first, whose records are all older than a time and not live, and returns
// them. The last one is always kept: it proves where the live log continues. base is that of the live log.
func (d *Dir) Prune(ctx context.Context, base store.Head, before time.Time) (deleted []Segment, err error) {
	unlock, err := d.lock()
	if err != nil {
		return nil, fmt.Errorf("prune archive: %w", err)
	}
	defer unlock()
	if err := d.clearPruned(); err != nil {
		return nil, fmt.Errorf("prune archive: %w", err)
	}
	segments, err := d.Segments()
	if err != nil {
		return nil, err
	}
	if err := d.boundary(ctx, base); err != nil {
		return nil, fmt.Errorf("prune archive: %w", err)
	}
	for i, s := range segments {
		if i == len(segments)-1 || s.Last >= base.Seq {
			break
		}
		last, err := d.last(s)
		if err != nil {
			return deleted, fmt.Errorf("prune archive: %w", err)
		}
		if !last.Time.Before(before) {
			break
		}
		if err := d.delete(s); err != nil {
			return deleted, fmt.Errorf("prune archive: %w", err)
		}
		deleted = append(deleted, s)
	}
	return deleted, nil
}

// clearPruned deletes what a crash left of segments that were recorded as deleted.
func (d *Dir) clearPruned() error {
	gone, err := d.pruned()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if s, ok := parseName(e.Name()); ok && s.Last <= gone.Last {
			if err := os.Remove(filepath.Join(d.path, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// delete first records, durably, that a segment is deleted.
func (d *Dir) delete(s Segment) error {
	sum, err := d.tail(s)
	if err != nil {
		return err
	}
	data, err := json.Marshal(pruned{Last: sum.Last, Hash: hexOf(sum.Hash), SHA256: sum.SHA256})
	if err != nil {
		return err
	}
	part, err := os.CreateTemp(d.path, "*"+partSuffix)
	if err != nil {
		return err
	}
	_, err = part.Write(append(data, '\n'))
	err = errors.Join(err, part.Sync(), part.Close())
	if err == nil {
		err = os.Rename(part.Name(), filepath.Join(d.path, prunedName))
	}
	if err == nil {
		err = syncDir(d.path)
	}
	if err == nil {
		err = os.Remove(s.Path)
	}
	return err
}
