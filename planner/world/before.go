package world

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/events"
	"millwright/planner/catalog"
	"millwright/planner/intern"
	"millwright/planner/resource"
	"millwright/planner/version"
)

// Checkpoints of earlier programs: the magic text and the version, then stream, resync, classes by digest,
// nodes, pods by UID, one table per kind in the order of kind numbers, unreadable objects, EC2. Integers are
// varints, strings and objects length-prefixed. A row carries "mentioned in the running resync" instead of
// its generation. Version 2 holds the types of each catalogue, version 3 lists of types that catalogues name
// by number.
const (
	formatBefore       = 3
	formatOldestBefore = 2
)

// restoreBefore reads what follows the magic text and the version.
func (w *World) restoreBefore(format uint64, in io.Reader) error {
	data, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	d := &decoder{buf: data}
	w.decodeStream(d)
	classes, err := w.decodeClasses(d)
	if err != nil {
		return err
	}
	if err := w.decodeNodes(d); err != nil {
		return err
	}
	if err := w.decodePods(d, classes); err != nil {
		return err
	}
	for k, t := range w.tables() {
		if k >= events.KindDisruptionPolicy && k < events.KindCatalog {
			continue // came later
		}
		if got := events.Kind(d.uint()); got != k {
			return fmt.Errorf("table of %s where %s was expected", got, k)
		}
		if err := t.decode(w.owner, d, w.generation); err != nil {
			return err
		}
	}
	if err := w.unreadable.decode(w.owner, d, w.generation); err != nil {
		return err
	}
	decodeCatalogs := w.aws.decodeCatalogs
	if format == formatOldestBefore {
		decodeCatalogs = w.aws.decodeCatalogsBefore
	}
	if err := decodeCatalogs(d, w.generation); err != nil {
		return err
	}
	if err := w.aws.decode(w.owner, d, w.asOf, w.generation); err != nil {
		return err
	}
	if len(d.buf) > 0 {
		return fmt.Errorf("%d bytes too many", len(d.buf))
	}
	return d.err
}

func (w *World) decodeStream(d *decoder) {
	w.stream.incarnation = d.string()
	for _, p := range []*uint64{&w.stream.sequence, &w.stream.digest, &w.stream.epoch, &w.stream.counter, &w.stream.dropped} {
		*p = d.uint()
	}
	w.generation = uint32(d.uint())
	for _, p := range []*bool{&w.torn, &w.synced, &w.resync.running, &w.resync.intact} {
		*p = d.bool()
	}
	w.asOf, w.resync.asOf = fromNano(d.int()), fromNano(d.int())
}

func (w *World) decodeClasses(d *decoder) ([]*PodClass, error) {
	var list []*PodClass
	for range d.count() {
		c := &PodClass{Digest: d.uint(), Labels: d.stringMap(), Annotations: d.stringMap(), Spec: &corev1.PodSpec{}}
		c.OwnerKind, c.OwnerAPIVersion = intern.String(d.string()), intern.String(d.string())
		c.OwnerName, c.OwnerUID = d.string(), types.UID(d.string())
		if err := c.Spec.Unmarshal(d.bytes()); err != nil {
			return nil, fmt.Errorf("decode pod class %x: %w", c.Digest, err)
		}
		c.Requests = d.vector()
		list = append(list, c)
	}
	return list, d.err
}

func (w *World) decodeNodes(d *decoder) error {
	for range d.count() {
		name := intern.String(d.string())
		r := w.nodes.edit(w.owner, name)
		r.known, r.lastEvent = d.bool(), d.int()
		if !r.known {
			continue
		}
		r.Object = &corev1.Node{}
		if err := r.Object.Unmarshal(d.bytes()); err != nil {
			return fmt.Errorf("decode node %s: %w", name, err)
		}
		r.uid, r.version = types.UID(d.string()), d.string()
		r.generation, r.firstSeen = mark(d.bool(), w.generation), d.int()
		r.setAmounts()
		w.nodes.moveProvider(w.owner, name, "", r.providerID())
	}
	return d.err
}

const (
	podUnschedulable = 1 << iota
	podReady
	podNotReady
	podMentioned
)

func (w *World) decodePods(d *decoder, classes []*PodClass) error {
	for range d.count() {
		r := &podRow{Pod: Pod{UID: types.UID(d.string()), Namespace: intern.String(d.string()), Name: d.string()}}
		class := d.uint()
		if class >= uint64(len(classes)) {
			d.fail(errTruncated)
			return d.err
		}
		r.Class = classes[class]
		w.countClass(r.Class, 1)
		f := d.uint()
		r.Unschedulable, r.Ready, r.NotReady = f&podUnschedulable != 0, f&podReady != 0, f&podNotReady != 0
		r.generation = mark(f&podMentioned != 0, w.generation)
		r.NodeName, r.NominatedNode = intern.String(d.string()), intern.String(d.string())
		r.Phase, r.UnschedulableMessage = corev1.PodPhase(intern.String(d.string())), intern.String(d.string())
		r.ResourceVersion = d.string()
		for _, p := range []*int64{&r.Created, &r.Started, &r.Deleting, &r.UnschedulableSince} {
			*p = d.int()
		}
		w.pods.byUID.Set(w.owner, r.UID, r)
		w.pods.byName.Set(w.owner, r.name(), r.UID)
		w.attach(r)
	}
	return d.err
}

func (a *aws) decodeCatalogs(d *decoder, generation uint32) error {
	offers, err := decodeOffers(d)
	if err != nil {
		return err
	}
	for range d.count() {
		name := d.string()
		c := &catalogRow{hash: d.string(), generation: mark(d.bool(), generation), nodeClass: d.string(), classVersion: d.int(), reservationsAt: fromNano(d.int())}
		n := d.uint()
		if n >= uint64(len(offers)) {
			d.fail(errTruncated)
			return d.err
		}
		c.offer = offers[n]
		a.catalogs[name] = c
	}
	return d.err
}

func (a *aws) decodeCatalogsBefore(d *decoder, generation uint32) error {
	for range d.count() {
		name := d.string()
		hash, mentioned := d.string(), d.bool()
		var c *events.Catalog
		if err := json.Unmarshal(d.bytes(), &c); d.err == nil && err != nil {
			return fmt.Errorf("decode catalog %s: %w", name, err)
		}
		r := &catalogRow{}
		if c != nil {
			r = a.rowOf(name, c, 0)
		}
		r.hash, r.generation = hash, mark(mentioned, generation)
		a.catalogs[name] = r
	}
	return d.err
}

func (a *aws) decode(owner *version.Owner, d *decoder, asOf time.Time, generation uint32) error {
	a.prices.decode(d, asOf, generation)
	if err := a.instances.decode(owner, d, generation); err != nil {
		return err
	}
	return a.interruptions.decode(owner, d, generation)
}

// decodeOffers returns them by their numbers.
func decodeOffers(d *decoder) ([]*offer, error) {
	offers := []*offer{nil}
	var lists []*catalog.List
	for range d.count() {
		var types []events.CatalogInstanceType
		if err := json.Unmarshal(d.bytes(), &types); d.err == nil && err != nil {
			return nil, fmt.Errorf("decode instance types: %w", err)
		}
		list := catalog.NewList(types, lists...)
		lists = append(lists, list)
		offers = append(offers, &offer{list: list})
	}
	return offers, d.err
}

func (t *priceTable) decode(d *decoder, asOf time.Time, generation uint32) {
	for range d.count() {
		k := catalog.PriceKey{InstanceType: intern.String(d.string()), CapacityType: intern.String(d.string()), Zone: intern.String(d.string())}
		t.prices[k], t.generations[k] = d.int(), mark(d.bool(), generation)
		t.remember(k, t.prices[k], asOf) // it kept no past
	}
}

// errTruncated: a checkpoint ends before it says it does.
var errTruncated = errors.New("checkpoint truncated")

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

func (d *decoder) vector() resource.Vector {
	var v resource.Vector
	for range d.count() {
		name := d.string()
		v.Set(corev1.ResourceName(name), d.int())
	}
	return v
}
