package pack

import (
	"cmp"
	"math"
	"slices"

	"millwright/planner/provision/internal/demand"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/provision/internal/solve"
	"millwright/planner/resource"
)

// LowerBound is a price, in micro USD per hour, below which no plan can go that assigns the pods of the new
// claims to the same NodePools, by fractional packing; reserved capacity is excluded. For every instance
// type, each resource carries a fixed share of its price, and the shares add up to the whole; a pod then
// costs at least its part of those shares on the type where that is least, and the pods of one node together
// cost no more than the node. Several ways of sharing are tried, and the highest bound counts. nodes: what
// nodes cost by themselves is part of the price.
func LowerBound(s *solve.Solver, nodes bool) int64 {
	demands := demandsOf(s)
	best := int64(0)
	for _, w := range shares(demands) {
		sum := int64(0)
		units := map[*offer.State][]unitCost{}
		for _, d := range demands {
			sum = offer.AddSaturated(sum, d.pods, d.leastCost(w, nodes, units, len(demands) <= fewDemands))
		}
		best = max(best, sum)
	}
	return best >> unitShift / shareParts
}

// podGroup is a number of pods that request the same and can go to the same claims.
type podGroup struct {
	requests *resource.Vector
	states   []*offer.State
	pods     int64
}

// demandsOf the pods on new claims.
func demandsOf(s *solve.Solver) []*podGroup {
	type where struct {
		class    *solve.SearchClass
		template *offer.Template
	}
	known := map[where]*podGroup{}
	alike := map[int][]*podGroup{} // by requests
	var list []*podGroup
	for _, it := range s.Items {
		if it.Bin == nil || it.Bin.Open() == nil || it.Bin.Open().Earlier != nil || len(it.Bin.Open().Holds) > 0 || it.Bin.Open().Probes != nil {
			continue
		}
		at := where{it.Class, it.Bin.Open().Template}
		d := known[at]
		if d == nil {
			d = &podGroup{requests: &it.Class.Requests, states: statesFor(at.template, it.Class.Class)}
			same := alike[it.Class.Request]
			if i := slices.IndexFunc(same, func(o *podGroup) bool { return slices.Equal(d.states, o.states) }); i >= 0 {
				d = same[i]
			} else {
				list, alike[it.Class.Request] = append(list, d), append(same, d)
			}
			known[at] = d
		}
		d.pods++
	}
	return list
}

// statesFor lists, once each, what claims of the pool with a pod of the class may be, at its most relaxed.
func statesFor(t *offer.Template, c *demand.Class) []*offer.State {
	var list []*offer.State
	for _, a := range c.Levels[len(c.Levels)-1].Alternatives {
		if n := t.Root.Narrow(a); n != nil && !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list
}

// sharing assigns parts, in eighths, of a node's price to its resources; those of extended ones are assigned
// to CPU if a type has none.
type sharing struct {
	cpu, memory, pods, extended int64
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
func shares(demands []*podGroup) []sharing {
	if !slices.ContainsFunc(demands, func(d *podGroup) bool { return len(d.requests.Extended) > 0 }) {
		return sharings
	}
	return append(slices.Clone(sharings), sharing{extended: 8}, sharing{cpu: 2, memory: 2, extended: 4}, sharing{cpu: 4, memory: 2, extended: 2})
}

// fewDemands are so few that each checks all types that hold its pods, instead of only those that can be
// cheapest.
const fewDemands = 8

// leastCost of a pod, in units of unitShift and shareParts. units caches the results of unitCostsOf.
func (d *podGroup) leastCost(w sharing, nodes bool, units map[*offer.State][]unitCost, few bool) int64 {
	least := int64(math.MaxInt64)
	for _, n := range d.states {
		if few {
			least = min(least, d.leastOf(n, w, nodes))
			continue
		}
		list, known := units[n]
		if !known {
			list = unitCostsOf(n, w, nodes)
			units[n] = list
		}
		for _, u := range list {
			if c, ok := u.costOf(d.requests); ok {
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
func (d *podGroup) leastOf(n *offer.State, w sharing, nodes bool) int64 {
	least := int64(math.MaxInt64)
	tr, net := n.Tariff(), n.Template.Net()
	price := tr.Prices(nodes)
	for _, i := range tr.Order {
		if !d.requests.Fits(net[i]) {
			continue
		}
		u := unitCostOf(price[i], w, &net[i])
		if c, ok := u.costOf(d.requests); ok {
			least = min(least, c)
		}
	}
	return least
}

// unitCost is what a milli-CPU, a MiB, a pod, and a unit of each extended resource cost on a type, rounded
// down.
type unitCost struct {
	cpu, memory, pod int64
	extended         []resource.Amount
}

// costOf a pod; false if the type lacks an extended resource.
func (u *unitCost) costOf(v *resource.Vector) (int64, bool) {
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

// unitCostsOf a state's types, without those that another type matches or beats in every respect.
func unitCostsOf(n *offer.State, w sharing, nodes bool) []unitCost {
	tr, net := n.Tariff(), n.Template.Net()
	price := tr.Prices(nodes)
	list := make([]unitCost, 0, len(tr.Order))
	for _, i := range tr.Order {
		list = append(list, unitCostOf(price[i], w, &net[i]))
	}
	return undominated(list)
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
