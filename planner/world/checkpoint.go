package world

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"millwright/events"
	"millwright/planner/catalog"
	"millwright/planner/parts"
	"millwright/planner/resource"
	"millwright/planner/version"
	wire "millwright/proto/checkpoint"
)

// A checkpoint is the magic text, the version and, from version 4 on, parts (proto/checkpoint/world.proto).
const (
	checkpointMagic   = "MWWORLD"
	checkpointVersion = "\x04"
	// CheckpointMagic begins the parts of a checkpoint.
	CheckpointMagic = checkpointMagic + checkpointVersion
)

// A part is written once it has this many rows or about this many bytes.
const (
	partRows  = 256
	partBytes = 64 << 10
)

// Checkpoint returns the World as bytes. Equal Worlds give equal bytes.
func (w *World) Checkpoint() ([]byte, error) {
	var b bytes.Buffer
	err := w.WriteCheckpoint(&b)
	return b.Bytes(), err
}

// WriteCheckpoint writes the World, one part at a time. On a version it is safe to call concurrently with
// anything.
func (w *World) WriteCheckpoint(out io.Writer) error {
	c := &checkpointWriter{w: w, out: parts.NewWriter(out, checkpointMagic+checkpointVersion)}
	for _, table := range []func() error{
		c.head, c.classes, c.nodes, c.pods, c.objects, c.unreadable, c.offers, c.prices, c.departed, c.out.Close,
	} {
		if err := table(); err != nil {
			return fmt.Errorf("encode world: %w", err)
		}
	}
	return nil
}

// checkpointWriter collects rows into parts.
type checkpointWriter struct {
	w    *World
	out  *parts.Writer
	part wire.WorldPart
	// rows and bytes are those of part.
	rows, bytes int
	// classNumbers by digest.
	classNumbers map[uint64]uint32
}

// row counts one more row of about some bytes, and writes the part if it is large enough.
func (c *checkpointWriter) row(size int) error {
	c.rows, c.bytes = c.rows+1, c.bytes+size
	if c.rows < partRows && c.bytes < partBytes {
		return nil
	}
	return c.flush()
}

// flush writes the rows gathered. Their memory is used again (parts.Row).
func (c *checkpointWriter) flush() error {
	p := &c.part
	err := c.out.Write(p)
	c.rows, c.bytes = 0, 0
	p.Head = nil
	p.PodClasses, p.Nodes, p.Pods, p.Objects, p.Unreadable = p.PodClasses[:0], p.Nodes[:0], p.Pods[:0], p.Objects[:0], p.Unreadable[:0]
	p.InstanceTypes, p.Places, p.TypeLists, p.Catalogs, p.Prices = p.InstanceTypes[:0], p.Places[:0], p.TypeLists[:0], p.Catalogs[:0], p.Prices[:0]
	p.Departed = p.Departed[:0]
	return err
}

func (c *checkpointWriter) head() error {
	w := c.w
	c.part.Head = &wire.WorldHead{
		Incarnation: w.stream.incarnation, Sequence: w.stream.sequence, Digest: w.stream.digest, Epoch: w.stream.epoch,
		Counter: w.stream.counter, Dropped: w.stream.dropped, Generation: w.generation, Torn: w.torn, Synced: w.synced,
		ResyncRunning: w.resync.running, ResyncIntact: w.resync.intact, AsOf: unixNano(w.asOf), ResyncAsOf: unixNano(w.resync.asOf),
	}
	return c.flush()
}

func fromNano(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

func (c *checkpointWriter) classes() error {
	c.classNumbers = make(map[uint64]uint32, c.w.classes.Len())
	for i, class := range c.w.departed.addClasses(c.w.Classes()) {
		c.classNumbers[class.Digest] = uint32(i)
		spec, err := class.Spec.Marshal()
		if err != nil {
			return fmt.Errorf("pod class %x: %w", class.Digest, err)
		}
		r := parts.Row(&c.part.PodClasses)
		r.Digest, r.Labels, r.Annotations, r.Spec = class.Digest, class.Labels, class.Annotations, spec
		r.OwnerKind, r.OwnerApiVersion, r.OwnerName, r.OwnerUid = class.OwnerKind, class.OwnerAPIVersion, class.OwnerName, string(class.OwnerUID)
		r.Requests = amounts(class.Requests)
		if err := c.row(len(spec) + 512); err != nil {
			return err
		}
	}
	return c.flush()
}

func amounts(v resource.Vector) []*wire.Amount {
	var list []*wire.Amount
	for _, n := range v.Names() {
		list = append(list, &wire.Amount{Resource: string(n), Value: v.Get(n)})
	}
	return list
}

func (c *checkpointWriter) nodes() error {
	for _, name := range c.w.nodes.rows.Keys() {
		n := c.w.nodes.row(name)
		r := parts.Row(&c.part.Nodes)
		r.Name, r.Known, r.LastEvent, r.Uid, r.Version = name, n.known, n.lastEvent, string(n.uid), n.version
		r.Mentioned, r.FirstSeen, r.Object = n.known && n.generation == c.w.generation, n.firstSeen, nil
		if n.known {
			b, err := n.Object.Marshal()
			if err != nil {
				return fmt.Errorf("node %s: %w", name, err)
			}
			r.Object = b
		}
		if err := c.row(len(r.Object) + 128); err != nil {
			return err
		}
	}
	return c.flush()
}

func (c *checkpointWriter) pods() error {
	for _, uid := range version.Keys(&c.w.pods.byUID) {
		p := c.w.pods.row(uid)
		c.setPod(parts.Row(&c.part.Pods), &p.Pod, p.generation == c.w.generation)
		if err := c.row(256); err != nil {
			return err
		}
	}
	return c.flush()
}

func (c *checkpointWriter) setPod(r *wire.Pod, p *Pod, mentioned bool) {
	r.Uid, r.Namespace, r.Name, r.Class = string(p.UID), p.Namespace, p.Name, c.classNumbers[p.Class.Digest]
	r.Unschedulable, r.Ready, r.NotReady, r.Mentioned = p.Unschedulable, p.Ready, p.NotReady, mentioned
	r.NodeName, r.NominatedNode, r.Phase = p.NodeName, p.NominatedNode, string(p.Phase)
	r.UnschedulableMessage, r.Version = p.UnschedulableMessage, p.ResourceVersion
	r.Created, r.Started, r.Deleting, r.UnschedulableSince = p.Created, p.Started, p.Deleting, p.UnschedulableSince
	r.Evicted, r.Successor, r.Displaced, r.Fleeing, r.Tried = p.EvictedAt, p.Successor, uint32(p.Displaced), p.Fleeing, p.TriedAt
}

// departed writes the pods that are not created again, last, so that earlier programs read all else.
func (c *checkpointWriter) departed() error {
	for _, owner := range version.Keys(&c.w.departed.byOwner) {
		list, _ := c.w.departed.byOwner.Get(owner)
		for _, d := range list {
			r := parts.Row(&c.part.Departed)
			if r.Pod == nil {
				r.Pod = &wire.Pod{}
			}
			c.setPod(r.Pod, d.pod, false)
			r.At = unixNano(d.at)
			if err := c.row(256); err != nil {
				return err
			}
		}
	}
	return c.flush()
}

func (c *checkpointWriter) objects() error {
	write := func(o object) error {
		setObject(parts.Row(&c.part.Objects), o)
		return c.row(len(o.bytes) + 128)
	}
	for k, t := range c.w.tables() {
		if err := t.each(k, c.w.generation, write); err != nil {
			return err
		}
	}
	if err := c.w.aws.instances.each(events.KindInstanceState, c.w.generation, write); err != nil {
		return err
	}
	if err := c.w.aws.interruptions.each(events.KindInterruption, c.w.generation, write); err != nil {
		return err
	}
	return c.flush()
}

func (c *checkpointWriter) unreadable() error {
	err := c.w.unreadable.each(0, c.w.generation, func(o object) error {
		setObject(parts.Row(&c.part.Unreadable), o)
		return c.row(len(o.bytes) + 128)
	})
	if err != nil {
		return err
	}
	return c.flush()
}

// object is a row of a table as it is stored in a checkpoint.
type object struct {
	kind               events.Kind
	name, uid, version string
	mentioned          bool
	bytes              []byte
}

func setObject(r *wire.Object, o object) {
	r.Kind, r.Name, r.Uid, r.Version, r.Mentioned, r.Object = uint32(o.kind), o.name, o.uid, o.version, o.mentioned, o.bytes
}

// each calls fn with a table's rows by name.
func (t *table[T]) each(kind events.Kind, generation uint32, fn func(object) error) error {
	for _, name := range t.rows.Keys() {
		r, _ := t.rows.Get(name)
		b, err := t.codec.encode(r.value)
		if err != nil {
			return fmt.Errorf("%s %s: %w", kind, name, err)
		}
		if err := fn(object{kind, name, string(r.uid), r.version, r.generation == generation, b}); err != nil {
			return err
		}
	}
	return nil
}

// offers writes each type and each list of places once, then the lists of types, then the catalogues.
func (c *checkpointWriter) offers() error {
	types := catalog.NewTypes()
	numbers, lists := map[*offer]uint32{}, [][]catalog.Numbers{}
	for i, o := range c.w.aws.offers("") {
		numbers[o] = uint32(i + 1)
		lists = append(lists, types.Add(o.list))
	}
	for _, t := range types.Published() {
		if err := appendJSON(c, &c.part.InstanceTypes, t); err != nil {
			return err
		}
	}
	if err := c.flush(); err != nil {
		return err
	}
	for _, p := range types.Places() {
		if err := appendJSON(c, &c.part.Places, p); err != nil {
			return err
		}
	}
	if err := c.flush(); err != nil {
		return err
	}
	for _, list := range lists {
		r := parts.Row(&c.part.TypeLists)
		r.Types, r.Places = r.Types[:0], r.Places[:0]
		for _, n := range list {
			r.Types, r.Places = append(r.Types, n.Type), append(r.Places, n.Places)
		}
		if err := c.row(8 * len(list)); err != nil {
			return err
		}
	}
	if err := c.flush(); err != nil {
		return err
	}
	return c.catalogs(numbers)
}

func appendJSON(c *checkpointWriter, list *[][]byte, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	*list = append(*list, b)
	return c.row(len(b))
}

func (c *checkpointWriter) catalogs(numbers map[*offer]uint32) error {
	for _, name := range slices.Sorted(maps.Keys(c.w.aws.catalogs)) {
		row := c.w.aws.catalogs[name]
		r := parts.Row(&c.part.Catalogs)
		r.Name, r.Hash, r.Mentioned, r.NodeClass = name, row.hash, row.generation == c.w.generation, row.nodeClass
		r.Generation, r.ReservationsAt, r.TypeList = row.classVersion, unixNano(row.reservationsAt), numbers[row.offer]
		r.ZonalShifts = nil
		for _, s := range row.zonalShifts {
			r.ZonalShifts = append(r.ZonalShifts, &wire.ZonalShift{ZoneId: s.ZoneID, Zone: s.Zone, Until: unixNano(s.Until)})
		}
		if err := c.row(128 + 64*len(r.ZonalShifts)); err != nil {
			return err
		}
	}
	return c.flush()
}

func (c *checkpointWriter) prices() error {
	t := &c.w.aws.prices
	for _, k := range t.keys() {
		r := parts.Row(&c.part.Prices)
		r.InstanceType, r.CapacityType, r.Zone = k.InstanceType, k.CapacityType, k.Zone
		r.MicroUsdPerHour, r.Mentioned = t.prices[k], t.generations[k] == c.w.generation
		r.Since, r.Were = r.Since[:0], r.Were[:0]
		for _, step := range t.spot[k] {
			r.Since, r.Were = append(r.Since, step.since), append(r.Were, step.price)
		}
		if err := c.row(64); err != nil {
			return err
		}
	}
	return c.flush()
}
