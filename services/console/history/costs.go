package history

import (
	"fmt"
	"time"

	"millwright/store/audit/overview"
)

// poolsMax bounds the NodePools whose costs are added up.
const poolsMax = 10_000

// poolCost is what the instances of a NodePool have cost that have ended, in micro USD.
type poolCost struct {
	instances int
	micro     int64
	first     time.Time
}

// micro USD of a price per hour over a span.
func micro(price int64, span time.Duration) int64 {
	return int64(float64(price) * max(0, span.Hours()))
}

func (h *History) costOf(pool string) *poolCost {
	c := h.costs[pool]
	if c == nil && len(h.costs) < poolsMax {
		c = &poolCost{}
		h.costs[pool] = c
	}
	return c
}

// bought counts an instance that was launched.
func (h *History) bought(c *claim) {
	if x := h.costOf(c.pool); x != nil && c.pool != "" {
		if x.instances++; x.first.IsZero() {
			x.first = c.since
		}
	}
}

// paid adds up what an instance has cost that has ended.
func (h *History) paid(c *claim, at time.Time) {
	if x := h.costOf(c.pool); x != nil && !c.since.IsZero() {
		x.micro += micro(c.price, at.Sub(c.since))
	}
}

// Cost says what a NodePool has cost over its life, by the prices that its instances were launched at;
// nothing for one that has had none.
func (h *History) Cost(pool string, now time.Time) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.costs[pool]
	if x == nil || x.instances == 0 {
		return nil
	}
	sum, running, price := x.micro, 0, int64(0)
	for _, c := range h.claims {
		if c.up && c.pool == pool {
			sum, running, price = sum+micro(c.price, now.Sub(c.since)), running+1, price+c.price
		}
	}
	line := fmt.Sprintf("cost over its life: $%.4f for %s since %s", float64(sum)/1e6, times(x.instances, "instance", "instances"), x.first.UTC().Format("2006-01-02 15:04 UTC"))
	if running > 0 {
		line += fmt.Sprintf(", of which %d run now for %s", running, hourly(price))
	}
	return []string{line}
}

// Health ranks what the instances ran on that failed since a time; zero: ever.
func (h *History) Health(since time.Time) []overview.HealthRow {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.health.Rows(since)
}
