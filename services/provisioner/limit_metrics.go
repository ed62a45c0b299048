package provisioner

import (
	"sync"

	"millwright/planner/resource"
	"millwright/planner/world"
)

// nodeLimits adds up what the pods of nodes are limited to, which no planner reads and the World does not
// have. Sums are remembered as long as a node and its pods stay as they are, and forgotten with the node.
type nodeLimits struct {
	mu   sync.Mutex
	sums map[string]limitSums
}

type limitSums struct {
	// node as it was: another one is another pointer.
	node          *world.Node
	pods, daemons resource.Vector
}

// of the nodes of a version of the World, by name.
func (l *nodeLimits) of(w *world.World) map[string]limitSums {
	l.mu.Lock()
	defer l.mu.Unlock()
	sums, classes := make(map[string]limitSums, len(l.sums)), map[*world.PodClass]resource.Vector{}
	for _, n := range w.Nodes() {
		name := n.Object.Name
		s := l.sums[name]
		if s.node != n {
			s = limitSums{node: n}
			for _, p := range w.PodsOn(name) {
				s.add(p, classes)
			}
		}
		sums[name] = s
	}
	l.sums = sums
	return sums
}

// add a pod, as the requests of a node's pods are added; classes remembers limits of classes.
func (s *limitSums) add(p *world.Pod, classes map[*world.PodClass]resource.Vector) {
	if p.Terminal() {
		return
	}
	limits, known := classes[p.Class]
	if !known {
		limits = world.PodLimits(p.Class.Spec)
		classes[p.Class] = limits
	}
	s.pods = s.pods.Add(limits)
	if p.Class.DaemonSetOwned() {
		s.daemons = s.daemons.Add(limits)
	}
}
