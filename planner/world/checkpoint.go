package world

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/events"
	"millwright/planner/catalog"
	"millwright/planner/version"
)

// Checkpoint layout, version 3: magic, version, stream, resync, classes by digest, nodes, pods by UID, then one table
// per kind in the order of kind numbers, unreadable objects, EC2. Integers are varints, strings and objects
// length-prefixed. A row carries "mentioned in the running resync" instead of its generation.
const (
	checkpointMagic   = "MWWORLD"
	checkpointVersion = 3
	// checkpointBefore is the version that can be read as well: it holds the types of each catalogue.
	checkpointBefore = 2
)

// ErrCheckpoint is wrapped by Restore's errors: the bytes are no checkpoint this version can read. Fold from
// an older checkpoint or from the start instead.
var ErrCheckpoint = errors.New("unreadable world checkpoint")

// Checkpoint returns the World as bytes. Equal Worlds give equal bytes.
func (w *World) Checkpoint() ([]byte, error) {
	e := &encoder{buf: make([]byte, 0, 1<<16+512*w.pods.byUID.Len())}
	e.buf = append(e.buf, checkpointMagic...)
	e.uint(checkpointVersion)
	w.encodeStream(e)
	index := w.encodeClasses(e)
	w.encodeNodes(e)
	w.encodePods(e, index)
	for k, t := range w.tables() {
		e.uint(uint64(k))
		t.encode(e, w.generation)
	}
	w.unreadable.encode(e, w.generation)
	if err := w.aws.encode(e, w.generation); err != nil {
		return nil, fmt.Errorf("encode world: %w", err)
	}
	return e.buf, nil
}

// Restore returns the World a checkpoint holds. It folds on as the checkpointed one would have. The error wraps ErrCheckpoint.
func Restore(data []byte) (*World, error) {
	w := New()
	if err := w.restore(data); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	return w, nil
}

func (w *World) restore(data []byte) error {
	d := &decoder{buf: data}
	if len(data) < len(checkpointMagic) || string(data[:len(checkpointMagic)]) != checkpointMagic {
		return errors.New("no magic number")
	}
	d.buf = data[len(checkpointMagic):]
	format := d.uint()
	if format != checkpointVersion && format != checkpointBefore {
		return fmt.Errorf("version %d, want %d", format, checkpointVersion)
	}
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
	if format == checkpointBefore {
		decodeCatalogs = w.aws.decodeCatalogsBefore
	}
	if err := decodeCatalogs(d, w.generation); err != nil {
		return err
	}
	if err := w.aws.decode(w.owner, d, w.generation); err != nil {
		return err
	}
	if len(d.buf) > 0 {
		return fmt.Errorf("%d bytes too many", len(d.buf))
	}
	return d.err
}

func (w *World) encodeStream(e *encoder) {
	e.string(w.stream.incarnation)
	for _, n := range []uint64{w.stream.sequence, w.stream.digest, w.stream.epoch, w.stream.counter, w.stream.dropped, uint64(w.generation)} {
		e.uint(n)
	}
	for _, b := range []bool{w.torn, w.synced, w.resync.running, w.resync.intact} {
		e.bool(b)
	}
	e.int(unixNano(w.asOf))
	e.int(unixNano(w.resync.asOf))
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

func fromNano(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// encodeClasses writes the class table and returns each class's index in it.
func (w *World) encodeClasses(e *encoder) map[uint64]uint64 {
	index := make(map[uint64]uint64, w.classes.Len())
	e.uint(uint64(w.classes.Len()))
	for i, c := range w.Classes() {
		index[c.Digest] = uint64(i)
		e.uint(c.Digest)
		e.stringMap(c.Labels)
		e.stringMap(c.Annotations)
		for _, s := range []string{c.OwnerKind, c.OwnerAPIVersion, c.OwnerName, string(c.OwnerUID)} {
			e.string(s)
		}
		spec, err := c.Spec.Marshal()
		if err != nil {
			panic("world: a decoded pod spec cannot be encoded: " + err.Error())
		}
		e.bytes(spec)
		e.vector(c.Requests)
	}
	return index
}

func (w *World) decodeClasses(d *decoder) ([]*PodClass, error) {
	var list []*PodClass
	for range d.count() {
		c := &PodClass{Digest: d.uint(), Labels: d.stringMap(), Annotations: d.stringMap(), Spec: &corev1.PodSpec{}}
		c.OwnerKind, c.OwnerAPIVersion = intern(d.string()), intern(d.string())
		c.OwnerName, c.OwnerUID = d.string(), types.UID(d.string())
		if err := c.Spec.Unmarshal(d.bytes()); err != nil {
			return nil, fmt.Errorf("decode pod class %x: %w", c.Digest, err)
		}
		c.Requests = d.vector()
		list = append(list, c)
	}
	return list, d.err
}

func (w *World) encodeNodes(e *encoder) {
	e.uint(uint64(w.nodes.rows.Len()))
	for _, name := range w.nodes.rows.Keys() {
		r := w.nodes.row(name)
		e.string(name)
		e.bool(r.known)
		e.int(r.lastEvent)
		if !r.known {
			continue
		}
		b, err := r.Object.Marshal()
		if err != nil {
			panic("world: a decoded node cannot be encoded: " + err.Error())
		}
		e.bytes(b)
		e.string(string(r.uid))
		e.string(r.version)
		e.bool(r.generation == w.generation)
		e.int(r.firstSeen)
	}
}

func (w *World) decodeNodes(d *decoder) error {
	for range d.count() {
		name := intern(d.string())
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

func (w *World) encodePods(e *encoder, index map[uint64]uint64) {
	e.uint(uint64(w.pods.byUID.Len()))
	for _, uid := range version.Keys(&w.pods.byUID) {
		r := w.pods.row(uid)
		e.string(string(uid))
		e.string(r.Namespace)
		e.string(r.Name)
		e.uint(index[r.Class.Digest])
		e.uint(r.flags(w.generation))
		e.string(r.NodeName)
		e.string(r.NominatedNode)
		e.string(string(r.Phase))
		e.string(r.UnschedulableMessage)
		e.string(r.ResourceVersion)
		for _, n := range []int64{r.Created, r.Started, r.Deleting, r.UnschedulableSince} {
			e.int(n)
		}
	}
}

func (r *podRow) flags(generation uint32) (f uint64) {
	for bit, set := range map[uint64]bool{
		podUnschedulable: r.Unschedulable, podReady: r.Ready, podNotReady: r.NotReady, podMentioned: r.generation == generation,
	} {
		if set {
			f |= bit
		}
	}
	return f
}

func (w *World) decodePods(d *decoder, classes []*PodClass) error {
	for range d.count() {
		r := &podRow{Pod: Pod{UID: types.UID(d.string()), Namespace: intern(d.string()), Name: d.string()}}
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
		r.NodeName, r.NominatedNode = intern(d.string()), intern(d.string())
		r.Phase, r.UnschedulableMessage = corev1.PodPhase(intern(d.string())), intern(d.string())
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

// encode writes each list of types once, then the catalogues with the numbers of theirs; 0 means that it is not known.
func (a *awsState) encode(e *encoder, generation uint32) error {
	number := map[*offer]uint64{nil: 0}
	offers := a.offers("")
	e.uint(uint64(len(offers)))
	for i, o := range offers {
		b, err := json.Marshal(o.list.Published())
		if err != nil {
			return fmt.Errorf("encode instance types: %w", err)
		}
		e.bytes(b)
		number[o] = uint64(i + 1)
	}
	e.uint(uint64(len(a.catalogs)))
	for _, name := range sortedKeys(a.catalogs) {
		c := a.catalogs[name]
		e.string(name)
		e.string(c.hash)
		e.bool(c.generation == generation)
		e.string(c.nodeClass)
		e.int(c.classVersion)
		e.int(unixNano(c.reservationsAt))
		e.uint(number[c.offer])
	}
	a.prices.encode(e, generation)
	a.instances.encode(e, generation)
	a.interruptions.encode(e, generation)
	return nil
}

func (a *awsState) decodeCatalogs(d *decoder, generation uint32) error {
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

func (a *awsState) decodeCatalogsBefore(d *decoder, generation uint32) error {
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

func (a *awsState) decode(owner *version.Owner, d *decoder, generation uint32) error {
	a.prices.decode(d, generation)
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
