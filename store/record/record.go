package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"millwright/store"
)

// Content is the payload or the explanation of a record. Sum is always that of the whole content.
type Content struct {
	// Data is nil when the content is a blob.
	Data []byte
	Sum  [sha256.Size]byte
	// zstd is Data compressed; nil where it is stored as it is.
	zstd []byte
	// Blob: the content is stored separately under Sum.
	Blob bool
}

// BlobName is the name of the content's blob.
func (c Content) BlobName() string { return hex.EncodeToString(c.Sum[:]) }

func newContent(data []byte, maxInline int) Content {
	c := Content{Sum: sha256.Sum256(data)}
	if c.Blob = len(data) > maxInline; !c.Blob {
		c.Data = data
	}
	return c
}

// Prepared is a valid draft, with everything that does not depend on its place in the log computed once.
type Prepared struct {
	Draft                store.Draft
	Payload, Explanation Content
	// packed is most of it compressed, nil where that is not shorter.
	packed []byte
}

// Prepare checks a draft against the limits of package store and normalises its times to UTC. It returns
// ErrTooLarge, or an error that says which field cannot be stored. The result shares nothing with the draft.
func Prepare(d store.Draft) (*Prepared, error) {
	if err := check(d); err != nil {
		return nil, err
	}
	d = clone(d)
	d.Time, d.Now = normal(d.Time), normal(d.Now)
	p := &Prepared{Draft: d, Payload: newContent(d.Payload, store.MaxInlineBytes), Explanation: explanation(d)}
	if d.Format >= FormatWhole {
		p.packed = p.pack()
	}
	if p.packed == nil && d.Format >= FormatPacked {
		p.Payload, p.Explanation = p.Payload.packed(), p.Explanation.packed()
	}
	return p, nil
}

// explanation is a blob that is not stored anywhere if only its hash is kept.
func explanation(d store.Draft) Content {
	if d.OmitExplanation && len(d.Explanation) > 0 {
		return newContent(d.Explanation, 0)
	}
	return newContent(d.Explanation, store.MaxInlineExplanationBytes)
}

// Bytes is an upper bound of the size of the stored record.
func (p *Prepared) Bytes() int {
	if p.packed != nil {
		return envelopeBytes(store.Draft{}) + len(p.packed)
	}
	return envelopeBytes(p.Draft) + p.Payload.bytes() + p.Explanation.bytes()
}

// bytes are those that the content takes in its record.
func (c Content) bytes() int {
	if c.zstd != nil {
		return len(c.zstd)
	}
	return len(c.Data)
}

// Place is what a record's place in the log depends on: the record before it.
type Place struct {
	store.Head
	Time time.Time
}

// Seal gives the draft the place after prev: sequence, time, hashes. A time a little before prev's becomes
// prev's; one far before it stays, because then prev is from the future.
func (p *Prepared) Seal(prev Place) Stored {
	s := Stored{PayloadContent: p.Payload, ExplanationContent: p.Explanation, packed: p.packed}
	s.Draft = p.Draft
	s.Draft.Expects, s.Draft.Retires, s.Draft.Switches, s.Draft.Lease = nil, nil, nil, store.Lease{}
	s.Draft.Format = 0
	if s.Draft.OmitExplanation {
		s.Draft.OmitExplanation, s.Draft.Explanation = false, nil
	}
	s.Seq, s.PrevHash = prev.Seq+1, prev.Hash
	if ahead := prev.Time.Sub(s.Time); ahead > 0 && ahead <= store.ClockTolerance {
		s.Time = prev.Time
	}
	s.Hash = sha256.Sum256(Canonical(s))
	return s
}

// Stored is a record as the log keeps it. In the embedded Record, Payload and Explanation are those of the
// draft, even if they became blobs; after Unmarshal they are then nil.
type Stored struct {
	store.Record
	PayloadContent, ExplanationContent Content
	// packed as in Prepared.
	packed []byte
	// unknown are fields of a later version, as they were encoded: they go into the archive too.
	unknown []byte
}

// Place of the record that follows.
func (s Stored) Place() Place {
	return Place{Head: store.Head{Seq: s.Seq, Hash: s.Hash}, Time: s.Time}
}

// Follows reports why s cannot be the record after prev, as ErrCorrupt.
func (s Stored) Follows(prev store.Head) error {
	switch {
	case s.Seq != prev.Seq+1:
		return fmt.Errorf("record %d: stands after record %d: %w", s.Seq, prev.Seq, store.ErrCorrupt)
	case s.PrevHash != prev.Hash:
		return fmt.Errorf("record %d: does not continue the hash of record %d: %w", s.Seq, prev.Seq, store.ErrCorrupt)
	}
	return nil
}

func clone(d store.Draft) store.Draft {
	d.Payload, d.Explanation = bytes.Clone(d.Payload), bytes.Clone(d.Explanation)
	d.Subjects, d.Advances, d.Retires = slices.Clone(d.Subjects), slices.Clone(d.Advances), slices.Clone(d.Retires)
	d.Expects, d.Switches = maps.Clone(d.Expects), maps.Clone(d.Switches)
	return d
}

func normal(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.Round(0).UTC()
}

func check(d store.Draft) error {
	if len(d.Payload) > store.MaxBlobBytes || len(d.Explanation) > store.MaxBlobBytes {
		return fmt.Errorf("payload of %d and explanation of %d bytes: %w", len(d.Payload), len(d.Explanation), store.ErrTooLarge)
	}
	if n := envelopeBytes(d) + store.MaxInlineBytes + store.MaxInlineExplanationBytes; n > store.MaxRecordBytes {
		return fmt.Errorf("record of up to %d bytes: %w", n, store.ErrTooLarge)
	}
	if n := len(d.Expects) + len(d.Advances); n > store.MaxAggregates {
		return fmt.Errorf("%d aggregates: %w", n, store.ErrTooLarge)
	}
	for _, t := range []time.Time{d.Time, d.Now} {
		if !storable(t) {
			return fmt.Errorf("time %s cannot be stored", t)
		}
	}
	return checkTexts(d)
}

func checkTexts(d store.Draft) error {
	for _, s := range slices.Concat(d.Subjects, d.Advances, []string{d.Service, d.Mode, d.Position.Incarnation}) {
		if !utf8.ValidString(s) {
			return fmt.Errorf("text %q is not UTF-8", s)
		}
	}
	for _, a := range d.Advances {
		if err := checkAggregate(a); err != nil {
			return err
		}
	}
	for a := range d.Expects {
		if err := checkAggregate(a); err != nil {
			return err
		}
	}
	for _, a := range d.Retires {
		if d.Expects[a] == 0 || slices.Contains(d.Advances, a) {
			return fmt.Errorf("aggregate %s is retired, but not expected where it stands, or advanced", a)
		}
	}
	for name, value := range d.Switches {
		if err := checkAggregate(name); err != nil {
			return fmt.Errorf("switch: %w", err)
		}
		if len(value) > store.MaxSwitchBytes {
			return fmt.Errorf("switch %s of %d bytes: %w", name, len(value), store.ErrTooLarge)
		}
	}
	return nil
}

func checkAggregate(name string) error {
	if name == "" || len(name) > store.MaxAggregateBytes || !utf8.ValidString(name) {
		return fmt.Errorf("aggregate name %q is not valid", name)
	}
	return nil
}

// storable: the zero time, or between the years 1678 and 2262 and not the one instant that represents zero.
func storable(t time.Time) bool {
	const second = int64(time.Second)
	if t.IsZero() {
		return true
	}
	s := t.Unix()
	return s > math.MinInt64/second && s < math.MaxInt64/second && t.UnixNano() != 0
}

// envelopeBytes bounds the encoded size of all but payload and explanation.
func envelopeBytes(d store.Draft) int {
	n := 320 + len(d.Service) + len(d.Mode) + len(d.Position.Incarnation)
	for _, s := range d.Subjects {
		n += len(s) + 6
	}
	for _, a := range d.Advances {
		n += len(a) + 6
	}
	return n
}
