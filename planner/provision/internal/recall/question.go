package recall

import (
	"maps"
	"slices"

	"millwright/planner/ledger"
	"millwright/planner/options"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/provision/internal/place"
	"millwright/planner/provision/internal/solve"
	"millwright/planner/resource"
	"millwright/planner/topology"
	"millwright/planner/world"
)

// question is an input of the solver without its nodes, of which it names those that go.
type question struct {
	options  string
	pods     []*world.Pod
	pools    []offer.PoolInput
	daemons  []offer.DaemonSet
	spaces   []topology.Namespace
	marked   [2][]ledger.OfferingKey
	launched []offer.Launch
	subnets  []string
	without  []string
	// marks are what the solver knows of nodes besides. own: what changes on nodes that go counts too.
	marks string
	own   bool
	// staying: pods that stay on nodes which are going count.
	staying bool
}

// questionOf is nil if an answer could not be given back: pods have a place by an earlier verdict, or may be
// planned for from some time on, or claims are planned that are no nodes yet.
func questionOf(settings string, in *solve.Input, without []string) *question {
	if len(in.Planned) > 0 {
		return nil
	}
	for _, p := range in.Pods {
		held := p.Displaced > 0 && p.NodeName == ""
		if in.Prior(p.UID) != (place.Target{}) || len(in.Excluded(p.UID)) > 0 || held {
			return nil
		}
	}
	return &question{settings, in.Pods, in.Pools, in.Daemons, in.Namespaces, [2][]ledger.OfferingKey{in.Unavailable, in.Unproven},
		in.LaunchedLately, in.FullSubnets, without, "", false, in.Options.Revision >= options.Revision1}
}

// same reports that two questions differ in nodes at most.
func (q *question) same(o *question) bool {
	return q.options == o.options && q.marks == o.marks && slices.Equal(q.without, o.without) && slices.EqualFunc(q.pods, o.pods, samePod) && slices.EqualFunc(q.pools, o.pools, samePool) &&
		slices.EqualFunc(q.daemons, o.daemons, sameDaemon) && slices.EqualFunc(q.spaces, o.spaces, sameNamespace) &&
		slices.Equal(q.marked[0], o.marked[0]) && slices.Equal(q.marked[1], o.marked[1]) && slices.Equal(q.launched, o.launched) && slices.Equal(q.subnets, o.subnets)
}

// samePod: a new resourceVersion alone is not a change.
func samePod(a, b *world.Pod) bool {
	if a == b {
		return true
	}
	x, y := *a, *b
	x.ResourceVersion, y.ResourceVersion = "", ""
	return x == y
}

func samePool(a, b offer.PoolInput) bool {
	return a.NodePool == b.NodePool && a.Catalog == b.Catalog && maps.Equal(a.PriceOverlaid, b.PriceOverlaid) && maps.Equal(a.CapacityOverlaid, b.CapacityOverlaid) &&
		a.Used.Equal(b.Used) && a.Nodes == b.Nodes
}

func sameDaemon(a, b offer.DaemonSet) bool { return a.Spec == b.Spec && a.Requests.Equal(b.Requests) }

func sameNamespace(a, b topology.Namespace) bool {
	return a.Name == b.Name && maps.Equal(a.Labels, b.Labels)
}

// kind of pods that are the same to every node.
type kind struct {
	class     *world.PodClass
	namespace string
}

// kinds of a question: what its pods request and demand of others.
type kinds struct {
	of       []kind
	requests []resource.Vector
	terms    []topology.Term
}

func (q *question) kinds() *kinds {
	k, seen := &kinds{}, map[kind]bool{}
	for _, p := range q.pods {
		x := kind{p.Class, p.Namespace}
		if seen[x] {
			continue
		}
		seen[x] = true
		k.of = append(k.of, x)
		if !slices.ContainsFunc(k.requests, p.Class.Requests.Equal) {
			k.requests = append(k.requests, p.Class.Requests)
		}
		k.terms = append(k.terms, topology.TermsOf(p.Class.Spec, p.Class.Labels, p.Namespace, q.spaces)...)
	}
	return k
}

// untouched reports that the pods of a question are placed as before although nodes have changed.
func (q *question) untouched(k *kinds, d *difference) bool {
	if d.whole {
		return false
	}
	for name := range d.others {
		if q.own || q.staying || !slices.Contains(q.without, name) {
			return false
		}
	}
	for i := range d.changes {
		c := &d.changes[i]
		gone := slices.Contains(q.without, c.name)
		if gone && q.own {
			return false
		}
		offersNothing := gone || c.marked
		if offersNothing && !q.staying {
			continue
		}
		if !offersNothing && (k.anyFits(&c.old) || k.anyFits(&c.now)) {
			return false
		}
		if slices.ContainsFunc(c.pods, func(p *world.Pod) bool { return k.concerns(p, q.spaces) }) {
			return false
		}
	}
	return true
}

func (k *kinds) anyFits(free *resource.Vector) bool {
	return slices.ContainsFunc(k.requests, func(v resource.Vector) bool { return v.Fits(*free) })
}

// concerns reports that some pod of the question counts a pod on a node, or that this one keeps some away.
func (k *kinds) concerns(p *world.Pod, spaces []topology.Namespace) bool {
	for i := range k.terms {
		if k.terms[i].Matches(p.Class.Labels, p.Namespace) {
			return true
		}
	}
	for _, t := range topology.TermsOf(p.Class.Spec, p.Class.Labels, p.Namespace, spaces) {
		if t.Kind != topology.AntiAffinity || t.Soft {
			continue
		}
		if slices.ContainsFunc(k.of, func(x kind) bool { return t.Matches(x.class.Labels, x.namespace) }) {
			return true
		}
	}
	return false
}
