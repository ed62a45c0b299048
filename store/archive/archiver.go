package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"millwright/store"
	"millwright/store/record"
)

// Live is the log that records are taken from; etcdlog.Log and memlog.Log are.
type Live interface {
	Base
	ID() string
	// Stored returns up to limit live records from sequence from on, without what stands apart as blobs.
	Stored(ctx context.Context, from uint64, limit int) ([]record.Stored, error)
	GetBlob(ctx context.Context, hash string) ([]byte, error)
	// Compact deletes the live records up to and including through, the genesis excepted.
	Compact(ctx context.Context, through uint64) error
}

// ErrIncomplete: records that are not live any more are not in the directory either; it is not the one used before.
var ErrIncomplete = errors.New("archive is incomplete")

// Config of an Archiver.
type Config struct {
	Cluster string
	Live    Live
	Dir     *Dir
	// Note records each segment in the log once it is verified, before its records leave the live log; it may get the same one
	// again after a crash. nil: nobody records it.
	Note func(ctx context.Context, s Summary) error
}

// Archiver moves records from a live log into its archive. Only one may work on a directory at a time; a lock sees to it.
type Archiver struct {
	cfg Config
	// recordsMax bounds the records of a segment.
	recordsMax int
	// at is called between the lines of Archive, by tests that break it off there.
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

// Archive brings the records up to and including through into segments, reads these back, and then deletes the records from
// the live log. It returns how many records left the live log. After an error call it again.
func (a *Archiver) Archive(ctx context.Context, through uint64) (uint64, error) {
	deleted, err := a.archive(ctx, through)
	if err != nil {
		return deleted, fmt.Errorf("archive up to record %d in %s: %w", through, a.cfg.Dir.path, err)
	}
	return deleted, nil
}

func (a *Archiver) archive(ctx context.Context, through uint64) (uint64, error) {
	unlock, err := a.lock()
	if err != nil {
		return 0, err
	}
	defer unlock()
	base, err := a.cfg.Live.Base(ctx)
	if err != nil {
		return 0, err
	}
	segments, err := a.cfg.Dir.Segments()
	if err != nil {
		return 0, err
	}
	if next(segments) <= base.Seq {
		return 0, fmt.Errorf("records %d to %d are neither here nor in the live log: %w", next(segments), base.Seq, ErrIncomplete)
	}
	prev, deleted, err := a.finish(ctx, segments, base, through)
	for err == nil && prev.Last < through {
		var n uint64
		prev, n, err = a.move(ctx, prev, through)
		deleted += n
	}
	return deleted, err
}

// lock takes the directory for this process and clears away what a crash left half written.
func (a *Archiver) lock() (unlock func(), err error) {
	path := a.cfg.Dir.path
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another process archives: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, clearParts(path)
}

func clearParts(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), partSuffix) {
			continue
		}
		if err := os.Remove(filepath.Join(path, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// finish deletes from the live log what segments of an earlier attempt hold, and returns the last segment.
func (a *Archiver) finish(ctx context.Context, segments []Segment, base store.Head, through uint64) (prev Summary, deleted uint64, err error) {
	from := len(segments) - 1 // the last one, for the next must follow it
	for from > 0 && segments[from-1].Last > base.Seq {
		from--
	}
	if from > 0 {
		if prev, err = a.cfg.Dir.tail(segments[from-1]); err != nil {
			return prev, 0, err
		}
	}
	for _, s := range segments[max(from, 0):] {
		if prev, err = a.cfg.Dir.verify(s, prev); err != nil {
			return prev, deleted, err
		}
		if s.holds(base.Seq) {
			if err := a.cfg.Dir.boundary(ctx, base); err != nil {
				return prev, deleted, err
			}
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

// tail is the part of a segment's Summary that the next one follows.
func (d *Dir) tail(s Segment) (sum Summary, err error) {
	sum.Segment = s
	r, err := openSegment(s, d.logID)
	if err != nil {
		return sum, err
	}
	defer r.close()
	if err := r.skip(s.Last); err != nil {
		return sum, err
	}
	rec, found, err := r.record()
	if err != nil || !found {
		return sum, errors.Join(err, s.corrupt("it ends before record %d", s.Last))
	}
	sum.Hash = rec.Hash
	sum.SHA256, sum.Bytes, err = digest(s.Path)
	return sum, err
}

// move writes the next segment, verifies it and deletes its records from the live log.
func (a *Archiver) move(ctx context.Context, prev Summary, through uint64) (Summary, uint64, error) {
	w, err := newWriter(a.cfg.Dir.path, a.cfg.Cluster, a.cfg.Live.ID(), store.Head{Seq: prev.Last, Hash: prev.Hash}, prev.SHA256)
	if err != nil {
		return prev, 0, err
	}
	if err := a.fill(ctx, w, through); err != nil {
		return prev, 0, w.abandon(err)
	}
	if err := w.flush(); err != nil {
		return prev, 0, w.abandon(err)
	}
	if err := a.at("segment is flushed, without its name"); err != nil {
		return prev, 0, err
	}
	s, err := w.publish()
	if err != nil {
		return prev, 0, fmt.Errorf("publish segment: %w", err)
	}
	if err := a.at("segment has its name"); err != nil {
		return prev, 0, err
	}
	sum, err := a.cfg.Dir.verify(s, prev)
	if err != nil {
		return prev, 0, err
	}
	n, err := a.retire(ctx, sum, s.First-1, s.Last)
	return sum, n, err
}

// fill copies live records into the segment until it is full or through is reached.
func (a *Archiver) fill(ctx context.Context, w *writer, through uint64) error {
	for !a.full(w) && w.last.Seq < through {
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
			if err := w.add(s, blobs); err != nil {
				return err
			}
			if a.full(w) {
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

// blobs fetches what of the record stands apart. An explanation may have been dropped.
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
	if err := a.cfg.Live.Compact(ctx, through); err != nil {
		return 0, err
	}
	return through - after, a.at("records are deleted")
}
