package archive

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"

	"millwright/store"
)

// magic begins a segment file; what follows it is one zstd stream of frames.
const magic = "millwright/segment/1\n"

// Kinds of frames. A frame is its kind (one byte), the length of its body (four bytes, big-endian) and the
// body.
const (
	frameHeader = 'H'
	frameBlob   = 'B'
	frameRecord = 'R'
	frameEnd    = 'E'
)

// Bounds of one segment and of one frame.
const (
	segmentRecordsMax = 10000
	segmentBytesMax   = 64 << 20
	frameBytesMax     = store.MaxBlobBytes + 1<<10
)

// Segment is one file of the archive.
type Segment struct {
	// First and Last are the sequences of its records, without a gap between them.
	First, Last uint64
	// Path or URL of the file.
	Path string
	// Bytes of the file.
	Bytes   int64
	version string
}

// segmentSuffix ends the names of segments.
const segmentSuffix = ".segment"

// Name of the file.
func (s Segment) Name() string { return fmt.Sprintf("%020d-%020d.segment", s.First, s.Last) }

func (s Segment) contains(seq uint64) bool { return s.First <= seq && seq <= s.Last }

// Summary is what is known of a segment after it was written or verified.
type Summary struct {
	Segment
	// Hash is that of the last record.
	Hash [32]byte
	// SHA256 of the file, hex.
	SHA256  string
	Records int
}

// header is the first frame.
type header struct {
	Cluster string `json:"cluster"`
	LogID   string `json:"logID"`
	First   uint64 `json:"first"`
	// PreviousHash is the hash of the record before First, hex; zeros before record 1.
	PreviousHash string `json:"previousHash"`
	// PreviousSegment is the SHA-256 of the file before; "" in the first.
	PreviousSegment string `json:"previousSegment"`
}

// end is the last frame.
type end struct {
	Last    uint64 `json:"last"`
	Hash    string `json:"hash"`
	Records int    `json:"records"`
}

var nameForm = regexp.MustCompile(`^(\d{20})-(\d{20})\.segment$`)

// parseName returns the segment that a file name stands for; false if it is not a segment's name.
func parseName(name string) (Segment, bool) {
	m := nameForm.FindStringSubmatch(name)
	if m == nil {
		return Segment{}, false
	}
	first, errFirst := strconv.ParseUint(m[1], 10, 64)
	last, errLast := strconv.ParseUint(m[2], 10, 64)
	return Segment{First: first, Last: last}, errFirst == nil && errLast == nil && 0 < first && first <= last
}

func hexOf(hash [32]byte) string { return hex.EncodeToString(hash[:]) }
