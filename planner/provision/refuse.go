package provision

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/planner/requirement"
	"millwright/planner/resource"
	"millwright/planner/topology"
)

// Constraints of ledger.Refusal.
const (
	constraintPod          = "pod"
	constraintTaints       = "taints"
	constraintRequirements = "requirements"
	constraintResources    = "resources"
	constraintOffering     = "offering"
	constraintLimits       = "limits"
	constraintVolumes      = "volumes"
	constraintTopology     = "topology"
	constraintNodePool     = "nodepool"
)

// detailedMax is for how many classes a round says with numbers why each NodePool refused them: more can only be a mistake of whoever
// made the pods, and the record would hold a text for each.
const detailedMax = 2000

// refusals says, per NodePool, why a class found no place; computed once per class.
func (s *solver) refusals(c *class) []ledger.Refusal {
	if c.refused != nil {
		return c.refused
	}
	s.diagnosed++
	for _, t := range s.templates {
		c.refused = append(c.refused, s.diagnose(t, c))
	}
	if len(s.templates) == 0 {
		c.refused = append(c.refused, s.noTemplates())
	}
	for _, p := range s.problems {
		if p.Reason != problemStatic && p.Reason != problemDeleting {
			c.refused = append(c.refused, ledger.Refusal{NodePool: p.NodePool, Constraint: constraintNodePool, Message: p.Message})
		}
	}
	return c.refused
}

// noTemplates explains that no NodePool could be asked.
func (s *solver) noTemplates() ledger.Refusal {
	message := "no dynamic nodepools found"
	for _, p := range s.problems {
		if p.Reason == problemNoTypes {
			message = "nodepool requirements filtered out all available instance types"
		}
	}
	return ledger.Refusal{Constraint: constraintNodePool, Message: message}
}

// diagnose repeats the steps of openOn on the last, most relaxed level and names the first that failed.
// Of several alternatives the one that got furthest counts.
func (s *solver) diagnose(t *template, c *class) ledger.Refusal {
	lv := c.levels[len(c.levels)-1]
	if taint := untolerated(t.taints(), c.pod.Spec.Tolerations, lv.strictTaints); taint != nil {
		return ledger.Refusal{NodePool: t.name, Constraint: constraintTaints, Message: taintText(taint)}
	}
	best := ledger.Refusal{NodePool: t.name, Constraint: constraintRequirements, Message: "incompatible requirements, no term of the pod's node affinity can be met"}
	reached := -1
	for _, a := range lv.alternatives {
		if r, depth := s.diagnoseAlternative(t, c, a); depth > reached {
			best, reached = r, depth
		}
	}
	best.NodePool = t.name
	return best
}

// diagnoseAlternative returns the reason and how many steps succeeded before.
func (s *solver) diagnoseAlternative(t *template, c *class, a *alternative) (ledger.Refusal, int) {
	n := t.root.narrow(a)
	if n == nil {
		return s.diagnoseIncompatible(t, c, a), 0
	}
	lv := c.levels[len(c.levels)-1]
	for _, k := range lv.byPlace {
		if ok, _ := k.AllowsPlace(len(s.bins)); !ok {
			return topologyRefusal(c, k, n), 1
		}
	}
	narrowed := n
	if done, failed := s.candidates(n, n.usable, nil, lv, func(x *state) bool { narrowed = x; return true }); !done && failed != nil {
		return topologyRefusal(c, failed, n), 1
	}
	n = narrowed
	from := t.root.usable.Clone()
	if err := t.limits.narrow(t.catalog, from); err != nil {
		return ledger.Refusal{Constraint: constraintLimits, Message: err.Error()}, 1
	}
	f := s.filter(t, c, n, from)
	r := f.refusal(t, c, n, s.diagnosed > detailedMax)
	if len(t.limits.left) > 0 && s.filter(t, c, n, t.root.usable).all.Any() {
		r.Constraint = constraintLimits
	}
	return r, 2
}

// diagnoseIncompatible says why a template and an alternative exclude each other.
func (s *solver) diagnoseIncompatible(t *template, c *class, a *alternative) ledger.Refusal {
	if err := t.excludesVolumes(c); err != nil {
		return ledger.Refusal{Constraint: constraintVolumes, Message: fmt.Sprintf("incompatible volume requirements, %s", err)}
	}
	err := t.base.Compatible(a.set, requirement.AllKnown)
	if err != nil && t.base.CompatibleSet(a.set.Without(contradictions(t, a)...), requirement.AllKnown) {
		// The pod contradicts itself on keys that the pool leaves open: it is the types that have no such value.
		n := t.state(t.base.Intersection(a.set))
		if f := s.filter(t, c, n, t.root.usable); !f.req.Any() || !f.offered.Any() {
			return f.refusal(t, c, n, s.diagnosed > detailedMax)
		}
	}
	return ledger.Refusal{Constraint: constraintRequirements, Message: fmt.Sprintf("incompatible requirements, %s", err)}
}

// contradictions are the well-known keys of which an alternative allows no value although the template says nothing of them.
func contradictions(t *template, a *alternative) (keys []string) {
	for _, r := range a.set.Requirements() {
		if r.Impossible() && requirement.AllKnown.Has(r.Key()) && !t.base.Has(r.Key()) {
			keys = append(keys, r.Key())
		}
	}
	return keys
}

// excludesVolumes is why none of the places of a class's volumes is among those of t and of the pod's own requirements; nil
// if one is, or if these exclude each other already.
func (t *template) excludesVolumes(c *class) error {
	if c.volumes == nil {
		return nil
	}
	var first error
	for _, own := range c.strict {
		if !t.base.CompatibleSet(own, requirement.AllKnown) {
			continue
		}
		set := t.base.Intersection(own)
		for _, v := range c.volumes.alternatives {
			err := set.Compatible(v, requirement.AllKnown)
			if err == nil {
				return nil
			}
			if first == nil {
				first = err
			}
		}
	}
	return first
}

func topologyRefusal(c *class, k *topology.Constraint, n *state) ledger.Refusal {
	pod := requirement.Exists(k.Term.Key)
	if len(c.strict) == 1 {
		pod = c.strict[0].Get(k.Term.Key)
	}
	return ledger.Refusal{Constraint: constraintTopology, Message: k.Error(pod.String(), n.set.Get(k.Term.Key).String())}
}

// filterResult holds which types pass each part of the filter, and all parts.
type filterResult struct {
	from, req, fit, offered, all catalog.Bits
	unmet                        []string
	// portsTaken: but for the host ports of DaemonSets some type would pass. reservedTaken: so it would but for reserved
	// capacity that other claims hold.
	portsTaken, reservedTaken bool
}

func (s *solver) filter(t *template, c *class, n *state, from catalog.Bits) filterResult {
	f := filterResult{from: from, req: from.Clone(), fit: catalog.NewBits(len(t.catalog.Types)), offered: from.Clone()}
	f.req.And(t.catalog.MatchingSet(n.set))
	var shapes []int
	f.offered.And(t.catalog.Offered(n.set, n.offered.shapes, &shapes))
	for _, g := range t.groups {
		part := from.Clone()
		part.And(g.types)
		need := c.requests.Add(g.overhead)
		t.catalog.Narrow(part, &need)
		if clash(c.ports, g.ports) {
			part.And(f.req)
			f.portsTaken = f.portsTaken || part.Meets(f.offered)
			continue
		}
		f.fit.Or(part)
	}
	f.all = f.req.Clone()
	f.all.And(f.fit)
	f.reservedTaken = s.heldReservations(t, n, f.all)
	f.all.And(f.offered)
	if f.all.Any() && s.in.options.MinValuesPolicy != MinValuesBestEffort {
		f.unmet = t.unmet(n.set, f.all, t.minima)
		if len(f.unmet) > 0 {
			f.all = catalog.NewBits(len(t.catalog.Types))
		}
	}
	return f
}

func (f *filterResult) refusal(t *template, c *class, n *state, brief bool) ledger.Refusal {
	constraint, reason := f.reason(c)
	if brief {
		return ledger.Refusal{Constraint: constraint, Message: reason}
	}
	total := f.from.Count()
	r := ledger.Refusal{
		Constraint: constraint,
		Message:    fmt.Sprintf("%s, requirements=%s, resources=%s", reason, n.set, resourcesText(t, c)),
		Closest:    f.closest(t, c),
	}
	if reason == reservedHeld {
		r.Message = reason // as users know it
	}
	eliminated := func(constraint string, passed catalog.Bits) {
		if failed := total - passed.Count(); failed > 0 {
			if r.Eliminated == nil {
				r.Eliminated = map[string]int{}
			}
			r.Eliminated[constraint] = failed
		}
	}
	eliminated(constraintRequirements, f.req)
	eliminated(constraintResources, f.fit)
	eliminated(constraintOffering, f.offered)
	if strings.HasSuffix(reason, "enough resources") && c.requests.MilliCPU >= 1e9 {
		r.Message += " (CPU request >= 1 Million, m vs M typo?)"
	}
	return r
}

const reservedHeld = "one or more instance types with compatible reserved offerings are available, but could not be reserved"

// reason is the first line of the table in scheduling §7.5 that holds.
func (f *filterResult) reason(c *class) (constraint, text string) {
	req, fit, offered := f.req.Any(), f.fit.Any(), f.offered.Any()
	switch {
	case f.portsTaken && !f.all.Any():
		return constraintResources, "no instance type has the pod's host ports free of those of DaemonSets"
	case f.reservedTaken && !f.all.Any():
		return constraintOffering, reservedHeld
	case len(f.unmet) > 0:
		return constraintRequirements, fmt.Sprintf("minValues requirement is not met for label(s) (label(s)=%s)", f.unmet)
	case !req && !fit && !offered:
		return constraintRequirements, "no instance type met the scheduling requirements or had enough resources or had a required offering"
	case !req && !fit:
		return constraintRequirements, "no instance type met the scheduling requirements or had enough resources"
	case !req && !offered:
		return constraintRequirements, "no instance type met the scheduling requirements or had a required offering"
	case !fit && !offered:
		return constraintResources, "no instance type had enough resources or had a required offering"
	case !req:
		return constraintRequirements, "no instance type met all requirements"
	case !fit:
		return constraintResources, "no instance type has enough resources"
	case !offered:
		return constraintOffering, "no instance type has the required offering"
	case f.req.Meets(f.fit):
		return constraintOffering, "no instance type which met the scheduling requirements and had enough resources, had a required offering"
	case f.fit.Meets(f.offered):
		return constraintRequirements, "no instance type which had enough resources and the required offering met the scheduling requirements"
	case f.req.Meets(f.offered):
		return constraintResources, "no instance type which met the scheduling requirements and the required offering had the required resources"
	}
	return constraintRequirements, "no instance type met the requirements/resources/offering tuple"
}

// resourcesText is the pod's request with the DaemonSets'; least and most if that depends on the type.
func resourcesText(t *template, c *class) string {
	least, most := t.groups[0].overhead, t.groups[0].overhead
	for _, g := range t.groups[1:] {
		least, most = least.Min(g.overhead), most.Max(g.overhead)
	}
	low, high := listJSON(c.requests.Add(least)), listJSON(c.requests.Add(most))
	if low == high {
		return low
	}
	return "min=" + low + ", max=" + high
}

func listJSON(v resource.Vector) string {
	b, err := json.Marshal(v.List())
	if err != nil {
		panic("provision: a resource list cannot be encoded: " + err.Error())
	}
	return string(b)
}

// closest names the type that would do with more resources, and what it lacks: of those that pass the rest,
// the one that lacks the smallest share of the request.
func (f *filterResult) closest(t *template, c *class) string {
	near := f.req.Clone()
	near.And(f.offered)
	names := c.requests.Names()
	var best *catalog.InstanceType
	var bestName corev1.ResourceName
	var bestHave, bestWant int64
	for i := range near.Members() {
		it := t.catalog.Types[i]
		name, have, want := lacks(names, &c.requests, &it.Allocatable)
		if want == 0 {
			continue
		}
		if best == nil || compareRatio(have, want, bestHave, bestWant) > 0 {
			best, bestName, bestHave, bestWant = it, name, have, want
		}
	}
	if best == nil {
		return ""
	}
	return fmt.Sprintf("%s has %s of %s %s", best.Name, amountText(bestName, bestHave), amountText(bestName, bestWant), bestName)
}

// lacks returns the resource, of those named, of which total has the smallest share of what is wanted; want 0 if none.
func lacks(names []corev1.ResourceName, wanted, total *resource.Vector) (name corev1.ResourceName, have, want int64) {
	for _, n := range names {
		w, h := wanted.Get(n), max(0, total.Get(n))
		if w <= h {
			continue
		}
		if want == 0 || compareRatio(h, w, have, want) < 0 {
			name, have, want = n, h, w
		}
	}
	return name, have, want
}

func amountText(name resourceName, n int64) string {
	v := resource.Vector{}
	v.Set(name, n)
	q, ok := v.List()[name]
	if !ok {
		return "0"
	}
	return q.String()
}
