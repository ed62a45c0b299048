package provision

import "millwright/planner/resource"

// Few pods can be divided among claims in so few ways that all are looked at.

// exactMax is up to how many pods that is: there are 3 to the power of that many pairs of a set and a part of it.
const exactMax = 8

// exacts divides the pods of claims with few pods, as many together as exactMax allows, those that waste most first.
func (p *packer) exacts() {
	list, failures := p.wasteful(), 0
	for len(list) > 0 && p.budget > 0 && failures < failuresMax {
		n := 1
		for n < len(list) && p.podsOf(list[:n+1]) <= exactMax {
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

// exact packs the pods of a group in the cheapest of all ways, if they are of one NodePool and demand nothing of where others are.
func (p *packer) exact(group []*bin) bool {
	n := p.podsOf(group)
	if n < 2 || n > exactMax {
		return false
	}
	t := group[0].open.template
	for _, b := range group {
		for _, it := range p.items[b] {
			if b.open.template != t || !it.class.simple() {
				return false
			}
		}
	}
	var pods []*item
	for _, b := range group {
		pods = append(pods, p.items[b]...)
	}
	parts, price := p.divide(t, pods)
	p.budget -= len(parts)*stepsWhole + 1<<(2*n-4)
	if price >= priceOf(group) {
		return false
	}
	watched := p.watch(group)
	waiting := p.take(group)
	from := len(p.solver.bins)
	ok := p.packParts(t, pods, parts)
	p.missed() // reserved capacity: better refuses claims that hold any
	return p.settle(ok && p.better(group, p.solver.bins[from:], waiting) && p.spared(watched, waiting), group, from, waiting)
}

// simple pods only need room on nodes with certain labels.
func (c *class) simple() bool {
	lv := c.levels[0]
	return len(c.levels) == 1 && len(lv.constraints)+len(c.topology.counted)+len(c.ports) == 0 && len(lv.alternatives) == 1
}

// divide returns the sets, as bits by pod, into which pods are divided most cheaply, and what that costs; noPrice if there is no way.
func (p *packer) divide(t *template, pods []*item) (parts []int, price int64) {
	all := 1<<len(pods) - 1
	least, own, last := make([]int64, all+1), make([]int64, all+1), make([]int, all+1)
	for set := 1; set <= all; set++ {
		own[set] = p.priceTogether(t, pods, set)
		least[set], last[set] = own[set], set
		for part := (set - 1) & set; part > 0; part = (part - 1) & set {
			if rest := least[set&^part]; own[part] != noPrice && rest != noPrice && own[part]+rest < least[set] {
				least[set], last[set] = own[part]+rest, part
			}
		}
	}
	if least[all] == noPrice {
		return nil, noPrice
	}
	for set := all; set != 0; set &^= last[set] {
		parts = append(parts, last[set])
	}
	return parts, least[all]
}

// priceTogether is what one claim for a set of the pods costs, its node included.
func (p *packer) priceTogether(t *template, pods []*item, set int) int64 {
	n := t.root
	var total resource.Vector
	for i, it := range pods {
		if set&(1<<i) == 0 {
			continue
		}
		total = total.Add(it.class.requests)
		if n = n.narrow(it.class.levels[0].alternatives[0]); n == nil {
			return noPrice
		}
	}
	o := openClaim{state: n, types: p.fitting(t, t.root.usable, n, &total, nil)}
	return o.cost()
}

// packParts opens a claim of the template for each set of pods; false if one can't be made so.
func (p *packer) packParts(t *template, pods []*item, parts []int) bool {
	for _, it := range pods {
		it.bin = nil
	}
	for _, set := range parts {
		var b *bin
		for i, it := range pods {
			lv := it.class.levels[0]
			switch {
			case set&(1<<i) == 0:
				continue
			case b == nil:
				if b = p.openClaim(lv); b == nil || b.open.template != t {
					return false
				}
			case p.accept(b, lv) != accepted:
				return false
			}
			p.put(b, it)
			it.level = 0
		}
		b.price = b.open.cost()
	}
	return true
}
