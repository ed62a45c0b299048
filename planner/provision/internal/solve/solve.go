package solve

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/provision/internal/demand"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/provision/internal/place"
	"millwright/planner/topology"
	"millwright/planner/world"
)

// PreferencesIgnore is the preference policy under which preferences do not count.
const PreferencesIgnore = "Ignore"

// Item is a pod on its way through the solver.
type Item struct {
	Pod   *world.Pod
	Class *SearchClass
	// At is the pod's place in the queue.
	At int
	// Bin it got, at which level; nil and reasons if refused.
	Bin     *place.Bin
	Level   int
	Reasons []ledger.Refusal
	// Excluded nodes, by name.
	Excluded []string
	// Unseen: it came while the plan was made that is being confirmed; the next round is about it.
	Unseen bool
	// Virtual: the pod stands for a CapacityBuffer, and gets what real pods leave.
	Virtual bool
	// deferred: it waits for reserved capacity that others hold.
	deferred bool
}

// Solver works out one plan: where each pod of a queue goes in a layout. It never changes its input.
type Solver struct {
	*place.Layout
	In       *Input
	Problems []offer.PoolProblem
	Items    []*Item
	// classes by number; full are the bins that are full, by the number of what classes request.
	classes []*SearchClass
	full    []*refusers
	// newlyExcluded are pods that kube-scheduler did not put on a node that was ready long enough.
	newlyExcluded []exclusion
	// assigned are the planned claims' own pods.
	assigned map[types.UID]*place.Bin
	// Trial is the innermost change that may be taken back; nil if none is under way. trials counts those
	// begun and ended.
	Trial  *Trial
	trials int
	// spareTrial has ended; its memory is reused.
	spareTrial *Trial
	// commits counts the tries to commit a claim to a domain.
	commits int
	// Plain: no planned claim is widened.
	Plain bool
	// unsettled pods have an earlier verdict that does not hold any more.
	unsettled map[*world.Pod]bool
	// FreeReserved counts the free instances of capacity reservations before the round, by id, for the
	// explanation.
	FreeReserved map[string]int64
}

// Mode is a way to ask places. The zero value asks them in order, and lets claims grow as far as their types
// allow.
type Mode struct {
	// keeping: earlier verdicts are being taken over; the topology is checked after all of them.
	keeping bool
	// Ceiling of the growth of new claims; nil: none.
	Ceiling *offer.Ceiling
	// Fewest: new claims are asked in the order of their pods, fewest first; nil: as they were opened.
	Fewest *FewestFirst
}

// Solve finds a place for each pod of the input that can have one. Those without have no reasons yet
// (explain).
func Solve(in *Input) *Solver { return solveBy(in, approach{}) }

// approach is a way to place the pods.
type approach struct {
	// fewest: new claims are asked in the order of their pods, fewest first.
	fewest bool
	// sparing: claims are charged for the type that takes the least of the limits.
	sparing bool
}

// WithinLimits is solve, but if limits leave pods without a place other ways are tried too, which may place
// more: claims that are charged for their least type, and to ask those with the fewest pods first, as in the
// reference (scheduling §7.3): that leaves room in more of them.
func WithinLimits(in *Input) *Solver {
	best := Solve(in)
	limited := slices.ContainsFunc(best.Templates, func(t *offer.Template) bool { return t.Limits.Bound })
	real, virtual := best.unplaced()
	few := len(best.Items)*(len(best.Bins)-best.Fixed) <= FewestMax
	for _, a := range []approach{{fewest: true}, {sparing: true}} {
		if real+virtual == 0 || !limited || a.fewest && !few {
			continue
		}
		other := solveBy(in, a)
		if r, v := other.unplaced(); r < real || r == real && v < virtual {
			best, real, virtual = other, r, v
		}
	}
	return best
}

// unplaced counts the pods that found no place.
func (s *Solver) unplaced() (real, virtual int) {
	for _, it := range s.Items {
		switch {
		case it.Bin != nil || len(it.Class.Invalid) > 0:
		case it.Virtual:
			virtual++
		default:
			real++
		}
	}
	return real, virtual
}

// solveBy is solve in one of the ways.
func solveBy(in *Input, a approach) *Solver {
	s := New(in)
	waiting, kept := s.KeepVerdicts()
	if broken := s.brokenKept(kept); broken != nil {
		s = New(in)
		s.unsettled = broken
		waiting, _ = s.KeepVerdicts()
	}
	if a.sparing && !s.spareLimits() {
		return s
	}
	m := Mode{}
	if a.fewest {
		m.Fewest = &FewestFirst{}
	}
	s.Place(waiting, &m)
	if virtual := s.keepVirtual(); len(virtual) > 0 {
		s.Place(virtual, &m)
	}
	return s
}

func New(in *Input) *Solver {
	templates, problems := offer.NewTemplates(&in.Input.Input)
	c := demand.NewCompiler(&in.Options, in.Volumes, in.Namespaces, in.Options.PreferencePolicy != PreferencesIgnore, anyPreferNoSchedule(templates, in.Nodes))
	s := &Solver{Layout: place.New(&in.Input, templates, c), In: in, Problems: problems}
	s.FreeReserved = s.Reserved.Free(s.Templates)
	s.queue()
	inRun := make(map[*world.Pod]bool, len(s.Items))
	for _, it := range s.Items {
		if it.Pod.NodeName != "" {
			inRun[it.Pod] = true
		}
	}
	s.SetUpTopology(inRun)
	s.assignPlanned()
	return s
}

func anyPreferNoSchedule(templates []*offer.Template, nodes []*planner.StateNode) bool {
	for _, t := range templates {
		if t.Prefers {
			return true
		}
	}
	for _, n := range nodes {
		if demand.HasPreferNoSchedule(n.Taints) {
			return true
		}
	}
	return false
}

// assignPlanned gives planned claims the pods they were planned for; nothing is asked again.
func (s *Solver) assignPlanned() {
	for _, it := range s.Items {
		b := s.assigned[it.Pod.UID]
		if b == nil {
			continue
		}
		b.Planned().Take(b, it.Class.Class)
		s.Put(b, it, &Mode{})
	}
}

// queue compiles the pods and sorts them: CPU and memory descending, then creation and UID (scheduling §7.2).
func (s *Solver) queue() {
	s.assigned = map[types.UID]*place.Bin{}
	for _, b := range s.Bins {
		if c := b.Planned(); c != nil {
			for _, p := range c.Pods {
				s.assigned[p.UID] = b
			}
		}
	}
	s.Items = make([]*Item, len(s.In.Pods))
	blank := make([]Item, len(s.In.Pods))
	for _, p := range s.In.Mobile {
		s.ClassOf(p)
	}
	for i, p := range s.In.Pods {
		blank[i] = Item{Pod: p, Class: s.ClassOf(p), Virtual: planner.IsVirtual(p.Class)}
		s.Items[i] = &blank[i]
	}
	slices.SortFunc(s.Items, CompareItems)
	for i, it := range s.Items {
		it.At = i
	}
	var extended []corev1.ResourceName
	for _, k := range s.Compiler.Classes {
		for _, e := range k.Requests.Extended {
			extended = append(extended, e.Name)
		}
	}
	slices.Sort(extended)
	extended = slices.Compact(extended)
	for _, t := range s.Templates {
		t.Extended = extended
	}
}

// CompareItems orders the queue: real pods first, then CPU and memory descending, then creation and UID
// (scheduling §7.2).
func CompareItems(a, b *Item) int {
	if a.Virtual != b.Virtual {
		if b.Virtual {
			return -1
		}
		return 1
	}
	ra, rb := &a.Class.Requests, &b.Class.Requests
	return cmp.Or(cmp.Compare(rb.MilliCPU, ra.MilliCPU), cmp.Compare(rb.Memory, ra.Memory),
		cmp.Compare(a.Pod.Created, b.Pod.Created), cmp.Compare(a.Pod.UID, b.Pod.UID))
}

// KeepVerdicts leaves real pods where they were placed before, if they still fit there, and returns the
// others.
func (s *Solver) KeepVerdicts() (waiting, kept []*Item) {
	s.Exclude()
	for _, it := range s.Items {
		if it.Bin != nil || it.Virtual {
			continue
		}
		if len(it.Class.Invalid) > 0 {
			it.Reasons = it.Class.Invalid
			continue
		}
		if b := s.PlacedBefore(it); b != nil && !s.avoids(it, b) {
			if s.Keep(b, it, len(it.Class.Levels)) {
				kept = append(kept, it)
				continue
			}
			s.leaves(it, b)
		}
		if len(it.Excluded) >= excludedMax {
			it.Reasons = it.quoted()
			continue
		}
		if it.Reasons = s.displaced(it); it.Reasons != nil {
			continue
		}
		waiting = append(waiting, it)
	}
	return waiting, kept
}

func (s *Solver) PlacedBefore(it *Item) *place.Bin {
	to := s.In.Prior(it.Pod.UID)
	if to == (place.Target{}) || s.unsettled[it.Pod] {
		return nil
	}
	return s.ByTarget[to]
}

// Keep leaves a pod where an earlier verdict put it, at a level before the n-th.
func (s *Solver) Keep(b *place.Bin, it *Item, n int) bool {
	m := Mode{keeping: true}
	for _, lv := range it.Class.Tries[:n] {
		if s.Accept(b, lv, &m) == place.Accepted {
			s.Put(b, it, &m)
			return true
		}
	}
	return false
}

// Put says that b took the pod, by the rules of m.
func (s *Solver) Put(b *place.Bin, it *Item, m *Mode) {
	it.Bin, it.Reasons = b, nil
	b.Added = append(b.Added, it.Pod)
	if m.Fewest != nil && b.Open() != nil {
		m.Fewest.reorder(b)
	}
	s.Record(b, it.Class.Class, 1)
}

// Place works off the queue, and once more each time reserved capacity is loosened, or a claim committed to a
// domain.
func (s *Solver) Place(waiting []*Item, m *Mode) {
	again := true
	for again {
		waiting = s.workOff(waiting, m)
		if again = s.loosen(waiting); !again {
			waiting, again = s.commitClaims(waiting, m)
		}
	}
}

// workOff places what it can, the refused ones again for as long as that places some, and returns the others.
// It uses the list it is given.
func (s *Solver) workOff(waiting []*Item, m *Mode) []*Item {
	for len(waiting) > 0 {
		refused := waiting[:0]
		progress := false
		for at, it := range waiting {
			if s.attempt(it, m) {
				progress = true
				continue
			}
			refused = append(refused, it)
			if s.Trial.endsWithout(it) {
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
func (s *Solver) attempt(it *Item, m *Mode) bool {
	return s.AttemptLevels(it, len(it.Class.Levels), m)
}

// AttemptLevels is attempt without the levels from n on.
func (s *Solver) AttemptLevels(it *Item, n int, m *Mode) bool {
	for i, lv := range it.Class.Tries[:n] {
		if slices.ContainsFunc(lv.Constraints, (*topology.Constraint).Hopeless) {
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
		b, awaits := s.findBin(lv, m), false
		if b == nil {
			b, awaits = s.OpenClaim(lv, m)
		}
		if b != nil {
			s.Put(b, it, m)
			it.Level = i
			return true
		}
		if awaits {
			lv.deferredAt, it.deferred = stamp, true
			return false
		}
		lv.refusedAt = stamp
	}
	return false
}

// findBin returns the first bin that takes a pod of the level's class.
func (s *Solver) findBin(lv *SearchLevel, m *Mode) *place.Bin {
	if m.Fewest == nil {
		return s.findBefore(len(s.Bins), lv, m)
	}
	if b := s.findBefore(s.Fixed, lv, m); b != nil {
		return b
	}
	return s.findFewest(lv, m)
}

// findBefore is find among the first so many bins.
func (s *Solver) findBefore(end int, lv *SearchLevel, m *Mode) *place.Bin {
	from := s.cursor(lv)
	if from >= end {
		return nil
	}
	from = min(lv.nextBin(from, end), end)
	s.setCursor(lv, from)
	for i := from; i < end; i = lv.nextBin(i+1, end) {
		if s.askBin(s.Bins[i], lv, m) == place.Accepted {
			return s.Bins[i]
		}
	}
	return nil
}

// Accept puts a pod of the level's class into b if it fits.
func (s *Solver) Accept(b *place.Bin, lv *SearchLevel, m *Mode) place.Outcome {
	if len(lv.parent.excluded) > 0 && !m.keeping && lv.parent.excludes(b) {
		s.Steps++
		return place.Never
	}
	return s.Layout.Accept(b, lv.Level, m.keeping)
}

// askBin is accept that remembers what lasts.
func (s *Solver) askBin(b *place.Bin, lv *SearchLevel, m *Mode) place.Outcome {
	o := s.Accept(b, lv, m)
	switch o {
	case place.Full:
		s.learnRefusal(lv.parent.full, b)
	case place.Never:
		s.learnRefusal(&lv.dead, b)
	}
	return o
}

// stamp rises whenever a refusal may no longer hold.
func (s *Solver) stamp(lv *SearchLevel) int {
	n := len(s.Bins) + s.trials<<40
	if s.Reserved != nil {
		n += s.Reserved.Moved
	}
	for _, t := range s.Templates {
		n += t.Limits.Moved
	}
	for _, c := range lv.Constraints {
		n += c.Group.Version
	}
	return n
}

// OpenClaim opens a claim of the first template that takes a pod of the level's class; nil if there is none.
// awaits: it has to wait for reserved capacity, rather than to go to a later template.
func (s *Solver) OpenClaim(lv *SearchLevel, m *Mode) (b *place.Bin, awaits bool) {
	if ok, _ := lv.PlaceAllows(len(s.Bins)); !ok || s.trialFull() {
		return nil, false
	}
	for _, t := range s.Templates {
		if lv.closed.Has(t.Index) {
			continue
		}
		o, final, awaits := s.OpenOn(t, lv.Level, m.Ceiling)
		if o == nil {
			if awaits {
				return nil, true
			}
			if final && !s.OffersLess() {
				lv.closed.Add(t.Index)
			}
			continue
		}
		b := s.NewBin()
		b.Place, b.Ports = o, slices.Clone(lv.Class.Ports)
		s.Add(b)
		return b, false
	}
	return nil, false
}

// loosen is the next round for pods that wait for reserved capacity: it frees what claims hold in excess, or
// else gives up on what is not free. It reports whether trying again makes sense.
func (s *Solver) loosen(refused []*Item) bool {
	if s.Reserved == nil || !slices.ContainsFunc(refused, func(it *Item) bool { return it.deferred }) {
		return false
	}
	for _, it := range refused {
		it.deferred = false
	}
	return s.TrimHolds() || s.CloseReservations()
}

// brokenKept lists the pods whose hard constraints do not hold where their earlier verdict put them.
func (s *Solver) brokenKept(kept []*Item) map[*world.Pod]bool {
	var broken map[*world.Pod]bool
	for _, it := range kept {
		if slices.ContainsFunc(it.Class.Topology.Hard, func(c *topology.Constraint) bool { return !s.Holds(it.Bin, c) }) {
			if broken == nil {
				broken = map[*world.Pod]bool{}
			}
			broken[it.Pod] = true
		}
	}
	return broken
}
