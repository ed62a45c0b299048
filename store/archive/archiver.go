package archive

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"millwright/store"
	"millwright/store/record"
)

// Live is the log that records are taken from; etcdlog.Log and memlog.Log are.
type Live interface {
	Base
	Stored
	ID() string
	GetBlob(ctx context.Context, hash string) ([]byte, error)
	// Compact deletes the live records up to and including through, except the genesis. ErrCorrupt: that
	// record is not the one named, and nothing is deleted.
	Compact(ctx context.Context, through store.Head) error
}

var (
	// ErrIncomplete: records that are no longer live are missing in the archive; it is not the one used
	// before.
	ErrIncomplete = errors.New("archive is incomplete")
	// ErrForked: log and archive hold different records under the same sequences, or the archive holds later
	// ones than the log: one of the two was restored from a backup. Nothing is deleted before an operator has
	// decided (SetAside).
	ErrForked = errors.New("log and archive have parted")
)

// Config of an Archiver.
type Config struct {
	Cluster string
	Live    Live
	Archive *Archive
	// Note records each segment in the log once it is verified, before its records leave the live log; after
	// a crash it may be called with the same one again. nil: segments are not recorded.
	Note func(ctx context.Context, s Summary) error
}

// Archiver moves records from a live log into its archive. Several may do so at a time: where a lock does not
// keep them apart, claims do.
type Archiver struct {
	cfg Config
	// recordsMax bounds the records of a segment.
	recordsMax int
	// at is called between the steps of Archive, by tests that interrupt it there.
	at func(line string) error
}

// NewArchiver returns an Archiver.
func NewArchiver(cfg Config) *Archiver {
	if cfg.Note == nil {
		cfg.Note = func(context.Context, Summary) error { return nil }
	}
	return &Archiver{cfg: cfg, recordsMax: segmentRecordsMax, at: func(string) error { return nil }}
}

const pageRecords = 256

// Archive moves the records up to and including through into segments, reads these back, and then deletes the
// records from the live log. It returns how many records left the live log. After an error call it again.
func (a *Archiver) Archive(ctx context.Context, through uint64) (uint64, error) {
	deleted, err := a.archive(ctx, through)
	if err != nil {
		return deleted, fmt.Errorf("archive up to record %d in %s: %w", through, a.cfg.Archive.Location(), err)
	}
	return deleted, nil
}

func (a *Archiver) archive(ctx context.Context, through uint64) (uint64, error) {
	unlock, exclusive, err := a.cfg.Archive.files.Lock(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	base, err := a.cfg.Live.Base(ctx)
	if err != nil {
		return 0, err
	}
	segments, err := a.cfg.Archive.Segments(ctx)
	if err != nil {
		return 0, err
	}
	if nextSequence(segments) <= base.Seq {
		return 0, fmt.Errorf("records %d to %d are neither here nor in the live log: %w", nextSequence(segments), base.Seq, ErrIncomplete)
	}
	if err := a.cfg.Archive.compare(ctx, a.cfg.Live, base, segments); err != nil {
		return 0, err
	}
	prev, deleted, err := a.finish(ctx, segments, base, through)
	for err == nil && prev.Last < through {
		var n uint64
		prev, n, err = a.move(ctx, prev, through, exclusive)
		deleted += n
	}
	return deleted, err
}

// finish deletes from the live log the records that segments of an earlier attempt hold, and returns the last
// segment.
func (a *Archiver) finish(ctx context.Context, segments []Segment, base store.Head, through uint64) (prev Summary, deleted uint64, err error) {
	from := len(segments) - 1 // the last one, because the next must follow it
	for from > 0 && segments[from-1].Last > base.Seq {
		from--
	}
	if prev, err = a.cfg.Archive.before(ctx, segments, from); err != nil {
		return prev, 0, err
	}
	for _, s := range segments[max(from, 0):] {
		if prev, err = a.cfg.Archive.verify(ctx, s, prev); err != nil {
			return prev, deleted, err
		}
		if s.Last > base.Seq && s.First <= through {
			n, err := a.retire(ctx, prev, max(base.Seq, s.First-1), min(s.Last, through))
			if deleted += n; err != nil {
				return prev, deleted, err
			}
		}
	}
	return prev, deleted, nil
}

// move writes the next segment, verifies it and deletes its records from the live log.
func (a *Archiver) move(ctx context.Context, prev Summary, through uint64, exclusive bool) (Summary, uint64, error) {
	w, err := a.write(ctx, prev, through, a.full)
	if err != nil {
		return prev, 0, err
	}
	if !exclusive {
		if w, err = a.settle(ctx, prev, w); err != nil {
			return prev, 0, err
		}
	}
	if err := a.at("segment is flushed, without its name"); err != nil {
		return prev, 0, err
	}
	s, err := w.publish(ctx, a.cfg.Archive.files)
	others := errors.Is(err, fs.ErrExist) // or this writer's, whose answer was lost: it is verified in any case
	if err != nil && !others {
		return prev, 0, fmt.Errorf("publish segment %s: %w", s.Name(), err)
	}
	if err := a.at("segment has its name"); err != nil {
		return prev, 0, err
	}
	sum, err := a.cfg.Archive.verify(ctx, s, prev)
	if err != nil {
		return prev, 0, err
	}
	if want := hex.EncodeToString(w.hash.Sum(nil)); !others && sum.SHA256 != want {
		return prev, 0, s.corrupt("it was written with the SHA-256 %s, and reads as %s", want, sum.SHA256)
	}
	n, err := a.retire(ctx, sum, s.First-1, min(s.Last, through))
	return sum, n, err
}

// settle claims the segment. If another writer claimed it, with another end, it is written anew with that
// one.
func (a *Archiver) settle(ctx context.Context, prev Summary, w *writer) (*writer, error) {
	last, err := a.cfg.Archive.claim(ctx, w.first, w.last.Seq)
	if err == nil {
		err = a.at("segment is claimed")
	}
	if err == nil && last == w.last.Seq {
		return w, nil
	}
	if dropped := w.drop(); err != nil || dropped != nil {
		return nil, errors.Join(err, dropped)
	}
	return a.write(ctx, prev, last, func(*writer) bool { return false })
}

// write copies live records into a segment until it is full or through is reached.
func (a *Archiver) write(ctx context.Context, prev Summary, through uint64, full func(*writer) bool) (*writer, error) {
	w, err := newWriter(a.cfg.Archive.files, a.cfg.Cluster, a.cfg.Live.ID(), prev)
	if err != nil {
		return nil, err
	}
	err = a.fill(ctx, w, through, full)
	if err == nil {
		err = w.flush()
	}
	if err != nil {
		return nil, w.abandon(err)
	}
	return w, nil
}

func (a *Archiver) fill(ctx context.Context, w *writer, through uint64, full func(*writer) bool) error {
	for !full(w) && w.last.Seq < through {
		page, err := a.cfg.Live.Stored(ctx, w.last.Seq+1, int(min(pageRecords, through-w.last.Seq)))
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return fmt.Errorf("the log ends at record %d", w.last.Seq)
		}
		for _, s := range page {
			blobs, err := a.blobs(ctx, s)
			if err != nil {
				return err
			}
			if err := w.addRecord(s, blobs); err != nil {
				return err
			}
			if full(w) {
				break
			}
		}
		if err := a.at("a page is written"); err != nil {
			return err
		}
	}
	return nil
}

func (a *Archiver) full(w *writer) bool {
	return w.records >= a.recordsMax || w.bytes >= segmentBytesMax
}

// blobs fetches the payload and explanation of the record that are stored separately. An explanation may have
// been dropped.
func (a *Archiver) blobs(ctx context.Context, s record.Stored) (list [][]byte, err error) {
	if s.PayloadContent.Blob {
		data, err := a.cfg.Live.GetBlob(ctx, s.PayloadContent.BlobName())
		if err != nil {
			return nil, fmt.Errorf("record %d: payload: %w", s.Seq, err)
		}
		list = append(list, data)
	}
	if s.ExplanationContent.Blob {
		data, err := a.cfg.Live.GetBlob(ctx, s.ExplanationContent.BlobName())
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return nil, fmt.Errorf("record %d: explanation: %w", s.Seq, err)
		default:
			list = append(list, data)
		}
	}
	return list, nil
}

// retire deletes the records after `after` up to through, which a verified segment holds, from the live log.
func (a *Archiver) retire(ctx context.Context, s Summary, after, through uint64) (uint64, error) {
	if err := a.at("segment is verified"); err != nil {
		return 0, err
	}
	if err := a.cfg.Note(ctx, s); err != nil {
		return 0, fmt.Errorf("record segment %s: %w", s.Name(), err)
	}
	if err := a.at("segment is on record"); err != nil {
		return 0, err
	}
	last := store.Head{Seq: through, Hash: s.Hash}
	if through < s.Last {
		var err error
		if last, err = a.cfg.Archive.head(ctx, through); err != nil {
			return 0, err
		}
	}
	if err := a.cfg.Live.Compact(ctx, last); err != nil {
		if errors.Is(err, store.ErrCorrupt) {
			err = errors.Join(ErrForked, err)
		}
		return 0, err
	}
	return through - after, a.at("records are deleted")
}
