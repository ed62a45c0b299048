package provision

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/catalog"
	"millwright/planner/resource"
)

// ResourceNodes is the key of spec.limits that counts nodes.
const ResourceNodes corev1.ResourceName = "nodes"

// limits is what a pool may still add of each limited resource, sorted by name.
type limits struct {
	pool string
	left []limit
	// bound: they kept a claim from being opened, or from some type.
	bound bool
	// moved counts changes, so that what was refused before can be tried again after one.
	moved int
	// byShare are the types by what they take of the limits, least first; nil unless claims are built sparingly.
	byShare []int32
}

type limit struct {
	name corev1.ResourceName
	// total is the limit, left what others have not taken of it.
	total, left int64
}

func newLimits(p *poolInput) limits {
	l := limits{pool: p.pool.Name}
	for name, q := range p.pool.Spec.Limits {
		total, used := q.Value(), p.used.Get(name)
		switch name {
		case resource.CPU:
			total = q.MilliValue()
		case ResourceNodes:
			used = p.nodes
		}
		l.left = append(l.left, limit{name, total, total - used})
	}
	slices.SortFunc(l.left, func(a, b limit) int { return cmp.Compare(a.name, b.name) })
	return l
}

// narrow keeps in b the types whose capacity fits what is left. The error is the one users know, if no
// claim can be opened at all.
func (l *limits) narrow(c *catalog.Catalog, b catalog.Bits) error {
	for _, x := range l.left {
		if x.name == ResourceNodes {
			if x.left <= 0 {
				l.bound = true
				return fmt.Errorf("node limits have been exhausted for nodepool (NodePool=%s)", l.pool)
			}
			continue
		}
		for i := range b.Members() {
			if c.Types[i].Capacity.Get(x.name) > x.left {
				l.bound = true
				b.Remove(i)
			}
		}
	}
	if len(l.left) > 0 && !b.Any() {
		return fmt.Errorf("all available instance types exceed limits for nodepool (NodePool=%s)", l.pool)
	}
	return nil
}

// reserve takes v, and nodes, off what is left; negative amounts give back.
func (l *limits) reserve(v resource.Vector, nodes int64) {
	if len(l.left) == 0 {
		return
	}
	for i := range l.left {
		n := v.Get(l.left[i].name)
		if l.left[i].name == ResourceNodes {
			n = nodes
		}
		l.left[i].left -= n
	}
	l.moved++
}

// capacityMax is what a claim of the types may add, of the limited resources.
func (l *limits) capacityMax(c *catalog.Catalog, types catalog.Bits) resource.Vector {
	var v resource.Vector
	for _, x := range l.left {
		if x.name == ResourceNodes {
			continue
		}
		most := int64(0)
		for i := range types.Members() {
			most = max(most, c.Types[i].Capacity.Get(x.name))
		}
		v.Set(x.name, most)
	}
	return v
}

// capacityMax is the per-resource maximum of the types' capacity: what a claim of them may add.
func capacityMax(c *catalog.Catalog, types catalog.Bits) resource.Vector {
	var v resource.Vector
	for i := range types.Members() {
		v = v.Max(c.Types[i].Capacity)
	}
	return v
}
