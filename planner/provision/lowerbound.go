package provision

import (
	"cmp"
	"math"
	"slices"

	"millwright/planner/resource"
)

// lowerBound is a price, in micro USD per hour, below which no plan can go that gives the pods of the new claims to the
// same NodePools, by fractional packing; reserved capacity left out. Of every instance type, each resource carries a fixed share of its price, all together the whole; a pod then
// costs at least its part of those shares on the type where that is least, and the pods of one node together no more
// than the node. Some ways to share are tried, and the highest bound counts. nodes: what nodes cost
// by themselves is part of the price.
func (s *solver) lowerBound(nodes bool) int64 {
	demands := s.demands()
	best := int64(0)
	for _, w := range s.shares(demands) {
		sum := int64(0)
		for _, d := range demands {
			sum = addSaturated(sum, d.pods, d.leastCost(w, nodes, len(demands) <= fewDemands))
		}
		best = max(best, sum)
	}
	return best >> unitShift / shareParts
}

// addSaturated is sum + n × x, at most the largest int64.
func addSaturated(sum, n, x int64) int64 {
	if x > 0 && n > (math.MaxInt64-sum)/x {
		return math.MaxInt64
	}
	return sum + n*x
}

// demand is a number of pods that request the same and can go to the same claims.
type demand struct {
	requests *resource.Vector
	states   []*state
	pods     int64
}

// demands of the pods on new claims.
func (s *solver) demands() []*demand {
	type where struct {
		class    *class
		template *template
	}
	known := map[where]*demand{}
	alike := map[*growingBits][]*demand{} // by requests
	var list []*demand
	for _, it := range s.items {
		if it.bin == nil || it.bin.open == nil || it.bin.earlier != nil || len(it.bin.open.holds) > 0 {
			continue
		}
		at := where{it.class, it.bin.open.template}
		d := known[at]
		if d == nil {
			d = &demand{requests: &it.class.requests, states: at.template.statesFor(it.class)}
			same := alike[it.class.full]
			if i := slices.IndexFunc(same, func(o *demand) bool { return slices.Equal(d.states, o.states) }); i >= 0 {
				d = same[i]
			} else {
				list, alike[it.class.full] = append(list, d), append(same, d)
			}
			known[at] = d
		}
		d.pods++
	}
	return list
}

// statesFor lists, once each, what claims of the pool with a pod of the class may be, at its most relaxed.
func (t *template) statesFor(c *class) []*state {
	var list []*state
	for _, a := range c.levels[len(c.levels)-1].alternatives {
		if n := t.root.narrow(a); n != nil && !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list
}

// sharing gives parts, in eighths, of a node's price to its resources; those of extended ones fall to CPU where a type
// has none.
type sharing struct {
	cpu, memory, pods, extended int64
	// nodes: what a node costs by itself is part of its price.
	nodes bool
}

const (
	shareParts = 8
	// unitShift gives unit costs twelve bits below a micro dollar.
	unitShift = 12
)

var sharings = []sharing{
	{cpu: 8}, {cpu: 7, memory: 1}, {cpu: 6, memory: 2}, {cpu: 5, memory: 3}, {cpu: 4, memory: 4}, {cpu: 3, memory: 5}, {cpu: 2, memory: 6}, {cpu: 1, memory: 7}, {memory: 8},
	{pods: 8}, {cpu: 4, pods: 4}, {memory: 4, pods: 4}, {cpu: 3, memory: 3, pods: 2},
}

// shares lists what to try: extended resources only if somebody requests any.
func (s *solver) shares(demands []*demand) []sharing {
	if !slices.ContainsFunc(demands, func(d *demand) bool { return len(d.requests.Extended) > 0 }) {
		return sharings
	}
	return append(slices.Clone(sharings), sharing{extended: 8}, sharing{cpu: 2, memory: 2, extended: 4}, sharing{cpu: 4, memory: 2, extended: 2})
}

// fewDemands are so few that each looks at all types that hold its pods, rather than at those that can be cheapest.
const fewDemands = 8

// leastCost of a pod, in units of unitShift and shareParts.
func (d *demand) leastCost(w sharing, nodes, few bool) int64 {
	least := int64(math.MaxInt64)
	for _, n := range d.states {
		if few {
			least = min(least, d.leastOf(n, w, nodes))
			continue
		}
		for _, u := range n.unitCosts(w, nodes) {
			if c, ok := u.of(d.requests); ok {
				least = min(least, c)
			}
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// leastOf is leastCost of one state.
func (d *demand) leastOf(n *state, w sharing, nodes bool) int64 {
	least := int64(math.MaxInt64)
	tr, net := n.tariff(), n.template.net()
	price := tr.prices(nodes)
	for _, i := range tr.order {
		if !d.requests.Fits(net[i]) {
			continue
		}
		u := unitCostOf(price[i], w, &net[i])
		if c, ok := u.of(d.requests); ok {
			least = min(least, c)
		}
	}
	return least
}

// unitCost is what a milli-CPU, a MiB, a pod, and a unit of each extended resource cost on a type, rounded down.
type unitCost struct {
	cpu, memory, pod int64
	extended         []resource.Amount
}

// of a pod; false if the type lacks an extended resource.
func (u *unitCost) of(v *resource.Vector) (int64, bool) {
	c := u.cpu*v.MilliCPU + u.memory*(v.Memory>>20) + u.pod*v.Pods
	for _, e := range v.Extended {
		at := slices.IndexFunc(u.extended, func(a resource.Amount) bool { return a.Name == e.Name })
		if at < 0 && e.Value > 0 {
			return 0, false
		}
		if at >= 0 {
			c += u.extended[at].Value * e.Value
		}
	}
	return c, true
}

// prices by type; nodes: with what a node costs by itself.
func (tr *tariff) prices(nodes bool) []int64 {
	if nodes {
		return tr.cost
	}
	return tr.price
}

// unitCosts of the state's types, without those that another type is no dearer than in every respect.
func (n *state) unitCosts(w sharing, nodes bool) []unitCost {
	w.nodes = nodes
	if list, ok := n.units[w]; ok {
		return list
	}
	tr, net := n.tariff(), n.template.net()
	price := tr.prices(nodes)
	list := make([]unitCost, 0, len(tr.order))
	for _, i := range tr.order {
		list = append(list, unitCostOf(price[i], w, &net[i]))
	}
	list = undominated(list)
	if n.units == nil {
		n.units = map[sharing][]unitCost{}
	}
	n.units[w] = list
	return list
}

func unitCostOf(price int64, w sharing, net *resource.Vector) unitCost {
	per := func(parts, amount int64) int64 {
		if amount <= 0 {
			return 0
		}
		return price * parts << unitShift / amount
	}
	if len(net.Extended) == 0 {
		w.cpu += w.extended
	}
	u := unitCost{cpu: per(w.cpu, net.MilliCPU), memory: per(w.memory, net.Memory>>20+1), pod: per(w.pods, net.Pods)}
	for _, e := range net.Extended {
		u.extended = append(u.extended, resource.Amount{Name: e.Name, Value: per(w.extended, e.Value*int64(len(net.Extended)))})
	}
	return u
}

func undominated(list []unitCost) []unitCost {
	slices.SortStableFunc(list, func(a, b unitCost) int {
		return cmp.Or(cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.memory, b.memory), cmp.Compare(a.pod, b.pod))
	})
	var kept []unitCost
	for _, u := range list {
		if len(u.extended) > 0 || !slices.ContainsFunc(kept, func(k unitCost) bool {
			return len(k.extended) == 0 && k.memory <= u.memory && k.pod <= u.pod
		}) {
			kept = append(kept, u)
		}
	}
	return kept
}
