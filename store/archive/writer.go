package archive

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"millwright/store"
	"millwright/store/record"
)

// partSuffix marks a file that is being written; one that is found at start is abandoned.
const partSuffix = ".part"

// writer writes one segment.
type writer struct {
	file *os.File
	// hash is of what was written to the file.
	hash hash.Hash
	buf  *bufio.Writer
	z    *zstd.Encoder

	first   uint64
	last    store.Head
	records int
	bytes   int
}

// newWriter begins the segment that follows prev.
func newWriter(files Files, cluster, logID string, prev Summary) (*writer, error) {
	dir, err := files.Scratch()
	if err != nil {
		return nil, fmt.Errorf("begin segment: %w", err)
	}
	file, err := os.CreateTemp(dir, "*"+partSuffix)
	if err != nil {
		return nil, fmt.Errorf("begin segment: %w", err)
	}
	w := &writer{file: file, hash: sha256.New(), first: prev.Last + 1, last: store.Head{Seq: prev.Last, Hash: prev.Hash}}
	w.buf = bufio.NewWriterSize(io.MultiWriter(file, w.hash), 1<<18)
	if _, err := w.buf.WriteString(magic); err != nil {
		return nil, w.abandon(err)
	}
	if w.z, err = zstd.NewWriter(w.buf, zstd.WithEncoderConcurrency(1)); err != nil {
		return nil, w.abandon(err)
	}
	h := header{Cluster: cluster, LogID: logID, First: w.first, PreviousHash: hexOf(prev.Hash), PreviousSegment: prev.SHA256}
	if err := w.json(frameHeader, h); err != nil {
		return nil, w.abandon(err)
	}
	return w, nil
}

// drop removes what was written.
func (w *writer) drop() error { return errors.Join(w.file.Close(), os.Remove(w.file.Name())) }

// abandon removes what was written and returns err.
func (w *writer) abandon(err error) error {
	return errors.Join(fmt.Errorf("write segment from %d: %w", w.first, err), w.drop())
}

func (w *writer) frame(kind byte, body ...[]byte) error {
	n := 0
	for _, b := range body {
		n += len(b)
	}
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(n))
	for _, b := range append([][]byte{head}, body...) {
		if _, err := w.z.Write(b); err != nil {
			return err
		}
	}
	w.bytes += len(head) + n
	return nil
}

func (w *writer) json(kind byte, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.frame(kind, body)
}

// addRecord writes a record after its blobs, which are those of payload and explanation if they are stored
// separately and exist.
func (w *writer) addRecord(s record.Stored, blobs [][]byte) error {
	if err := s.Follows(w.last); err != nil {
		return err
	}
	data, err := record.Marshal(s)
	if err != nil {
		return err
	}
	for _, blob := range blobs {
		sum := sha256.Sum256(blob)
		if err := w.frame(frameBlob, sum[:], blob); err != nil {
			return err
		}
	}
	w.last = s.Place().Head
	w.records++
	return w.frame(frameRecord, data)
}

// flush ends the file and makes it durable, still under its temporary name.
func (w *writer) flush() error {
	if err := w.json(frameEnd, end{Last: w.last.Seq, Hash: hexOf(w.last.Hash), Records: w.records}); err != nil {
		return err
	}
	if err := w.z.Close(); err != nil {
		return err
	}
	if err := w.buf.Flush(); err != nil {
		return err
	}
	return w.file.Sync()
}

// segment is what was written, without a place.
func (w *writer) segment() Segment { return Segment{First: w.first, Last: w.last.Seq} }

// publish gives the file its name, durably. fs.ErrExist: a file has it already.
func (w *writer) publish(ctx context.Context, files Files) (Segment, error) {
	s := w.segment()
	s.Path = files.Location() + "/" + s.Name()
	err := w.file.Close()
	if err == nil {
		err = files.Publish(ctx, w.file.Name(), s.Name())
	}
	_ = os.Remove(w.file.Name()) // unless it became the file itself
	return s, err
}

// digest is a file that is being read, its SHA-256 and its size.
type digest struct {
	io.ReadCloser
	hash  hash.Hash
	bytes int64
}

func newDigest(file io.ReadCloser) *digest { return &digest{ReadCloser: file, hash: sha256.New()} }

func (d *digest) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	d.hash.Write(p[:n])
	d.bytes += int64(n)
	return n, err
}

// sum reads what is left, and returns the SHA-256 in hex.
func (d *digest) sum() (string, int64, error) {
	if _, err := io.Copy(io.Discard, d); err != nil {
		return "", 0, fmt.Errorf("read segment: %w", err)
	}
	return hex.EncodeToString(d.hash.Sum(nil)), d.bytes, nil
}
