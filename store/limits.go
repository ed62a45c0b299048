package store

import "time"

// KindGenesis is the kind of record 1, the only one that the store writes itself. Its payload is the JSON
// object {"logID": 32 hex digits, "cluster": name}.
const KindGenesis uint16 = 1

// ClockTolerance is how far ahead of a record the time of the previous one may be to be used for it too. A
// writer whose clock is worse does not write, so a time further ahead was written by a clock that was wrong.
const ClockTolerance = 5 * time.Second

// Limits of a record. They are the same in every implementation, so that what passes on one passes on all.
const (
	// MaxInlineBytes of payload are stored in the record; a longer payload becomes a blob, which callers do
	// not notice.
	MaxInlineBytes = 128 << 10
	// MaxInlineExplanationBytes is the same for the explanation (DESIGN §4).
	MaxInlineExplanationBytes = 64 << 10
	// MaxRecordBytes bounds the encoded record, without what became a blob.
	MaxRecordBytes = 512 << 10
	// MaxBlobBytes bounds one blob, and so payload and explanation.
	MaxBlobBytes = 64 << 20
	// DefaultReadLimit is what Read returns at most when its limit is not positive.
	DefaultReadLimit = 1000
	// MaxAggregates bounds the aggregates a draft may name, expected and advanced together; those it retires
	// are among the expected.
	MaxAggregates = 1024
	// MaxAggregateBytes bounds the name of one.
	MaxAggregateBytes = 512
	// MaxSwitchBytes bounds the value of an operator's switch.
	MaxSwitchBytes = 8 << 10
	// MaxCursorBytes bounds the value of a cursor.
	MaxCursorBytes = 8 << 10
)
