package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"

	"millwright/store"
)

// claim settles where the segment that begins with a record ends, where nothing keeps other writers away: the
// first to make the file decides, and all write a segment of that name, of which there can be one. Without it
// two could write segments that overlap.
type claim struct {
	Last uint64 `json:"last"`
}

func claimName(first uint64) string { return fmt.Sprintf("%020d.claim", first) }

var claimForm = regexp.MustCompile(`^(\d{20})\.claim$`)

// claimedBy returns the first record of a claim's segment; false if a file is no claim.
func claimedBy(name string) (uint64, bool) {
	m := claimForm.FindStringSubmatch(name)
	if m == nil {
		return 0, false
	}
	first, err := strconv.ParseUint(m[1], 10, 64)
	return first, err == nil && first > 0
}

// claim returns where the segment from first on is to end: with last, unless another claimed it before.
func (a *Archive) claim(ctx context.Context, first, last uint64) (uint64, error) {
	data, err := json.Marshal(claim{Last: last})
	if err != nil {
		return 0, err
	}
	if err := a.files.Swap(ctx, claimName(first), nil, data); err != nil && !errors.Is(err, fs.ErrExist) {
		return 0, fmt.Errorf("claim records from %d on: %w", first, err)
	}
	settled, err := a.claimed(ctx, first)
	if err == nil && settled == 0 {
		err = fmt.Errorf("claim records from %d on: it is gone again", first)
	}
	return settled, err
}

// claimed returns where the segment from first on is to end; 0 if nobody claimed it.
func (a *Archive) claimed(ctx context.Context, first uint64) (uint64, error) {
	data, err := a.small(ctx, claimName(first))
	if err != nil || data == nil {
		return 0, err
	}
	var c claim
	if err := json.Unmarshal(data, &c); err != nil || c.Last < first {
		return 0, fmt.Errorf("%s of archive %s holds %q: %w", claimName(first), a.Location(), data, store.ErrCorrupt)
	}
	return c.Last, nil
}

// openClaim checks that the log holds the records of a segment that was claimed and is not there yet. A log
// that ends before them was restored from a backup.
func (a *Archive) openClaim(ctx context.Context, live Stored, next uint64) error {
	last, err := a.claimed(ctx, next)
	if err != nil || last == 0 {
		return err
	}
	page, err := live.Stored(ctx, last, 1)
	if err == nil && len(page) == 0 {
		err = fmt.Errorf("records %d to %d are claimed for the archive %s, and the log ends before: %w", next, last, a.Location(), ErrForked)
	}
	return err
}
