package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// The envelope is proto/observation.proto. It is written and read by hand, because the object goes straight
// into the message and out of it: the generated code would copy it both ways.
// TestEnvelopeMatchesGeneratedCode keeps the two the same.

// envelope is a parsed message whose byte fields still point into it.
type envelope struct {
	epoch, counter     uint64
	kind, op           uint64
	uid, name, version []byte
	observedAt         int64
	object             []byte
}

// parseEnvelope skips fields it does not know, as proto.Unmarshal does.
func parseEnvelope(data []byte) (envelope, error) {
	var e envelope
	for len(data) > 0 {
		num, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			return e, protowire.ParseError(n)
		}
		data = data[n:]
		if n = e.field(num, typ, data); n < 0 {
			return e, fmt.Errorf("field %d: %w", num, protowire.ParseError(n))
		}
		data = data[n:]
	}
	if !utf8.Valid(e.uid) || !utf8.Valid(e.name) || !utf8.Valid(e.version) {
		return e, errors.New("text is not UTF-8")
	}
	return e, nil
}

// field consumes the value of one field and returns its length, negative if it is malformed.
func (e *envelope) field(num protowire.Number, typ protowire.Type, data []byte) int {
	switch {
	case typ == protowire.VarintType && num <= 4:
		v, n := protowire.ConsumeVarint(data)
		e.setVarint(num, v)
		return n
	case typ == protowire.BytesType && num >= 5:
		v, n := protowire.ConsumeBytes(data)
		e.setBytes(num, v)
		return n
	case typ == protowire.Fixed64Type && num == 8:
		v, n := protowire.ConsumeFixed64(data)
		e.observedAt = int64(v)
		return n
	}
	return protowire.ConsumeFieldValue(num, typ, data)
}

func (e *envelope) setVarint(num protowire.Number, v uint64) {
	switch num {
	case 1:
		e.epoch = v
	case 2:
		e.counter = v
	case 3:
		e.kind = uint64(uint32(v))
	case 4:
		e.op = uint64(uint32(v))
	}
}

func (e *envelope) setBytes(num protowire.Number, v []byte) {
	switch num {
	case 5:
		e.uid = v
	case 6:
		e.name = v
	case 7:
		e.version = v
	case 9:
		e.object = v
	}
}

// appendEnvelope encodes an observation that was checked.
func appendEnvelope(o Observation) ([]byte, error) {
	if err := checkObject(o); err != nil {
		return nil, err
	}
	size, write, err := objectWriter(o)
	if err != nil {
		return nil, err
	}
	if size > MaxObjectBytes {
		return nil, fmt.Errorf("%d bytes: %w", size, ErrTooLarge)
	}
	const fixed = 64 // tags, lengths and numbers
	data := make([]byte, 0, fixed+len(o.UID)+len(o.Name)+len(o.ResourceVersion)+size)
	data = appendVarint(data, 1, o.Epoch)
	data = appendVarint(data, 2, o.Counter)
	data = appendVarint(data, 3, uint64(o.Kind))
	data = appendVarint(data, 4, uint64(o.Op))
	data = appendString(data, 5, string(o.UID))
	data = appendString(data, 6, o.Name)
	data = appendString(data, 7, o.ResourceVersion)
	if !o.ObservedAt.IsZero() {
		data = protowire.AppendTag(data, 8, protowire.Fixed64Type)
		data = protowire.AppendFixed64(data, uint64(o.ObservedAt.UnixNano()))
	}
	if size == 0 {
		return data, nil
	}
	data = protowire.AppendTag(data, 9, protowire.BytesType)
	data = protowire.AppendVarint(data, uint64(size))
	end := len(data) + size
	data = slices.Grow(data, size)[:end]
	return data, write(data[end-size:])
}

// objectWriter returns the size of the encoded object and a function that writes it into a buffer of that
// size.
func objectWriter(o Observation) (int, func([]byte) error, error) {
	switch object := o.Object.(type) {
	case nil:
		return 0, nil, nil
	case protobufObject:
		return object.Size(), func(buffer []byte) error {
			_, err := object.MarshalToSizedBuffer(buffer)
			return err
		}, nil
	}
	text, err := json.Marshal(o.Object)
	if err == nil && (bytes.Contains(text, yearTenThousand) || bytes.Contains(text, yearMinusOne)) {
		_, err = decodeObject(o.Kind, o.Op, text)
	}
	return len(text), func(buffer []byte) error {
		copy(buffer, text)
		return nil
	}, err
}

// How times of Kubernetes begin that can be written and not be read: they are written in UTC, where the year
// has five digits or a sign in the last or first hours of what RFC 3339 has elsewhere.
var yearTenThousand, yearMinusOne = []byte(`"10000-01-0`), []byte(`"-001-12-3`)

// appendVarint and appendString omit zero values, as proto3 does.
func appendVarint(data []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return data
	}
	return protowire.AppendVarint(protowire.AppendTag(data, num, protowire.VarintType), v)
}

func appendString(data []byte, num protowire.Number, s string) []byte {
	if s == "" {
		return data
	}
	return protowire.AppendString(protowire.AppendTag(data, num, protowire.BytesType), s)
}
