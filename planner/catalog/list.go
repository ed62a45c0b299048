package catalog

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strconv"

	"millwright/events"
)

// List is the instance types that EC2 offers to a NodeClass, as they were published and without prices. It
// never changes. NodeClasses with the same types share one List; the Lists of the others share the parts that
// are equal, so a further NodeClass costs only what is different about it.
type List struct {
	hardware []*Hardware // by name
	places   []*place    // by the same index
	offers   []*offers   // by the same index
	digest   uint64
}

// offers says where a type is available. Types that are available in the same places share one.
type offers struct {
	list []events.CatalogOffering
	key  string
}

// listsLike is how many other Lists are searched for parts to share.
const listsLike = 8

// NewList reads the types of a published catalogue, and keeps nothing of it. If two types have the same name,
// the first counts. like are Lists that it may share parts with; if one of them is equal, that one is
// returned.
func NewList(types []events.CatalogInstanceType, like ...*List) *List {
	source := make([]*events.CatalogInstanceType, len(types))
	for i := range types {
		source[i] = &types[i]
	}
	slices.SortStableFunc(source, func(a, b *events.CatalogInstanceType) int { return cmp.Compare(a.Name, b.Name) })
	source = slices.CompactFunc(source, func(a, b *events.CatalogInstanceType) bool { return a.Name == b.Name })
	l := &List{hardware: make([]*Hardware, len(source)), places: make([]*place, len(source)), offers: make([]*offers, len(source))}
	t, places, offered := &texts{lists: map[string][]string{}}, map[string]*place{}, map[string]*offers{}
	for i, src := range source {
		l.hardware[i], l.places[i] = t.hardwareOf(src, places)
		l.offers[i] = t.offersOf(src, offered)
	}
	l.digest = l.hash()
	for _, o := range like {
		if o.digest == l.digest && l.equal(o) {
			return o
		}
	}
	for _, o := range like[:min(len(like), listsLike)] {
		l.shareParts(o)
	}
	return l
}

func (t *texts) offersOf(src *events.CatalogInstanceType, places map[string]*offers) *offers {
	key := keyOf(src.Offerings)
	if o := places[key]; o != nil {
		return o
	}
	o := &offers{list: slices.Clone(src.Offerings), key: key}
	for i := range o.list {
		x := &o.list[i]
		x.Zone, x.ZoneID, x.CapacityType = t.intern(x.Zone), t.intern(x.ZoneID), t.intern(x.CapacityType)
		x.PlacementGroup = t.intern(x.PlacementGroup)
	}
	places[key] = o
	return o
}

// keyOf is a text that two lists of offerings have in common exactly if they are equal.
func keyOf(list []events.CatalogOffering) string {
	var b []byte
	for i := range list {
		o := &list[i]
		for _, s := range []string{o.Zone, o.ZoneID, o.CapacityType} {
			b = append(append(b, s...), 0)
		}
		b = strconv.AppendBool(b, o.Available)
		if o.PlacementGroup != "" {
			b = strconv.AppendInt(append(append(append(b, 4), o.PlacementGroup...), 0), int64(o.Partition), 10)
		}
		if r := o.Reservation; r != nil {
			b = append(append(append(append(append(b, 1), r.ID...), 0), r.Type...), 0)
			b = strconv.AppendInt(strconv.AppendBool(b, r.Interruptible), r.PicoUSDPerHour, 10)
			if r.Free != nil {
				b = strconv.AppendInt(append(b, 2), *r.Free, 10)
			}
		}
		b = append(b, 3)
	}
	return string(b)
}

func (l *List) hash() uint64 {
	h := fnv.New64a()
	for i, w := range l.hardware {
		h.Write([]byte(w.Name))
		h.Write([]byte(w.Requirements.Key()))
		for _, v := range []int64{w.Allocatable.MilliCPU, w.Allocatable.Memory, w.Allocatable.EphemeralStorage, w.Allocatable.Pods, int64(w.derived)} {
			h.Write(binary.AppendVarint(nil, v))
		}
		h.Write([]byte(l.places[i].key))
		h.Write([]byte(l.offers[i].key))
	}
	return h.Sum64()
}

func (l *List) equal(o *List) bool {
	return slices.EqualFunc(l.hardware, o.hardware, (*Hardware).equal) &&
		slices.EqualFunc(l.places, o.places, func(a, b *place) bool { return a == b || a.key == b.key }) &&
		slices.EqualFunc(l.offers, o.offers, func(a, b *offers) bool { return a == b || a.key == b.key })
}

// shareParts replaces the parts of l that are equal in o by those of o. The caller has just made l.
func (l *List) shareParts(o *List) {
	offered, places := map[string]*offers{}, map[string]*place{}
	for i, p := range o.offers {
		offered[p.key], places[o.places[i].key] = p, o.places[i]
	}
	for i, h := range l.hardware {
		if p := offered[l.offers[i].key]; p != nil {
			l.offers[i] = p
		}
		if p := places[l.places[i].key]; p != nil {
			l.places[i] = p
		}
		at, found := o.findHardware(h.Name)
		if !found {
			continue
		}
		if theirs := o.hardware[at]; h.equal(theirs) {
			l.hardware[i] = theirs
		} else {
			h.shareParts(theirs)
		}
	}
}

func (l *List) findHardware(name string) (int, bool) {
	return slices.BinarySearchFunc(l.hardware, name, func(h *Hardware, n string) int { return cmp.Compare(h.Name, n) })
}

// Published returns the types as a catalogue that yields an equal List. Compared with the catalogue the List
// was made from, only what can be derived may be missing.
func (l *List) Published() []events.CatalogInstanceType {
	types := make([]events.CatalogInstanceType, len(l.hardware))
	for i, h := range l.hardware {
		types[i] = h.published()
		publish(&types[i], l.places[i].requirements, l.places[i].derived)
		types[i].Offerings = slices.Clone(l.offers[i].list)
	}
	return types
}
