package weeks

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// proposal of a method: nodes to take, and the offerings of the one node in their place, none for a delete.
type proposal struct {
	method string
	nodes  []*node
	offers []offering
}

// loop looks for one command; one of consolidation or emptiness is validated after 15 s, in which nothing
// else happens here.
func (r *reference) loop() {
	for _, method := range []struct {
		name string
		find func([]*node) *proposal
	}{{"empty", r.empty}, {"multi", r.multi}, {"single", r.single}} {
		x := r.settled[method.name]
		if method.name != "empty" && x.stamp == r.stamp && r.now-x.at < memoTime && x.at > 0 {
			continue
		}
		nodes := r.candidates(method.name)
		p, limited := method.find(r.withinBudget(method.name, nodes)), len(r.withinBudget(method.name, nodes)) < len(nodes)
		if p == nil {
			if !limited {
				r.settled[method.name] = memo{r.stamp, r.now}
			}
			continue
		}
		p.method = method.name
		r.after(validatesAfter, func() {
			r.validate(p)
			r.loop()
		})
		return
	}
	r.after(loopEvery, r.loop)
}

// candidates of a method, in its order.
func (r *reference) candidates(method string) (list []*node) {
	for _, n := range r.nodes {
		if r.eligible(n, method) {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(a, b *node) int {
		if r.settings.PriceOrder {
			return cmp.Or(-cmp.Compare(savingsRatio(a), savingsRatio(b)), cmp.Compare(a.name, b.name))
		}
		return cmp.Or(cmp.Compare(r.disruptionCost(a), r.disruptionCost(b)), cmp.Compare(a.name, b.name))
	})
	if method == "single" {
		list = interleaved(list)
	}
	return list
}

func (r *reference) eligible(n *node, method string) bool {
	if !n.ready || n.tainted || r.nominated[n] > r.now || !r.quiet(n) || (len(n.pods) == 0) != (method == "empty") {
		return false
	}
	return !slices.ContainsFunc(n.pods, func(p *pod) bool { return p.app.protected })
}

func savingsRatio(n *node) float64 { return float64(n.offer.price) / float64(1+len(n.pods)) }

func (r *reference) disruptionCost(n *node) float64 {
	left := max(0, float64(expireAfter-(r.now-n.launched))/float64(expireAfter))
	return float64(len(n.pods)) * left
}

// interleaved takes one node of each NodePool in turn.
func interleaved(list []*node) (out []*node) {
	pools := map[string][]*node{}
	for _, n := range list {
		pools[n.offer.capacity] = append(pools[n.offer.capacity], n)
	}
	for i := 0; len(out) < len(list); i++ {
		for _, name := range slices.Sorted(maps.Keys(pools)) {
			if i < len(pools[name]) {
				out = append(out, pools[name][i])
			}
		}
	}
	return out
}

// withinBudget keeps as many nodes of each NodePool as its budget of 10 % allows; single asks only whether
// it allows any.
func (r *reference) withinBudget(method string, list []*node) (out []*node) {
	left := map[string]int{}
	for _, capacity := range []string{onDemand, spot} {
		all, going := 0, 0
		for _, n := range r.nodes {
			if n.ready && n.offer.capacity == capacity {
				all++
				if n.tainted {
					going++
				}
			}
		}
		left[capacity] = max(0, (all+9)/10-going)
	}
	for _, n := range list {
		if left[n.offer.capacity] > 0 {
			out = append(out, n)
			if method != "single" {
				left[n.offer.capacity]--
			}
		}
	}
	return out
}

func (r *reference) empty(nodes []*node) *proposal {
	if len(nodes) == 0 {
		return nil
	}
	return &proposal{nodes: nodes}
}

// multi looks for the longest prefix that can go together, by halving.
func (r *reference) multi(nodes []*node) (best *proposal) {
	for lo, hi := 1, min(len(nodes)-1, multiMax); lo <= hi; {
		mid := (lo + hi) / 2
		p := r.consolidate(nodes[:mid+1])
		if p != nil && p.offers != nil {
			p = sameTypeFilter(p)
		}
		if p != nil && r.approves(p) {
			best, lo = p, mid+1
		} else {
			hi = mid - 1
		}
	}
	return best
}

// sameTypeFilter drops replacement types at or above the least price of a removed node whose type is among
// them.
func sameTypeFilter(p *proposal) *proposal {
	bound := int64(-1)
	for _, n := range p.nodes {
		if slices.ContainsFunc(p.offers, func(o offering) bool { return o.kind == n.offer.kind }) && (bound < 0 || n.offer.price < bound) {
			bound = n.offer.price
		}
	}
	if bound >= 0 {
		p.offers = slices.DeleteFunc(p.offers, func(o offering) bool { return o.price >= bound })
	}
	if len(p.offers) == 0 {
		return nil
	}
	return p
}

// single is the first node that can go by itself.
func (r *reference) single(nodes []*node) *proposal {
	for _, n := range nodes {
		if p := r.consolidate([]*node{n}); p != nil && r.approves(p) {
			return p
		}
	}
	return nil
}

// consolidate asks whether nodes can go, for nothing or for one cheaper node.
func (r *reference) consolidate(nodes []*node) *proposal {
	s := r.simulated(nodes)
	if s.failed || s.uninitialized || len(s.bins) > 1 {
		return nil
	}
	p := &proposal{nodes: slices.Clone(nodes)}
	if len(s.bins) == 0 {
		return p
	}
	sum, allSpot := int64(0), true
	for _, n := range nodes {
		sum += n.offer.price
		allSpot = allSpot && n.offer.capacity == spot
	}
	if allSpot && s.bins[0].offers[0].capacity == spot {
		return nil // SpotToSpotConsolidation is off
	}
	for _, o := range s.bins[0].offers {
		if o.price < sum {
			p.offers = append(p.offers, o)
		}
	}
	if len(p.offers) == 0 {
		return nil
	}
	return p
}

func (r *reference) simulated(nodes []*node) *simulation {
	var pods []*pod
	for _, p := range r.waiting {
		if p.refused {
			pods = append(pods, p)
		}
	}
	for _, c := range r.commands {
		for _, n := range c.nodes {
			pods = append(pods, n.pods...)
		}
	}
	for _, n := range nodes {
		pods = append(pods, n.pods...)
	}
	return r.simulate(pods, nodes, true)
}

// approves is Balanced: of each NodePool the share of the savings is at least half the share of disruption.
func (r *reference) approves(p *proposal) bool {
	if !r.settings.Balanced {
		return true
	}
	savings, taken := int64(0), map[string]int64{}
	for _, n := range p.nodes {
		savings += n.offer.price
		taken[n.offer.capacity] += n.offer.price
	}
	sum := savings
	if p.offers != nil {
		savings -= p.offers[0].price
	}
	for capacity, price := range taken {
		cost, disruption, mine := int64(0), 0.0, 0.0
		for _, n := range r.nodes {
			if n.offer.capacity != capacity || !n.ready {
				continue
			}
			cost += n.offer.price
			disruption += 1 + float64(len(n.pods))
			if slices.Contains(p.nodes, n) {
				mine += 1 + float64(len(n.pods))
			}
		}
		share := float64(savings) * float64(price) / float64(sum)
		if share <= 0 || share/float64(cost) < 0.5*mine/disruption {
			return false
		}
	}
	return true
}

// validate looks again after 15 s, and starts what still holds.
func (r *reference) validate(p *proposal) {
	nodes := slices.DeleteFunc(slices.Clone(p.nodes), func(n *node) bool { return n.gone || !r.eligible(n, p.method) })
	if p.method == "empty" {
		if nodes = r.withinBudget(p.method, nodes); len(nodes) > 0 {
			r.start(&proposal{method: p.method, nodes: nodes})
		}
		return
	}
	if len(nodes) < len(p.nodes) || len(r.withinBudget("multi", nodes)) < len(nodes) {
		r.result.GivenUp++
		return
	}
	s := r.simulated(nodes)
	want := 0
	if p.offers != nil {
		want = 1
	}
	same := !s.failed && !s.uninitialized && len(s.bins) == want
	if same && want == 1 {
		same = !slices.ContainsFunc(p.offers, func(o offering) bool {
			return !slices.ContainsFunc(s.bins[0].offers, func(x offering) bool { return x.kind == o.kind })
		})
	}
	if !same {
		r.result.GivenUp++
		return
	}
	r.start(p)
	for n := range s.placed {
		r.nominated[n] = r.now + nominatedFor
	}
}

func (r *reference) start(p *proposal) {
	c := &command{nodes: p.nodes, started: r.now}
	before := int64(0)
	for _, n := range p.nodes {
		n.tainted = true
		before += n.offer.price
		r.nodeChanged(n)
	}
	if p.offers != nil {
		o := p.offers[0]
		c.replacement = r.launch(fmt.Sprintf("%s-%05d", o.capacity, len(r.all)), o)
		r.nominated[c.replacement] = r.now + nominatedFor
	}
	r.result.Commands++
	r.trace("command "+p.method, fmt.Sprint(before, len(p.nodes)))
	r.commands = append(r.commands, c)
	r.poke()
}
