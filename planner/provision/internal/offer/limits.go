package offer

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/bitset"
	"millwright/planner/catalog"
	"millwright/planner/resource"
)

// ResourceNodes is the key of spec.limits that counts nodes.
const ResourceNodes corev1.ResourceName = "nodes"

// limits is what a pool may still add of each limited resource, sorted by name.
type limits struct {
	pool string
	Left []Limit
	// Bound: they kept a claim from being opened, or ruled out some type.
	Bound bool
	// Moved counts changes, so that what was refused before can be tried again after one.
	Moved int
	// byShare are the types by what they take of the limits, least first; nil unless claims are built
	// sparingly.
	byShare []int32
}

type Limit struct {
	Name corev1.ResourceName
	// total is the limit, left what others have not used of it.
	total, Left int64
}

func newLimits(p *PoolInput) limits {
	l := limits{pool: p.NodePool.Name}
	for name, q := range p.NodePool.Spec.Limits {
		total, used := resource.AmountOf(name, q), p.Used.Get(name)
		if name == ResourceNodes {
			used = p.Nodes
		}
		l.Left = append(l.Left, Limit{name, total, total - used})
	}
	slices.SortFunc(l.Left, func(a, b Limit) int { return cmp.Compare(a.Name, b.Name) })
	return l
}

// Narrow keeps in b the types whose capacity fits what is left. If no claim can be opened at all, it returns
// the error that users see.
func (l *limits) Narrow(c *catalog.Catalog, b bitset.Set) error {
	for _, x := range l.Left {
		if x.Name == ResourceNodes {
			if x.Left <= 0 {
				l.Bound = true
				return fmt.Errorf("node limits have been exhausted for nodepool (NodePool=%s)", l.pool)
			}
			continue
		}
		for i := range b.Members() {
			if c.Types[i].Capacity.Get(x.Name) > x.Left {
				l.Bound = true
				b.Remove(i)
			}
		}
	}
	if len(l.Left) > 0 && !b.Any() {
		return fmt.Errorf("all available instance types exceed limits for nodepool (NodePool=%s)", l.pool)
	}
	return nil
}

// Reserve subtracts v, and nodes, from what is left; negative amounts give back.
func (l *limits) Reserve(v resource.Vector, nodes int64) {
	if len(l.Left) == 0 {
		return
	}
	for i := range l.Left {
		n := v.Get(l.Left[i].Name)
		if l.Left[i].Name == ResourceNodes {
			n = nodes
		}
		l.Left[i].Left = resource.AddSaturated(l.Left[i].Left, -n)
	}
	l.Moved++
}

// CapacityMax is what a claim of the types may add, of the limited resources.
func (l *limits) CapacityMax(c *catalog.Catalog, types bitset.Set) resource.Vector {
	var v resource.Vector
	for _, x := range l.Left {
		if x.Name == ResourceNodes {
			continue
		}
		most := int64(0)
		for i := range types.Members() {
			most = max(most, c.Types[i].Capacity.Get(x.Name))
		}
		v.Set(x.Name, most)
	}
	return v
}

// CapacityMax is the per-resource maximum of the types' capacity: what a claim of them may add.
func CapacityMax(c *catalog.Catalog, types bitset.Set) resource.Vector {
	var v resource.Vector
	for i := range types.Members() {
		v = v.Max(c.Types[i].Capacity)
	}
	return v
}

// Bounded reports that there is a limit other than of nodes.
func (l *limits) Bounded() bool {
	return slices.ContainsFunc(l.Left, func(x Limit) bool { return x.Name != ResourceNodes })
}

// OrderByShare sorts the types by the largest share that one takes of a limit, ties by name.
func (l *limits) OrderByShare(c *catalog.Catalog) {
	share := make([]int64, len(c.Types))
	l.byShare = make([]int32, len(c.Types))
	for i, it := range c.Types {
		l.byShare[i] = int32(i)
		for _, x := range l.Left {
			if x.Name != ResourceNodes {
				share[i] = max(share[i], Scaled(ShareUnit, it.Capacity.Get(x.Name), x.total))
			}
		}
	}
	slices.SortFunc(l.byShare, func(a, b int32) int { return cmp.Or(cmp.Compare(share[a], share[b]), cmp.Compare(a, b)) })
}

// Sparing reports that claims are charged for their least type.
func (l *limits) Sparing() bool { return l.byShare != nil }

// Charge is what claims of the types use of the limits for now.
func (l *limits) Charge(c *catalog.Catalog, types bitset.Set) resource.Vector {
	if !l.Sparing() {
		return l.CapacityMax(c, types)
	}
	var v resource.Vector
	for _, i := range l.byShare {
		if !types.Has(int(i)) {
			continue
		}
		for _, x := range l.Left {
			if x.Name != ResourceNodes {
				v.Set(x.Name, c.Types[i].Capacity.Get(x.Name))
			}
		}
		break
	}
	return v
}

// KeepWithin keeps in b the types whose capacity is at most what is left and v together.
func (l *limits) KeepWithin(c *catalog.Catalog, b bitset.Set, v *resource.Vector) {
	for _, x := range l.Left {
		if x.Name == ResourceNodes {
			continue
		}
		most := resource.AddSaturated(x.Left, v.Get(x.Name))
		for i := range b.Members() {
			if c.Types[i].Capacity.Get(x.Name) > most {
				b.Remove(i)
			}
		}
	}
}
