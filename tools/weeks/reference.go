package weeks

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// reference is Karpenter's loop of consolidation and its provisioner as docs/reference describes them
// (disruption §3 to §6, scheduling §5), in the version and with the policy that its settings say. It is
// written from that page alone. What it leaves out is what the weeks have not: drift, PodDisruptionBudgets.
type reference struct {
	*Cluster
	settings Settings
	// stamp counts what moves the memo; settled is the stamp at which a method last found nothing, and when.
	stamp   int
	settled map[string]memo
	// nominated is until when a node is meant for pods that were placed there.
	nominated map[*node]time.Duration
	commands  []*command
}

type memo struct {
	stamp int
	at    time.Duration
}

// command that is being carried out: the replacement has to be ready before the nodes go.
type command struct {
	nodes       []*node
	replacement *node
	started     time.Duration
}

const (
	loopEvery      = 10 * time.Second
	memoTime       = 5 * time.Minute
	validatesAfter = 15 * time.Second
	nominatedFor   = 20 * time.Second
	commandTimeout = 10 * time.Minute
	multiMax       = 100
)

func newReference(c *Cluster, s Settings) *reference {
	r := &reference{Cluster: c, settings: s, settled: map[string]memo{}, nominated: map[*node]time.Duration{}}
	c.after(loopEvery, r.loop)
	return r
}

func (r *reference) podChanged(p *pod) {
	if p.gone || p.node != nil {
		r.stamp++
	}
}
func (r *reference) nodeChanged(*node) { r.stamp++ }
func (r *reference) pricesChanged()    {}

// step is the provisioner, and the queue of commands.
func (r *reference) step() time.Duration {
	r.provision()
	r.drive()
	if len(r.commands) > 0 {
		return 2 * stepsAfter
	}
	return 0
}

// provision buys for the pods that kube-scheduler refused, and for those on nodes that commands take.
func (r *reference) provision() {
	var pods []*pod
	for _, p := range r.waiting {
		if p.refused {
			pods = append(pods, p)
		}
	}
	if len(pods) == 0 {
		return
	}
	for _, c := range r.commands {
		for _, n := range c.nodes {
			pods = append(pods, n.pods...)
		}
	}
	s := r.simulate(pods, nil, false)
	for n := range s.placed {
		r.nominated[n] = r.now + nominatedFor
	}
	for _, b := range s.bins {
		o := b.offers[0]
		r.nominated[r.launch(fmt.Sprintf("%s-%05d", o.capacity, len(r.all)), o)] = r.now + nominatedFor
	}
}

// bin is a NodeClaim to be: the offerings that still hold its pods, cheapest first.
type bin struct {
	offers []offering
	sum    amount
	pods   int
}

// simulation of pods on what stays and on new claims.
type simulation struct {
	placed map[*node]bool
	bins   []*bin
	// uninitialized: a pod would go to a node that is not ready.
	uninitialized bool
	failed        bool
}

// simulate places pods, the biggest first: on nodes that stay, ready ones first, else on the claim with the
// fewest pods that still has a type for it, else on a new one. moved: the candidates' pods go to no node
// inside its consolidateAfter, if the version has it so.
func (r *reference) simulate(pods []*pod, without []*node, moved bool) *simulation {
	s := &simulation{placed: map[*node]bool{}}
	type room struct {
		node *node
		free amount
	}
	var rooms []*room
	for _, n := range r.nodes {
		if !n.tainted && !slices.Contains(without, n) {
			rooms = append(rooms, &room{n, n.free()})
		}
	}
	slices.SortFunc(rooms, func(a, b *room) int {
		return cmp.Or(-boolean(a.node.ready, b.node.ready), cmp.Compare(a.node.name, b.node.name))
	})
	list := slices.Clone(pods)
	slices.SortFunc(list, func(a, b *pod) int {
		return cmp.Or(-cmp.Compare(a.app.asks.cpu, b.app.asks.cpu), -cmp.Compare(a.app.asks.memory, b.app.asks.memory), cmp.Compare(a.name, b.name))
	})
next:
	for _, p := range list {
		for _, x := range rooms {
			n := x.node
			if n.offer.capacity != p.app.capacity || !p.app.asks.fits(x.free) || moved && p.node != nil && r.shielded(n) {
				continue
			}
			x.free = x.free.minus(p.app.asks)
			s.placed[n] = true
			s.uninitialized = s.uninitialized || moved && !n.ready
			continue next
		}
		s.open(r, p)
	}
	return s
}

func (s *simulation) open(r *reference, p *pod) {
	slices.SortStableFunc(s.bins, func(a, b *bin) int { return cmp.Compare(a.pods, b.pods) })
	for _, b := range s.bins {
		if b.offers[0].capacity != p.app.capacity {
			continue
		}
		if left := holding(b.offers, b.sum.plus(p.app.asks)); len(left) > 0 {
			b.offers, b.sum, b.pods = left, b.sum.plus(p.app.asks), b.pods+1
			return
		}
	}
	left := holding(r.market.cheapest(p.app.capacity, r.now), p.app.asks)
	if len(left) == 0 {
		s.failed = true
		return
	}
	s.bins = append(s.bins, &bin{left, p.app.asks, 1})
}

func holding(offers []offering, sum amount) (left []offering) {
	for _, o := range offers {
		if sum.fits(o.kind.allocatable) {
			left = append(left, o)
		}
	}
	return left
}

// quiet reports that a node's consolidateAfter has passed.
func (r *reference) quiet(n *node) bool { return r.now-n.touched >= r.settings.ConsolidateAfter }

// shielded reports that no moved pod may be placed on a node.
func (r *reference) shielded(n *node) bool { return r.settings.PriceOrder && n.ready && !r.quiet(n) }

// drive goes on with the commands whose replacement is ready.
func (r *reference) drive() {
	r.commands = slices.DeleteFunc(r.commands, func(c *command) bool {
		switch {
		case c.replacement == nil || c.replacement.ready && !c.replacement.going:
			for _, n := range c.nodes {
				r.delete(n, true)
			}
		case c.replacement.going || r.now-c.started > commandTimeout:
			r.result.GivenUp++
			for _, n := range c.nodes {
				if !n.going {
					n.tainted = false
				}
			}
			r.changed()
		default:
			return false
		}
		return true
	})
}
