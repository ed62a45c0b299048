package place

import (
	"millwright/planner/bitset"
	"millwright/planner/options"
	"millwright/planner/provision/internal/demand"
	"millwright/planner/topology"
	"millwright/planner/world"
)

// SetUpTopology numbers the domains and counts the pods that run, except for those that need a place, once
// all classes are compiled.
func (l *Layout) SetUpTopology(inRun map[*world.Pod]bool) {
	tp := l.Compiler.Topologies
	l.addOwners()
	if len(tp.Space.Groups()) == 0 {
		return
	}
	for _, d := range tp.Space.Keys() {
		l.addDomains(d)
	}
	tp.Space.Freeze()
	l.countRunning(inRun)
	for _, k := range tp.Classes {
		tp.Complete(k, l.podDomains)
	}
}

// addOwners adds the groups of required anti-affinity of pods that run.
func (l *Layout) addOwners() {
	l.running = runningClasses{}
	flagged := map[*world.PodClass]bool{}
	for _, c := range l.in.Classes {
		if a := c.Spec.Affinity; a != nil && a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			flagged[c] = true
		}
	}
	if len(flagged) == 0 {
		return
	}
	add := func(pods []*world.Pod) {
		for _, p := range pods {
			if flagged[p.Class] && p.Active() {
				l.running.addOwner(p, l.Compiler)
			}
		}
	}
	for _, n := range l.Nodes() {
		add(n.State.Pods)
	}
	for _, n := range l.in.Leaving {
		add(n.Pods)
	}
}

// runningKey: pods that share it are equal to the groups.
type runningKey struct {
	class     *world.PodClass
	namespace string
}

// runningClass is what a running pod's class means to the groups.
type runningClass struct {
	owned   []*topology.Group
	counted []*topology.Group
	matched bool
}

type runningClasses map[runningKey]*runningClass

// addOwner adds the groups of a pod's required anti-affinity.
func (classes runningClasses) addOwner(p *world.Pod, c *demand.Compiler) {
	key := runningKey{p.Class, p.Namespace}
	if classes[key] != nil {
		return
	}
	r := &runningClass{}
	classes[key] = r
	tp := c.Topologies
	for _, term := range topology.TermsOf(p.Class.Spec, p.Class.Labels, p.Namespace, tp.Namespaces) {
		if term.Kind == topology.AntiAffinity && !term.Soft {
			term.Kind = topology.Inverse
			r.owned = append(r.owned, tp.Space.Add(term, "", 0))
		}
	}
}

// addDomains adds the values that a key can have: those the pools can make, those of nodes, of claims, and of
// leaving nodes on which pods stay.
func (l *Layout) addDomains(d *topology.Domains) {
	for _, t := range l.Templates {
		for _, v := range t.DomainValues(d.Key) {
			d.AddDomain(v)
		}
	}
	for _, b := range l.Bins {
		for _, v := range b.Place.certain(d.Key, &demand.NodeFilter{}) {
			d.AddDomain(v)
		}
	}
	for _, b := range l.leaving {
		for _, v := range b.Place.certain(d.Key, &demand.NodeFilter{}) {
			d.AddDomain(v)
		}
	}
}

// podDomains are the domains that exist for a class, or in which pods count for the constraint, and that its
// own requirements allow, unless the constraint ignores them.
func (l *Layout) podDomains(k *demand.Class, c *topology.Constraint) bitset.Set {
	d := c.Group.Domains
	exist := l.existing(k, c)
	if l.in.Simulated {
		exist.users = append(exist.users, c)
	}
	m := d.NewMask()
	anywhere := c.Kind == topology.Spread && c.Term.IgnoreAffinity && l.in.Options.Revision >= options.Revision7
	for i := range d.Len() {
		if (exist.mask.Has(i) || c.Group.Count(i) > 0) && (anywhere || demand.StrictAllows(k.Strict, d.Key, d.Name(i))) {
			m.Add(i)
		}
	}
	return m
}

// existKey is what the domains that exist for a class depend on.
type existKey struct {
	domains *topology.Domains
	filter  int
	// tolerations of the class count only if honor.
	honor       bool
	tolerations string
}

// existing are the domains that NodePools can make for some classes, and those of nodes and claims.
type existing struct {
	mask bitset.Set
	// by is how many NodePools, nodes and claims there are for each; users are the constraints that depend on
	// it, for trials.
	by    []int32
	users []*topology.Constraint
}

// existing are those of a class; shared.
func (l *Layout) existing(k *demand.Class, c *topology.Constraint) *existing {
	d := c.Group.Domains
	key := existKey{domains: d, filter: c.Group.Filter, honor: c.Kind != topology.Spread || c.Term.HonorTaints}
	if key.honor {
		key.tolerations = demand.TolerationsText(k.Pod.Spec.Tolerations)
	}
	if x, ok := l.exist[key]; ok {
		return x
	}
	f := &l.Compiler.Topologies.Filters[c.Group.Filter]
	x := &existing{mask: d.NewMask(), by: make([]int32, d.Len())}
	add := func(v string) {
		if i := d.Index(v); i >= 0 {
			x.mask.Add(i)
			x.by[i]++
		}
	}
	for _, t := range l.Templates {
		if key.honor && demand.Untolerated(t.Taints(), k.Pod.Spec.Tolerations, false) != nil {
			continue
		}
		for _, v := range t.DomainValues(d.Key) {
			if l.in.Options.Revision < options.Revision7 || f.Template(t.Base, t.Catalog, d.Key, v) {
				add(v)
			}
		}
	}
	for _, b := range l.Bins {
		for _, v := range b.Place.certain(d.Key, f) {
			add(v)
		}
	}
	if l.exist == nil {
		l.exist = map[existKey]*existing{}
	}
	l.exist[key] = x
	l.existKeys = append(l.existKeys, key)
	return x
}

// fixedAllows checks the other constraints on a place whose domains no longer change.
func (l *Layout) fixedAllows(at Place, lv *demand.Level) Outcome {
	for i := range lv.ByKey {
		m := at.domains(lv.ByKey[i].Domains)
		only, single := m.Single()
		for _, c := range lv.ByKey[i].Constraints {
			switch c.Kind {
			case topology.AntiAffinity, topology.Inverse:
				for j := range lv.ByKey[i].Domains.Len() {
					if m.Has(j) && c.Group.Count(j) > 0 {
						if l.in.Simulated {
							return notNow // such pods may leave the domain
						}
						return Never
					}
				}
			default:
				if !single || at.mayLack(lv.ByKey[i].Domains) {
					return Never
				}
				if allowed, _ := c.Allowed(); !allowed.Has(only) {
					return notNow
				}
			}
		}
	}
	return Accepted
}

// Holds reports whether a constraint of a pod in b is met.
func (l *Layout) Holds(b *Bin, c *topology.Constraint) bool {
	if c.Kind == topology.Inverse && b.Planned() != nil {
		return true
	}
	if c.Group.Hostname() {
		return c.Holds(b.Index)
	}
	at, single := b.Place.domains(c.Group.Domains).Single()
	if !single {
		return true
	}
	return c.Holds(at)
}
