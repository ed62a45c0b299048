package events

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
)

const checkpointPrefix = "checkpoint/"

// Checkpoint of a World: the fold of one incarnation up to and including Sequence.
type Checkpoint struct {
	Name        string
	Incarnation string
	Sequence    uint64
}

// CheckpointPrefix is what the names of the checkpoints of an incarnation begin with.
func CheckpointPrefix(incarnation string) string { return checkpointPrefix + incarnation + "/" }

// CheckpointName is the blob's name; the order of names of one incarnation is that of sequences.
func CheckpointName(incarnation string, sequence uint64) string {
	return fmt.Sprintf("%s%020d", CheckpointPrefix(incarnation), sequence)
}

// Checkpoints lists all checkpoints, by incarnation and sequence. Blobs with other names are left out.
func Checkpoints(ctx context.Context, blobs Blobs) ([]Checkpoint, error) {
	names, err := blobs.List(ctx, checkpointPrefix)
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	var list []Checkpoint
	for _, name := range names {
		incarnation, digits, ok := strings.Cut(strings.TrimPrefix(name, checkpointPrefix), "/")
		if n, err := strconv.ParseUint(digits, 10, 64); ok && err == nil && CheckpointName(incarnation, n) == name {
			list = append(list, Checkpoint{Name: name, Incarnation: incarnation, Sequence: n})
		}
	}
	return list, nil
}

// checkpointMemoryMax bounds the memory for decompressing a checkpoint, apart from the result.
const checkpointMemoryMax = 64 << 20

// WriteCheckpoint stores what write writes as the checkpoint of a position, compressed, and returns its name
// and the number of bytes stored. It never holds the whole in memory; write may be called more than once.
func WriteCheckpoint(ctx context.Context, blobs Blobs, at Position, write func(io.Writer) error) (name string, stored int64, err error) {
	name = CheckpointName(at.Incarnation, at.Sequence)
	err = blobs.Write(ctx, name, func(out io.Writer) error {
		counted := &counter{out: out}
		// A window of 1 MiB: a larger one saves little and takes its size several times.
		z, err := zstd.NewWriter(counted, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return err
		}
		err = write(z)
		err = errors.Join(err, z.Close())
		stored = counted.n
		return err
	})
	return name, stored, err
}

type counter struct {
	out io.Writer
	n   int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.out.Write(b)
	c.n += int64(n)
	return n, err
}

// LatestCheckpoint reads the newest checkpoint from which the stream continues without a gap and that is not
// beyond the given sequence: folding starts at its Sequence + 1. If read refuses one, or it is damaged, the
// one before it is tried, and passed, if it is not nil, is called. ErrNotFound: none is left, fold from the
// first retained message. Other errors are the store's.
func LatestCheckpoint[T any](ctx context.Context, blobs Blobs, state StreamState, sequence uint64,
	read func(io.Reader) (T, error), passed func(Checkpoint, error)) (result T, at Checkpoint, err error) {
	list, err := Checkpoints(ctx, blobs)
	if err != nil {
		return result, at, err
	}
	for _, c := range slices.Backward(list) {
		if c.Incarnation != state.Incarnation || c.Sequence > min(sequence, state.Last) || c.Sequence+1 < state.First {
			continue
		}
		got, err := ReadCheckpoint(ctx, blobs, c, read)
		switch {
		case err == nil:
			return got, c, nil
		case errors.Is(err, ErrNotFound): // just replaced by a newer one
		case !errors.Is(err, ErrDamaged):
			return result, at, err
		case passed != nil:
			passed(c, err)
		}
	}
	return result, at, fmt.Errorf("checkpoint of %s: %w", state.Incarnation, ErrNotFound)
}

// ReadCheckpoint reads one checkpoint, compressed or, as earlier programs wrote it, uncompressed. ErrDamaged:
// read refuses it, or its bytes are not those that were stored. Other errors are the store's.
func ReadCheckpoint[T any](ctx context.Context, blobs Blobs, c Checkpoint, read func(io.Reader) (T, error)) (result T, err error) {
	blob, err := blobs.Open(ctx, c.Name)
	if err != nil {
		return result, err
	}
	defer blob.Close()
	source := &watched{in: blob}
	result, err = readUnpacked(source, read)
	if err == nil { // the store says only at the end whether all of it is right
		_, err = io.Copy(io.Discard, source)
	}
	var none T
	switch {
	case source.err != nil && !errors.Is(source.err, io.EOF):
		return none, fmt.Errorf("read checkpoint %s: %w", c.Name, source.err)
	case err != nil:
		return none, fmt.Errorf("read checkpoint %s: %w: %w", c.Name, ErrDamaged, err)
	}
	return result, nil
}

// watched remembers the error of its source, to distinguish it from errors in the content.
type watched struct {
	in  io.Reader
	err error
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.in.Read(b)
	if err != nil {
		w.err = err
	}
	return n, err
}

// zstdMagic is the beginning of data that zstd compressed.
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

func readUnpacked[T any](source io.Reader, read func(io.Reader) (T, error)) (result T, err error) {
	in := bufio.NewReaderSize(source, 1<<16)
	if head, _ := in.Peek(len(zstdMagic)); !bytes.Equal(head, zstdMagic) {
		return read(in)
	}
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(checkpointMemoryMax))
	if err != nil {
		return result, err
	}
	defer z.Close()
	return read(z)
}
