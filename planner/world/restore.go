package world

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/events"
	"millwright/planner/catalog"
	"millwright/planner/intern"
	"millwright/planner/parts"
	"millwright/planner/resource"
	"millwright/planner/version"
	wire "millwright/proto/checkpoint"
)

// ErrCheckpoint is wrapped by the errors of Restore: the bytes are not a checkpoint that this version can
// read. Fold from an older checkpoint or from the start instead.
var ErrCheckpoint = errors.New("unreadable world checkpoint")

// Restore is ReadCheckpoint from bytes.
func Restore(data []byte) (*World, error) { return ReadCheckpoint(bytes.NewReader(data)) }

// ReadCheckpoint returns the World in a checkpoint of this version or of an earlier one. It folds on as the
// checkpointed one would have. It returns a complete World or none: the error wraps ErrCheckpoint, or is the
// error of reading from in.
func ReadCheckpoint(in io.Reader) (*World, error) {
	w := New()
	if err := w.read(bufio.NewReader(in)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	return w, nil
}

func (w *World) read(in *bufio.Reader) error {
	head, err := in.Peek(len(checkpointMagic) + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case err != nil || string(head[:len(checkpointMagic)]) != checkpointMagic:
		return errors.New("no magic number")
	}
	if string(head[len(checkpointMagic):]) == checkpointVersion {
		return w.readParts(in)
	}
	if _, err := in.Discard(len(checkpointMagic)); err != nil {
		return err
	}
	format, err := binary.ReadUvarint(in)
	if err != nil || format < formatOldestBefore || format > formatBefore {
		return fmt.Errorf("version %d, want %d", format, checkpointVersion[0])
	}
	return w.restoreBefore(format, in)
}

func (w *World) readParts(in io.Reader) error {
	r, err := parts.NewReader(in, checkpointMagic+checkpointVersion)
	if err != nil {
		return err
	}
	c := &checkpointReader{w: w}
	for {
		part := &wire.WorldPart{}
		err := r.Next(part)
		if errors.Is(err, io.EOF) {
			return c.finish()
		}
		if err != nil {
			return err
		}
		if err := c.addPart(part); err != nil {
			return err
		}
	}
}

// checkpointReader fills a World with parts.
type checkpointReader struct {
	w      *World
	headed bool
	// What later rows refer to by number.
	classes []*PodClass
	types   []events.CatalogInstanceType
	places  []events.CatalogInstanceType
	offers  []*offer
}

func (c *checkpointReader) addPart(p *wire.WorldPart) error {
	if p.Head != nil {
		c.head(p.Head)
	}
	if !c.headed {
		return errors.New("its head is missing")
	}
	return errors.Join(
		each(p.PodClasses, c.class), each(p.Nodes, c.node), each(p.Pods, c.pod), each(p.Objects, c.object), each(p.Unreadable, c.unreadable),
		each(p.InstanceTypes, c.instanceType), each(p.Places, c.place), each(p.TypeLists, c.typeList), each(p.Catalogs, c.catalog), each(p.Prices, c.price), each(p.Departed, c.departed),
	)
}

// each stops at the first error.
func each[T any](list []T, fn func(T) error) error {
	for _, r := range list {
		if err := fn(r); err != nil {
			return err
		}
	}
	return nil
}

func (c *checkpointReader) finish() error {
	if !c.headed {
		return errors.New("its head is missing")
	}
	return nil
}

func (c *checkpointReader) head(h *wire.WorldHead) {
	w := c.w
	w.stream = position{
		incarnation: h.Incarnation, sequence: h.Sequence, digest: h.Digest, epoch: h.Epoch, counter: h.Counter, dropped: h.Dropped,
	}
	w.generation, w.torn, w.synced = h.Generation, h.Torn, h.Synced
	w.resync = resync{running: h.ResyncRunning, intact: h.ResyncIntact, asOf: fromNano(h.ResyncAsOf)}
	w.asOf = fromNano(h.AsOf)
	c.headed = true
}

func (c *checkpointReader) class(r *wire.PodClass) error {
	class := &PodClass{
		Digest: r.Digest, Labels: r.Labels, Annotations: r.Annotations, Spec: &corev1.PodSpec{}, Requests: vectorOf(r.Requests),
		OwnerKind: intern.String(r.OwnerKind), OwnerAPIVersion: intern.String(r.OwnerApiVersion), OwnerName: r.OwnerName, OwnerUID: types.UID(r.OwnerUid),
	}
	if err := class.Spec.Unmarshal(r.Spec); err != nil {
		return fmt.Errorf("decode pod class %x: %w", r.Digest, err)
	}
	c.classes = append(c.classes, class)
	return nil
}

func vectorOf(list []*wire.Amount) (v resource.Vector) {
	for _, a := range list {
		v.Set(corev1.ResourceName(intern.String(a.Resource)), a.Value)
	}
	return v
}

func (c *checkpointReader) node(n *wire.Node) error {
	w, name := c.w, intern.String(n.Name)
	r := w.nodes.edit(w.owner, name)
	r.known, r.lastEvent = n.Known, n.LastEvent
	if !r.known {
		return nil
	}
	r.Object = &corev1.Node{}
	if err := r.Object.Unmarshal(n.Object); err != nil {
		return fmt.Errorf("decode node %s: %w", name, err)
	}
	r.uid, r.version = types.UID(n.Uid), n.Version
	r.generation, r.firstSeen = mark(n.Mentioned, w.generation), n.FirstSeen
	r.setAmounts()
	w.nodes.moveProvider(w.owner, name, "", r.providerID())
	return nil
}

func (c *checkpointReader) pod(p *wire.Pod) error {
	read, err := c.podOf(p)
	if err != nil {
		return err
	}
	r := &podRow{Pod: *read, generation: mark(p.Mentioned, c.w.generation)}
	if c.w.pods.row(r.UID) != nil {
		return fmt.Errorf("pod %s/%s comes twice", p.Namespace, p.Name)
	}
	c.w.countClass(r.Class, 1)
	c.w.pods.byUID.Set(c.w.owner, r.UID, r)
	c.w.pods.byName.Set(c.w.owner, r.name(), r.UID)
	c.w.attach(r)
	return nil
}

func (c *checkpointReader) podOf(p *wire.Pod) (*Pod, error) {
	if int64(p.Class) >= int64(len(c.classes)) {
		return nil, fmt.Errorf("pod %s/%s is of class %d of %d", p.Namespace, p.Name, p.Class, len(c.classes))
	}
	return &Pod{
		UID: types.UID(p.Uid), Namespace: intern.String(p.Namespace), Name: p.Name, Class: c.classes[p.Class],
		NodeName: intern.String(p.NodeName), NominatedNode: intern.String(p.NominatedNode), Phase: corev1.PodPhase(intern.String(p.Phase)),
		Unschedulable: p.Unschedulable, Ready: p.Ready, NotReady: p.NotReady, UnschedulableMessage: intern.String(p.UnschedulableMessage),
		ResourceVersion: p.Version, Created: p.Created, Started: p.Started, Deleting: p.Deleting, UnschedulableSince: p.UnschedulableSince,
		EvictedAt: p.Evicted, Successor: p.Successor, Displaced: uint8(min(p.Displaced, math.MaxUint8)), Fleeing: p.Fleeing,
		TriedAt: p.Tried,
	}, nil
}

func (c *checkpointReader) departed(d *wire.Departed) error {
	if d.Pod == nil {
		return errors.New("a departed pod is missing")
	}
	p, err := c.podOf(d.Pod)
	if err != nil {
		return err
	}
	c.w.departed.add(c.w.owner, departure{p, fromNano(d.At)})
	return nil
}

func (c *checkpointReader) object(o *wire.Object) error {
	kind := events.Kind(o.Kind)
	t := c.w.table(kind)
	switch kind {
	case events.KindInstanceState:
		t = &c.w.aws.instances
	case events.KindInterruption:
		t = &c.w.aws.interruptions
	}
	if t == nil {
		return fmt.Errorf("%s is of unknown kind %d", o.Name, o.Kind)
	}
	if err := t.restore(c.w.owner, o, c.w.generation); err != nil {
		return err
	}
	if kind == events.KindNodeClaim {
		c.w.shareRestored(o)
	}
	return nil
}

func (c *checkpointReader) unreadable(o *wire.Object) error {
	return c.w.unreadable.restore(c.w.owner, o, c.w.generation)
}

// restore puts a row back into a table.
func (t *table[T]) restore(owner *version.Owner, o *wire.Object, generation uint32) error {
	v, err := t.codec.decode(o.Object)
	if err != nil {
		return fmt.Errorf("decode %s: %w", o.Name, err)
	}
	t.rows.Set(owner, o.Name, &row[T]{value: v, uid: types.UID(o.Uid), version: o.Version, generation: mark(o.Mentioned, generation)})
	return nil
}

func (c *checkpointReader) instanceType(b []byte) error {
	var t events.CatalogInstanceType
	if err := json.Unmarshal(b, &t); err != nil {
		return fmt.Errorf("decode instance type %d: %w", len(c.types), err)
	}
	c.types = append(c.types, t)
	return nil
}

func (c *checkpointReader) place(b []byte) error {
	var p events.CatalogInstanceType
	if err := json.Unmarshal(b, &p); err != nil {
		return fmt.Errorf("decode places %d: %w", len(c.places), err)
	}
	c.places = append(c.places, p)
	return nil
}

func (c *checkpointReader) typeList(r *wire.TypeList) error {
	if len(r.Types) != len(r.Places) {
		return fmt.Errorf("list of %d types in %d places", len(r.Types), len(r.Places))
	}
	list := make([]events.CatalogInstanceType, len(r.Types))
	for i, n := range r.Types {
		if int64(n) >= int64(len(c.types)) || int64(r.Places[i]) >= int64(len(c.places)) {
			return fmt.Errorf("type %d of %d in places %d of %d", n, len(c.types), r.Places[i], len(c.places))
		}
		list[i] = catalog.At(c.types[n], c.places[r.Places[i]])
	}
	var like []*catalog.List
	for _, o := range c.offers {
		like = append(like, o.list)
	}
	c.offers = append(c.offers, &offer{list: catalog.NewList(list, like...)})
	return nil
}

func (c *checkpointReader) catalog(r *wire.Catalog) error {
	row := &catalogRow{
		hash: r.Hash, generation: mark(r.Mentioned, c.w.generation), nodeClass: r.NodeClass, classVersion: r.Generation,
		reservationsAt: fromNano(r.ReservationsAt),
	}
	for _, s := range r.ZonalShifts {
		row.zonalShifts = append(row.zonalShifts, events.ZonalShift{ZoneID: s.ZoneId, Zone: s.Zone, Until: fromNano(s.Until)})
	}
	switch n := int(r.TypeList); {
	case n > len(c.offers):
		return fmt.Errorf("catalogue of %s has list %d of %d", r.Name, n, len(c.offers))
	case n > 0:
		row.offer = c.offers[n-1]
	}
	c.w.aws.catalogs[r.Name] = row
	return nil
}

func (c *checkpointReader) price(r *wire.Price) error {
	k := catalog.PriceKey{InstanceType: intern.String(r.InstanceType), CapacityType: intern.String(r.CapacityType), Zone: intern.String(r.Zone)}
	t := &c.w.aws.prices
	t.prices[k], t.generations[k] = r.MicroUsdPerHour, mark(r.Mentioned, c.w.generation)
	if len(r.Since) != len(r.Were) {
		return fmt.Errorf("price of %s in %s has %d times and %d prices", r.InstanceType, r.Zone, len(r.Since), len(r.Were))
	}
	for i, since := range r.Since {
		t.spot[k] = append(t.spot[k], spotStep{since, r.Were[i]})
	}
	t.remember(k, r.MicroUsdPerHour, c.w.asOf) // earlier versions kept no past
	return nil
}
