// Package recording stores a log together with the observations its decisions were based on, in a file, so
// that it can be replayed anywhere: attached to a bug report, and in the corpus that `make replay` replays
// (store/audit/testdata).
//
// A file is zstd around gobs: a header, then records and messages. Catalogues are stored beside it, by hash,
// since recordings share them. Guarantees: what Save wrote replays as it did where it was saved; fields that
// later versions add are empty in older files. Not guaranteed: secrecy. A recording holds what the watcher
// published: names, labels, requests, but never environment or arguments. Test by saving a log and a stream
// in memory.
package recording

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"millwright/events"
	"millwright/store"
	"millwright/store/audit"
)

// header of a file.
type header struct {
	Format            int
	State             events.StreamState
	Records, Messages int
}

// format is the version of the file, and the highest that is read.
const format = 1

// Recording is an open file. It is the Log and the Stream of a replay.
type Recording struct {
	state    events.StreamState
	records  []store.Record
	messages []events.Message
	blobs    blobs
}

var (
	_ audit.Log    = (*Recording)(nil)
	_ audit.Stream = (*Recording)(nil)
)

// errEnd ends the reading of a stream at what was its last message.
var errEnd = errors.New("end of the stream")

// Save writes log and stream in their present state to a file, and the catalogues beside it. Both must be
// complete, from the first record and message on.
func Save(ctx context.Context, file string, log audit.Log, stream audit.Stream) error {
	r, err := read(ctx, log, stream)
	if err != nil {
		return err
	}
	if err := r.saveBlobs(ctx, stream.Blobs(), filepath.Dir(file)); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("save recording: %w", err)
	}
	if err := errors.Join(r.encode(f), f.Close()); err != nil {
		return fmt.Errorf("save recording %s: %w", file, err)
	}
	return nil
}

func read(ctx context.Context, log audit.Log, stream audit.Stream) (*Recording, error) {
	r := &Recording{}
	for {
		records, err := log.Read(ctx, uint64(len(r.records))+1, 0)
		if err != nil {
			return nil, fmt.Errorf("read log: %w", err)
		}
		if len(records) == 0 {
			break
		}
		r.records = append(r.records, records...)
	}
	var err error
	if r.state, err = stream.State(ctx); err != nil {
		return nil, fmt.Errorf("ask for stream state: %w", err)
	}
	if r.state.First > 1 {
		return nil, fmt.Errorf("the stream retains messages from %d on only", r.state.First)
	}
	if r.state.Last == 0 {
		return r, nil
	}
	err = stream.Consume(ctx, 1, func(m events.Message) error {
		r.messages = append(r.messages, m)
		if m.Sequence >= r.state.Last {
			return errEnd
		}
		return nil
	})
	if !errors.Is(err, errEnd) {
		return nil, fmt.Errorf("read stream: %w", err)
	}
	return r, nil
}

// saveBlobs writes the catalogues that messages name. It omits one that is lost, as services do
// without it too.
func (r *Recording) saveBlobs(ctx context.Context, from events.Blobs, dir string) error {
	for _, m := range r.messages {
		o, err := events.Decode(m.Data)
		if err != nil {
			continue
		}
		ref, ok := o.Object.(*events.CatalogRef)
		if !ok {
			continue
		}
		data, err := from.Get(ctx, events.CatalogBlob(ref.Hash))
		if events.BlobLost(err) {
			continue
		}
		if err == nil {
			err = saveBlob(ctx, dir, events.CatalogBlob(ref.Hash), data)
		}
		if err != nil {
			return fmt.Errorf("save catalogue of %s: %w", ref.NodeClass, err)
		}
	}
	return nil
}

func (r *Recording) encode(w io.Writer) error {
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	e := gob.NewEncoder(z)
	err = e.Encode(header{Format: format, State: r.state, Records: len(r.records), Messages: len(r.messages)})
	for i := 0; i < len(r.records) && err == nil; i++ {
		err = e.Encode(&r.records[i])
	}
	for i := 0; i < len(r.messages) && err == nil; i++ {
		err = e.Encode(&r.messages[i])
	}
	return errors.Join(err, z.Close())
}

// Open reads a file that Save wrote.
func Open(file string) (*Recording, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	defer func() { _ = f.Close() }()
	r := &Recording{blobs: blobs{filepath.Dir(file)}}
	if err := r.decode(f); err != nil {
		return nil, fmt.Errorf("read recording %s: %w", file, err)
	}
	return r, nil
}

func (r *Recording) decode(f io.Reader) error {
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer z.Close()
	d := gob.NewDecoder(z)
	var h header
	if err := d.Decode(&h); err != nil {
		return err
	}
	if h.Format != format {
		return fmt.Errorf("format %d is not known to this program (%d)", h.Format, format)
	}
	r.state = h.State
	for range h.Records {
		var rec store.Record
		if err := d.Decode(&rec); err != nil {
			return err
		}
		r.records = append(r.records, rec)
	}
	for range h.Messages {
		var m events.Message
		if err := d.Decode(&m); err != nil {
			return err
		}
		r.messages = append(r.messages, m)
	}
	return nil
}

// Read implements audit.Log.
func (r *Recording) Read(_ context.Context, from uint64, limit int) ([]store.Record, error) {
	if limit <= 0 {
		limit = store.DefaultReadLimit
	}
	at := min(max(from, 1)-1, uint64(len(r.records)))
	return r.records[at:min(at+uint64(limit), uint64(len(r.records)))], nil
}

// State implements audit.Stream.
func (r *Recording) State(context.Context) (events.StreamState, error) { return r.state, nil }

// Consume implements audit.Stream. It returns nil at the end.
func (r *Recording) Consume(ctx context.Context, from uint64, fn func(events.Message) error) error {
	for _, m := range r.messages {
		if m.Sequence < from {
			continue
		}
		if err := errors.Join(ctx.Err(), fn(m)); err != nil {
			return err
		}
	}
	return nil
}

// Blobs implements audit.Stream.
func (r *Recording) Blobs() events.Blobs { return r.blobs }

// blobs are read from the directory of recordings.
type blobs struct{ dir string }

func blobFile(dir, name string) string {
	return filepath.Join(dir, strings.ReplaceAll(name, "/", "-")+".zst")
}

// saveBlob writes a blob that is not there as a whole: a part of it, left by a disk that was full, is
// replaced.
func saveBlob(ctx context.Context, dir, name string, data []byte) error {
	if there, err := (blobs{dir}).Get(ctx, name); err == nil && bytes.Equal(there, data) {
		return nil
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	file := blobFile(dir, name)
	part := file + ".part"
	if err = os.WriteFile(part, w.EncodeAll(data, nil), 0o644); err == nil {
		err = os.Rename(part, file)
	}
	if err != nil {
		_ = os.Remove(part) // why it could not be written is said
	}
	return err
}

func (b blobs) Get(_ context.Context, name string) ([]byte, error) {
	packed, err := os.ReadFile(blobFile(b.dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("get blob %s: %w", name, events.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("get blob %s: %w", name, err)
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return z.DecodeAll(packed, nil)
}

var errReadOnly = errors.New("recordings are read only")

func (b blobs) Put(context.Context, string, []byte) error { return errReadOnly }
func (b blobs) Delete(context.Context, string) error      { return errReadOnly }
func (b blobs) Write(context.Context, string, func(io.Writer) error) error {
	return errReadOnly
}

// Open implements events.Blobs.
func (b blobs) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	data, err := b.Get(ctx, name)
	return io.NopCloser(bytes.NewReader(data)), err
}

// List implements events.Blobs. There are no checkpoints: a recording is complete.
func (b blobs) List(context.Context, string) ([]string, error) { return nil, nil }
