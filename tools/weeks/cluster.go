package weeks

import (
	"context"
	"fmt"
	"hash"
	"hash/fnv"
	"slices"
	"time"

	"millwright/events"
	"millwright/planner/claim"
	"millwright/services/sim/clock"
)

// plane decides which nodes there are. It is told of what changes, and steps when the cluster wakes it.
type plane interface {
	// podChanged: it was made, bound, refused, or is gone.
	podChanged(p *pod)
	// nodeChanged: it was launched, is ready, goes, or is gone.
	nodeChanged(n *node)
	pricesChanged()
	// step plans. The cluster calls it a second after something has changed, and after d if d > 0.
	step() (d time.Duration)
}

// pod of an app. One that is evicted is made anew under another name.
type pod struct {
	name     string
	app      *app
	revision int
	node     *node
	created  time.Duration
	bound    time.Duration
	// length of a job's pod once it runs.
	length time.Duration
	// hint is the node that kube-scheduler tries first; nil: none.
	hint    *node
	refused bool
	// ended: its job is done. gone: it is deleted.
	ended, gone bool
	// moved is when it, or the pod in whose place it was made, was last evicted voluntarily; 0: never.
	moved time.Duration
}

func (p *pod) owner() string { return fmt.Sprintf("%s-%d", p.app.name, p.revision) }

// node is a machine, from its launch on.
type node struct {
	name     string
	offer    offering
	ordinal  int
	launched time.Duration
	ready    bool
	readyAt  time.Duration
	pods     []*pod
	// used is what its pods ask for, promised what the waiting pods that are hinted to it do.
	used, promised amount
	// touched is the last time a pod came, ended or was deleted.
	touched time.Duration
	// tainted: no new pods. going: it is being deleted. gone: it costs nothing any more. billed: up to when.
	tainted, going, gone bool
	billed               time.Duration
	// cause of its going, if no command takes it.
	cause string
}

func (n *node) free() amount { return n.offer.kind.allocatable.minus(n.used) }

// hintTo has kube-scheduler try a node first for a pod that waits; nil: none.
func (p *pod) hintTo(n *node) {
	if p.hint == n {
		return
	}
	if p.hint != nil {
		p.hint.promised = p.hint.promised.minus(p.app.asks)
	}
	if p.hint = n; n != nil {
		n.promised = n.promised.plus(p.app.asks)
	}
}

// fleet is what runs of an app.
type fleet struct {
	app      *app
	replicas int
	revision int
	pods     []*pod
	rolling  bool
}

// Cluster of one week.
type Cluster struct {
	script *Script
	market *market
	clock  *clock.Clock
	now    time.Duration
	fleets []*fleet
	// nodes that are not gone, and all that ever were, by launch; waiting pods by age.
	nodes, all []*node
	waiting    []*pod
	plane      plane
	result     Result
	// made counts pods that ever were, pods those that are.
	made, pods int
	digest     hash.Hash64
	scheduling bool
	stepping   bool
	// waitedFrom is up to when waiting pods are counted.
	waitedFrom time.Duration
}

var start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

const (
	// schedulesAfter is how long kube-scheduler takes to see a change, stepsAfter the plane, endsAfter a node
	// that goes.
	schedulesAfter = 200 * time.Millisecond
	stepsAfter     = time.Second
	endsAfter      = 20 * time.Second
	rollsEvery     = 20 * time.Second
)

func newCluster(s *Script) *Cluster {
	c := &Cluster{script: s, market: newMarket(s.Seed), clock: clock.New(start), digest: fnv.New64a()}
	for i := range s.apps {
		c.fleets = append(c.fleets, &fleet{app: &s.apps[i]})
	}
	for _, a := range s.acts {
		c.after(a.at, func() { c.act(a) })
	}
	return c
}

func (c *Cluster) time() time.Time { return start.Add(c.now) }

func (c *Cluster) after(d time.Duration, fn func()) {
	c.clock.After(d, func() {
		c.now = c.clock.Now().Sub(start)
		c.countWaiting()
		fn()
	})
}

// trace notes that something has happened, for the digest.
func (c *Cluster) trace(what, name string) { fmt.Fprintln(c.digest, int64(c.now), what, name) }

// run plays the week. An error says that the context ended first.
func (c *Cluster) run(ctx context.Context) error {
	for c.clock.Next(start.Add(c.script.Length)) {
		if ctx.Err() != nil {
			return fmt.Errorf("play the week up to %s: %w", c.now, context.Cause(ctx))
		}
	}
	c.now = c.script.Length
	c.countWaiting()
	for _, n := range c.nodes {
		c.bill(n)
	}
	c.result.Digest = c.digest.Sum64()
	return nil
}

func (c *Cluster) act(a act) {
	switch a.kind {
	case actScale:
		c.fleets[a.app].replicas = a.n
		c.reconcile(c.fleets[a.app])
	case actJob:
		for range a.n {
			c.makePod(c.fleets[a.app], 0, a.length)
		}
	case actRollout:
		c.fleets[a.app].revision++
		c.reconcile(c.fleets[a.app])
	case actPrices:
		for _, n := range c.nodes { // what runs costs what it costs from now on
			c.bill(n)
			n.offer.price = c.market.price(n.offer.kind, n.offer.zone, n.offer.capacity, c.now)
		}
		c.plane.pricesChanged()
		c.poke()
	case actHardware:
		c.hardware()
	}
}

// hardware breaks nodes and takes back spot instances, by chances that each node has.
func (c *Cluster) hardware() {
	for _, n := range slices.Clone(c.nodes) {
		breaks, taken := float64(hardwareEvery)/float64(nodeLife), 0.0
		if n.offer.capacity == spot {
			taken = float64(hardwareEvery) / float64(spotLife)
		}
		drawn := float64(hashOf(c.script.Seed, int64(c.now), n.ordinal) % 1_000_000)
		if n.going || drawn >= (breaks+taken)*1e6 {
			continue
		}
		c.result.Lost++
		n.cause = events.SystemStatus
		if drawn < taken*1e6 {
			n.cause = events.SpotInterrupted
		}
		c.delete(n, false)
	}
}

// poke has the plane step in a moment.
func (c *Cluster) poke() {
	if c.stepping {
		return
	}
	c.stepping = true
	c.after(stepsAfter, func() {
		c.stepping = false
		if d := c.plane.step(); d > 0 {
			c.after(d-stepsAfter, c.poke)
		}
	})
}

// launch begins to make a node.
func (c *Cluster) launch(name string, o offering) *node {
	n := &node{name: name, offer: o, ordinal: len(c.all), launched: c.now, touched: c.now}
	c.nodes, c.all = append(c.nodes, n), append(c.all, n)
	c.result.Bought++
	c.result.NodesMost = max(c.result.NodesMost, len(c.nodes))
	n.billed = c.now
	c.trace("launch "+o.kind.name, name)
	c.plane.nodeChanged(n)
	boot := 40*time.Second + time.Duration(hashOf("boot", c.script.Seed, n.ordinal)%30)*time.Second
	c.after(boot, func() {
		if n.going {
			return
		}
		n.ready, n.readyAt, n.touched = true, c.now, c.now
		c.plane.nodeChanged(n)
		c.changed()
	})
	c.after(expireAfter, func() {
		if n.cause == "" {
			n.cause = claim.ReasonExpired
		}
		c.delete(n, false)
	})
	return n
}

// delete drains a node and ends it. voluntary: a command does so.
func (c *Cluster) delete(n *node, voluntary bool) {
	if n.going {
		return
	}
	n.going, n.tainted = true, true
	c.trace("delete", n.name)
	c.plane.nodeChanged(n)
	for _, p := range slices.Clone(n.pods) {
		c.evict(p, voluntary)
	}
	c.after(endsAfter, func() {
		n.gone = true
		c.bill(n)
		c.nodes = slices.DeleteFunc(c.nodes, func(x *node) bool { return x == n })
		c.plane.nodeChanged(n)
		c.changed()
	})
	c.changed()
}

// bill charges a node for the time since it was last billed.
func (c *Cluster) bill(n *node) {
	c.result.Bill += float64(n.offer.price) * (c.now - n.billed).Hours() / 1e6
	n.billed = c.now
}

// evict deletes a pod that runs, and has its owner make another.
func (c *Cluster) evict(p *pod, voluntary bool) {
	moved := p.moved
	if voluntary {
		c.result.Evictions++
		if moved > 0 && c.now-moved < time.Hour {
			c.result.Undone++
		}
		moved = c.now
	} else {
		c.result.Forced++
	}
	f := c.fleets[slices.IndexFunc(c.fleets, func(f *fleet) bool { return f.app == p.app })]
	c.remove(p)
	c.makePod(f, moved, p.length)
}

func (c *Cluster) makePod(f *fleet, moved, length time.Duration) *pod {
	c.made++
	p := &pod{app: f.app, revision: f.revision, created: c.now, moved: moved, length: length}
	p.name = fmt.Sprintf("%s-%06d", p.owner(), c.made)
	f.pods = append(f.pods, p)
	c.waiting = append(c.waiting, p)
	c.pods++
	c.result.PodsMost = max(c.result.PodsMost, c.pods)
	c.plane.podChanged(p)
	c.changed()
	return p
}

// remove deletes a pod, wherever it is.
func (c *Cluster) remove(p *pod) {
	if p.gone {
		return
	}
	p.gone = true
	c.pods--
	f := c.fleets[slices.IndexFunc(c.fleets, func(f *fleet) bool { return f.app == p.app })]
	f.pods = without(f.pods, p)
	if n := p.node; n != nil {
		n.pods = without(n.pods, p)
		n.used = n.used.minus(p.app.asks)
		n.touched = c.now
	} else {
		p.hintTo(nil)
		c.waiting = without(c.waiting, p)
	}
	c.trace("remove", p.name)
	c.plane.podChanged(p)
	c.changed()
}

func without(list []*pod, p *pod) []*pod {
	return slices.DeleteFunc(list, func(x *pod) bool { return x == p })
}

// countWaiting adds up how long pods have waited since it last did.
func (c *Cluster) countWaiting() {
	c.result.Waited += time.Duration(len(c.waiting)) * (c.now - c.waitedFrom)
	c.waitedFrom = c.now
}

// changed has kube-scheduler and the plane look again.
func (c *Cluster) changed() {
	c.poke()
	if c.scheduling {
		return
	}
	c.scheduling = true
	c.after(schedulesAfter, func() {
		c.scheduling = false
		c.schedule()
	})
}
