package recording

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/klauspost/compress/zstd"

	"millwright/events"
	"millwright/planner/ledger"
	"millwright/planner/ledger/names"
	"millwright/store"
	"millwright/store/audit"
)

// Bounds of what is read of a bundle, which somebody else may have made: of its entries, and of what they
// unpack to.
const (
	bundleEntryMax    = 1 << 30
	bundleUnpackedMax = 8 << 30
	bundleMemoryMax   = 1 << 30
)

// Bundle is an open bundle. It is the Log, with its checkpoint, and the Stream of a replay.
type Bundle struct {
	Manifest Manifest
	// file is nil for one in memory, whose blobs are by the names of their entries.
	file     *zip.Reader
	closer   io.Closer
	blobs    map[string][]byte
	records  []store.Record
	messages []events.Message
}

var (
	_ audit.CheckpointLog = (*Bundle)(nil)
	_ audit.Stream        = (*Bundle)(nil)
	_ audit.Renamed       = (*Bundle)(nil)
)

// OpenBundle reads a file that WriteBundle wrote. The caller must Close it.
func OpenBundle(file string) (*Bundle, error) {
	z, err := zip.OpenReader(file)
	if err != nil {
		return nil, fmt.Errorf("open bundle %s: %w", file, err)
	}
	b := &Bundle{file: &z.Reader, closer: z}
	if err := b.read(); err != nil {
		_ = z.Close()
		return nil, fmt.Errorf("read bundle %s: %w", file, err)
	}
	return b, nil
}

// ReadBundle reads a bundle that is in memory.
func ReadBundle(data []byte) (*Bundle, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("read bundle: %w", err)
	}
	b := &Bundle{file: z}
	if err := b.read(); err != nil {
		return nil, fmt.Errorf("read bundle: %w", err)
	}
	return b, nil
}

// Close ends the reading.
func (b *Bundle) Close() error {
	if b.closer == nil {
		return nil
	}
	return b.closer.Close()
}

// Replaced implements audit.Renamed.
func (b *Bundle) Replaced() names.Replaced {
	if b.Manifest.Pseudonyms == nil {
		return nil
	}
	return b.Manifest.Pseudonyms.Computed
}

// Withheld implements audit.Renamed.
func (b *Bundle) Withheld(seq uint64) string {
	if b.Manifest.Pseudonyms == nil {
		return ""
	}
	for _, w := range b.Manifest.Pseudonyms.Withheld {
		if w.Seq == seq {
			return w.Why
		}
	}
	return ""
}

func (b *Bundle) read() error {
	data, err := b.entry(entryManifest)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &b.Manifest); err != nil {
		return fmt.Errorf("%s: %w", entryManifest, err)
	}
	if f := b.Manifest.Format; f < bundleFormat || f > pseudonymsFormat || (f == pseudonymsFormat) != (b.Manifest.Pseudonyms != nil) {
		return fmt.Errorf("format %d is not known to this program (%d to %d)", f, bundleFormat, pseudonymsFormat)
	}
	next := b.Manifest.First
	err = b.decode(entryRecords, func(d *gob.Decoder) error {
		var r store.Record
		if err := d.Decode(&r); err != nil {
			return err
		}
		if r.Seq != next {
			return fmt.Errorf("record %d is where %d should be", r.Seq, next)
		}
		next++
		b.records = append(b.records, r)
		return nil
	})
	if err != nil {
		return err
	}
	if next != b.Manifest.Last+1 {
		return fmt.Errorf("it ends with record %d instead of %d", next-1, b.Manifest.Last)
	}
	last := uint64(0)
	return b.decode(entryMessages, func(d *gob.Decoder) error {
		var m events.Message
		if err := d.Decode(&m); err != nil {
			return err
		}
		if m.Sequence <= last {
			return fmt.Errorf("message %d comes after %d", m.Sequence, last)
		}
		last = m.Sequence
		b.messages = append(b.messages, m)
		return nil
	})
}

// decode reads an entry to its end.
func (b *Bundle) decode(name string, one func(*gob.Decoder) error) error {
	f, err := b.file.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(bundleMemoryMax))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer z.Close()
	d := gob.NewDecoder(io.LimitReader(z, bundleUnpackedMax))
	for {
		if err := one(d); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

// entry reads a whole entry; events.ErrNotFound if there is none.
func (b *Bundle) entry(name string) ([]byte, error) {
	if b.file == nil {
		if data, ok := b.blobs[name]; ok {
			return data, nil
		}
		return nil, fmt.Errorf("%s: %w", name, events.ErrNotFound)
	}
	f, err := b.file.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, events.ErrNotFound)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, bundleEntryMax+1))
	if err == nil && len(data) > bundleEntryMax {
		err = errors.New("it is too long")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data, nil
}

// Read implements audit.Log. Records before the first are as if archived elsewhere.
func (b *Bundle) Read(_ context.Context, from uint64, limit int) ([]store.Record, error) {
	if from = max(from, 1); from < b.Manifest.First {
		return nil, fmt.Errorf("the bundle begins with record %d: %w", b.Manifest.First, store.ErrCompacted)
	}
	if limit <= 0 {
		limit = store.DefaultReadLimit
	}
	at := min(from-b.Manifest.First, uint64(len(b.records)))
	return b.records[at:min(at+uint64(limit), uint64(len(b.records)))], nil
}

// Aggregate implements audit.CheckpointLog, for checkpoints alone: the one that the bundle was made with.
func (b *Bundle) Aggregate(_ context.Context, name string) (uint64, error) {
	if name != ledger.CheckpointAggregate {
		return 0, fmt.Errorf("a bundle knows nothing of aggregate %s", name)
	}
	return b.Manifest.Checkpoint, nil
}

// GetBlob implements audit.CheckpointLog.
func (b *Bundle) GetBlob(_ context.Context, hash string) ([]byte, error) {
	return b.entry(prefixLog + hash)
}

// State implements audit.Stream.
func (b *Bundle) State(context.Context) (events.StreamState, error) { return b.Manifest.Stream, nil }

// Consume implements audit.Stream. It returns nil at the end.
func (b *Bundle) Consume(ctx context.Context, from uint64, fn func(events.Message) error) error {
	at := sort.Search(len(b.messages), func(i int) bool { return b.messages[i].Sequence >= from })
	for _, m := range b.messages[at:] {
		if err := errors.Join(ctx.Err(), fn(m)); err != nil {
			return err
		}
	}
	return nil
}

// Blobs implements audit.Stream.
func (b *Bundle) Blobs() events.Blobs { return bundleBlobs{blobs: blobs{}, bundle: b} }

// bundleBlobs are the checkpoint and the catalogues. They are read only, as those of a Recording.
type bundleBlobs struct {
	blobs
	bundle *Bundle
}

// Get implements events.Blobs.
func (b bundleBlobs) Get(_ context.Context, name string) ([]byte, error) {
	return b.bundle.entry(prefixStream + name)
}

// Open implements events.Blobs.
func (b bundleBlobs) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	data, err := b.Get(ctx, name)
	return io.NopCloser(bytes.NewReader(data)), err
}

// List implements events.Blobs.
func (b bundleBlobs) List(_ context.Context, prefix string) ([]string, error) {
	var names []string
	for _, entry := range b.bundle.entries() {
		if name, ok := strings.CutPrefix(entry, prefixStream); ok && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names, nil
}
