package weeks

import (
	"math"
	"slices"
	"testing"
	"time"
)

// short is long enough for scaling, for jobs every quarter of an hour and every hour, and for consolidation.
const short = 75 * time.Minute

// With each autoscaler no pod is lost or on two nodes, no node holds more than it can, and the bill is the
// sum of what each node cost at the prices of its time.
func TestWeeksAddUp(t *testing.T) {
	s := NewScript(1, short)
	for _, p := range Planes {
		t.Run(p.Name, func(t *testing.T) {
			c := newCluster(s)
			if c.plane = newMillwright(c, p); p.Reference {
				c.plane = newReference(c, p)
			}
			for at := time.Minute; at < short; at += 5 * time.Minute {
				c.after(at, func() { checkPods(t, c) })
			}
			if err := c.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			checkPods(t, c)
			if sum := billOf(c); math.Abs(sum-c.result.Bill) > 1e-6 {
				t.Errorf("the bill says %.6f USD, the nodes cost %.6f", c.result.Bill, sum)
			}
			if r := c.result; r.Commands == 0 || r.Evictions == 0 || r.Jobs == 0 || r.Bought < 5 {
				t.Errorf("too little happened: %+v", r)
			}
		})
	}
}

func checkPods(t *testing.T, c *Cluster) {
	t.Helper()
	for _, f := range c.fleets {
		if !f.app.job && !f.rolling && len(f.pods) != f.replicas {
			t.Errorf("at %s %s has %d pods of %d", c.now, f.app.name, len(f.pods), f.replicas)
		}
		for _, p := range f.pods {
			on := 0
			for _, n := range c.nodes {
				if slices.Contains(n.pods, p) {
					on++
				}
			}
			waits := slices.Contains(c.waiting, p)
			if p.gone || waits == (on == 1) || on > 1 || waits != (p.node == nil) {
				t.Errorf("at %s pod %s is on %d nodes, waits: %t, gone: %t", c.now, p.name, on, waits, p.gone)
			}
		}
	}
	for _, n := range c.nodes {
		var sum, promised amount
		for _, p := range n.pods {
			sum = sum.plus(p.app.asks)
		}
		for _, p := range c.waiting {
			if p.hint == n {
				promised = promised.plus(p.app.asks)
			}
		}
		if !sum.fits(n.offer.kind.allocatable) || sum != n.used || promised != n.promised {
			t.Errorf("at %s node %s holds %v, counted as %v, with %v promised, counted as %v, of %v", c.now, n.name, sum, n.used, promised, n.promised, n.offer.kind.allocatable)
		}
	}
}

// billOf adds up the time of every node at the market's prices, minute by minute.
func billOf(c *Cluster) (sum float64) {
	for _, n := range c.all {
		for at := n.launched; at < n.billed; {
			next := min(at.Truncate(time.Minute)+time.Minute, n.billed)
			sum += float64(c.market.price(n.offer.kind, n.offer.zone, n.offer.capacity, at)) / 1e6 * (next - at).Hours()
			at = next
		}
	}
	return sum
}

// Equal seeds give equal weeks, and different seeds different ones.
func TestWeeksAreDeterministic(t *testing.T) {
	const length = 40 * time.Minute
	for _, p := range []Settings{Planes[0], Planes[4]} {
		play := func(seed uint64) Result {
			r, err := Run(t.Context(), NewScript(seed, length), p)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		first := play(1)
		if again := play(1); again != first {
			t.Errorf("%s: %+v, then %+v", p.Name, first, again)
		}
		if other := play(2); other.Digest == first.Digest {
			t.Errorf("%s: another seed gives the same week", p.Name)
		}
	}
}
