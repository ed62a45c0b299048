package weeks

import (
	"fmt"
	"testing"
	"time"
)

// scene is a cluster at rest: nodes of a type with pods of these millicores each.
func scene(t *testing.T, s Settings, nodes ...sceneNode) (*reference, []*node) {
	t.Helper()
	c := newCluster(&Script{Seed: 1, Length: day})
	r := newReference(c, s)
	c.plane, c.now = r, time.Hour
	var list []*node
	for i, x := range nodes {
		for _, o := range c.market.cheapest(x.capacity, 0) {
			if o.kind.name == x.kind {
				n := &node{name: fmt.Sprintf("n%d", i), offer: o, ordinal: i, ready: true, touched: time.Minute}
				for j, cpu := range x.pods {
					n.used = n.used.plus(amount{cpu, 256, 1})
					n.pods = append(n.pods, &pod{name: fmt.Sprintf("p%d-%d", i, j), node: n, app: &app{capacity: x.capacity, asks: amount{cpu, 256, 1}}})
				}
				list = append(list, n)
			}
		}
	}
	if len(list) != len(nodes) {
		t.Fatal("a type of the scene does not exist")
	}
	c.nodes = list
	return r, list
}

type sceneNode struct {
	kind, capacity string
	pods           []int64
}

var price114 = Settings{Reference: true, PriceOrder: true, ConsolidateAfter: time.Minute}

func TestReferenceOrdersByVersion(t *testing.T) {
	dear := sceneNode{"r5.4xlarge", onDemand, []int64{100, 100}}
	cheap := sceneNode{"c5a.large", onDemand, []int64{100}}
	old, nodes := scene(t, Settings{Reference: true, ConsolidateAfter: time.Minute}, dear, cheap)
	if got := old.candidates("multi"); got[0] != nodes[1] {
		t.Error("1.13 does not begin with what disrupts least")
	}
	recent, nodes := scene(t, price114, dear, cheap)
	if got := recent.candidates("multi"); got[0] != nodes[0] {
		t.Error("1.14 does not begin with what saves most by disruption")
	}
}

func TestReferenceReplacesByOneCheaperNode(t *testing.T) {
	r, nodes := scene(t, price114, sceneNode{"m5.4xlarge", onDemand, []int64{1000}}, sceneNode{"m5.4xlarge", onDemand, []int64{15_000}})
	p := r.single(nodes[:1])
	if p == nil || len(p.offers) == 0 || p.offers[0].price >= nodes[0].offer.price {
		t.Fatalf("no cheaper node found: %+v", p)
	}
	if p := r.single(nodes[1:]); p != nil && len(p.offers) > 0 && p.offers[0].kind.capacity.cpu < 16_000 {
		t.Errorf("%s is too small", p.offers[0].kind.name)
	}
	r, nodes = scene(t, price114, sceneNode{"m5.4xlarge", spot, []int64{1000}})
	if p := r.single(nodes); p != nil {
		t.Error("a spot node is replaced by a spot node though the gate is off")
	}
}

func TestReferenceMovesNoPodToNodesInsideConsolidateAfter(t *testing.T) {
	half := sceneNode{"m5.xlarge", onDemand, []int64{1000}}
	r, nodes := scene(t, price114, half, half)
	if p := r.single(nodes[:1]); p == nil || p.offers != nil {
		t.Fatalf("the pod fits the other node: %+v", p)
	}
	nodes[1].touched = r.now
	if p := r.single(nodes[:1]); p != nil && p.offers == nil {
		t.Error("1.14 places pods on a node inside its consolidateAfter")
	}
	r.settings.PriceOrder = false
	if p := r.single(nodes[:1]); p == nil || p.offers != nil {
		t.Error("1.13 knows no such rule")
	}
}

func TestReferenceBalancedWantsSavingsForDisruption(t *testing.T) {
	s := price114
	s.Balanced = true
	few := sceneNode{"m5.4xlarge", onDemand, []int64{100}}
	many := sceneNode{"c5a.large", onDemand, []int64{100, 100, 100, 100, 100, 100, 100, 100}}
	r, nodes := scene(t, s, few, many)
	if !r.approves(&proposal{nodes: nodes[:1]}) {
		t.Error("a dear node with one pod is kept")
	}
	if r.approves(&proposal{nodes: nodes[1:]}) {
		t.Error("a cheap node with many pods is taken")
	}
}

func TestReferenceKeepsToBudgets(t *testing.T) {
	full := sceneNode{"m5.large", onDemand, []int64{100}}
	var many []sceneNode
	for range 11 {
		many = append(many, full)
	}
	r, nodes := scene(t, price114, many...)
	if got := len(r.withinBudget("multi", nodes)); got != 2 {
		t.Errorf("of 11 nodes %d may go", got)
	}
	nodes[0].tainted = true
	if got := len(r.withinBudget("multi", nodes[1:])); got != 1 {
		t.Errorf("with one going %d may go", got)
	}
}

func TestSameTypeFilter(t *testing.T) {
	r, nodes := scene(t, price114, sceneNode{"m5.xlarge", onDemand, nil}, sceneNode{"m5.large", onDemand, nil})
	p := &proposal{nodes: nodes}
	p.offers = append(p.offers, r.market.cheapest(onDemand, 0)...)
	got := sameTypeFilter(p)
	for _, o := range got.offers {
		if o.price >= nodes[1].offer.price {
			t.Errorf("%s costs as much as the cheapest removed node of a type that may come again", o.kind.name)
		}
	}
}
