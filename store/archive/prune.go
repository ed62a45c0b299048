package archive

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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
func (a *Archive) pruned(ctx context.Context) (p pruned, err error) {
	data, err := a.small(ctx, prunedName)
	if err != nil || data == nil {
		return p, err
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("%s of archive %s: %w: %w", prunedName, a.Location(), err, store.ErrCorrupt)
	}
	return p, nil
}

// before is what the segment at an index follows, without records and bytes; zero if it is the first of all.
func (a *Archive) before(ctx context.Context, segments []Segment, i int) (sum Summary, err error) {
	if i > 0 {
		return a.tail(ctx, segments[i-1])
	}
	p, err := a.pruned(ctx)
	if err != nil || p.Last == 0 {
		return sum, err
	}
	hash, err := hex.DecodeString(p.Hash)
	if err != nil || len(hash) != len(sum.Hash) {
		return sum, fmt.Errorf("%s of archive %s: hash %q: %w", prunedName, a.Location(), p.Hash, store.ErrCorrupt)
	}
	sum.Last, sum.SHA256 = p.Last, p.SHA256
	copy(sum.Hash[:], hash)
	return sum, nil
}

// tail is the part of a segment's Summary that the next one follows.
func (a *Archive) tail(ctx context.Context, s Segment) (sum Summary, err error) {
	last, err := a.last(ctx, s)
	if err != nil {
		return sum, err
	}
	file, err := a.open(ctx, s)
	if err != nil {
		return sum, fmt.Errorf("open segment: %w", err)
	}
	defer file.Close()
	sum.Segment, sum.Hash = s, last.Hash
	sum.SHA256, sum.Bytes, err = newDigest(file).sum()
	return sum, err
}

// last is the last record of a segment.
func (a *Archive) last(ctx context.Context, s Segment) (record.Stored, error) {
	r, err := a.openSegment(ctx, s)
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
func (a *Archive) Prune(ctx context.Context, base store.Head, before time.Time) (deleted []Segment, err error) {
	unlock, _, err := a.files.Lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("prune archive: %w", err)
	}
	defer unlock()
	if err := a.clearPruned(ctx); err != nil {
		return nil, fmt.Errorf("prune archive: %w", err)
	}
	segments, err := a.Segments(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.boundary(ctx, base); err != nil {
		return nil, fmt.Errorf("prune archive: %w", err)
	}
	a.dropCursor()
	for i, s := range segments {
		if i == len(segments)-1 || s.Last >= base.Seq {
			break
		}
		last, err := a.last(ctx, s)
		if err != nil {
			return deleted, fmt.Errorf("prune archive: %w", err)
		}
		if !last.Time.Before(before) {
			break
		}
		if err := a.delete(ctx, s); err != nil {
			return deleted, fmt.Errorf("prune archive: %w", err)
		}
		deleted = append(deleted, s)
	}
	return deleted, nil
}

// clearPruned deletes what a crash left of segments that were recorded as deleted, and their claims.
func (a *Archive) clearPruned(ctx context.Context) error {
	gone, err := a.pruned(ctx)
	if err != nil {
		return err
	}
	files, err := a.files.List(ctx)
	if err != nil {
		return err
	}
	for _, f := range files {
		s, segment := parseName(f.Name)
		from, claim := claimedBy(f.Name)
		if segment && s.Last <= gone.Last || claim && from <= gone.Last {
			if err := a.files.Remove(ctx, f.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// delete first records, durably, that a segment is deleted.
func (a *Archive) delete(ctx context.Context, s Segment) error {
	sum, err := a.tail(ctx, s)
	if err != nil {
		return err
	}
	data, err := json.Marshal(pruned{Last: sum.Last, Hash: hexOf(sum.Hash), SHA256: sum.SHA256})
	if err != nil {
		return err
	}
	old, err := a.small(ctx, prunedName)
	if err != nil {
		return err
	}
	if err := a.files.Swap(ctx, prunedName, old, append(data, '\n')); err != nil {
		return err
	}
	return errors.Join(a.files.Remove(ctx, s.Name()), a.files.Remove(ctx, claimName(s.First)))
}
