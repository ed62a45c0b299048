package export

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"millwright/store"
)

// pastMax bounds the earlier places in a cursor.
const pastMax = 40

// place is a record by its number and hash.
type place struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

func placeOf(h store.Head) place { return place{h.Seq, hex.EncodeToString(h.Hash[:])} }

// cursor is how far a sink has come, as it is kept.
type cursor struct {
	// place is the last record that needs no more sending.
	place
	// From is the record from which what is open is to be read again after a restart; 0: nothing is open.
	From uint64 `json:"from,omitempty"`
	// Past are earlier places, the latest first and further apart the older they are: the log may be restored
	// to one before this.
	Past []place `json:"past,omitempty"`
	// DeadLetters counts the records that were given up, in all.
	DeadLetters uint64 `json:"deadLetters,omitempty"`
	// At is when it was kept.
	At time.Time `json:"at"`
}

// advance moves the cursor on.
func (c *cursor) advance(to place) {
	if to.Seq <= c.Seq {
		return
	}
	past := []place{c.place}
	for _, p := range c.Past { // of those whose distances are between the same powers of two the oldest stays
		last := &past[len(past)-1]
		if bits.Len64(to.Seq-p.Seq) == bits.Len64(to.Seq-last.Seq) {
			*last = p
		} else if len(past) < pastMax {
			past = append(past, p)
		}
	}
	c.place, c.Past = to, past
}

func parseCursor(text string) (c cursor, err error) {
	if text == "" {
		return c, nil
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return c, fmt.Errorf("read cursor: %w", err)
	}
	return c, nil
}

// holds reports that the log has this record.
func holds(ctx context.Context, log store.Log, p place) (bool, error) {
	if p.Seq == 0 || p.Hash == "" {
		return true, nil
	}
	records, err := log.Read(ctx, p.Seq, 1)
	if errors.Is(err, store.ErrCompacted) { // it left log and archive, and so it was the log's
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read record %d: %w", p.Seq, err)
	}
	return len(records) > 0 && placeOf(store.Head{Seq: records[0].Seq, Hash: records[0].Hash}) == p, nil
}

// agreed goes back to the newest place at which log and cursor agree. It reports whether that is not the
// cursor's own.
func (c *cursor) agreed(ctx context.Context, log store.Log) (back bool, err error) {
	for {
		ok, err := holds(ctx, log, c.place)
		if err != nil || ok {
			return back, err
		}
		back = true
		if len(c.Past) == 0 {
			c.place, c.From = place{}, 0
			continue
		}
		c.place, c.Past = c.Past[0], c.Past[1:]
		if c.From = 1; len(c.Past) > 0 { // what was open there is not known
			c.From = c.Past[0].Seq + 1
		}
	}
}
