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

// account is what a decision says of itself.
func (c *comparison) account(e ledger.Entry) audit.Line {
	line := audit.Account(e, c.logID)
	line.Text = strings.TrimSuffix(strings.TrimPrefix(line.Text, "(shadow) "), " (shadow: nothing was done)")
	return line
}

// add a deed of a decision, and the nodes that it imagines.
func (c *comparison) add(e ledger.Entry, d *deed) {
	d.record, d.at, d.order = e.Seq, e.Time.UTC(), c.ordered
	c.ordered++
	c.deeds, c.imagined, c.stale = append(c.deeds, d), append(c.imagined, d.nodes...), true
	c.out.Millwright.Launched += len(d.nodes)
}

// provision counts the claims of a round for the pods that no round before has planned for.
func (c *comparison) provision(e ledger.Entry, p *ledger.ProvisioningPlanned) {
	counted, repeated := false, false
	var why []string
	for i := range p.Claims {
		claim := &p.Claims[i]
		d, n := &deed{provides: true}, &imagined{price: claim.Cheapest.MicroUSDPerHour, from: c.now, waiting: map[types.UID]bool{}}
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
		if !counted {
			why = c.account(e).Details
		}
		d.text = fmt.Sprintf("%s %s in %s of NodePool %s for %d pods", claim.Cheapest.InstanceType, claim.Cheapest.CapacityType, claim.Cheapest.Zone, claim.NodePool, len(claim.Pods))
		n.price = n.price * int64(fresh) / int64(len(claim.Pods)) // the rest of it was counted with the other pods
		d.nodes, d.why = []*imagined{n}, why
		c.add(e, d)
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
		if m == nil || m.by != nil && !m.by.provides {
			c.tally(false, true)
			return
		}
		taken = append(taken, m)
	}
	line := c.account(e)
	d := &deed{text: line.Text, why: line.Details}
	for _, m := range taken {
		if before := m.by; before != nil { // Millwright would have had another node here, which goes now
			c.release(m)
		}
		m.by, m.since = d, c.now
	}
	d.machines = taken
	for i := range p.Replacements {
		n := &imagined{price: p.Replacements[i].Cheapest.MicroUSDPerHour, from: c.now, waiting: map[types.UID]bool{}, real: slices.Clone(taken)}
		d.nodes = append(d.nodes, n)
	}
	c.add(e, d)
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
	r.Actual.waits(&c.waited)
	c.would.addAll(&c.booted, boot)
	r.Millwright.waits(&c.would)
	for _, x := range c.waiters {
		r.Actual.StillWaiting++
		if x.at == nil {
			r.Millwright.StillWaiting++
		}
	}
	for _, m := range c.machines {
		c.left(m)
	}
	for _, d := range c.deeds {
		c.largest.add(d.order, c.difference(d))
	}
	r.Differences = c.largest.list()
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
	x := Difference{Record: d.record, At: d.at, Until: d.ended, SavedUSD: c.saved(d), Decided: d.text, Why: d.why}
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
