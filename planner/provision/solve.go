package provision

import (
	"cmp"
	"slices"

	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/planner/topology"
	"millwright/planner/world"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Policies of planner.Options.
const (
	PreferencesIgnore   = "Ignore"
	MinValuesBestEffort = "BestEffort"
)

// item is a pod on its way through the solver.
type item struct {
	pod   *world.Pod
	class *class
	// at is the pod's place in the queue.
	at int
	// bin it got, at which level; nil and reasons if refused.
	bin     *bin
	level   int
	reasons []ledger.Refusal
	// excluded nodes, by name.
	excluded []string
	// unseen: it came while the plan was made that is being confirmed; the next round is about it.
	unseen bool
	// deferred: it waits for reserved capacity that others hold.
	deferred bool
}

// solver works out one plan. It never changes its input.
type solver struct {
	in        *input
	templates []*template
	problems  []PoolProblem
	compiler  compiler
	items     []*item
	// bins: nodes, initialized ones first, then planned claims, then claims in the order they were opened.
	// The first fixed ones are no new claims.
	bins     []*bin
	fixed    int
	byTarget map[target]*bin
	buffer   catalog.Bits
	// holding are the types that hold the pods, while candidates looks for a domain.
	holding catalog.Bits
	// running are the classes of pods on nodes; single the alternatives for one domain.
	running map[classKey]*runningClass
	single  map[*topology.Domains][]*alternative
	// diagnosed counts the classes that were told why they are refused.
	diagnosed int
	// exist are the domains that exist for classes; existKeys are its keys as they came.
	exist     map[existKey]*existing
	existKeys []existKey
	// keeping: earlier verdicts are being taken over; the topology is checked after all of them.
	keeping bool
	// newlyExcluded are pods that have waited for a ready node in vain.
	newlyExcluded []exclusion
	// assigned are the planned claims' own pods.
	assigned map[types.UID]*bin
	// reserved is nil if there is no reserved capacity.
	reserved *reservations
	// ceiling of the growth of claims; nil: none. steps counts how often a bin or a template was asked: 1 if
	// a bin was full, stepsWhole if it took more than a look.
	ceiling *ceiling
	steps   int
	// trial is the change that may be taken back; nil if none is under way. trials counts those begun and ended.
	trial  *trial
	trials int
	// commits counts the tries to commit a claim to a domain.
	commits int
	// fewest: bins from the given one on are asked in the order of their pods, fewest first; ordered is that order.
	fewest  bool
	ordered []*bin
	// spareBins and spareOpens are left over from tries, for their memory.
	spareBins  []*bin
	spareOpens []*openClaim
	// plain: no planned claim is widened.
	plain bool
	// unsettled pods have an earlier verdict that does not hold any more.
	unsettled map[*world.Pod]bool
	// freeReserved counts the free instances of capacity reservations before the round, by id, for the explanation.
	freeReserved map[string]int64
}

// target names a bin that exists.
type target struct{ node, claim string }

// solve finds a place for each pod of the input that can have one. Those without have no reasons yet (explain).
func solve(in *input) *solver { return solveBy(in, approach{}) }

// approach is a way to place the pods.
type approach struct {
	// fewest: new claims are asked in the order of their pods, fewest first.
	fewest bool
	// sparing: claims are charged for the type that takes the least of the limits.
	sparing bool
}

// solveWithinLimits is solve, but if limits leave pods without a place other ways are tried too, which may place more: claims that
// are charged for their least type, and to ask those with the fewest pods first, as in the reference (scheduling §7.3): that leaves
// room in more of them.
func solveWithinLimits(in *input) *solver {
	best := solve(in)
	limited := slices.ContainsFunc(best.templates, func(t *template) bool { return t.limits.bound })
	least := best.unplaced()
	few := len(best.items)*(len(best.bins)-best.fixed) <= fewestMax
	for _, a := range []approach{{fewest: true}, {sparing: true}} {
		if least == 0 || !limited || a.fewest && !few {
			continue
		}
		if other := solveBy(in, a); other.unplaced() < least {
			best, least = other, other.unplaced()
		}
	}
	return best
}

// unplaced counts the pods that found no place.
func (s *solver) unplaced() (n int) {
	for _, it := range s.items {
		if it.bin == nil && len(it.class.invalid) == 0 {
			n++
		}
	}
	return n
}

// solveBy is solve in one of the ways.
func solveBy(in *input, a approach) *solver {
	s := newSolver(in)
	waiting, kept := s.keepVerdicts()
	if broken := s.brokenKept(kept); broken != nil {
		s = newSolver(in)
		s.unsettled = broken
		waiting, _ = s.keepVerdicts()
	}
	if a.sparing && !s.spare() {
		return s
	}
	s.fewest = a.fewest
	s.place(waiting)
	s.fewest, s.ordered = false, nil
	return s
}

func newSolver(in *input) *solver {
	s := &solver{in: in}
	s.templates, s.problems = newTemplates(in)
	s.reserved = newReservations(s.templates, in)
	s.freeReserved = s.reserved.free(s.templates)
	s.compiler = compiler{
		volumes: in.volumes, respect: in.options.PreferencePolicy != PreferencesIgnore, templates: len(s.templates),
		preferNoSchedule: s.anyPreferNoSchedule(), classes: map[classKey]*class{}, topologies: newTopologies(in.namespaces),
	}
	s.addBins()
	s.queue()
	s.setUpTopology()
	s.assignPlanned()
	return s
}

func (s *solver) anyPreferNoSchedule() bool {
	for _, t := range s.templates {
		if t.prefers {
			return true
		}
	}
	for _, n := range s.in.nodes {
		if hasPreferNoSchedule(n.Taints) {
			return true
		}
	}
	return false
}

// addBins lists what exists: nodes, initialized first, then by name; then planned claims by name.
func (s *solver) addBins() {
	s.byTarget = make(map[target]*bin, len(s.in.nodes)+len(s.in.planned))
	nodes := slices.Clone(s.in.nodes)
	slices.SortFunc(nodes, func(a, b stateNode) int {
		order := -compareBool(a.Initialized, b.Initialized)
		if order == 0 && s.in.destinations != nil {
			order = s.in.destinations(a, b)
		}
		return cmp.Or(order, cmp.Compare(a.Name, b.Name))
	})
	blank := make([]bin, len(nodes))
	for i, n := range nodes {
		b := &blank[i]
		b.node, b.free = n, available(n)
		s.add(b)
		s.byTarget[target{node: n.Name}] = b
		if n.Claim != nil {
			s.byTarget[target{claim: n.Claim.Name}] = b
		}
	}
	planned := slices.Clone(s.in.planned)
	slices.SortFunc(planned, func(a, b plannedInput) int { return cmp.Compare(a.claim.Name, b.claim.Name) })
	for i := range planned {
		b := s.plannedBin(&planned[i])
		s.add(b)
		s.byTarget[target{claim: planned[i].claim.Name}] = b
	}
	s.fixed = len(s.bins)
}

func (s *solver) add(b *bin) {
	b.index = len(s.bins)
	s.bins = append(s.bins, b)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// assignPlanned gives planned claims the pods they were planned for; nothing is asked again.
func (s *solver) assignPlanned() {
	for _, it := range s.items {
		b := s.assigned[it.pod.UID]
		if b == nil {
			continue
		}
		b.free = b.free.Sub(it.class.requests)
		b.ports = append(b.ports, it.class.ports...)
		s.put(b, it)
	}
}

// queue compiles the pods and sorts them: CPU and memory descending, then creation and UID (scheduling §7.2).
func (s *solver) queue() {
	s.assigned = map[types.UID]*bin{}
	for _, b := range s.bins {
		if b.planned != nil {
			for _, p := range b.planned.pods {
				s.assigned[p.UID] = b
			}
		}
	}
	s.items = make([]*item, len(s.in.pods))
	blank := make([]item, len(s.in.pods))
	for _, p := range s.in.mobile {
		s.compiler.class(p)
	}
	for i, p := range s.in.pods {
		blank[i] = item{pod: p, class: s.compiler.class(p)}
		s.items[i] = &blank[i]
	}
	slices.SortFunc(s.items, compareItems)
	for i, it := range s.items {
		it.at = i
	}
	var extended []corev1.ResourceName
	for _, k := range s.compiler.classes {
		for _, e := range k.requests.Extended {
			extended = append(extended, e.Name)
		}
	}
	slices.Sort(extended)
	extended = slices.Compact(extended)
	for _, t := range s.templates {
		t.extended = extended
	}
}

// compareItems orders the queue: CPU and memory descending, then creation and UID (scheduling §7.2).
func compareItems(a, b *item) int {
	ra, rb := &a.class.requests, &b.class.requests
	return cmp.Or(cmp.Compare(rb.MilliCPU, ra.MilliCPU), cmp.Compare(rb.Memory, ra.Memory),
		cmp.Compare(a.pod.Created, b.pod.Created), cmp.Compare(a.pod.UID, b.pod.UID))
}

// keepVerdicts leaves pods where they were placed before, if they still fit there, and returns the others.
func (s *solver) keepVerdicts() (waiting, kept []*item) {
	s.keeping = true
	defer func() { s.keeping = false }()
	s.exclude()
	for _, it := range s.items {
		if it.bin != nil {
			continue
		}
		if len(it.class.invalid) > 0 {
			it.reasons = it.class.invalid
			continue
		}
		if b := s.placedBefore(it); b != nil && !s.avoids(it, b) && s.acceptAnyLevel(b, it) {
			kept = append(kept, it)
			continue
		}
		if len(it.excluded) >= excludedMax {
			it.reasons = it.quoted()
			continue
		}
		waiting = append(waiting, it)
	}
	return waiting, kept
}

func (s *solver) placedBefore(it *item) *bin {
	to := s.in.prior(it.pod.UID)
	if to == (target{}) || s.unsettled[it.pod] {
		return nil
	}
	return s.byTarget[to]
}

func (s *solver) acceptAnyLevel(b *bin, it *item) bool {
	return s.acceptLevels(b, it, len(it.class.levels))
}

// acceptLevels is acceptAnyLevel without the levels from n on.
func (s *solver) acceptLevels(b *bin, it *item, n int) bool {
	for _, lv := range it.class.levels[:n] {
		if s.accept(b, lv) == accepted {
			s.put(b, it)
			return true
		}
	}
	return false
}

func (s *solver) put(b *bin, it *item) {
	it.bin, it.reasons = b, nil
	b.added = append(b.added, it.pod)
	if s.fewest && b.open != nil {
		s.reorder(b)
	}
	s.record(b, it.class, 1)
}

// place works off the queue, and once more each time reserved capacity is loosened, or a claim committed to a domain.
func (s *solver) place(waiting []*item) {
	again := true
	for again {
		waiting = s.workOff(waiting)
		if again = s.loosen(waiting); !again {
			waiting, again = s.commit(waiting)
		}
	}
}

// explain gives the pods without a place their reasons, of the plan as it stands.
func (s *solver) explain() {
	for _, it := range s.items {
		if it.bin == nil && it.reasons == nil && !it.unseen {
			it.reasons = s.refusals(it.class)
		}
	}
}

// workOff places what it can, the refused ones again for as long as that places some, and returns the others. It uses the list it is
// given.
func (s *solver) workOff(waiting []*item) []*item {
	for len(waiting) > 0 {
		refused := waiting[:0]
		progress := false
		for at, it := range waiting {
			if s.attempt(it) {
				progress = true
				continue
			}
			refused = append(refused, it)
			if s.trial.ends(it) {
				return append(refused, waiting[at+1:]...)
			}
		}
		waiting = refused
		if !progress {
			break
		}
	}
	return waiting
}

// attempt tries each level on every bin, then on every template.
func (s *solver) attempt(it *item) bool {
	return s.attemptLevels(it, len(it.class.levels))
}

// attemptLevels is attempt without the levels from n on.
func (s *solver) attemptLevels(it *item, n int) bool {
	for i, lv := range it.class.levels[:n] {
		if slices.ContainsFunc(lv.constraints, (*topology.Constraint).Hopeless) {
			continue
		}
		stamp := s.stamp(lv)
		if lv.refusedAt == stamp {
			continue
		}
		if lv.deferredAt == stamp {
			it.deferred = true
			return false
		}
		b := s.find(lv)
		s.missed() // by claims that are open: that does not count
		if b == nil {
			b = s.openClaim(lv)
		}
		if b != nil {
			s.put(b, it)
			it.level = i
			return true
		}
		if s.missed() {
			lv.deferredAt, it.deferred = stamp, true
			return false
		}
		lv.refusedAt = stamp
	}
	return false
}

// find returns the first bin that takes a pod of the level's class.
func (s *solver) find(lv *level) *bin {
	if !s.fewest {
		return s.findBefore(len(s.bins), lv)
	}
	if b := s.findBefore(s.fixed, lv); b != nil {
		return b
	}
	return s.findFewest(lv)
}

// findBefore is find among the first so many bins.
func (s *solver) findBefore(end int, lv *level) *bin {
	if lv.cursor >= end {
		return nil
	}
	from := min(lv.next(lv.cursor, end), end)
	if s.trial == nil {
		lv.cursor = from // in a trial, what is known of bins before it may be taken back
	}
	for i := from; i < end; i = lv.next(i+1, end) {
		if s.ask(s.bins[i], lv) == accepted {
			return s.bins[i]
		}
	}
	return nil
}

// ask is accept that remembers what lasts.
func (s *solver) ask(b *bin, lv *level) outcome {
	o := s.accept(b, lv)
	switch o {
	case full:
		s.learn(lv.class.full, b)
	case never:
		s.learn(&lv.dead, b)
	}
	return o
}

// stamp rises whenever a refusal may no longer hold.
func (s *solver) stamp(lv *level) int {
	n := len(s.bins) + s.trials<<40
	if s.reserved != nil {
		n += s.reserved.moved
	}
	for _, t := range s.templates {
		n += t.limits.moved
	}
	for _, c := range lv.constraints {
		n += c.Group.Version
	}
	return n
}

// openClaim opens a claim of the first template that takes a pod of the level's class.
func (s *solver) openClaim(lv *level) *bin {
	if ok, _ := lv.placeAllows(len(s.bins)); !ok || s.trial.full(len(s.bins)) {
		return nil
	}
	for _, t := range s.templates {
		if lv.closed.Has(t.index) {
			continue
		}
		o, final := s.openOn(t, lv)
		if o == nil {
			if s.reserved != nil && s.reserved.missed {
				return nil
			}
			if final && (s.trial == nil || s.reserved == nil) {
				lv.closed.Add(t.index)
			}
			continue
		}
		b := s.newBin()
		b.open, b.ports = o, slices.Clone(lv.class.ports)
		s.add(b)
		return b
	}
	return nil
}

// openOn returns a claim of t with one pod; final says that a refusal depends neither on limits nor on the
// topology.
func (s *solver) openOn(t *template, lv *level) (o *openClaim, final bool) {
	c := lv.class
	if untolerated(t.taints(), c.pod.Spec.Tolerations, lv.strictTaints) != nil {
		return nil, true
	}
	s.steps += stepsWhole
	final = true
	for _, a := range lv.alternatives {
		n := t.root.narrow(a)
		if n == nil {
			continue
		}
		types := s.fitting(t, t.root.usable, n, &c.requests, c.ports)
		if !types.Any() {
			continue
		}
		final = final && len(lv.byKey) == 0 && len(t.limits.left) == 0
		s.candidates(n, types, nil, lv, func(n *state) bool {
			o = s.openIn(t, c, n)
			return o != nil
		})
		if o != nil {
			return o, false
		}
	}
	return nil, final
}
