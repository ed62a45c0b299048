package parts

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"
)

// Errors of a Reader.
var (
	ErrMagic     = errors.New("another magic text")
	ErrTruncated = errors.New("truncated")
	ErrDamaged   = errors.New("damaged")
)

// bytesMax bounds one part.
const bytesMax = 64 << 20

// Writer writes parts. The first error sticks, and Close returns it.
type Writer struct {
	out   io.Writer
	sum   hash.Hash64
	buf   []byte
	count uint64
	err   error
}

// NewWriter begins with the magic text.
func NewWriter(out io.Writer, magic string) *Writer {
	w := &Writer{out: out, sum: xxhash.New()}
	w.write([]byte(magic))
	return w
}

func (w *Writer) write(b []byte) {
	if w.err != nil {
		return
	}
	w.sum.Write(b)
	_, w.err = w.out.Write(b)
}

// Write writes a part; an empty one is left out. m is not kept.
func (w *Writer) Write(m proto.Message) error {
	if w.err != nil {
		return w.err
	}
	const room = binary.MaxVarintLen64
	w.buf = append(w.buf[:0], make([]byte, room)...)
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(w.buf, m)
	if err != nil {
		w.err = err
		return err
	}
	w.buf = b
	n := len(b) - room
	if n == 0 {
		return nil
	}
	if n > bytesMax {
		w.err = fmt.Errorf("a part of %d bytes, at most %d are allowed", n, bytesMax)
		return w.err
	}
	var length [room]byte
	l := binary.PutUvarint(length[:], uint64(n))
	copy(b[room-l:], length[:l])
	w.write(b[room-l:])
	w.count++
	return w.err
}

// Close writes the end.
func (w *Writer) Close() error {
	w.write(binary.AppendUvarint([]byte{0}, w.count))
	w.write(binary.BigEndian.AppendUint64(nil, w.sum.Sum64()))
	return w.err
}

// Reader reads what a Writer wrote.
type Reader struct {
	in    *bufio.Reader
	sum   hash.Hash64
	buf   bytes.Buffer
	count uint64
	done  bool
}

// NewReader reads the magic text; ErrMagic if it is another.
func NewReader(in io.Reader, magic string) (*Reader, error) {
	r := &Reader{in: bufio.NewReader(in), sum: xxhash.New()}
	got := make([]byte, len(magic))
	if _, err := io.ReadFull(r.in, got); err != nil {
		return nil, truncated(err)
	}
	if string(got) != magic {
		return nil, ErrMagic
	}
	r.sum.Write(got)
	return r, nil
}

// Rewrite writes the parts that it reads, each changed.
func Rewrite[M proto.Message](in io.Reader, out io.Writer, magic string, empty func() M, change func(M) error) error {
	r, err := NewReader(in, magic)
	if err != nil {
		return err
	}
	w := NewWriter(out, magic)
	for {
		m := empty()
		err := r.Next(m)
		if errors.Is(err, io.EOF) {
			return w.Close()
		}
		if err == nil {
			err = change(m)
		}
		if err == nil {
			err = w.Write(m)
		}
		if err != nil {
			return err
		}
	}
}

// truncated reports an end that came too early as such; other errors are the source's own.
func truncated(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTruncated
	}
	return err
}

// Next reads the next part into m, whose strings and bytes are its own; io.EOF at the end.
func (r *Reader) Next(m proto.Message) error {
	if r.done {
		return io.EOF
	}
	n, err := r.uvarint()
	if err != nil {
		return err
	}
	if n == 0 {
		return r.end()
	}
	if n > bytesMax {
		return fmt.Errorf("part %d of %d bytes: %w", r.count, n, ErrDamaged)
	}
	r.buf.Reset()
	if _, err := io.CopyN(&r.buf, r.in, int64(n)); err != nil {
		return truncated(err)
	}
	r.sum.Write(r.buf.Bytes())
	if err := proto.Unmarshal(r.buf.Bytes(), m); err != nil {
		return fmt.Errorf("part %d: %w: %w", r.count, ErrDamaged, err)
	}
	r.count++
	return nil
}

func (r *Reader) uvarint() (uint64, error) {
	var n uint64
	for shift := uint(0); shift < 64; shift += 7 {
		b, err := r.in.ReadByte()
		if err != nil {
			return 0, truncated(err)
		}
		r.sum.Write([]byte{b})
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n, nil
		}
	}
	return 0, ErrDamaged
}

// end compares what was read with what was written.
func (r *Reader) end() error {
	count, err := r.uvarint()
	if err != nil {
		return err
	}
	want := r.sum.Sum64()
	var sum [8]byte
	if _, err := io.ReadFull(r.in, sum[:]); err != nil {
		return truncated(err)
	}
	if count != r.count || binary.BigEndian.Uint64(sum[:]) != want {
		return fmt.Errorf("%d parts of checksum %x: %w", r.count, want, ErrDamaged)
	}
	if _, err := r.in.ReadByte(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = fmt.Errorf("more after its end: %w", ErrDamaged)
		}
		return err
	}
	r.done = true
	return io.EOF
}

// Row lengthens a list of rows by one and returns the new row. It may reuse a row of an earlier list in the
// same memory, so the caller sets all fields.
func Row[T any](list *[]*T) *T {
	if n := len(*list); n < cap(*list) {
		*list = (*list)[:n+1]
		if r := (*list)[n]; r != nil {
			return r
		}
		*list = (*list)[:n]
	}
	r := new(T)
	*list = append(*list, r)
	return r
}
