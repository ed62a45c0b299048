package subjects

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// A file is a header, the entries by hash, and the postings:
//
//	header    magic, log id (32), first, entries, bytes of postings, CRC of entries and postings
//	entry     hash (8), offset of its postings (4)
//	postings  of one subject: how many, then the differences of the sequences to first and to one another,
//	          as uvarints
//
// Numbers of the header are 64 bits, little-endian.
const (
	magic       = "mwsubj04"
	headerBytes = len(magic) + 32 + 4*8
	entryBytes  = 12
	// fileMax bounds what is read of a file, which somebody else may have written.
	fileMax = 256 << 20
)

// Besides what records are about, they are found by their kind, and as decisions.
const (
	kindPrefix   = "\x00kind/"
	decisionMark = "\x00decision"
)

// KindMark is what the records of a kind are found by in the place of a subject, and DecisionMark what was
// planned. No subject of a record is like them.
func KindMark(kind string) string { return kindPrefix + kind }

// DecisionMark is as KindMark.
func DecisionMark() string { return decisionMark }

var errFile = errors.New("not an index of this log")

func hashOf(subject string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, subject) // it never fails
	return h.Sum64()
}

// chunk collects the postings of one file.
type chunk struct {
	first    uint64
	postings map[uint64]*list
}

// list is of one subject's sequences: how many, the last of them, and the differences as in a file.
type list struct {
	n, last uint64
	steps   []byte
}

func newChunk(first uint64) *chunk { return &chunk{first: first, postings: map[uint64]*list{}} }

// add a record's subjects, once each; sequences come in order.
func (c *chunk) add(seq uint64, subjects []string) {
	for _, s := range subjects {
		h := hashOf(s)
		l := c.postings[h]
		if l == nil {
			l = &list{last: c.first}
			c.postings[h] = l
		}
		if l.n > 0 && l.last == seq {
			continue
		}
		l.steps = binary.AppendUvarint(l.steps, seq-l.last)
		l.n, l.last = l.n+1, seq
	}
}

// find returns the sequences of a subject, in order.
func (c *chunk) find(hash uint64) (seqs []uint64) {
	l := c.postings[hash]
	if l == nil {
		return nil
	}
	last, rest := c.first, l.steps
	for len(rest) > 0 {
		step, n := binary.Uvarint(rest)
		last, rest = last+step, rest[n:]
		seqs = append(seqs, last)
	}
	return seqs
}

func (c *chunk) encode(logID string) []byte {
	var entries, postings []byte
	for _, h := range slices.Sorted(maps.Keys(c.postings)) {
		entries = binary.LittleEndian.AppendUint64(entries, h)
		entries = binary.LittleEndian.AppendUint32(entries, uint32(len(postings)))
		postings = binary.AppendUvarint(postings, c.postings[h].n)
		postings = append(postings, c.postings[h].steps...)
	}
	sum := crc32.Update(crc32.ChecksumIEEE(entries), crc32.IEEETable, postings)
	out := header(logID, c.first)
	for _, n := range []uint64{uint64(len(c.postings)), uint64(len(postings)), uint64(sum)} {
		out = binary.LittleEndian.AppendUint64(out, n)
	}
	return slices.Concat(out, entries, postings)
}

// header up to and including the first sequence.
func header(logID string, first uint64) []byte {
	id := make([]byte, 32)
	copy(id, logID)
	return binary.LittleEndian.AppendUint64(slices.Concat([]byte(magic), id), first)
}

// write makes the file as a whole or not at all.
func (c *chunk) write(path, logID string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".index-*")
	if err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	_, err = f.Write(c.encode(logID))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // half of it is of no use
		return fmt.Errorf("write index: %w", err)
	}
	return nil
}

// file is one whose header and checksum were right when it was found. It is opened to be read, unless none
// of what is looked for is in it.
type file struct {
	path     string
	first    uint64
	entries  int
	postings int64
	filter   filter
}

func (x *file) bytes() int64 { return int64(headerBytes) + int64(x.entries)*entryBytes + x.postings }

// findFile checks a file's header and its checksum.
func findFile(path, logID string, first uint64) (*file, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, headerBytes)
	if _, err := io.ReadFull(f, head); err != nil || !bytes.HasPrefix(head, header(logID, first)) {
		return nil, errFile
	}
	numbers := head[headerBytes-3*8:]
	entries, postings, sum := binary.LittleEndian.Uint64(numbers), binary.LittleEndian.Uint64(numbers[8:]), binary.LittleEndian.Uint64(numbers[16:])
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case entries > fileMax/entryBytes || postings > fileMax || info.Size() != int64(headerBytes)+int64(entries)*entryBytes+int64(postings):
		return nil, errFile
	}
	content, err := io.ReadAll(io.LimitReader(f, info.Size()))
	if err != nil || len(content) != int(entries)*entryBytes+int(postings) || uint64(crc32.ChecksumIEEE(content)) != sum {
		return nil, errFile
	}
	x := &file{path: path, first: first, entries: int(entries), postings: int64(postings), filter: newFilter(int(entries))}
	for i := range x.entries {
		x.filter.add(binary.LittleEndian.Uint64(content[i*entryBytes:]))
	}
	return x, nil
}

// find returns the sequences of each of some subjects, in order.
func (x *file) find(hashes []uint64) (lists [][]uint64, err error) {
	if !slices.ContainsFunc(hashes, x.filter.mayHave) {
		return make([][]uint64, len(hashes)), nil
	}
	f, err := os.Open(x.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() != x.bytes() {
		return nil, errFile
	}
	for _, h := range hashes {
		var seqs []uint64
		if x.filter.mayHave(h) {
			if seqs, err = x.search(f, h); err != nil {
				return nil, err
			}
		}
		lists = append(lists, seqs)
	}
	return lists, nil
}

func (x *file) search(f io.ReaderAt, hash uint64) (seqs []uint64, err error) {
	low, high := 0, x.entries
	var entry [entryBytes]byte
	for low < high {
		middle := (low + high) / 2
		if _, err := f.ReadAt(entry[:], int64(headerBytes+middle*entryBytes)); err != nil {
			return nil, err
		}
		switch at := binary.LittleEndian.Uint64(entry[:]); {
		case at == hash:
			return x.read(f, int64(binary.LittleEndian.Uint32(entry[8:])))
		case at < hash:
			low = middle + 1
		default:
			high = middle
		}
	}
	return nil, nil
}

// read decodes the postings at an offset.
func (x *file) read(f io.ReaderAt, offset int64) ([]uint64, error) {
	in := &byteReader{in: io.NewSectionReader(f, int64(headerBytes+x.entries*entryBytes)+offset, x.postings-offset)}
	n, err := binary.ReadUvarint(in)
	if err != nil || n > ChunkSize {
		return nil, errFile
	}
	seqs := make([]uint64, 0, n)
	last := x.first
	for range n {
		step, err := binary.ReadUvarint(in)
		if last += step; err != nil || last >= x.first+ChunkSize {
			return nil, errFile
		}
		seqs = append(seqs, last)
	}
	return seqs, nil
}

// byteReader reads a section in small blocks.
type byteReader struct {
	in    io.Reader
	block [128]byte
	have  []byte
}

func (r *byteReader) ReadByte() (byte, error) {
	if len(r.have) == 0 {
		n, err := r.in.Read(r.block[:])
		if n == 0 {
			return 0, errors.Join(err, io.ErrUnexpectedEOF)
		}
		r.have = r.block[:n]
	}
	b := r.have[0]
	r.have = r.have[1:]
	return b, nil
}
