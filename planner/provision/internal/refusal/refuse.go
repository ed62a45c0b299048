package refusal

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/bitset"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/planner/provision/internal/demand"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/provision/internal/place"
	"millwright/planner/provision/internal/solve"
	"millwright/planner/requirement"
	"millwright/planner/resource"
	"millwright/planner/topology"
)

// detailedMax is for how many classes a round explains in detail why each NodePool refused them: more can
// only be caused by a mistake in the pods, and the record would hold a text for each.
const detailedMax = 2000

// Explainer says why pods have no place in the present plan.
type Explainer struct {
	plan *solve.Solver
	// known is the explanation for a class; diagnosed counts the classes that were diagnosed.
	known     map[*demand.Class][]ledger.Refusal
	diagnosed int
}

func New(s *solve.Solver) *Explainer {
	return &Explainer{plan: s, known: map[*demand.Class][]ledger.Refusal{}}
}

// ExplainAll gives the pods without a place their reasons.
func (e *Explainer) ExplainAll() {
	for _, it := range e.plan.Items {
		if it.Bin == nil && it.Reasons == nil && !it.Unseen {
			it.Reasons = e.refusals(it.Class.Class)
		}
	}
}

// refusals says, per NodePool, why a class found no place; computed once per class.
func (e *Explainer) refusals(c *demand.Class) []ledger.Refusal {
	list, known := e.known[c]
	if !known {
		list = e.RefusalsNow(c)
		e.known[c] = list
	}
	return list
}

// RefusalsNow is refusals for the plan as it is at this moment.
func (e *Explainer) RefusalsNow(c *demand.Class) (list []ledger.Refusal) {
	e.diagnosed++
	for _, t := range e.plan.Templates {
		list = append(list, e.Diagnose(t, c))
	}
	if len(e.plan.Templates) == 0 {
		list = append(list, e.noTemplates())
	}
	for _, p := range e.plan.Problems {
		if p.Reason != offer.ProblemStatic && p.Reason != offer.ProblemDeleting {
			list = append(list, ledger.Refusal{NodePool: p.NodePool, Constraint: demand.ConstraintNodePool, Message: p.Message})
		}
	}
	return list
}

// noTemplates explains that there was no NodePool to try.
func (e *Explainer) noTemplates() ledger.Refusal {
	message := "no dynamic nodepools found"
	for _, p := range e.plan.Problems {
		if p.Reason == offer.ProblemNoTypes {
			message = "nodepool requirements filtered out all available instance types"
		}
	}
	return ledger.Refusal{Constraint: demand.ConstraintNodePool, Message: message}
}

// Diagnose repeats the steps of openOn on the last, most relaxed level and names the first that failed. Of
// several alternatives the one that got furthest counts.
func (e *Explainer) Diagnose(t *offer.Template, c *demand.Class) ledger.Refusal {
	lv := c.Levels[len(c.Levels)-1]
	if taint := demand.Untolerated(t.Taints(), c.Pod.Spec.Tolerations, lv.StrictTaints); taint != nil {
		return ledger.Refusal{NodePool: t.Name, Constraint: demand.ConstraintTaints, Message: demand.TaintText(taint)}
	}
	best := ledger.Refusal{NodePool: t.Name, Constraint: demand.ConstraintRequirements, Message: "incompatible requirements, no term of the pod's node affinity can be met"}
	reached := -1
	for _, a := range lv.Alternatives {
		if r, depth := e.diagnoseAlternative(t, c, a); depth > reached {
			best, reached = r, depth
		}
	}
	best.NodePool = t.Name
	return best
}

// diagnoseAlternative returns the reason and how many steps succeeded before.
func (e *Explainer) diagnoseAlternative(t *offer.Template, c *demand.Class, a *demand.Alternative) (ledger.Refusal, int) {
	n := t.Root.Narrow(a)
	if n == nil {
		return e.diagnoseIncompatible(t, c, a), 0
	}
	lv := c.Levels[len(c.Levels)-1]
	for _, k := range lv.ByPlace {
		if ok, _ := k.AllowsPlace(len(e.plan.Bins)); !ok {
			return topologyRefusal(c, k, n), 1
		}
	}
	narrowed := n
	if done, failed := e.plan.Candidates(n, n.Usable, nil, lv, func(x *offer.State) bool { narrowed = x; return true }); !done && failed != nil {
		return topologyRefusal(c, failed, n), 1
	}
	n = narrowed
	from := t.Root.Usable.Clone()
	if err := t.Limits.Narrow(t.Catalog, from); err != nil {
		return ledger.Refusal{Constraint: demand.ConstraintLimits, Message: err.Error()}, 1
	}
	f := e.filter(t, c, n, from)
	r := f.refusal(t, c, n, e.diagnosed > detailedMax)
	if len(t.Limits.Left) > 0 && e.filter(t, c, n, t.Root.Usable).all.Any() {
		r.Constraint = demand.ConstraintLimits
	}
	return r, 2
}

// diagnoseIncompatible says why a template and an alternative exclude each other.
func (e *Explainer) diagnoseIncompatible(t *offer.Template, c *demand.Class, a *demand.Alternative) ledger.Refusal {
	if err := excludesVolumes(t, c); err != nil {
		return ledger.Refusal{Constraint: demand.ConstraintVolumes, Message: fmt.Sprintf("incompatible volume requirements, %s", err)}
	}
	err := t.Base.Compatible(a.Set, requirement.AllKnown)
	if err != nil && t.Base.CompatibleSet(a.Set.Without(contradictions(t, a)...), requirement.AllKnown) {
		// The pod contradicts itself on keys that the pool leaves open: it is the types that have no such
		// value.
		n := t.State(t.Base.Intersection(a.Set))
		if f := e.filter(t, c, n, t.Root.Usable); !f.req.Any() || !f.offered.Any() {
			return f.refusal(t, c, n, e.diagnosed > detailedMax)
		}
	}
	return ledger.Refusal{Constraint: demand.ConstraintRequirements, Message: fmt.Sprintf("incompatible requirements, %s", err)}
}

// contradictions are the well-known keys for which an alternative allows no value although the template has
// no requirement on them.
func contradictions(t *offer.Template, a *demand.Alternative) (keys []string) {
	for _, r := range a.Set.Requirements() {
		if r.Impossible() && requirement.AllKnown.Has(r.Key()) && !t.Base.Has(r.Key()) {
			keys = append(keys, r.Key())
		}
	}
	return keys
}

// excludesVolumes is why none of the places of a class's volumes is compatible with t and the pod's own
// requirements; nil if one is, or if these already exclude each other.
func excludesVolumes(t *offer.Template, c *demand.Class) error {
	if c.Volumes == nil {
		return nil
	}
	var first error
	for _, own := range c.Strict {
		if !t.Base.CompatibleSet(own, requirement.AllKnown) {
			continue
		}
		set := t.Base.Intersection(own)
		for _, v := range c.Volumes.Alternatives {
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

func topologyRefusal(c *demand.Class, k *topology.Constraint, n *offer.State) ledger.Refusal {
	pod := requirement.Exists(k.Term.Key)
	if len(c.Strict) == 1 {
		pod = c.Strict[0].Get(k.Term.Key)
	}
	return ledger.Refusal{Constraint: demand.ConstraintTopology, Message: k.Error(pod.String(), n.Set.Get(k.Term.Key).String())}
}

// filterResult holds which types pass each part of the filter, and all parts.
type filterResult struct {
	from, req, fit, offered, all bitset.Set
	unmet                        []string
	// portsTaken: some type would pass if not for the host ports of DaemonSets. reservedTaken: likewise, if
	// not for reserved capacity that other claims hold. tried: others would pass, but other claims try them.
	// inWave: others would pass, but as many claims as may be are in flight.
	portsTaken, reservedTaken, tried, inWave bool
}

func (e *Explainer) filter(t *offer.Template, c *demand.Class, n *offer.State, from bitset.Set) filterResult {
	f := filterResult{from: from, req: from.Clone(), fit: bitset.New(len(t.Catalog.Types)), offered: from.Clone()}
	f.req.And(t.Catalog.MatchingSet(n.Set))
	var shapes []int
	f.offered.And(t.Catalog.Offered(n.Set, n.Offered.Shapes, &shapes))
	for _, g := range t.Groups {
		part := from.Clone()
		part.And(g.Types)
		need := c.Requests.Add(g.Overhead)
		t.Catalog.Narrow(part, &need)
		if demand.Clash(c.Ports, g.Ports) {
			part.And(f.req)
			f.portsTaken = f.portsTaken || part.Meets(f.offered)
			continue
		}
		f.fit.Or(part)
	}
	f.all = f.req.Clone()
	f.all.And(f.fit)
	f.reservedTaken = e.plan.HeldReservations(t, n, f.all)
	f.all.And(f.offered)
	if f.all.Any() && place.Tried(e.plan.Layout, n, f.all) {
		f.tried, f.all = true, bitset.New(len(t.Catalog.Types))
	}
	if f.all.Any() && place.InFullWave(e.plan.Layout, t, f.all) {
		f.inWave, f.all = true, bitset.New(len(t.Catalog.Types))
	}
	if f.all.Any() && e.plan.In.Options.MinValuesPolicy != offer.MinValuesBestEffort {
		f.unmet = t.Unmet(n.Set, f.all, t.Minima)
		if len(f.unmet) > 0 {
			f.all = bitset.New(len(t.Catalog.Types))
		}
	}
	return f
}

func (f *filterResult) refusal(t *offer.Template, c *demand.Class, n *offer.State, brief bool) ledger.Refusal {
	constraint, reason := f.reason(c)
	if brief {
		return ledger.Refusal{Constraint: constraint, Message: reason}
	}
	total := f.from.Count()
	r := ledger.Refusal{
		Constraint: constraint,
		Message:    fmt.Sprintf("%s, requirements=%s, resources=%s", reason, n.Set, resourcesText(t, c)),
		Closest:    f.closest(t, c),
	}
	if reason == reservedHeld || reason == offeringsTried || reason == waveFull {
		r.Message = reason // as users know it
	}
	eliminated := func(constraint string, passed bitset.Set) {
		if failed := total - passed.Count(); failed > 0 {
			if r.Eliminated == nil {
				r.Eliminated = map[string]int{}
			}
			r.Eliminated[constraint] = failed
		}
	}
	eliminated(demand.ConstraintRequirements, f.req)
	eliminated(demand.ConstraintResources, f.fit)
	eliminated(demand.ConstraintOffering, f.offered)
	if strings.HasSuffix(reason, "enough resources") && c.Requests.MilliCPU >= 1e9 {
		r.Message += " (CPU request >= 1 Million, m vs M typo?)"
	}
	return r
}

const reservedHeld = "one or more instance types with compatible reserved offerings are available, but could not be reserved"

const offeringsTried = "every offering that would do lacked capacity when it was asked last, and another NodeClaim is trying it again"

const waveFull = "as many NodeClaims for accelerated instance types are being launched as may be at once; the next follow as soon as some have succeeded"

// reason is the first line of the table in scheduling §7.5 that holds.
func (f *filterResult) reason(c *demand.Class) (constraint, text string) {
	req, fit, offered := f.req.Any(), f.fit.Any(), f.offered.Any()
	switch {
	case f.portsTaken && !f.all.Any():
		return demand.ConstraintResources, "no instance type has the pod's host ports free of those of DaemonSets"
	case f.reservedTaken && !f.all.Any():
		return demand.ConstraintOffering, reservedHeld
	case f.tried:
		return demand.ConstraintOffering, offeringsTried
	case f.inWave:
		return demand.ConstraintOffering, waveFull
	case len(f.unmet) > 0:
		return demand.ConstraintRequirements, fmt.Sprintf("minValues requirement is not met for label(s) (label(s)=%s)", f.unmet)
	case !req && !fit && !offered:
		return demand.ConstraintRequirements, "no instance type met the scheduling requirements or had enough resources or had a required offering"
	case !req && !fit:
		return demand.ConstraintRequirements, "no instance type met the scheduling requirements or had enough resources"
	case !req && !offered:
		return demand.ConstraintRequirements, "no instance type met the scheduling requirements or had a required offering"
	case !fit && !offered:
		return demand.ConstraintResources, "no instance type had enough resources or had a required offering"
	case !req:
		return demand.ConstraintRequirements, "no instance type met all requirements"
	case !fit:
		return demand.ConstraintResources, "no instance type has enough resources"
	case !offered:
		return demand.ConstraintOffering, "no instance type has the required offering"
	case f.req.Meets(f.fit):
		return demand.ConstraintOffering, "no instance type which met the scheduling requirements and had enough resources, had a required offering"
	case f.fit.Meets(f.offered):
		return demand.ConstraintRequirements, "no instance type which had enough resources and the required offering met the scheduling requirements"
	case f.req.Meets(f.offered):
		return demand.ConstraintResources, "no instance type which met the scheduling requirements and the required offering had the required resources"
	}
	return demand.ConstraintRequirements, "no instance type met the requirements/resources/offering tuple"
}

// resourcesText is the pod's request with the DaemonSets'; least and most if that depends on the type.
func resourcesText(t *offer.Template, c *demand.Class) string {
	least, most := t.Groups[0].Overhead, t.Groups[0].Overhead
	for _, g := range t.Groups[1:] {
		least, most = least.Min(g.Overhead), most.Max(g.Overhead)
	}
	low, high := listJSON(c.Requests.Add(least)), listJSON(c.Requests.Add(most))
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

// closest names the type that would fit with more resources, and what it lacks: of those that pass the rest,
// the one that lacks the smallest share of the request.
func (f *filterResult) closest(t *offer.Template, c *demand.Class) string {
	near := f.req.Clone()
	near.And(f.offered)
	names := c.Requests.Names()
	var best *catalog.InstanceType
	var bestName corev1.ResourceName
	var bestHave, bestWant int64
	for i := range near.Members() {
		it := t.Catalog.Types[i]
		name, have, want := lacks(names, &c.Requests, &it.Allocatable)
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

// lacks returns the resource, of those named, of which total has the smallest share of what is wanted; want 0
// if none.
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

func amountText(name corev1.ResourceName, n int64) string {
	v := resource.Vector{}
	v.Set(name, n)
	q, ok := v.List()[name]
	if !ok {
		return "0"
	}
	return q.String()
}
