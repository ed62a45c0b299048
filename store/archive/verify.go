package archive

import (
	"context"
	"fmt"

	"millwright/store"
)

// Verify reads all segments and checks that each is complete, that its records continue the hash chain of
// those before, that it names the file before it, and that every payload exists. It returns what it verified,
// up to the first fault.
func (a *Archive) Verify(ctx context.Context) ([]Summary, error) {
	segments, err := a.Segments(ctx)
	if err != nil {
		return nil, err
	}
	var list []Summary
	prev, err := a.before(ctx, segments, 0)
	if err != nil {
		return nil, err
	}
	for _, s := range segments {
		if err := ctx.Err(); err != nil {
			return list, fmt.Errorf("verify archive: %w", err)
		}
		if prev, err = a.verify(ctx, s, prev); err != nil {
			return list, err
		}
		list = append(list, prev)
	}
	return list, nil
}

// verify checks one segment, as it is kept, after the one before it, whose Summary is zero if there is none.
func (a *Archive) verify(ctx context.Context, s Segment, prev Summary) (Summary, error) {
	sum := Summary{Segment: s}
	file, err := a.files.Open(ctx, s.Name())
	if err != nil {
		return sum, fmt.Errorf("open segment: %w", err)
	}
	digest := newDigest(file)
	r, err := newReader(digest, s, a.logID)
	if err != nil {
		return sum, err
	}
	defer r.close()
	if r.header.PreviousSegment != prev.SHA256 || r.header.PreviousHash != hexOf(prev.Hash) {
		return sum, s.corrupt("it does not follow the segment before it")
	}
	head := store.Head{Seq: prev.Last, Hash: prev.Hash}
	for {
		rec, found, err := r.record()
		if err != nil {
			return sum, err
		}
		if !found {
			break
		}
		if err := rec.Follows(head); err != nil {
			return sum, fmt.Errorf("segment %s: %w", s.Name(), err)
		}
		head = rec.Place().Head
		sum.Records++
	}
	if r.end.Hash != hexOf(head.Hash) || r.end.Records != sum.Records {
		return sum, s.corrupt("its last record is not the one its end names")
	}
	sum.Hash = head.Hash
	sum.SHA256, sum.Bytes, err = digest.sum()
	return sum, err
}
