package record

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	wire "millwright/proto"
	"millwright/store"
)

// packMin is the length from which content is worth compressing.
const packMin = 256

// packer and unpacker keep nothing between calls and may be used concurrently; creating one for each record
// would cost more than it saves. They are created here, and packer is used once, so that the channels inside
// belong to no test's bubble.
var (
	packer   = newPacker()
	unpacker = newUnpacker()
)

func newPacker() *zstd.Encoder {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(false))
	if err != nil {
		panic("record: options of zstd are wrong: " + err.Error())
	}
	w.EncodeAll([]byte("once"), nil)
	return w
}

func newUnpacker() *zstd.Decoder {
	r, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(store.MaxBlobBytes))
	if err != nil {
		panic("record: options of zstd are wrong: " + err.Error())
	}
	return r
}

// packed compresses inline content if that makes it shorter.
func (c Content) packed() Content {
	if c.Blob || len(c.Data) < packMin {
		return c
	}
	if z := packer.EncodeAll(c.Data, nil); len(z) < len(c.Data) {
		c.zstd = z
	}
	return c
}

// unpack returns what was compressed.
func unpack(field string, z []byte) ([]byte, error) {
	data, err := unpacker.DecodeAll(z, nil)
	if err != nil {
		return nil, fmt.Errorf("decompress %s: %w", field, err)
	}
	return data, nil
}

// pack compresses what a message holds in its field packed; nil if that is not shorter.
func (p *Prepared) pack() []byte {
	d, m := p.Draft, &wire.Record{}
	replace(m, &wire.Record{Service: d.Service, Mode: d.Mode, Incarnation: d.Position.Incarnation, Subjects: d.Subjects, Advances: d.Advances,
		Payload: p.Payload.Data, Explanation: p.Explanation.Data})
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil // texts that are not UTF-8: refused where the record is encoded
	}
	if z := packer.EncodeAll(data, nil); len(z) < len(data) {
		return z
	}
	return nil
}

// unpackWhole unpacks the fields that the message holds packed.
func unpackWhole(m *wire.Record) error {
	data, err := unpack("packed", m.GetPacked())
	if err != nil {
		return err
	}
	inner := &wire.Record{}
	if err := proto.Unmarshal(data, inner); err != nil {
		return fmt.Errorf("decode packed: %w", err)
	}
	replace(m, inner)
	return nil
}
