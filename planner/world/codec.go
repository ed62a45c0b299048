package world

import (
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"maps"
	"slices"

	"millwright/events"
)

// encoder writes varints and length-prefixed bytes. Equal values give equal bytes.
type encoder struct{ buf []byte }

func (e *encoder) uint(n uint64) { e.buf = binary.AppendUvarint(e.buf, n) }
func (e *encoder) int(n int64)   { e.buf = binary.AppendVarint(e.buf, n) }

func (e *encoder) string(s string) {
	e.uint(uint64(len(s)))
	e.buf = append(e.buf, s...)
}

func (e *encoder) stringMap(m map[string]string) {
	e.uint(uint64(len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		e.string(k)
		e.string(m[k])
	}
}

// chain adds a message's identity to the running digest (64-bit FNV-1a).
func chain(digest uint64, o events.Observation) uint64 {
	var e encoder
	e.buf = make([]byte, 0, 128)
	e.uint(digest)
	e.uint(o.Epoch)
	e.uint(o.Counter)
	e.uint(uint64(o.Kind))
	e.uint(uint64(o.Op))
	e.string(string(o.UID))
	e.string(o.Name)
	e.string(o.ResourceVersion)
	h := fnv.New64a()
	h.Write(e.buf)
	return h.Sum64()
}

// codec turns the objects of a table into bytes and back.
type codec[T any] struct {
	encode func(T) ([]byte, error)
	decode func([]byte) (T, error)
}

// jsonCodec serves types whose JSON form is complete and canonical.
func jsonCodec[V any]() codec[*V] {
	return codec[*V]{
		encode: func(v *V) ([]byte, error) { return json.Marshal(v) },
		decode: func(b []byte) (*V, error) {
			v := new(V)
			return v, json.Unmarshal(b, v)
		},
	}
}

type protoMessage[V any] interface {
	*V
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// protoCodec serves the k8s.io/api types, whose protobuf form orders maps by key.
func protoCodec[V any, P protoMessage[V]]() codec[P] {
	return codec[P]{
		encode: func(v P) ([]byte, error) { return v.Marshal() },
		decode: func(b []byte) (P, error) {
			v := P(new(V))
			return v, v.Unmarshal(b)
		},
	}
}

func unreadableCodec() codec[Unreadable] {
	return codec[Unreadable]{
		encode: func(u Unreadable) ([]byte, error) { return json.Marshal(u) },
		decode: func(b []byte) (u Unreadable, err error) { return u, json.Unmarshal(b, &u) },
	}
}

// mark is the generation of a row that was or was not mentioned in the running one.
func mark(mentioned bool, generation uint32) uint32 {
	if mentioned || generation == 0 {
		return generation
	}
	return generation - 1
}
