package subjects

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
)

// ChunkSize is how many records a file is of.
const ChunkSize = 8192

// storyMax bounds the records of a story, roundsMax how often it is looked whether what was found leads
// on.
const (
	storyMax  = 5000
	roundsMax = 16
)

// Log is what the index is of; store.Log is one.
type Log interface {
	ID() string
	Head(ctx context.Context) (store.Head, error)
	Read(ctx context.Context, from uint64, limit int) ([]store.Record, error)
}

// Index of one log, in a directory. One goroutine uses it at a time; several processes may.
type Index struct {
	dir string
	log Log
	// Progress is called before a file is made; nil: nobody wants to know.
	Progress func(done, chunks uint64)

	head  uint64
	files []*file
	// tail are the entries that are in no file yet, with what they mention; tailFirst is the first of
	// them.
	tail      []ledger.Entry
	tailFirst uint64
	mentions  map[string][]uint64
}

// Open makes the directory if it is not there. Nothing is read yet.
func Open(dir string, log Log) (*Index, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open index: %w", err)
	}
	return &Index{dir: dir, log: log}, nil
}

// Close closes the files.
func (x *Index) Close() {
	for _, f := range x.files {
		if f != nil {
			f.close()
		}
	}
	x.files = nil
}

func (x *Index) path(chunk uint64) string {
	return filepath.Join(x.dir, fmt.Sprintf("subjects-%012d", chunk*ChunkSize+1))
}

// Update takes in what the log has by now: it makes the files that are missing or cannot be used, and
// reads the records after them. Records that cannot be had any more are left out.
func (x *Index) Update(ctx context.Context) error {
	head, err := x.log.Head(ctx)
	if err != nil {
		return fmt.Errorf("read the log's head: %w", err)
	}
	if x.mentions != nil && head.Seq == x.head {
		return nil
	}
	chunks := head.Seq / ChunkSize
	for n := uint64(len(x.files)); n < chunks; n++ {
		f, err := openFile(x.path(n), x.log.ID(), n*ChunkSize+1)
		if err != nil {
			if f, err = x.make(ctx, n, chunks); err != nil {
				return err
			}
		}
		x.files = append(x.files, f)
	}
	x.head = head.Seq
	return x.readTail(ctx, chunks*ChunkSize+1)
}

// make writes the file of a chunk; nil if its records cannot be had, as when they were pruned.
func (x *Index) make(ctx context.Context, n, chunks uint64) (*file, error) {
	if x.Progress != nil {
		x.Progress(n, chunks)
	}
	c := newChunk(n*ChunkSize + 1)
	err := each(ctx, x.log, c.first, c.first+ChunkSize-1, func(e ledger.Entry) { c.add(e.Seq, audit.Mentions(e, x.log.ID())) })
	if errors.Is(err, store.ErrCompacted) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := c.write(x.path(n), x.log.ID()); err != nil {
		return nil, err
	}
	f, err := openFile(x.path(n), x.log.ID(), c.first)
	if err != nil {
		return nil, fmt.Errorf("read index back: %w", err)
	}
	return f, nil
}

func (x *Index) readTail(ctx context.Context, first uint64) error {
	x.tail, x.tailFirst, x.mentions = x.tail[:0], first, map[string][]uint64{}
	err := each(ctx, x.log, first, x.head, func(e ledger.Entry) {
		x.tail = append(x.tail, e)
		for _, s := range audit.Mentions(e, x.log.ID()) {
			x.mentions[s] = append(x.mentions[s], e.Seq)
		}
	})
	if errors.Is(err, store.ErrCompacted) {
		err = nil
	}
	return err
}

// each calls fn for the records of a range that this version can read.
func each(ctx context.Context, log Log, from, to uint64, fn func(ledger.Entry)) error {
	for from <= to {
		page, err := log.Read(ctx, from, int(min(500, to-from+1)))
		if err != nil {
			return fmt.Errorf("read log from %d: %w", from, err)
		}
		if len(page) == 0 {
			return nil
		}
		for _, rec := range page {
			if rec.Seq > to {
				return nil
			}
			e, err := audit.Decode(rec)
			if err != nil && !errors.Is(err, ledger.ErrUnknownKind) {
				return err
			}
			if err != nil {
				e.Subjects = rec.Subjects
			}
			fn(e)
		}
		from = page[len(page)-1].Seq + 1
	}
	return nil
}

// About returns the sequences of records that are about one of the subjects, or of which a hash says so,
// in order: the newest of them, at most limit. cut reports that there are more.
func (x *Index) About(ctx context.Context, subjects []string, limit int) (seqs []uint64, cut bool, err error) {
	for _, s := range subjects {
		h := hashOf(s)
		for n := range x.files {
			if x.files[n] == nil {
				continue
			}
			list, err := x.files[n].find(h)
			if err != nil {
				if list, err = x.again(ctx, n, h); err != nil {
					return nil, false, err
				}
			}
			seqs = append(seqs, list...)
		}
		seqs = append(seqs, x.mentions[s]...)
	}
	slices.Sort(seqs)
	seqs = slices.Compact(seqs)
	if cut = len(seqs) > limit; cut {
		seqs = seqs[len(seqs)-limit:]
	}
	return seqs, cut, nil
}

// again makes a file anew that turned out to be damaged, and looks once more.
func (x *Index) again(ctx context.Context, n int, hash uint64) ([]uint64, error) {
	x.files[n].close()
	f, err := x.make(ctx, uint64(n), uint64(len(x.files)))
	if x.files[n] = f; err != nil || f == nil {
		return nil, err
	}
	return f.find(hash)
}

// Story is the story of a subject as audit.Why tells it from the whole log, and the entries that it is of.
// cut reports that it has more records than are read, and begins later. Update comes first.
func (x *Index) Story(ctx context.Context, subject string) (lines []audit.Line, entries []ledger.Entry, cut bool, err error) {
	known := map[uint64]ledger.Entry{}
	list := []string{subject}
	for range roundsMax {
		var seqs []uint64
		if seqs, cut, err = x.About(ctx, list, storyMax); err != nil {
			return nil, nil, false, err
		}
		if err := x.read(ctx, seqs, known); err != nil {
			return nil, nil, false, err
		}
		entries = entries[:0]
		for _, seq := range seqs {
			if e, ok := known[seq]; ok {
				entries = append(entries, e)
			}
		}
		linked := audit.Linked(entries, x.log.ID(), subject)
		if len(linked) == len(list) {
			break
		}
		list = linked
	}
	return audit.WhyOf(entries, x.log.ID(), subject), entries, cut, nil
}

// read adds the records to those known, in order, so that an archive is read forward. Neighbours are read
// at once.
func (x *Index) read(ctx context.Context, seqs []uint64, known map[uint64]ledger.Entry) error {
	const near = 64
	for i := 0; i < len(seqs); {
		seq := seqs[i]
		if _, ok := known[seq]; ok {
			i++
			continue
		}
		if seq >= x.tailFirst {
			if at := seq - x.tailFirst; at < uint64(len(x.tail)) {
				known[seq] = x.tail[at]
			}
			i++
			continue
		}
		end := i
		for end+1 < len(seqs) && seqs[end+1]-seqs[end] <= near && seqs[end+1] < x.tailFirst && seqs[end+1]-seq < 500 {
			end++
		}
		wanted := seqs[i : end+1]
		err := each(ctx, x.log, seq, seqs[end], func(e ledger.Entry) {
			if _, found := slices.BinarySearch(wanted, e.Seq); found {
				known[e.Seq] = e
			}
		})
		if err != nil && !errors.Is(err, store.ErrCompacted) {
			return err
		}
		i = end + 1
	}
	return nil
}

var _ Log = store.Log(nil)
