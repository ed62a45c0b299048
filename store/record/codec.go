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

// Format is the version of the envelope that this program writes, and the highest it reads.
const Format = 1

// Marshal encodes a sealed record.
func Marshal(s Stored) ([]byte, error) {
	m := &wire.Record{
		Format: Format, Seq: s.Seq, Time: nanos(s.Time), Service: s.Service, Mode: s.Mode, Kind: uint32(s.Kind),
		Ignorable: s.Ignorable, Subjects: s.Subjects, Causation: s.Causation, PlannerVersion: s.PlannerVersion,
		Incarnation: s.Position.Incarnation, Position: s.Position.Sequence, Digest: s.Position.Digest,
		LedgerSeq: s.LedgerSeq, Now: nanos(s.Now), OptionsSeq: s.OptionsSeq,
		Advances: s.Advances, PrevHash: s.PrevHash[:], Hash: s.Hash[:],
	}
	m.Payload, m.PayloadHash = s.PayloadContent.split()
	m.Explanation, m.ExplanationHash = s.ExplanationContent.split()
	data, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode record %d: %w", s.Seq, err)
	}
	return data, nil
}

func (c Content) split() (data, sum []byte) {
	if c.Blob {
		return nil, c.Sum[:]
	}
	return c.Data, nil
}

// Unmarshal decodes what Marshal encoded. An error is ErrCorrupt; it names seq, the place the bytes were read from.
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
	s, err := fromWire(m)
	if err != nil {
		return Stored{}, err
	}
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
		Payload: m.GetPayload(), Explanation: m.GetExplanation(), Advances: m.GetAdvances(),
	}}}
	var err error
	if s.PrevHash, err = sum("prev_hash", m.GetPrevHash()); err != nil {
		return s, err
	}
	if s.Hash, err = sum("hash", m.GetHash()); err != nil {
		return s, err
	}
	if s.PayloadContent, err = join("payload", m.GetPayload(), m.GetPayloadHash()); err != nil {
		return s, err
	}
	s.ExplanationContent, err = join("explanation", m.GetExplanation(), m.GetExplanationHash())
	return s, err
}

func join(field string, data, hash []byte) (Content, error) {
	if len(hash) == 0 {
		return Content{Data: data, Sum: sha256.Sum256(data)}, nil
	}
	if len(data) > 0 {
		return Content{}, fmt.Errorf("%s is inline and a blob at once", field)
	}
	s, err := sum(field+"_hash", hash)
	return Content{Sum: s, Blob: true}, err
}

func sum(field string, b []byte) (out [sha256.Size]byte, err error) {
	if len(b) != len(out) {
		return out, fmt.Errorf("%s has %d bytes", field, len(b))
	}
	copy(out[:], b)
	return out, nil
}
