package weeks

import (
	"cmp"
	"slices"
)

// reconcile makes and deletes pods of a service as a Deployment does: while it rolls, a quarter more than
// wanted may run, and none less.
func (c *Cluster) reconcile(f *fleet) {
	var old, fresh []*pod
	for _, p := range f.pods {
		if p.revision == f.revision {
			fresh = append(fresh, p)
		} else {
			old = append(old, p)
		}
	}
	if len(old) == 0 {
		for range f.replicas - len(fresh) {
			c.makePod(f, 0, 0)
		}
		c.removeSurplus(fresh, len(fresh)-f.replicas)
		return
	}
	surge := (f.replicas + 3) / 4
	for range min(f.replicas-len(fresh), f.replicas+surge-len(f.pods)) {
		c.makePod(f, 0, 0)
	}
	running := 0
	for _, p := range f.pods {
		if p.node != nil {
			running++
		}
	}
	c.removeSurplus(old, min(len(old), running-f.replicas))
	if f.rolling {
		return
	}
	f.rolling = true
	c.after(rollsEvery, func() {
		f.rolling = false
		c.reconcile(f)
	})
}

// removeSurplus deletes n pods, those first that a ReplicaSet deletes first: without a node, on nodes with
// more of their kind, and younger.
func (c *Cluster) removeSurplus(pods []*pod, n int) {
	if n <= 0 {
		return
	}
	beside := map[*node]int{}
	for _, p := range pods {
		if p.node != nil {
			beside[p.node]++
		}
	}
	list := slices.Clone(pods)
	slices.SortFunc(list, func(a, b *pod) int {
		return cmp.Or(boolean(a.node != nil, b.node != nil), -cmp.Compare(beside[a.node], beside[b.node]), -cmp.Compare(a.created, b.created), cmp.Compare(a.name, b.name))
	})
	for _, p := range list[:min(n, len(list))] {
		c.remove(p)
	}
}

// boolean orders false before true.
func boolean(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// schedule is kube-scheduler: each waiting pod, oldest first, goes to the node that was hinted for it, else
// to that where the largest share stays free; room that is hinted for others is kept.
func (c *Cluster) schedule() {
	full := map[demand]bool{} // no node holds a pod like this one
	for _, p := range slices.Clone(c.waiting) {
		n, hinted, like := p.hint, p.hint != nil, demand{p.app.capacity, p.app.asks}
		switch {
		case hinted && n.holds(p):
		case hinted:
			n = c.best(p)
		case !full[like]:
			n = c.best(p)
			full[like] = n == nil
		}
		if n == nil {
			if !p.refused {
				p.refused = true
				c.plane.podChanged(p)
				c.poke()
			}
			continue
		}
		if hinted && n != p.hint {
			clear(full) // what was kept for it is free
		}
		c.bind(p, n)
	}
}

// demand is what makes pods alike to kube-scheduler.
type demand struct {
	capacity string
	asks     amount
}

// holds reports that kube-scheduler may put a pod on the node.
func (n *node) holds(p *pod) bool {
	if !n.ready || n.tainted || n.gone || n.offer.capacity != p.app.capacity {
		return false
	}
	room := n.free().minus(n.promised)
	if p.hint == n {
		room = room.plus(p.app.asks)
	}
	return p.app.asks.fits(room)
}

func (c *Cluster) best(p *pod) (best *node) {
	most := int64(-1)
	for _, n := range c.nodes {
		if !n.holds(p) {
			continue
		}
		room, all := n.free().minus(p.app.asks), n.offer.kind.allocatable
		if score := (room.cpu*100/all.cpu + room.memory*100/all.memory) / 2; score > most {
			best, most = n, score
		}
	}
	return best
}

func (c *Cluster) bind(p *pod, n *node) {
	p.hintTo(nil)
	p.node, p.bound, p.refused = n, c.now, false
	n.pods, n.used = append(n.pods, p), n.used.plus(p.app.asks)
	n.touched = c.now
	c.waiting = without(c.waiting, p)
	c.trace("bind "+p.name, n.name)
	c.plane.podChanged(p)
	c.poke()
	if !p.app.job {
		return
	}
	c.after(p.length, func() {
		if !p.gone {
			p.ended = true
			c.result.Jobs++
			c.remove(p)
		}
	})
}
