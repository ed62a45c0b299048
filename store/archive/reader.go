package archive

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"millwright/store"
	"millwright/store/record"
)

// decoderMemoryMax bounds what one compressed frame may ask for.
const decoderMemoryMax = 256 << 20

// reader reads one segment from its beginning to its end.
type reader struct {
	segment Segment
	file    io.ReadCloser
	in      *bufio.Reader
	z       *zstd.Decoder
	header  header
	// next is the sequence of the next record frame.
	next  uint64
	blobs map[[32]byte][]byte
	end   *end
}

func (s Segment) corrupt(format string, args ...any) error {
	return fmt.Errorf("segment %s: %w: %w", s.Name(), fmt.Errorf(format, args...), store.ErrCorrupt)
}

// newReader reads the header, which must match the file's name and this log, or it returns ErrCorrupt. The
// file is closed with the reader, or at once if there is none.
func newReader(file io.ReadCloser, s Segment, logID string) (_ *reader, err error) {
	r := &reader{segment: s, file: file, in: bufio.NewReaderSize(file, 1<<18), next: s.First, blobs: map[[32]byte][]byte{}}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(r.in, head); err != nil || string(head) != magic {
		return nil, s.corrupt("it does not begin as a segment of this version does")
	}
	if r.z, err = zstd.NewReader(r.in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(decoderMemoryMax)); err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	kind, body, err := r.frame()
	if err != nil {
		return nil, err
	}
	if kind != frameHeader || json.Unmarshal(body, &r.header) != nil {
		return nil, s.corrupt("it has no header")
	}
	if r.header.LogID != logID || r.header.First != s.First {
		return nil, s.corrupt("it holds log %s from record %d", r.header.LogID, r.header.First)
	}
	return r, nil
}

func (r *reader) close() {
	if r.z != nil {
		r.z.Close()
	}
	_ = r.file.Close()
}

func (r *reader) frame() (kind byte, body []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r.z, head[:]); err != nil {
		return 0, nil, r.segment.corrupt("it ends early before record %d: %w", r.next, err)
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > frameBytesMax {
		return 0, nil, r.segment.corrupt("a frame of %d bytes before record %d", n, r.next)
	}
	body = make([]byte, n)
	if _, err := io.ReadFull(r.z, body); err != nil {
		return 0, nil, r.segment.corrupt("it ends early before record %d: %w", r.next, err)
	}
	return head[0], body, nil
}

// skip skips the records before seq.
func (r *reader) skip(seq uint64) error {
	for r.next < seq {
		_, found, err := r.raw()
		if err != nil {
			return err
		}
		if !found {
			return r.segment.corrupt("it ends before record %d", seq)
		}
	}
	return nil
}

// raw returns the bytes of the next record and keeps the blobs before it; false at the end of the segment.
func (r *reader) raw() (data []byte, found bool, err error) {
	clear(r.blobs)
	for {
		kind, body, err := r.frame()
		switch {
		case err != nil:
			return nil, false, err
		case kind == frameBlob && len(body) >= sha256.Size:
			r.blobs[[32]byte(body)] = body[sha256.Size:]
		case kind == frameRecord:
			r.next++
			return body, true, nil
		case kind == frameEnd:
			return nil, false, r.finish(body)
		default:
			return nil, false, r.segment.corrupt("a frame of kind %q before record %d", kind, r.next)
		}
	}
}

// finish checks the last frame, and that nothing comes after it.
func (r *reader) finish(body []byte) error {
	r.end = &end{}
	if json.Unmarshal(body, r.end) != nil || r.end.Last != r.segment.Last || r.next != r.segment.Last+1 {
		return r.segment.corrupt("it holds the records up to %d", r.next-1)
	}
	if _, err := io.ReadFull(r.z, make([]byte, 1)); !errors.Is(err, io.EOF) {
		return r.segment.corrupt("it goes on after its end")
	}
	return nil
}

// record returns the next record with payload and explanation; false at the end of the segment.
func (r *reader) record() (record.Stored, bool, error) {
	data, found, err := r.raw()
	if err != nil || !found {
		return record.Stored{}, false, err
	}
	s, err := record.Unmarshal(r.next-1, data)
	if err != nil {
		return s, false, fmt.Errorf("segment %s: %w", r.segment.Name(), err)
	}
	return s, true, r.resolve(&s)
}

// resolve fills in what is stored separately. A payload must exist; an explanation may have been dropped.
func (r *reader) resolve(s *record.Stored) error {
	for sum, blob := range r.blobs {
		if sha256.Sum256(blob) != sum {
			return r.segment.corrupt("record %d: a blob's hash does not match", s.Seq)
		}
	}
	if s.PayloadContent.Blob {
		payload, found := r.blobs[s.PayloadContent.Sum]
		if !found {
			return r.segment.corrupt("record %d: its payload is missing", s.Seq)
		}
		s.Payload = payload
	}
	if s.ExplanationContent.Blob {
		s.Explanation = r.blobs[s.ExplanationContent.Sum]
	}
	return nil
}
