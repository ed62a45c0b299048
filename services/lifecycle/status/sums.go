package status

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/planner/nodepool"
	"millwright/planner/resource"
	"millwright/services/internal/kube"
)

// poolSums are the sums by NodePool of what is launched and not going. They are kept by instance, so that a
// change costs what it touches: a settled cluster has thousands of NodeClaims whose conditions change all the
// time, and their capacity never.
type poolSums struct {
	ofPool map[string]nodepool.Sum

	// cache and ledger are the versions that the sums are of; ledger is nil before the first count.
	cache  uint64
	ledger *ledger.Ledger
	// parts are what an instance counts for, by provider id; those without parts are not in it.
	parts map[string][]part
	// launched are the provider ids of NodeClaims, by name.
	launched map[string]string
	// unnumbered are the parts of Nodes without a provider id, which are counted all at once.
	unnumbered []part
	going      map[string]bool
}

// part is one node or launched claim of a NodePool.
type part struct {
	pool     string
	capacity resource.Vector
}

func (p part) equal(o part) bool { return p.pool == o.pool && p.capacity.Equal(o.capacity) }

// update counts anew what has changed since the last time.
func (s *poolSums) update(c Cache, l *ledger.Ledger) {
	changes, now, complete := c.Since(s.cache)
	if s.ledger == nil || !complete {
		s.countAll(c, l)
		return
	}
	touched := map[string]bool{}
	for _, change := range changes {
		switch {
		case change.Kind == kube.NodeKind && (change.ProviderID == "" || len(s.unnumbered) > 0):
			s.countAll(c, l)
			return
		case change.Kind == kube.NodeKind:
			touched[change.ProviderID] = true
		case change.Kind == kube.NodeClaimKind:
			touched[s.launched[change.Name]] = true
			touched[s.launch(change.Name, c.NodeClaim(change.Name))] = true
		}
	}
	if l != s.ledger {
		going := goingClaims(l)
		for _, list := range []map[string]bool{s.going, going} {
			for name := range list {
				if s.going[name] != going[name] {
					touched[s.launched[name]] = true
				}
			}
		}
		s.going = going
	}
	s.cache, s.ledger = now, l
	delete(touched, "")
	s.recount(c, touched)
}

// launch remembers the instance of a NodeClaim, which is nil if it is gone.
func (s *poolSums) launch(name string, o *karpv1.NodeClaim) string {
	if o == nil || o.Status.ProviderID == "" {
		delete(s.launched, name)
		return ""
	}
	s.launched[name] = o.Status.ProviderID
	return o.Status.ProviderID
}

// countAll forgets what was counted before.
func (s *poolSums) countAll(c Cache, l *ledger.Ledger) {
	*s = poolSums{cache: c.Version(), ledger: l, parts: map[string][]part{}, launched: map[string]string{}, going: goingClaims(l), ofPool: map[string]nodepool.Sum{}}
	claims, nodes := map[string][]*karpv1.NodeClaim{}, map[string][]*corev1.Node{}
	for _, o := range c.NodeClaims() {
		if id := s.launch(o.Name, o); id != "" {
			claims[id] = append(claims[id], o)
		}
	}
	for _, n := range c.Nodes() {
		id := n.Spec.ProviderID
		if id == "" {
			s.unnumbered = append(s.unnumbered, s.partsOf(nil, []*corev1.Node{n})...)
			continue
		}
		if nodes[id] = append(nodes[id], n); len(claims[id]) == 0 {
			s.parts[id] = s.partsOf(nil, nodes[id])
		}
	}
	for id, list := range claims {
		s.parts[id] = s.partsOf(list, nodes[id])
	}
	s.sumUp(func(string) bool { return true })
}

// recount counts instances anew, and sums up the NodePools for which that made a difference.
func (s *poolSums) recount(c Cache, instances map[string]bool) {
	differ := map[string]bool{}
	for id := range instances {
		was, now := s.parts[id], s.partsOf(c.NodeClaimsByProviderID(id), c.NodesByProviderID(id))
		if slices.EqualFunc(was, now, part.equal) {
			continue
		}
		for _, p := range slices.Concat(was, now) {
			differ[p.pool] = true
		}
		if s.parts[id] = now; len(now) == 0 {
			delete(s.parts, id)
		}
	}
	if len(differ) > 0 {
		s.sumUp(func(pool string) bool { return differ[pool] })
	}
}

// sumUp adds up the parts of some NodePools.
func (s *poolSums) sumUp(of func(pool string) bool) {
	maps.DeleteFunc(s.ofPool, func(pool string, _ nodepool.Sum) bool { return of(pool) })
	add := func(parts []part) {
		for _, p := range parts {
			if of(p.pool) {
				s.ofPool[p.pool] = s.ofPool[p.pool].Plus(p.capacity)
			}
		}
	}
	for _, parts := range s.parts {
		add(parts)
	}
	add(s.unnumbered)
}

// partsOf are the NodeClaims of an instance that are not going; its Nodes if it has no NodeClaim.
func (s *poolSums) partsOf(claims []*karpv1.NodeClaim, nodes []*corev1.Node) (parts []part) {
	for _, o := range claims {
		if !o.DeletionTimestamp.IsZero() || s.going[o.Name] {
			continue
		}
		if len(nodes) == 1 {
			parts = appendPart(parts, o.Labels, nodepool.Capacity(o, nodes[0]))
		} else {
			parts = appendPart(parts, o.Labels, nodepool.Capacity(o, nil))
		}
	}
	for _, n := range nodes {
		if len(claims) == 0 && n.DeletionTimestamp.IsZero() {
			parts = appendPart(parts, n.Labels, resource.From(n.Status.Capacity))
		}
	}
	return parts
}

func appendPart(parts []part, labels map[string]string, capacity resource.Vector) []part {
	if pool := labels[karpv1.NodePoolLabelKey]; pool != "" {
		return append(parts, part{pool, capacity})
	}
	return parts
}

// goingClaims are doomed, or taken by a running command.
func goingClaims(l *ledger.Ledger) map[string]bool {
	going := map[string]bool{}
	for _, c := range l.Claims() {
		if c.Doomed != nil {
			going[c.Name] = true
		}
	}
	for _, c := range l.Commands() {
		for _, candidate := range c.Started.Candidates {
			going[candidate.Claim] = true
		}
	}
	return going
}
