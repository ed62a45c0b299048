package provision

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"millwright/planner/catalog"
	"millwright/planner/resource"
)

// noPrice marks a type without an offering.
const noPrice = math.MaxInt64

// tariff is what a state's types cost, reserved capacity left out: by type, and the types with such an offering, cheapest
// first; of equal ones the bigger, then by name. cost is the price with what a node costs by itself (planner.Options.NodeCost).
type tariff struct {
	price, cost []int64
	order       []int32
}

// tariff of a state, made once.
func (n *state) tariff() *tariff {
	if n.prices != nil {
		return n.prices
	}
	t := n.template
	tr := &tariff{price: make([]int64, len(t.catalog.Types)), cost: make([]int64, len(t.catalog.Types))}
	compatible := make([]bool, len(n.offered.shapes))
	for _, i := range n.shapes {
		compatible[i] = true
	}
	for i, it := range t.catalog.Types {
		tr.price[i], tr.cost[i] = noPrice, noPrice
		if !n.usable.Has(i) {
			continue
		}
		for j := range it.Offerings {
			x := &it.Offerings[j]
			if compatible[x.Shape] && x.Available && x.Reservation == "" && x.Price < tr.price[i] && n.offered.shapes[x.Shape].Has(i) {
				tr.price[i] = x.Price
			}
		}
		if tr.price[i] != noPrice {
			tr.cost[i] = addSaturated(tr.price[i], 1, t.nodeCost)
			tr.order = append(tr.order, int32(i))
		}
	}
	size := t.bySize()
	slices.SortFunc(tr.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(tr.price[a], tr.price[b]), cmp.Compare(size[a], size[b]))
	})
	n.prices = tr
	return tr
}

// cheapest is the price of the cheapest offering a claim may become; noPrice if it has none.
func (o *openClaim) cheapest() int64 {
	tr := o.state.tariff()
	if o.tariff != tr {
		o.tariff, o.at = tr, 0
	}
	for ; o.at < len(tr.order); o.at++ {
		if i := tr.order[o.at]; o.types.Has(int(i)) {
			return tr.price[i]
		}
	}
	return noPrice
}

// cost is cheapest with what a node costs by itself; noPrice if the claim has no offering.
func (o *openClaim) cost() int64 {
	price := o.cheapest()
	if price == noPrice {
		return noPrice
	}
	return addSaturated(price, 1, o.state.template.nodeCost)
}

// bySize is the place of each type among all, the biggest first: by CPU, then memory, ties by name.
func (t *template) bySize() []int32 {
	if t.sizes == nil {
		order := make([]int32, len(t.catalog.Types))
		for i := range order {
			order[i] = int32(i)
		}
		slices.SortFunc(order, func(a, b int32) int {
			x, y := &t.catalog.Types[a].Allocatable, &t.catalog.Types[b].Allocatable
			return cmp.Or(cmp.Compare(y.MilliCPU, x.MilliCPU), cmp.Compare(y.Memory, x.Memory), cmp.Compare(a, b))
		})
		t.sizes = make([]int32, len(order))
		for at, i := range order {
			t.sizes[i] = int32(at)
		}
	}
	return t.sizes
}

// net is what a type has for pods, by type: its allocatable less the DaemonSets that run on it.
func (t *template) net() []resource.Vector {
	if t.netOf == nil {
		t.netOf = make([]resource.Vector, len(t.catalog.Types))
		for i := range t.groups {
			for j := range t.groups[i].types.Members() {
				t.netOf[j] = t.catalog.Types[j].Allocatable.Sub(t.groups[i].overhead)
			}
		}
	}
	return t.netOf
}

// measure says how the size of a type is weighed against a demand.
type measure uint8

const (
	// byScarcest: how many such nodes hold the demand alone, by the resource that runs out first.
	byScarcest measure = iota
	// bySum: by the sum of the shares of CPU and memory, so that types of different shape may complement each other.
	bySum
	measures
)

// ranking orders the types of a state by what the demand would cost on them.
type ranking struct {
	cost  []int64 // by type
	order []int32 // cheapest first; of equal ones the bigger, then by name
}

// ranking of a state for its template's demand; made once per demand.
func (n *state) ranking(m measure) *ranking {
	if n.ranked[m] != nil {
		return n.ranked[m]
	}
	tr, net := n.tariff(), n.template.net()
	r := &ranking{cost: make([]int64, len(tr.price)), order: slices.Clone(tr.order)}
	for _, i := range tr.order {
		r.cost[i] = costOf(m, tr.cost[i], &n.template.demand, &net[i])
	}
	size := n.template.bySize()
	slices.SortFunc(r.order, func(a, b int32) int { return cmp.Or(cmp.Compare(r.cost[a], r.cost[b]), cmp.Compare(size[a], size[b])) })
	n.ranked[m] = r
	return r
}

// costShift gives costs ten bits below a micro dollar.
const costShift = 10

// costOf is the price of the demand on nodes of one type, in micro USD << costShift.
func costOf(m measure, price int64, demand, net *resource.Vector) int64 {
	cpu := scaled(price, demand.MilliCPU, net.MilliCPU)
	memory := scaled(price, demand.Memory, net.Memory)
	pods := scaled(price, demand.Pods, net.Pods)
	if m == bySum {
		// price / (net/demand of CPU + net/demand of memory) is the harmonic sum of both costs.
		return max(harmonic(cpu, memory), pods)
	}
	return max(cpu, memory, pods)
}

// harmonic is 1/(1/a + 1/b), for costs.
func harmonic(a, b int64) int64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	if a == noPrice || b == noPrice || a > noPrice-b {
		return noPrice
	}
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(a+b))
	return int64(q)
}

// scaled is price × wanted / have << costShift; noPrice if nothing is there of what is wanted.
func scaled(price, wanted, have int64) int64 {
	if wanted <= 0 {
		return 0
	}
	if have <= 0 {
		return noPrice
	}
	if wanted > math.MaxInt64>>costShift {
		return noPrice
	}
	hi, lo := bits.Mul64(uint64(price), uint64(wanted)<<costShift)
	if hi >= uint64(have) {
		return noPrice
	}
	q, _ := bits.Div64(hi, lo, uint64(have))
	return int64(min(q, noPrice))
}

// ceiling says up to which types a claim grows. The types offered to launch are not cut by it: all that hold the
// pods are offered.
type ceiling struct {
	measure measure
	// waste: types whose cost is at most so many thousandths above the best; negative: any.
	waste int64
	// priceMax: types that cost at most so much; apartMax: the same for claims that a pod opens which keeps others
	// off its node; 0: any.
	priceMax, apartMax int64
}

// growth returns the types of a new claim for a pod, in state n with types, that let it take more pods; nil: any.
func (g *ceiling) growth(c *class, n *state, types catalog.Bits) catalog.Bits {
	if g == nil {
		return nil
	}
	priceMax := g.priceMax
	if c.apart && g.apartMax > 0 {
		priceMax = g.apartMax
	}
	if g.waste < 0 && priceMax == 0 {
		return nil
	}
	price := n.tariff().cost
	dear := func(i int32) bool { return priceMax > 0 && price[i] > priceMax }
	r := n.ranking(g.measure)
	good := catalog.NewBits(len(price))
	limit := int64(-1)
	for _, i := range r.order {
		if !types.Has(int(i)) || dear(i) {
			continue
		}
		switch {
		case limit < 0 && g.waste < 0:
			limit = noPrice
		case limit < 0:
			limit = r.cost[i] + r.cost[i]/1000*g.waste
		}
		if r.cost[i] > limit {
			break
		}
		good.Add(int(i))
	}
	if limit < 0 { // its first pod fits no type that cheap: it takes what the cheapest type holds
		for _, i := range n.tariff().order {
			if types.Has(int(i)) {
				good.Add(int(i))
				break
			}
		}
	}
	return good
}
