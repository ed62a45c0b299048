package provision

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/planner/resource"
	"millwright/planner/topology"
	"millwright/planner/world"
)

// bin is a place for pods: a node, a planned claim, or a claim this plan opens. Exactly one of node, planned
// and open is set.
type bin struct {
	index   int
	node    *planner.StateNode
	planned *plannedBin
	open    *openClaim
	// earlier is set beside open: a planned claim that is being widened, and had the first so many of the added pods before.
	earlier *plannedBin
	before  int
	// free is what a node or a planned claim still holds; DaemonSet pods to come are taken off once prepared.
	free     resource.Vector
	prepared bool
	// labels of a node, its hostname included; set once prepared.
	labels  map[string]string
	ports   []hostPort
	volumes *volumeUse
	// added are the pods this plan puts here.
	added []*world.Pod
	// price of a new claim, as far as it is packed: that of its cheapest offering, and what a node costs by itself.
	price int64
	// records are the counts that the pods of a new claim made; gone: it was packed anew.
	records []counted
	gone    bool
	// touched: the trial under way has saved it. shut: it takes no pods that move.
	touched, shut bool
	// uncounted are pods whose domain is not certain yet, by group.
	uncounted map[*topology.Group]int32
}

type instanceType = *catalog.InstanceType

// stepsWhole is what it costs to ask a claim that is not full, in looks at one that is.
const stepsWhole = 8

// outcome of asking a bin.
type outcome uint8

const (
	// never: bins only fill up and narrow, so the refusal lasts.
	never outcome = iota
	// full: never, and no other pod either that requests the same.
	full
	// notNow: the topology may allow it later.
	notNow
	accepted
)

// accept puts a pod of the level's class into b if it fits.
func (s *solver) accept(b *bin, lv *level) outcome {
	s.steps++
	if b.gone || b.shut {
		return never
	}
	if !s.keeping {
		if ok, lasting := lv.placeAllows(b.index); !ok {
			if lasting {
				return never
			}
			return notNow
		}
	}
	switch {
	case b.node != nil:
		return s.acceptNode(b, lv)
	case b.planned != nil:
		return s.acceptPlanned(b, lv)
	}
	return s.acceptOpen(b, lv)
}

func (s *solver) acceptNode(b *bin, lv *level) outcome {
	c := lv.class
	if !c.requests.Fits(b.free) {
		return full
	}
	if untolerated(b.node.Taints, c.pod.Spec.Tolerations, lv.strictTaints) != nil {
		return never
	}
	if !s.keeping && c.excluded[b.node.Name] {
		return never
	}
	s.prepare(b)
	if !c.requests.Fits(b.free) {
		return full
	}
	if !matchesAny(lv.alternatives, b.labels) {
		return never
	}
	if len(c.ports) > 0 && clash(c.ports, b.ports) {
		return never
	}
	volumes := c.volumes != nil && len(c.volumes.claims) > 0
	if volumes {
		if b.volumes == nil {
			b.volumes = volumeUseOf(s.in.volumes, b.node.Name, b.node.Pods)
		}
		if b.volumes.exceeds(c.volumes) != "" {
			return never
		}
	}
	if !s.keeping {
		if o := s.fixedAllows(b, lv); o != accepted {
			return o
		}
	}
	s.touch(b)
	if volumes {
		b.volumes.add(c.volumes)
	}
	b.free = b.free.Sub(c.requests)
	b.ports = append(b.ports, c.ports...)
	return accepted
}

func matchesAny(alternatives []*alternative, labels map[string]string) bool {
	for _, a := range alternatives {
		if a.set.MatchesLabels(labels) {
			return true
		}
	}
	return false
}

// prepare completes a node when a pod first asks for it: labels, ports in use, room for DaemonSet pods.
func (s *solver) prepare(b *bin) {
	if b.prepared {
		return
	}
	b.prepared = true
	n := b.node
	b.nodeLabels()
	for _, p := range n.Pods {
		if !p.Terminal() {
			b.ports = append(b.ports, hostPortsOf(p.Class.Spec)...)
		}
	}
	var daemons resource.Vector
	for i := range s.in.daemons {
		if d := &s.in.daemons[i]; daemonOnNode(d, n.Taints, b.labels) {
			daemons = daemons.Add(d.requests)
		}
	}
	if n.Node != nil {
		daemons = daemons.Sub(n.Node.DaemonUsed).FloorZero()
	}
	b.free = b.free.Sub(daemons)
}

// nodeLabels completes a node's labels: the hostname, and until it is registered what its launch made certain.
func nodeLabels(n *planner.StateNode) map[string]string {
	_, named := n.Labels[corev1.LabelHostname]
	launched := launchedOf(n)
	if launched == nil && (named || n.Node == nil) {
		return n.Labels
	}
	labels := maps.Clone(n.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	if !named && n.Node != nil {
		labels[corev1.LabelHostname] = n.Name
	}
	if launched != nil {
		maps.Copy(labels, launchedRequirements(launched).Labels())
	}
	return labels
}

// launchedOf is the record of a launch whose node has not registered yet; nil otherwise. The NodeClaim may
// not have been told all of it.
func launchedOf(n *planner.StateNode) *ledger.Launched {
	if n.Registered || n.Ledger == nil {
		return nil
	}
	return n.Ledger.Instance
}

// available is what a node offers. Until the NodeClaim has been told its amounts, the record of its launch
// knows them.
func available(n *planner.StateNode) resource.Vector {
	if l := launchedOf(n); l != nil && n.Allocatable.IsZero() {
		return l.Allocatable
	}
	return n.Available
}

func daemonOnNode(d *daemonInput, taints []corev1.Taint, labels map[string]string) bool {
	if untolerated(taints, d.spec.Tolerations, false) != nil {
		return false
	}
	for _, terms := range podTerms(d.spec) {
		if terms.MatchesLabels(labels) {
			return true
		}
	}
	return false
}
