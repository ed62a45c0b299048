package world

import (
	"strings"
	"sync/atomic"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/catalog"
	"millwright/planner/memory"
)

// discovered is a catalogue with the memory that nodes were found to have, and what it was made from.
type discovered struct {
	from    *catalog.Catalog
	table   *memory.Table
	images  string
	catalog *catalog.Catalog
}

// discoveredPools are what Overlaid made with that memory, and what they were made from.
type discoveredPools struct {
	table  *memory.Table
	images string
	pools  *OverlaidPools
}

// WithMemory returns a version of the World in which catalogues say how much memory nodes were found to have:
// those of NodeClasses that have the images they were found with. All else is shared.
func WithMemory(w *World, t *memory.Table) *World {
	if t == w.memory {
		return w
	}
	v := *w.Version()
	v.memory = t
	return &v
}

// ImagesOf names the images of a NodeClass as memory.Images does.
func ImagesOf(c *awsv1.EC2NodeClass) string {
	if c == nil {
		return ""
	}
	var ids []string
	for _, x := range c.Status.AMIs {
		ids = append(ids, x.ID)
	}
	return memory.Images(ids)
}

// Catalog returns what EC2 offers to a NodeClass, at the World's prices and with the memory that nodes were
// found to have; nil if no catalogue was observed. It is built when first asked for after a change of any.
func (w *World) Catalog(nodeClass string) *catalog.Catalog {
	plain := w.aws.Catalog(nodeClass)
	if plain == nil || w.memory == nil {
		return plain
	}
	images := ImagesOf(w.NodeClass(nodeClass))
	row := w.catalogs[nodeClass]
	if d := row.discovered.Load(); d != nil && d.from == plain && d.table == w.memory && d.images == images {
		return d.catalog
	}
	d := &discovered{plain, w.memory, images, withMemory(plain, w.memory.Of(images))}
	row.discovered.Store(d)
	return d.catalog
}

// withMemory returns the catalogue in which types have other amounts of memory.
func withMemory(c *catalog.Catalog, amounts []memory.Amount) *catalog.Catalog {
	var changed []*catalog.InstanceType
	for _, a := range amounts {
		t := c.Type(a.Key.InstanceType)
		if t == nil || t.Capacity.Memory == a.Bytes {
			continue
		}
		own, hardware := *t, *t.Hardware // the type's is shared by all catalogues
		hardware.Capacity.Memory = a.Bytes
		own.Hardware = &hardware
		changed = append(changed, &own)
	}
	if len(changed) == 0 {
		return c
	}
	return c.With(changed, true)
}

// withMemory is Overlaid of a World whose catalogues say what was found.
func (o *overlaidCache) withMemory(w *World, revision int, build func() *OverlaidPools) *OverlaidPools {
	var images strings.Builder
	for _, c := range w.NodeClasses() {
		images.WriteString(c.Name + "=" + ImagesOf(c) + "\n")
	}
	if d := o.discovered.Load(); d != nil && d.table == w.memory && d.images == images.String() && d.pools.Revision == revision {
		return d.pools
	}
	built := build()
	built.Revision = revision
	o.discovered.Store(&discoveredPools{w.memory, images.String(), built})
	return built
}

// overlaidCache holds what Overlaid made last, of the catalogues as they were published, and of those that
// say what was found.
type overlaidCache struct {
	plain      atomic.Pointer[OverlaidPools]
	discovered atomic.Pointer[discoveredPools]
}
