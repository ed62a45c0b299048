package world

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"

	"k8s.io/apimachinery/pkg/types"

	"millwright/events"
	"millwright/planner/version"
)

// errTruncated: a checkpoint ends before it says it does.
var errTruncated = errors.New("checkpoint truncated")

// encoder writes varints and length-prefixed bytes. Equal values give equal bytes.
type encoder struct{ buf []byte }

func (e *encoder) uint(n uint64) { e.buf = binary.AppendUvarint(e.buf, n) }
func (e *encoder) int(n int64)   { e.buf = binary.AppendVarint(e.buf, n) }

func (e *encoder) bool(b bool) {
	if b {
		e.buf = append(e.buf, 1)
	} else {
		e.buf = append(e.buf, 0)
	}
}

func (e *encoder) string(s string) {
	e.uint(uint64(len(s)))
	e.buf = append(e.buf, s...)
}

func (e *encoder) bytes(b []byte) {
	e.uint(uint64(len(b)))
	e.buf = append(e.buf, b...)
}

func (e *encoder) stringMap(m map[string]string) {
	e.uint(uint64(len(m)))
	for _, k := range sortedKeys(m) {
		e.string(k)
		e.string(m[k])
	}
}

// decoder reads what encoder wrote. The first fault sticks; after it all values are zero.
type decoder struct {
	buf []byte
	err error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.buf = nil
}

func (d *decoder) uint() uint64 {
	n, size := binary.Uvarint(d.buf)
	if size <= 0 {
		d.fail(errTruncated)
		return 0
	}
	d.buf = d.buf[size:]
	return n
}

func (d *decoder) int() int64 {
	n, size := binary.Varint(d.buf)
	if size <= 0 {
		d.fail(errTruncated)
		return 0
	}
	d.buf = d.buf[size:]
	return n
}

// count reads a number of items; each takes at least one byte, which bounds it.
func (d *decoder) count() int {
	n := d.uint()
	if n > uint64(len(d.buf)) {
		d.fail(errTruncated)
		return 0
	}
	return int(n)
}

func (d *decoder) bool() bool {
	if len(d.buf) == 0 {
		d.fail(errTruncated)
		return false
	}
	b := d.buf[0]
	d.buf = d.buf[1:]
	return b == 1
}

// bytes returns a part of the buffer, not a copy.
func (d *decoder) bytes() []byte {
	n := d.count()
	if d.err != nil {
		return nil
	}
	b := d.buf[:n:n]
	d.buf = d.buf[n:]
	return b
}

func (d *decoder) string() string { return string(d.bytes()) }

func (d *decoder) stringMap() map[string]string {
	n := d.count()
	if n == 0 {
		return nil
	}
	m := make(map[string]string, n)
	for range n {
		k := d.string()
		m[k] = d.string()
	}
	return m
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

// encode writes a table's rows by name.
func (t *table[T]) encode(e *encoder, generation uint32) {
	e.uint(uint64(t.rows.Len()))
	for _, name := range t.rows.Keys() {
		r, _ := t.rows.Get(name)
		b, err := t.codec.encode(r.value)
		if err != nil {
			panic(fmt.Sprintf("world: a decoded object cannot be encoded: %s: %v", name, err))
		}
		e.string(name)
		e.string(string(r.uid))
		e.string(r.version)
		e.bool(r.generation == generation)
		e.bytes(b)
	}
}

func (t *table[T]) decode(owner *version.Owner, d *decoder, generation uint32) error {
	for range d.count() {
		name := d.string()
		r := &row[T]{uid: types.UID(d.string()), version: d.string(), generation: mark(d.bool(), generation)}
		v, err := t.codec.decode(d.bytes())
		if d.err != nil {
			return d.err
		}
		if err != nil {
			return fmt.Errorf("decode %s: %w", name, err)
		}
		r.value = v
		t.rows.Set(owner, name, r)
	}
	return d.err
}

// mark is the generation of a row that was or was not mentioned in the running one.
func mark(mentioned bool, generation uint32) uint32 {
	if mentioned || generation == 0 {
		return generation
	}
	return generation - 1
}
