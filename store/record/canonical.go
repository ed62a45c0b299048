package record

import (
	"encoding/binary"
	"time"
)

// domain distinguishes these hashes from all others and names the version of the canonical form.
const domain = "millwright/record/1"

// Canonical is the form of a record that is hashed: every field in a fixed order, integers big-endian with
// fixed width, texts and lists preceded by their length, payload and explanation by their SHA-256. Hash
// itself is not part of it.
func Canonical(s Stored) []byte {
	c := canonical(make([]byte, 0, 512))
	c.text(domain)
	c.u64(s.Seq)
	c.time(s.Time)
	c.text(s.Service)
	c.text(s.Mode)
	c.u16(s.Kind)
	c.bool(s.Ignorable)
	c.texts(s.Subjects)
	c.u64(s.Causation)
	c.u32(s.PlannerVersion)
	c.text(s.Position.Incarnation)
	c.u64(s.Position.Sequence)
	c.u64(s.Position.Digest)
	c.u64(s.LedgerSeq)
	c.time(s.Now)
	c.u64(s.OptionsSeq)
	c = append(c, s.PayloadContent.Sum[:]...)
	c = append(c, s.ExplanationContent.Sum[:]...)
	c.texts(s.Advances)
	c = append(c, s.PrevHash[:]...)
	return c
}

type canonical []byte

func (c *canonical) u16(v uint16) { *c = binary.BigEndian.AppendUint16(*c, v) }
func (c *canonical) u32(v uint32) { *c = binary.BigEndian.AppendUint32(*c, v) }
func (c *canonical) u64(v uint64) { *c = binary.BigEndian.AppendUint64(*c, v) }

func (c *canonical) bool(v bool) {
	if v {
		*c = append(*c, 1)
		return
	}
	*c = append(*c, 0)
}

func (c *canonical) time(t time.Time) { c.u64(uint64(nanos(t))) }

func (c *canonical) text(s string) {
	c.u32(uint32(len(s)))
	*c = append(*c, s...)
}

func (c *canonical) texts(list []string) {
	c.u32(uint32(len(list)))
	for _, s := range list {
		c.text(s)
	}
}

// nanos since 1970; 0 for the zero time.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}
