package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"millwright/planner/parts"
	"millwright/planner/resource"
	"millwright/planner/version"
	wire "millwright/proto/checkpoint"
)

// StateVersion is raised when a Ledger holds what ReadCheckpoint cannot fill in from checkpoints of earlier
// programs; StateVersionOldest is the oldest it still can. An older program does not restore what a newer one
// wrote.
const (
	StateVersion       uint32 = 4 // parts (proto/checkpoint/ledger.proto) instead of JSON
	StateVersionOldest uint32 = 1
)

// CheckpointMagic begins the parts of checkpoints of StateVersion; earlier ones are JSON objects.
const CheckpointMagic = "MWLEDGER\x04"

// A part is written once it has this many rows or about this many bytes.
const (
	partRows  = 256
	partBytes = 64 << 10
)

// Checkpoint returns the Ledger as bytes. Equal Ledgers give equal bytes.
func (l *Ledger) Checkpoint() ([]byte, error) {
	var b bytes.Buffer
	err := l.WriteCheckpoint(&b)
	return b.Bytes(), err
}

// Digest identifies the Ledger's state: equal states, equal digests.
func (l *Ledger) Digest() string {
	d := NewDigester()
	if err := l.WriteCheckpoint(d); err != nil {
		panic("ledger: folded state cannot be encoded: " + err.Error())
	}
	return d.Digest()
}

// Digester computes the Digest of a Ledger from its checkpoint's bytes, which are written to it.
type Digester struct{ h hash.Hash }

// NewDigester returns one that has been given nothing yet.
func NewDigester() Digester { return Digester{sha256.New()} }

// Write never fails.
func (d Digester) Write(b []byte) (int, error) { return d.h.Write(b) }

// Digest of what was written; nothing may be written afterwards.
func (d Digester) Digest() string {
	d.h.Write([]byte{0}) // as earlier programs did
	return hex.EncodeToString(d.h.Sum(nil))
}

// WriteCheckpoint writes the Ledger, one part at a time. On a version it is safe to call concurrently with
// anything.
func (l *Ledger) WriteCheckpoint(out io.Writer) error {
	c := &checkpointWriter{l: l, out: parts.NewWriter(out, CheckpointMagic)}
	for _, table := range []func() error{
		c.head, c.claims, c.commands, c.drains, c.offerings, c.reservations, c.verdicts, c.aggregates, c.shadow, c.subnets,
		c.proposals, c.evictions, c.out.Close,
	} {
		if err := table(); err != nil {
			return fmt.Errorf("encode ledger at %d: %w", l.seq, err)
		}
	}
	return nil
}

// checkpointWriter collects rows into parts.
type checkpointWriter struct {
	l    *Ledger
	out  *parts.Writer
	part wire.LedgerPart
	// rows and bytes are those of part.
	rows, bytes int
	// err is the first payload that could not be encoded.
	err error
}

// row counts one more row of about some bytes, and writes the part if it is large enough.
func (c *checkpointWriter) row(size int) error {
	c.rows, c.bytes = c.rows+1, c.bytes+size
	if c.rows < partRows && c.bytes < partBytes {
		return c.err
	}
	return c.flush()
}

// flush writes the rows gathered. Their memory is used again (parts.Row).
func (c *checkpointWriter) flush() error {
	if c.err != nil {
		return c.err
	}
	p := &c.part
	err := c.out.Write(p)
	c.rows, c.bytes = 0, 0
	p.Head, p.Claims, p.Commands, p.Drains, p.Offerings = nil, p.Claims[:0], p.Commands[:0], p.Drains[:0], p.Offerings[:0]
	p.Reservations, p.Verdicts, p.Aggregates, p.Shadow = p.Reservations[:0], p.Verdicts[:0], p.Aggregates[:0], p.Shadow[:0]
	p.Subnets, p.Proposals, p.Evictions = p.Subnets[:0], p.Proposals[:0], p.Evictions[:0]
	return err
}

// payload is the payload of a record as JSON; nil for none.
func payload[T any](c *checkpointWriter, p *T) []byte {
	if p == nil {
		return nil
	}
	b, err := json.Marshal(p)
	if err != nil && c.err == nil {
		c.err = fmt.Errorf("%T: %w", p, err)
	}
	return b
}

// stamp is nil for the zero time.
func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func amounts(v resource.Vector) []*wire.Amount {
	var list []*wire.Amount
	for _, n := range v.Names() {
		list = append(list, &wire.Amount{Resource: string(n), Value: v.Get(n)})
	}
	return list
}

func (c *checkpointWriter) head() error {
	l := c.l
	h := &wire.LedgerHead{
		LogId: l.logID, Cluster: l.cluster, Seq: l.seq, LastTime: stamp(l.lastTime), OptionsSeq: l.optionsSeq, Options: l.options,
		BackoffFirst: int64(l.backoff.First), BackoffMax: int64(l.backoff.Max), Modes: map[string]string{}, Positions: l.positions,
		Drifts: payload(c, l.drifts), Control: payload(c, l.control), ControlSeq: l.controlSeq, ControlAt: stamp(l.controlAt),
	}
	for service, mode := range l.modes {
		h.Modes[service] = string(mode)
	}
	h.Adopted = append(h.Adopted, slices.Sorted(maps.Keys(l.adopted))...)
	for _, pool := range slices.Sorted(maps.Keys(l.failing)) {
		f := l.failing[pool]
		h.Failing = append(h.Failing, &wire.Failing{NodePool: pool, Failures: int64(f.Failures), Until: stamp(f.Until)})
	}
	for _, pool := range l.Rollouts() {
		r := l.rollouts[pool]
		h.Rollouts = append(h.Rollouts, &wire.Rollout{NodePool: pool, Target: r.Target, Replaced: int64(r.Replaced), At: stamp(r.At), Halted: payload(c, r.Halted)})
	}
	for _, pool := range slices.Sorted(maps.Keys(l.returns)) {
		x := l.returns[pool]
		h.LostReturns = append(h.LostReturns, &wire.LostReturns{NodePool: pool, Times: int64(x.Times), At: stamp(x.At)})
	}
	for _, node := range slices.Sorted(maps.Keys(l.drainOuts)) {
		x := l.drainOuts[node]
		h.DrainOuts = append(h.DrainOuts, &wire.DrainOut{Node: node, Seq: x.Seq, At: stamp(x.At), Claim: x.Claim, ClaimUid: string(x.ClaimUID),
			NodePool: x.NodePool, Policy: x.Policy, Ended: stamp(x.Ended)})
	}
	for _, x := range l.memory.All() {
		h.Memory = append(h.Memory, &wire.Memory{InstanceType: x.Key.InstanceType, Images: x.Key.Images, Bytes: x.Bytes, Seen: stamp(x.Seen)})
	}
	c.part.Head = h
	return c.flush()
}

func (c *checkpointWriter) claims() error {
	for _, name := range c.l.claims.Keys() {
		x := c.l.Claim(name)
		r := parts.Row(&c.part.Claims)
		r.Name, r.Planned, r.PlannedSeq, r.WidenedSeq, r.Earlier = x.Name, payload(c, x.Planned), x.PlannedSeq, x.WidenedSeq, nil
		for _, e := range x.Earlier {
			r.Earlier = append(r.Earlier, &wire.EarlierContent{Seq: e.Seq, Planned: payload(c, e.Planned)})
		}
		r.CommandId, r.NodePool, r.State, r.Uid, r.Attempt = x.CommandID, x.NodePool, string(x.State), string(x.UID), int64(x.Attempt)
		r.Open, r.Failed, r.OpenSeq, r.OpenedAt = payload(c, x.Open), payload(c, x.Failed), x.OpenSeq, stamp(x.OpenedAt)
		r.Instance, r.Node, r.RegisteredAt, r.Doomed = payload(c, x.Instance), x.Node, stamp(x.RegisteredAt), payload(c, x.Doomed)
		r.TakenBy, r.RolledOut, r.RolledOutTo, r.KeptAt, r.Returned, r.Inherited, r.Terminated, r.Capacity = x.TakenBy, x.RolledOut, x.RolledOutTo, stamp(x.KeptAt), x.Returned, x.Inherited, x.Terminated, amounts(x.Capacity)
		if err := c.row(256 + len(r.Planned) + len(r.Open) + len(r.Instance)); err != nil {
			return err
		}
	}
	return c.flush()
}

func (c *checkpointWriter) commands() error {
	for _, id := range c.l.commands.Keys() {
		x := c.l.Command(id)
		r := parts.Row(&c.part.Commands)
		r.Id, r.Seq, r.State, r.Started, r.At = x.ID, x.Seq, string(x.State), payload(c, &x.Started), stamp(x.At)
		if err := c.row(128 + len(r.Started)); err != nil {
			return err
		}
	}
	return c.flush()
}

func (c *checkpointWriter) drains() error {
	for _, node := range c.l.drains.Keys() {
		x := c.l.Drain(node)
		r := parts.Row(&c.part.Drains)
		r.Node, r.Started, r.Seq, r.Tier, r.Drained, r.At = node, payload(c, &x.Started), x.Seq, int64(x.Tier), x.Drained, stamp(x.At)
		r.TierPods, r.HeldPods = nil, nil
		for _, uid := range slices.Sorted(maps.Keys(x.TierPods)) {
			if r.TierPods = append(r.TierPods, string(uid)); !x.TierPods[uid] {
				r.HeldPods = append(r.HeldPods, string(uid))
			}
		}
		r.Surges = nil
		for _, uid := range slices.Sorted(maps.Keys(x.Surges)) {
			surge := x.Surges[uid]
			r.Surges = append(r.Surges, &wire.Surge{PodUid: string(uid), Seq: surge.Seq, At: stamp(surge.At), Deployment: surge.Deployment, Until: stamp(surge.Until)})
		}
		if err := c.row(256 + 40*len(r.TierPods) + 128*len(r.Surges)); err != nil {
			return err
		}
	}
	return c.flush()
}

func (c *checkpointWriter) offerings() error {
	for _, k := range c.l.offeringKeys() {
		u, _ := c.l.offerings.Get(k)
		r := parts.Row(&c.part.Offerings)
		r.InstanceType, r.Zone, r.CapacityType, r.PlacementGroup = k.InstanceType, k.Zone, k.CapacityType, k.PlacementGroup
		r.Until, r.Failures, r.Code, r.Seq = stamp(u.Until), int64(u.Failures), u.Code, u.Seq
		if err := c.row(128); err != nil {
			return err
		}
	}
	return c.flush()
}

func (c *checkpointWriter) reservations() error {
	for _, id := range version.Keys(&c.l.reservations) {
		x := c.l.reservation(id)
		r := parts.Row(&c.part.Reservations)
		r.Id, r.Full, r.Changes = id, stamp(x.Full), nil
		for _, change := range x.Changes {
			r.Changes = append(r.Changes, &wire.ReservationChange{At: stamp(change.At), By: change.By})
		}
		if err := c.row(64 + 32*len(r.Changes)); err != nil {
			return err
		}
	}
	return c.flush()
}

func (c *checkpointWriter) verdicts() error {
	for _, uid := range version.Keys(&c.l.verdicts) {
		x := c.l.Verdict(uid)
		r := parts.Row(&c.part.Verdicts)
		r.PodUid, r.Seq, r.Node, r.Claim, r.Digest = string(uid), x.Seq, x.Node, x.Claim, x.Digest
		r.Namespace, r.Name, r.Since, r.Excluded = x.Pod.Namespace, x.Pod.Name, stamp(x.Since), nil
		for _, e := range x.Excluded {
			r.Excluded = append(r.Excluded, &wire.ExcludedNode{Node: e.Node, Until: stamp(e.Until)})
		}
		if err := c.row(192); err != nil {
			return err
		}
	}
	return c.flush()
}

func (c *checkpointWriter) aggregates() error {
	for _, name := range version.Keys(&c.l.aggregates) {
		r := parts.Row(&c.part.Aggregates)
		r.Name, r.Seq = name, c.l.Aggregate(name)
		if err := c.row(64); err != nil {
			return err
		}
	}
	return c.flush()
}

func (c *checkpointWriter) shadow() error {
	for _, key := range version.Keys(&c.l.shadow) {
		r := parts.Row(&c.part.Shadow)
		r.Key = key
		r.Digest, _ = c.l.shadow.Get(key)
		if err := c.row(128); err != nil {
			return err
		}
	}
	return c.flush()
}

func (c *checkpointWriter) subnets() error {
	for _, id := range version.Keys(&c.l.subnets) {
		u, _ := c.l.subnets.Get(id)
		r := parts.Row(&c.part.Subnets)
		r.Id, r.Until, r.Failures, r.Code, r.Seq = id, stamp(u.Until), int64(u.Failures), u.Code, u.Seq
		if err := c.row(64); err != nil {
			return err
		}
	}
	return c.flush()
}

func (c *checkpointWriter) proposals() error {
	for _, id := range c.l.proposals.Keys() {
		x := c.l.Proposal(id)
		r := parts.Row(&c.part.Proposals)
		r.Id, r.Seq, r.State, r.Proposed, r.Answer, r.At = x.ID, x.Seq, string(x.State), payload(c, &x.Proposed), payload(c, x.Answer), stamp(x.At)
		if err := c.row(128 + len(r.Proposed)); err != nil {
			return err
		}
	}
	return c.flush()
}

func (c *checkpointWriter) evictions() error {
	for _, pool := range slices.Sorted(maps.Keys(c.l.evictions)) {
		for _, x := range c.l.evictions[pool] {
			r := parts.Row(&c.part.Evictions)
			r.NodePool, r.Command, r.At, r.Pods = pool, x.Command, stamp(x.At), int64(x.Pods)
			r.Owners, r.To = x.Owners, x.To
			if err := c.row(96 + 32*(len(x.Owners)+len(x.To))); err != nil {
				return err
			}
		}
	}
	return c.flush()
}
