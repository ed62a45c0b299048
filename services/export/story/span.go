package story

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Span is a part of a trace, complete: it is made when it has ended.
type Span struct {
	Trace  [16]byte
	ID     [8]byte
	Parent [8]byte
	Name   string
	// Start and End are times of records; Start is not after End.
	Start, End time.Time
	Attributes []Attribute
	// Links are the roots of other traces.
	Links []Link
	// Failed says why what the span stands for did not come to its end; empty: it did.
	Failed string
}

// Link to a span of another trace.
type Link struct {
	Trace [16]byte
	ID    [8]byte
}

// Attribute of a span. Value is a string, int64, float64 or []string.
type Attribute struct {
	Key   string
	Value any
}

// thread is a trace that is being told: what its spans have in common.
type thread struct {
	trace [16]byte
	root  [8]byte
	// seq is the record that began it, began that record's time.
	seq   uint64
	began time.Time
}

// newThread returns the trace of an object of a log. It follows from its name, and so is the same whoever
// tells it, and however often.
func newThread(logID, subject string, seq uint64, began time.Time) *thread {
	sum := sha256.Sum256([]byte("millwright trace 1\n" + logID + "\n" + subject))
	return &thread{trace: [16]byte(sum[:16]), root: [8]byte(sum[16:24]), seq: seq, began: began}
}

// span returns one below the root. Its id follows from the record that ended it and from what tells it apart
// from others that the same record ends.
func (t *thread) span(name, what string, start, end time.Time, seq uint64, attributes ...Attribute) Span {
	if start.After(end) {
		start = end
	}
	h := sha256.New()
	h.Write(t.trace[:])
	h.Write(binary.BigEndian.AppendUint64(nil, seq))
	h.Write([]byte(name + "\n" + what))
	return Span{Trace: t.trace, ID: [8]byte(h.Sum(nil)), Parent: t.root, Name: name, Start: start, End: end,
		Attributes: append([]Attribute{{"millwright.record", int64(seq)}}, attributes...)}
}

// end returns the root, which stands for the whole story.
func (t *thread) end(name string, end time.Time, seq uint64, failed string, attributes ...Attribute) Span {
	s := Span{Trace: t.trace, ID: t.root, Name: name, Start: t.began, End: end, Failed: failed,
		Attributes: append([]Attribute{{"millwright.record.first", int64(t.seq)}, {"millwright.record.last", int64(seq)}}, attributes...)}
	if s.Start.After(end) {
		s.Start = end
	}
	return s
}
