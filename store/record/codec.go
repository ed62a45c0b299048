package record

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	wire "millwright/proto"
	"millwright/store"
)

// Format is the highest version of the envelope that this program reads. Records are written in the lowest
// one that expresses their form: FormatWhole if everything but numbers and hashes is compressed together,
// FormatPacked if payload and explanation are compressed, each by itself, else FormatPlain.
const (
	FormatPlain  = 1
	FormatPacked = 2
	FormatWhole  = 3
	Format       = FormatWhole
)

// Marshal encodes a sealed record.
func Marshal(s Stored) ([]byte, error) {
	m := &wire.Record{
		Format: FormatPlain, Seq: s.Seq, Time: nanos(s.Time), Service: s.Service, Mode: s.Mode, Kind: uint32(s.Kind),
		Ignorable: s.Ignorable, Subjects: s.Subjects, Causation: s.Causation, PlannerVersion: s.PlannerVersion,
		Incarnation: s.Position.Incarnation, Position: s.Position.Sequence, Digest: s.Position.Digest,
		LedgerSeq: s.LedgerSeq, Now: nanos(s.Now), OptionsSeq: s.OptionsSeq,
		Advances: s.Advances, PrevHash: s.PrevHash[:], Hash: s.Hash[:],
	}
	m.Payload, m.PayloadZstd, m.PayloadHash = s.PayloadContent.split()
	m.Explanation, m.ExplanationZstd, m.ExplanationHash = s.ExplanationContent.split()
	switch {
	case s.packed != nil:
		m.Format, m.Packed = FormatWhole, s.packed
		replace(m, &wire.Record{})
	case m.PayloadZstd != nil || m.ExplanationZstd != nil:
		m.Format = FormatPacked
	}
	m.ProtoReflect().SetUnknown(s.unknown)
	data, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode record %d: %w", s.Seq, err)
	}
	return data, nil
}

// replace replaces the fields of a message that are packed by those of another.
func replace(m, from *wire.Record) {
	m.Service, m.Mode, m.Incarnation = from.GetService(), from.GetMode(), from.GetIncarnation()
	m.Subjects, m.Advances, m.Payload, m.Explanation = from.GetSubjects(), from.GetAdvances(), from.GetPayload(), from.GetExplanation()
}

// split returns the content in the form in which it is stored; the others are nil.
func (c Content) split() (data, zstd, sum []byte) {
	switch {
	case c.Blob:
		return nil, nil, c.Sum[:]
	case c.zstd != nil:
		return nil, c.zstd, nil
	}
	return c.Data, nil, nil
}

// Unmarshal decodes what Marshal encoded. An error is ErrCorrupt; it names seq, the place the bytes were read
// from.
func Unmarshal(seq uint64, data []byte) (Stored, error) {
	s, err := unmarshal(data)
	if err == nil && s.Seq != seq {
		err = fmt.Errorf("holds the sequence %d", s.Seq)
	}
	if err != nil {
		return Stored{}, fmt.Errorf("record %d: %w: %w", seq, err, store.ErrCorrupt)
	}
	return s, nil
}

func unmarshal(data []byte) (Stored, error) {
	m := &wire.Record{}
	if err := proto.Unmarshal(data, m); err != nil {
		return Stored{}, fmt.Errorf("decode: %w", err)
	}
	switch {
	case m.GetFormat() == 0 || m.GetFormat() > Format:
		return Stored{}, fmt.Errorf("format %d is not known to this program (%d)", m.GetFormat(), Format)
	case m.GetKind() > math.MaxUint16:
		return Stored{}, fmt.Errorf("kind %d is out of range", m.GetKind())
	}
	if len(m.GetPacked()) > 0 {
		if err := unpackWhole(m); err != nil {
			return Stored{}, err
		}
	}
	s, err := fromWire(m)
	if err != nil {
		return Stored{}, err
	}
	if s.packed = m.GetPacked(); len(s.packed) == 0 {
		s.packed = nil
	}
	s.unknown = m.ProtoReflect().GetUnknown()
	if sha256.Sum256(Canonical(s)) != s.Hash {
		return Stored{}, errors.New("hash does not match")
	}
	return s, nil
}

func fromWire(m *wire.Record) (Stored, error) {
	s := Stored{Record: store.Record{Seq: m.GetSeq(), Draft: store.Draft{
		Time: fromNanos(m.GetTime()), Service: m.GetService(), Mode: m.GetMode(), Kind: uint16(m.GetKind()),
		Ignorable: m.GetIgnorable(), Subjects: m.GetSubjects(), Causation: m.GetCausation(),
		PlannerVersion: m.GetPlannerVersion(),
		Position:       store.Position{Incarnation: m.GetIncarnation(), Sequence: m.GetPosition(), Digest: m.GetDigest()},
		LedgerSeq:      m.GetLedgerSeq(), Now: fromNanos(m.GetNow()), OptionsSeq: m.GetOptionsSeq(),
		Advances: m.GetAdvances(),
	}}}
	var err error
	if s.PrevHash, err = sum("prev_hash", m.GetPrevHash()); err != nil {
		return s, err
	}
	if s.Hash, err = sum("hash", m.GetHash()); err != nil {
		return s, err
	}
	if s.PayloadContent, err = join("payload", m.GetPayload(), m.GetPayloadZstd(), m.GetPayloadHash()); err != nil {
		return s, err
	}
	if s.ExplanationContent, err = join("explanation", m.GetExplanation(), m.GetExplanationZstd(), m.GetExplanationHash()); err != nil {
		return s, err
	}
	s.Payload, s.Explanation = s.PayloadContent.Data, s.ExplanationContent.Data
	return s, nil
}

// join reverses split.
func join(field string, data, zstd, hash []byte) (Content, error) {
	forms := 0
	for _, form := range [][]byte{data, zstd, hash} {
		if len(form) > 0 {
			forms++
		}
	}
	if forms > 1 {
		return Content{}, fmt.Errorf("%s is stored in %d forms at once", field, forms)
	}
	if len(hash) > 0 {
		s, err := sum(field+"_hash", hash)
		return Content{Sum: s, Blob: true}, err
	}
	if len(zstd) > 0 {
		var err error
		if data, err = unpack(field, zstd); err != nil {
			return Content{}, err
		}
		return Content{Data: data, zstd: zstd, Sum: sha256.Sum256(data)}, nil
	}
	return Content{Data: data, Sum: sha256.Sum256(data)}, nil
}

func sum(field string, b []byte) (out [sha256.Size]byte, err error) {
	if len(b) != len(out) {
		return out, fmt.Errorf("%s has %d bytes", field, len(b))
	}
	copy(out[:], b)
	return out, nil
}
