package archive

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"millwright/store"
	"millwright/store/record"
)

// partSuffix marks a file that is being written; one that is found at start is abandoned.
const partSuffix = ".part"

// writer writes one segment.
type writer struct {
	dir  string
	file *os.File
	buf  *bufio.Writer
	z    *zstd.Encoder

	first   uint64
	last    store.Head
	records int
	bytes   int
}

// newWriter begins the segment that follows prev, whose file has the digest previous.
func newWriter(dir, cluster, logID string, prev store.Head, previous string) (*writer, error) {
	file, err := os.CreateTemp(dir, "*"+partSuffix)
	if err != nil {
		return nil, fmt.Errorf("begin segment: %w", err)
	}
	w := &writer{dir: dir, file: file, buf: bufio.NewWriterSize(file, 1<<18), first: prev.Seq + 1, last: prev}
	if _, err := w.buf.WriteString(magic); err != nil {
		return nil, w.abandon(err)
	}
	if w.z, err = zstd.NewWriter(w.buf, zstd.WithEncoderConcurrency(1)); err != nil {
		return nil, w.abandon(err)
	}
	h := header{Cluster: cluster, LogID: logID, First: w.first, PreviousHash: hexOf(prev.Hash), PreviousSegment: previous}
	if err := w.json(frameHeader, h); err != nil {
		return nil, w.abandon(err)
	}
	return w, nil
}

// abandon removes what was written and returns err.
func (w *writer) abandon(err error) error {
	return errors.Join(fmt.Errorf("write segment from %d: %w", w.first, err), w.file.Close(), os.Remove(w.file.Name()))
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

// publish gives the file its name, durably.
func (w *writer) publish() (Segment, error) {
	s := Segment{First: w.first, Last: w.last.Seq}
	s.Path = filepath.Join(w.dir, s.Name())
	if err := w.file.Close(); err != nil {
		return s, err
	}
	if err := os.Rename(w.file.Name(), s.Path); err != nil {
		return s, err
	}
	return s, syncDir(w.dir)
}

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// digest is the SHA-256 of a file and its size.
func digest(path string) (string, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), n, err
}
