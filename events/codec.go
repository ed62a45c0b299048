package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ErrTooLarge: the encoded object exceeds MaxObjectBytes, or the message what the bus accepts. Publish the
// object as OpUnreadable, by name; retrying is useless.
var ErrTooLarge = errors.New("object too large")

// ErrUnknownKind: the object is of a kind that this version does not know, but that of the watcher, a later
// one, does.
var ErrUnknownKind = errors.New("unknown kind")

// Encode returns the message for o. It refuses what Decode would: a zero epoch, an unknown kind or op, an
// object of the wrong type. An object over MaxObjectBytes yields ErrTooLarge.
func Encode(o Observation) ([]byte, error) {
	if err := checkEnvelope(o.Epoch, o.Kind, o.Op); err != nil {
		return nil, fmt.Errorf("encode %s: %w", label(o), err)
	}
	data, err := appendEnvelope(o)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", label(o), err)
	}
	return data, nil
}

// Decode parses a message. The Observation shares nothing with data. An error names what was refused; it
// never panics. With ErrUnknownKind comes the Observation without its object: the World takes in that the
// message was there. ObservedAt is in UTC, zero if it was not set. A Catalog arrives as *CatalogRef; see
// ResolveCatalog.
func Decode(data []byte) (Observation, error) {
	e, err := parseEnvelope(data)
	if err != nil {
		return Observation{}, fmt.Errorf("decode envelope: %w", err)
	}
	o := Observation{
		Epoch: e.epoch, Counter: e.counter, Kind: Kind(e.kind), Op: Op(e.op),
		UID: types.UID(e.uid), Name: string(e.name), ResourceVersion: string(e.version),
	}
	if e.observedAt != 0 {
		o.ObservedAt = time.Unix(0, e.observedAt).UTC()
	}
	if err := checkNumbers(e); err != nil {
		err = fmt.Errorf("decode %q (epoch %d, counter %d): %w", o.Name, o.Epoch, o.Counter, err)
		if errors.Is(err, ErrUnknownKind) {
			return o, err
		}
		return Observation{}, err
	}
	if o.Object, err = decodeObject(o.Kind, o.Op, e.object); err != nil {
		return Observation{}, fmt.Errorf("decode %s: %w", label(o), err)
	}
	return o, nil
}

// label names an observation in errors.
func label(o Observation) string {
	return fmt.Sprintf("%s of %s %q (epoch %d, counter %d)", o.Op, o.Kind, o.Name, o.Epoch, o.Counter)
}

// checkNumbers checks the numbers before they are truncated to the width of Kind and Op.
func checkNumbers(e envelope) error {
	if e.kind > 255 {
		return fmt.Errorf("unknown kind %d", e.kind)
	}
	if e.op > 255 {
		return fmt.Errorf("unknown op %d", e.op)
	}
	return checkEnvelope(e.epoch, Kind(e.kind), Op(e.op))
}

func checkEnvelope(epoch uint64, k Kind, op Op) error {
	if _, ok := opNames[op]; !ok {
		return fmt.Errorf("unknown op %d", op)
	}
	if epoch == 0 {
		return errors.New("epoch is zero")
	}
	if op.aboutObject() != (k != KindNone) {
		return fmt.Errorf("op %s does not go with kind %s", op, k)
	}
	if !k.IsKnown() { // last: all else is as it should be
		return fmt.Errorf("%w %d", ErrUnknownKind, k)
	}
	return nil
}

// protobufObject is what the types of k8s.io/api implement.
type protobufObject interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
	Unmarshal([]byte) error
}

// checkObject refuses an object that does not match kind and op.
func checkObject(o Observation) error {
	if !o.Op.carriesObject() {
		if o.Object != nil {
			return fmt.Errorf("op %s carries no object, got %T", o.Op, o.Object)
		}
		return nil
	}
	if k, ok := kindOf(o.Object); !ok || k != o.Kind {
		return fmt.Errorf("object is %T, want %T", o.Object, newObject(o.Kind))
	}
	return nil
}

func decodeObject(k Kind, op Op, data []byte) (any, error) {
	if !op.carriesObject() {
		if len(data) > 0 {
			return nil, fmt.Errorf("op %s carries no object, got %d bytes", op, len(data))
		}
		return nil, nil
	}
	if len(data) == 0 {
		return nil, errors.New("object is missing")
	}
	if len(data) > MaxObjectBytes {
		return nil, fmt.Errorf("%d bytes: %w", len(data), ErrTooLarge)
	}
	object := newObject(k)
	if p, ok := object.(protobufObject); ok {
		return object, p.Unmarshal(data)
	}
	if u, ok := object.(json.Unmarshaler); ok {
		return object, u.UnmarshalJSON(data) // it validates the JSON itself: json.Unmarshal would do so once more before
	}
	return object, json.Unmarshal(data, object)
}
