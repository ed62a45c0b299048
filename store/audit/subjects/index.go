package subjects

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
)

// ChunkSize is how many records a file is of.
const ChunkSize = 8192

// BytesMax bounds the files of an Index: those of the oldest records go first. A file takes some 300 KB.
const BytesMax = 2 << 30

// Log is what the index is of; store.Log is one.
type Log interface {
	ID() string
	Head(ctx context.Context) (store.Head, error)
	Read(ctx context.Context, from uint64, limit int) ([]store.Record, error)
}

// Index of one log, in a directory. One goroutine brings it up to date; any may ask. Several processes may
// use one directory.
type Index struct {
	dir   string
	logID string
	// Progress is called before a file is made with how many there are; nil: nobody wants to know.
	Progress func(done uint64)

	// mu guards what follows.
	mu sync.RWMutex
	// files by chunk; nil are those whose records cannot be had, or that had no room.
	files []*file
	bytes int64
	// building is of the records after the files, of which next has not been added yet.
	building *chunk
	next     uint64
	// bytesMax is BytesMax but in tests.
	bytesMax int64
	// damaged: a file that was there could not be read.
	damaged atomic.Bool
}

// Open makes the directory if it is not there. Nothing is read yet.
func Open(dir, logID string) (*Index, error) {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, 0o700) // which only its owner may
	}
	if err != nil {
		return nil, fmt.Errorf("open index: %w", err)
	}
	return &Index{dir: dir, logID: logID, next: 1, building: newChunk(1), bytesMax: BytesMax}, nil
}

func (x *Index) path(chunk uint64) string {
	return filepath.Join(x.dir, fmt.Sprintf("subjects-%012d", chunk*ChunkSize+1))
}

// Next is the record to go on with: those before are taken in, or cannot be had.
func (x *Index) Next() uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.next
}

// First is the first record that the Index knows of; it is Next if there is none.
func (x *Index) First() uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.firstHeld()
}

func (x *Index) firstHeld() uint64 {
	for _, f := range x.files {
		if f != nil {
			return f.first
		}
	}
	return min(x.building.first, x.next)
}

// Resume takes in the files that are there, up to a record, and changes Next to what follows them.
func (x *Index) Resume(head uint64) {
	left := x.leftOut()
	for {
		x.mu.RLock()
		n := uint64(len(x.files))
		fresh := x.next == n*ChunkSize+1
		x.mu.RUnlock()
		if !fresh || n >= head/ChunkSize {
			return
		}
		var f *file
		if n >= left {
			var err error
			if f, err = findFile(x.path(n), x.logID, n*ChunkSize+1); err != nil {
				return
			}
		}
		x.mu.Lock()
		x.take(f)
		x.mu.Unlock()
	}
}

// leftOut is before which chunk there is no file because the others leave it no room.
func (x *Index) leftOut() (chunk uint64) {
	paths, err := filepath.Glob(filepath.Join(x.dir, "subjects-*"))
	if err != nil || len(paths) == 0 {
		return 0
	}
	slices.Sort(paths)
	var first uint64
	if _, err := fmt.Sscanf(filepath.Base(paths[0]), "subjects-%d", &first); err != nil || first == 0 {
		return 0
	}
	var sum int64
	for _, p := range paths {
		if info, err := os.Stat(p); err == nil {
			sum += info.Size()
		}
	}
	if sum < x.bytesMax/4*3 {
		return 0
	}
	return first / ChunkSize
}

// take adds the next file, and removes the oldest ones that it leaves no room.
func (x *Index) take(f *file) {
	x.files = append(x.files, f)
	x.next = uint64(len(x.files))*ChunkSize + 1
	x.building = newChunk(x.next)
	if f == nil {
		return
	}
	x.bytes += f.bytes()
	for i := 0; x.bytes > x.bytesMax && i < len(x.files)-1; i++ {
		if old := x.files[i]; old != nil {
			_ = os.Remove(old.path) // what stays is found again, and goes at the next start
			x.bytes -= old.bytes()
			x.files[i] = nil
		}
	}
}

// Add takes in the next record; another one changes nothing. An error means that a file could not be
// written: the record may come again.
func (x *Index) Add(e ledger.Entry) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e.Seq != x.next {
		return nil
	}
	x.building.add(e.Seq, marks(e, x.logID))
	if e.Seq%ChunkSize != 0 {
		x.next++
		return nil
	}
	if x.Progress != nil {
		x.Progress(uint64(len(x.files)))
	}
	f, err := x.write(x.building)
	if err != nil {
		return err
	}
	x.take(f)
	return nil
}

// marks are what a record is found by. One that cannot be described is found by what its envelope says.
func marks(e ledger.Entry, logID string) (list []string) {
	defer func() {
		if recover() != nil {
			list = e.Subjects
		}
		list = append(slices.Clone(list), KindMark(e.Kind.String()))
		if audit.IsDecision(e) {
			list = append(list, decisionMark)
		}
	}()
	return audit.Mentions(e, logID)
}

func (x *Index) write(c *chunk) (*file, error) {
	path := x.path((c.first - 1) / ChunkSize)
	if err := c.write(path, x.logID); err != nil {
		return nil, err
	}
	f, err := findFile(path, x.logID, c.first)
	if err != nil {
		return nil, fmt.Errorf("read index back: %w", err)
	}
	return f, nil
}

// Skip leaves out the records before one: they cannot be had.
func (x *Index) Skip(to uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for to > (uint64(len(x.files))+1)*ChunkSize {
		x.take(nil)
	}
	x.next = max(x.next, to)
}

// Update takes in what the log has by now: it uses the files that are there, makes those that are missing or
// damaged, and reads the records after them, each once. Records that cannot be had any more are left out.
func (x *Index) Update(ctx context.Context, log Log) error {
	head, err := log.Head(ctx)
	if err != nil {
		return fmt.Errorf("read the log's head: %w", err)
	}
	for {
		x.Resume(head.Seq)
		from := x.Next()
		if from > head.Seq {
			return nil
		}
		to := min(head.Seq, (from-1)/ChunkSize*ChunkSize+ChunkSize)
		err := Each(ctx, log, from, to, x.Add)
		if errors.Is(err, store.ErrCompacted) {
			var first uint64
			if first, err = FirstAtHand(ctx, log, x.Next(), head.Seq); err == nil {
				x.Skip(first)
			}
		}
		if err != nil {
			return err
		}
		if x.Next() == from { // the log is shorter than it said
			return nil
		}
	}
}

// FirstAtHand is the first record from one on that can be had: those before are archived, where nobody finds
// them, or pruned.
func FirstAtHand(ctx context.Context, log Log, from, head uint64) (uint64, error) {
	low, high := from, head
	for low < high {
		middle := low + (high-low)/2
		_, err := log.Read(ctx, middle, 1)
		switch {
		case errors.Is(err, store.ErrCompacted):
			low = middle + 1
		case err != nil:
			return 0, fmt.Errorf("look for the first record: %w", err)
		default:
			high = middle
		}
	}
	return low, nil
}

// Each calls fn for the records of a range that there are, in order. One that this version cannot read comes
// with what its envelope says.
func Each(ctx context.Context, log Log, from, to uint64, fn func(ledger.Entry) error) error {
	for from <= to {
		page, err := log.Read(ctx, from, int(min(500, to-from+1)))
		for _, rec := range page {
			if rec.Seq > to {
				return nil
			}
			if err := fn(Decode(rec)); err != nil {
				return err
			}
			from = rec.Seq + 1
		}
		if err != nil {
			return fmt.Errorf("read log from %d: %w", from, err)
		}
		if len(page) == 0 {
			return nil
		}
	}
	return nil
}

// Decode reads a record as far as this version can.
func Decode(rec store.Record) ledger.Entry {
	e, err := audit.Decode(rec)
	if err != nil {
		e = ledger.Entry{Seq: rec.Seq, Time: rec.Time, Service: rec.Service, Mode: ledger.Mode(rec.Mode), Kind: ledger.Kind(rec.Kind), Subjects: rec.Subjects}
	}
	return e
}

var _ Log = store.Log(nil)
