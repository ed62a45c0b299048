package pack

import (
	"millwright/planner/provision/internal/demand"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/provision/internal/place"
	"millwright/planner/provision/internal/solve"
	"millwright/planner/resource"
)

// Few pods can be divided among claims in so few ways that all are tried.

// ExactMax is the largest such number of pods: there are 3 to the power of that many pairs of a set and a
// part of it.
const ExactMax = 8

// exacts divides the pods of claims with few pods, as many together as ExactMax allows, the most wasteful
// first.
func (p *Packer) exacts() {
	list, failures := p.wasteful(), 0
	for len(list) > 0 && p.budget > 0 && failures < failuresMax {
		n := 1
		for n < len(list) && p.podsOf(list[:n+1]) <= ExactMax {
			n++
		}
		if p.exact(list[:n]) {
			failures = 0
		} else {
			failures++
		}
		list = list[n:]
	}
}

// exact packs the pods of a group in the cheapest of all ways, if they are of one NodePool and do not depend
// on where others are.
func (p *Packer) exact(group []*place.Bin) bool {
	n := p.podsOf(group)
	if n < 2 || n > ExactMax {
		return false
	}
	t := group[0].Open().Template
	for _, b := range group {
		for _, it := range p.items[b] {
			if b.Open().Template != t || !simple(it.Class.Class) {
				return false
			}
		}
	}
	var pods []*solve.Item
	for _, b := range group {
		pods = append(pods, p.items[b]...)
	}
	parts, price := p.divide(t, pods)
	p.budget -= len(parts)*place.StepsWhole + 1<<(2*n-4)
	if price >= priceOf(group) {
		return false
	}
	r := p.takeApart(group)
	ok := p.packParts(t, pods, parts) // better refuses claims that hold reserved capacity
	return p.keepIf(ok && p.better(&r) && p.preservesOthers(&r), &r)
}

// simple reports that pods only need room on nodes with certain labels.
func simple(c *demand.Class) bool {
	lv := c.Levels[0]
	return len(c.Levels) == 1 && len(lv.Constraints)+len(c.Topology.Counted)+len(c.Ports) == 0 && len(lv.Alternatives) == 1
}

// divide returns the sets, as bits by pod, into which pods are divided most cheaply, and the cost; noPrice if
// there is no way.
func (p *Packer) divide(t *offer.Template, pods []*solve.Item) (parts []int, price int64) {
	all := 1<<len(pods) - 1
	least, own, last := make([]int64, all+1), make([]int64, all+1), make([]int, all+1)
	for set := 1; set <= all; set++ {
		own[set] = p.priceTogether(t, pods, set)
		least[set], last[set] = own[set], set
		for part := (set - 1) & set; part > 0; part = (part - 1) & set {
			if rest := least[set&^part]; own[part] != offer.NoPrice && rest != offer.NoPrice && own[part]+rest < least[set] {
				least[set], last[set] = own[part]+rest, part
			}
		}
	}
	if least[all] == offer.NoPrice {
		return nil, offer.NoPrice
	}
	for set := all; set != 0; set &^= last[set] {
		parts = append(parts, last[set])
	}
	return parts, least[all]
}

// priceTogether is what one claim for a set of the pods costs, its node included.
func (p *Packer) priceTogether(t *offer.Template, pods []*solve.Item, set int) int64 {
	n := t.Root
	var total resource.Vector
	for i, it := range pods {
		if set&(1<<i) == 0 {
			continue
		}
		total = total.Add(it.Class.Requests)
		if n = n.Narrow(it.Class.Levels[0].Alternatives[0]); n == nil {
			return offer.NoPrice
		}
	}
	o := place.OpenClaim{State: n, Types: p.Fitting(t, t.Root.Usable, n, &total, nil)}
	return o.Cost()
}

// packParts opens a claim of the template for each set of pods; false if one cannot be made in this way.
func (p *Packer) packParts(t *offer.Template, pods []*solve.Item, parts []int) bool {
	m := &solve.Mode{}
	for _, set := range parts {
		var b *place.Bin
		for i, it := range pods {
			lv := it.Class.Tries[0]
			switch {
			case set&(1<<i) == 0:
				continue
			case b == nil:
				if b, _ = p.OpenClaim(lv, m); b == nil || b.Open().Template != t {
					return false
				}
			case p.Accept(b, lv, m) != place.Accepted:
				return false
			}
			p.Put(b, it, m)
			it.Level = 0
		}
		b.Open().Price = b.Open().Cost()
	}
	return true
}
