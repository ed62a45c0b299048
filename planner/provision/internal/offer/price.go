package offer

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"millwright/planner/resource"
)

// NoPrice marks a type without an offering.
const NoPrice = math.MaxInt64

// Tariff is what a state's types cost, without reserved capacity: by type, and the types with such an
// offering, cheapest first; of equal ones the larger, then by name. cost is the price including what a node
// costs by itself (planner.Options.NodeCost).
type Tariff struct {
	Price, cost []int64
	Order       []int32
}

// Tariff of a state, made once.
func (n *State) Tariff() *Tariff {
	if n.prices != nil {
		return n.prices
	}
	t := n.Template
	tr := &Tariff{Price: make([]int64, len(t.Catalog.Types)), cost: make([]int64, len(t.Catalog.Types))}
	compatible := make([]bool, len(n.Offered.Shapes))
	for _, i := range n.Shapes {
		compatible[i] = true
	}
	for i, it := range t.Catalog.Types {
		tr.Price[i], tr.cost[i] = NoPrice, NoPrice
		if !n.Usable.Has(i) {
			continue
		}
		for j := range it.Offerings {
			x := &it.Offerings[j]
			if compatible[x.Shape] && x.Available && x.Reservation == "" && x.Price < tr.Price[i] && n.Offered.Shapes[x.Shape].Has(i) {
				tr.Price[i] = x.Price
			}
		}
		if tr.Price[i] != NoPrice {
			tr.cost[i] = AddSaturated(tr.Price[i], 1, t.NodeCost)
			tr.Order = append(tr.Order, int32(i))
		}
	}
	size := t.BySize()
	slices.SortFunc(tr.Order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(tr.Price[a], tr.Price[b]), cmp.Compare(size[a], size[b]))
	})
	n.prices = tr
	return tr
}

// BySize is the position of each type among all, the largest first: by CPU, then memory, ties by name.
func (t *Template) BySize() []int32 {
	if t.sizes == nil {
		order := make([]int32, len(t.Catalog.Types))
		for i := range order {
			order[i] = int32(i)
		}
		slices.SortFunc(order, func(a, b int32) int {
			x, y := &t.Catalog.Types[a].Allocatable, &t.Catalog.Types[b].Allocatable
			return cmp.Or(cmp.Compare(y.MilliCPU, x.MilliCPU), cmp.Compare(y.Memory, x.Memory), cmp.Compare(a, b))
		})
		t.sizes = make([]int32, len(order))
		for at, i := range order {
			t.sizes[i] = int32(at)
		}
	}
	return t.sizes
}

// Net is what a type has for pods, by type: its allocatable less the DaemonSets that run on it.
func (t *Template) Net() []resource.Vector {
	if t.netOf == nil {
		t.netOf = make([]resource.Vector, len(t.Catalog.Types))
		for i := range t.Groups {
			for j := range t.Groups[i].Types.Members() {
				t.netOf[j] = t.Catalog.Types[j].Allocatable.Sub(t.Groups[i].Overhead)
			}
		}
	}
	return t.netOf
}

// Measure says how the size of a type is compared with a demand.
type Measure uint8

const (
	// ByScarcest: how many such nodes hold the demand alone, by the resource that runs out first.
	ByScarcest Measure = iota
	// BySum: by the sum of the shares of CPU and memory, so that types of different shape can complement each
	// other.
	BySum
	measures
)

// ranking orders the types of a state by what the demand would cost on them.
type ranking struct {
	Cost  []int64 // by type
	Order []int32 // cheapest first; of equal ones the larger, then by name
}

// Ranking of a state for its template's demand; made once per demand.
func (n *State) Ranking(m Measure) *ranking {
	if n.ranked[m] != nil {
		return n.ranked[m]
	}
	tr, net := n.Tariff(), n.Template.Net()
	r := &ranking{Cost: make([]int64, len(tr.Price)), Order: slices.Clone(tr.Order)}
	for _, i := range tr.Order {
		r.Cost[i] = costOf(m, tr.cost[i], &n.Template.Demand, &net[i])
	}
	size := n.Template.BySize()
	slices.SortFunc(r.Order, func(a, b int32) int { return cmp.Or(cmp.Compare(r.Cost[a], r.Cost[b]), cmp.Compare(size[a], size[b])) })
	n.ranked[m] = r
	return r
}

// CostShift gives costs ten bits below a micro dollar.
const CostShift = 10

// costOf is the price of the demand on nodes of one type, in micro USD << costShift.
func costOf(m Measure, price int64, demand, net *resource.Vector) int64 {
	cpu := Scaled(price, demand.MilliCPU, net.MilliCPU)
	memory := Scaled(price, demand.Memory, net.Memory)
	pods := Scaled(price, demand.Pods, net.Pods)
	if m == BySum {
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
	if a == NoPrice || b == NoPrice || a > NoPrice-b {
		return NoPrice
	}
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(a+b))
	return int64(q)
}

// Scaled is price × wanted / have << costShift; noPrice if there is none of what is wanted.
func Scaled(price, wanted, have int64) int64 {
	if wanted <= 0 {
		return 0
	}
	if have <= 0 {
		return NoPrice
	}
	if wanted > math.MaxInt64>>CostShift {
		return NoPrice
	}
	hi, lo := bits.Mul64(uint64(price), uint64(wanted)<<CostShift)
	if hi >= uint64(have) {
		return NoPrice
	}
	q, _ := bits.Div64(hi, lo, uint64(have))
	return int64(min(q, NoPrice))
}

// Prices by type; nodes: with what a node costs by itself.
func (tr *Tariff) Prices(nodes bool) []int64 {
	if nodes {
		return tr.cost
	}
	return tr.Price
}

// ShareUnit is the whole demand, before scaled shifts it.
const ShareUnit = 1 << 20

// AddSaturated is sum + n × x, at most the largest int64.
func AddSaturated(sum, n, x int64) int64 {
	if x > 0 && n > (math.MaxInt64-sum)/x {
		return math.MaxInt64
	}
	return sum + n*x
}
