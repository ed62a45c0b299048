package retention

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/record"
)

const (
	// graceDefault is far more than an append takes from putting a blob to storing the record that names it.
	graceDefault = 15 * time.Minute
	collectPage  = 256
)

// collector deletes the blobs that no live record names.
type collector struct {
	db    Database
	grace time.Duration
	// named is the last record that names a blob, among the records up to read.
	named map[string]uint64
	read  store.Head
	// unnamed is what was observed of blobs that no record names.
	unnamed map[string]sighting
}

// sighting of a blob: when it was first seen unnamed, as of the revision at which it was put.
type sighting struct {
	at       time.Time
	revision int64
}

func newCollector(db Database, grace time.Duration) *collector {
	return &collector{db: db, grace: grace, named: map[string]uint64{}, unnamed: map[string]sighting{}}
}

// collect returns how many blobs it deleted. A blob is deleted if it was not put again during the grace
// period and no record read after that period names it.
func (c *collector) collect(ctx context.Context, now time.Time) (deleted int, err error) {
	blobs, err := c.db.Blobs(ctx)
	if err != nil || len(blobs) == 0 {
		return 0, err
	}
	if err := c.follow(ctx); err != nil {
		return 0, err
	}
	for hash := range c.unnamed {
		if _, there := blobs[hash]; !there || c.named[hash] > 0 {
			delete(c.unnamed, hash)
		}
	}
	for hash, revision := range blobs {
		if c.named[hash] > 0 {
			continue
		}
		seen, known := c.unnamed[hash]
		if !known || seen.revision != revision {
			c.unnamed[hash] = sighting{at: now, revision: revision}
			continue
		}
		if now.Sub(seen.at) < c.grace {
			continue
		}
		gone, err := c.db.DeleteBlob(ctx, hash, revision)
		if err != nil {
			return deleted, err
		}
		if gone {
			deleted++
		}
		delete(c.unnamed, hash)
	}
	return deleted, nil
}

// follow notes the blobs that new records name, and forgets those of records that are no longer live.
func (c *collector) follow(ctx context.Context) error {
	base, err := c.db.Base(ctx)
	if err != nil {
		return err
	}
	for hash, seq := range c.named {
		if seq <= base.Seq {
			delete(c.named, hash)
		}
	}
	if err := c.resume(ctx, base); err != nil {
		return err
	}
	for {
		page, err := c.db.Stored(ctx, c.read.Seq+1, collectPage)
		if err != nil {
			return err
		}
		for _, s := range page {
			names, err := blobsOf(s)
			if err != nil {
				return err
			}
			for _, hash := range names {
				c.named[hash] = s.Seq
			}
			c.read = s.Place().Head
		}
		if len(page) < collectPage {
			return nil
		}
	}
}

// resume starts after the base if the last record read is no longer live, and from scratch if it is a
// different record now: the log was restored from a backup, and what was known of blobs holds for records
// that are lost.
func (c *collector) resume(ctx context.Context, base store.Head) error {
	if c.read.Seq <= base.Seq {
		c.read = base
		return nil
	}
	page, err := c.db.Stored(ctx, c.read.Seq, 1)
	if err != nil {
		return err
	}
	if len(page) == 0 || page[0].Hash != c.read.Hash {
		clear(c.named)
		clear(c.unnamed)
		c.read = base
	}
	return nil
}

// blobsOf returns the blobs that a record names: its payload, its explanation, a checkpoint.
func blobsOf(s record.Stored) (names []string, err error) {
	if s.PayloadContent.Blob {
		names = append(names, s.PayloadContent.BlobName())
	}
	if s.ExplanationContent.Blob {
		names = append(names, s.ExplanationContent.BlobName())
	}
	if ledger.Kind(s.Kind) == ledger.KindLedgerCheckpoint {
		var p ledger.LedgerCheckpoint
		if err := json.Unmarshal(s.Payload, &p); err != nil {
			return nil, fmt.Errorf("record %d: decode checkpoint: %w: %w", s.Seq, err, store.ErrCorrupt)
		}
		names = append(names, p.Blob)
	}
	return names, nil
}
