package shadow

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/store/audit"
)

// decide counts a shadow decision.
func (c *comparison) decide(w *world.World, e ledger.Entry) {
	switch p := e.Payload.(type) {
	case *ledger.ProvisioningPlanned:
		c.provision(e, p)
	case *ledger.CommandStarted:
		c.command(w, e, p)
	case *ledger.CommandProposed:
		c.command(w, e, &p.Command)
	}
}

func (c *comparison) newDeed(e ledger.Entry) *deed {
	line := audit.Account(e, c.logID)
	return &deed{entry: e, text: strings.TrimSuffix(strings.TrimPrefix(line.Text, "(shadow) "), " (shadow: nothing was done)"), why: line.Details}
}

// provision counts the claims of a round for the pods that no round before has planned for.
func (c *comparison) provision(e ledger.Entry, p *ledger.ProvisioningPlanned) {
	counted, repeated := false, false
	for i := range p.Claims {
		claim := &p.Claims[i]
		d, n := c.newDeed(e), &imagined{price: claim.Cheapest.MicroUSDPerHour, from: c.now, waiting: map[types.UID]bool{}}
		d.text = fmt.Sprintf("%s %s in %s of NodePool %s for %d pods", claim.Cheapest.InstanceType, claim.Cheapest.CapacityType, claim.Cheapest.Zone, claim.NodePool, len(claim.Pods))
		fresh := 0
		for _, ref := range claim.Pods {
			if x := c.waiters[ref.UID]; x != nil && x.at == nil {
				x.planned, x.at, x.deed = c.now, n, d
				n.waiting[ref.UID] = true
				fresh++
			}
		}
		if fresh == 0 {
			repeated = true
			continue
		}
		n.price = n.price * int64(fresh) / int64(len(claim.Pods)) // the rest of it was counted with the other pods
		d.nodes = []*imagined{n}
		c.imagined, c.deeds = append(c.imagined, n), append(c.deeds, d)
		c.out.Millwright.Launched++
		counted = true
	}
	c.tally(counted, repeated)
}

func (c *comparison) tally(counted, repeated bool) {
	if counted {
		c.out.Decisions++
	} else if repeated {
		c.out.Repeated++
	}
}

// command counts one whose nodes are all still there, for Millwright too.
func (c *comparison) command(w *world.World, e ledger.Entry, p *ledger.CommandStarted) {
	var taken []*machine
	for _, cand := range p.Candidates {
		m := c.machineOf(w, cand.Node)
		if m == nil && cand.ProviderID != "" {
			m = c.machines[cand.ProviderID]
		}
		if m == nil || m.by != nil && !m.by.provides() {
			c.tally(false, true)
			return
		}
		taken = append(taken, m)
	}
	d := c.newDeed(e)
	for _, m := range taken {
		if before := m.by; before != nil { // Millwright would have had another node here, which goes now
			c.release(m)
		}
		m.by, m.since = d, c.now
	}
	d.machines = taken
	for i := range p.Replacements {
		n := &imagined{price: p.Replacements[i].Cheapest.MicroUSDPerHour, from: c.now, waiting: map[types.UID]bool{}, real: slices.Clone(taken)}
		d.nodes, c.imagined = append(d.nodes, n), append(c.imagined, n)
	}
	c.deeds = append(c.deeds, d)
	c.out.Millwright.Launched += len(p.Replacements)
	c.out.Millwright.Evictions += p.Evictions
	c.out.Millwright.Removed += len(taken)
	c.tally(true, false)
}

// release ends what was imagined in place of a machine that another decision takes.
func (c *comparison) release(m *machine) {
	is := func(x *machine) bool { return x == m }
	m.by.machines = slices.DeleteFunc(m.by.machines, is)
	for _, n := range c.imagined {
		n.real = slices.DeleteFunc(n.real, is)
	}
	c.settle()
}

// saved is what a decision saves in the span, in USD.
func (c *comparison) saved(d *deed) (usd float64) {
	until := func(t time.Time) time.Time {
		if t.IsZero() {
			return c.now
		}
		return t
	}
	for _, m := range d.machines {
		usd += float64(m.price) / 1e6 * max(until(m.gone).Sub(m.since).Hours(), 0)
	}
	for _, n := range d.nodes {
		usd -= float64(n.price) / 1e6 * max(until(n.until).Sub(n.from).Hours(), 0)
	}
	return usd
}

// report sums up.
func (c *comparison) report() *Report {
	actual, shadow := c.sums()
	c.points = append(c.points, Point{c.now, actual.nodes, actual.price, shadow.nodes, shadow.price})
	r := &c.out
	r.From, r.To, r.Caveats = c.from, c.now, slices.Clone(caveats)
	r.Curve = c.curve()
	boot := c.boot()
	r.BootSeconds = int64(boot / time.Second)
	r.Actual.waits(slices.Clone(c.waited))
	var would []time.Duration
	for _, x := range c.would {
		if x.boots {
			would = append(would, x.planned+boot)
		} else {
			would = append(would, x.planned)
		}
	}
	r.Millwright.waits(would)
	for _, x := range c.waiters {
		r.Actual.StillWaiting++
		if x.at == nil {
			r.Millwright.StillWaiting++
		}
	}
	// What Millwright would have left alone went as it really did.
	for _, m := range c.all {
		if m.by == nil {
			if !m.gone.IsZero() {
				r.Millwright.Removed++
			}
			if m.launched.After(c.from) {
				r.Millwright.Launched++
			}
		}
	}
	var all []Difference
	for _, d := range c.deeds {
		all = append(all, c.difference(d))
	}
	r.Differences = largest(all)
	if len(c.boots) == 0 {
		r.Caveats = append(r.Caveats, "No node became ready in the span, so nodes that never were are taken to boot at once.")
	}
	return r
}

// boot is the time that nodes took in the middle; 0 if none came.
func (c *comparison) boot() time.Duration {
	if len(c.boots) == 0 {
		return 0
	}
	slices.Sort(c.boots)
	return c.boots[len(c.boots)/2]
}

func (c *comparison) difference(d *deed) Difference {
	x := Difference{Record: d.entry.Seq, At: d.entry.Time.UTC(), Until: d.ended, SavedUSD: c.saved(d), Decided: d.text, Why: d.why}
	var real []string
	for _, m := range d.machines {
		state := "is still there"
		if !m.gone.IsZero() {
			state = "went at " + m.gone.Format(time.RFC3339)
		}
		real = append(real, fmt.Sprintf("%s (%s at %s) %s", m.name, m.about, audit.Price(m.price), state))
	}
	if x.Instead = strings.Join(real, "; "); x.Instead == "" {
		x.Instead = "no node was launched for it"
	}
	return x
}

// curve thins the points out to equal steps.
func (c *comparison) curve() []Point {
	step := max(c.now.Sub(c.from)/curvePoints, time.Minute)
	var list []Point
	next := c.from
	for i, p := range c.points {
		if i+1 < len(c.points) && !c.points[i+1].At.After(next) {
			continue // a later one says how it was then
		}
		for !next.After(p.At) || i+1 < len(c.points) && next.Before(c.points[i+1].At) {
			x := p
			x.At = next
			list = append(list, x)
			next = next.Add(step)
		}
	}
	return list
}
