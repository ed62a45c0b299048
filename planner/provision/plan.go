package provision

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/provision/internal/demand"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/provision/internal/overlay"
	"millwright/planner/provision/internal/pack"
	"millwright/planner/provision/internal/place"
	"millwright/planner/provision/internal/refusal"
	"millwright/planner/provision/internal/solve"
)

// Round summarises one planning round, for metrics and KubeEvents; it is not recorded.
type Round struct {
	// Verdicts on every pod that needed a place, largest pods first.
	Verdicts []PodVerdict
	// Problems are NodePools that open no claims, by name.
	Problems []offer.PoolProblem
	// Claims are those of the Decision, with prices; PricePerHour sums their cheapest offerings.
	Claims       []ledger.PlannedClaim
	PricePerHour int64
	// OverlayProblems are NodeOverlays that are not applied, by name.
	OverlayProblems []overlay.Problem
	// AtNodeLimit are static NodePools, by name, that lack nodes which their limit does not allow.
	AtNodeLimit []string
	// Buffers are the CapacityBuffers, with where their room is, by namespace and name.
	Buffers []BufferExplanation
	// LowerBound is a price per hour that no plan can go below (Explanation).
	LowerBound int64
	// Kept, Placed, Planned, Refused and Ignored count pods; ignored ones failed validation.
	Kept, Placed, Planned, Refused, Ignored int
}

// PodVerdict on one pod. Exactly one of Node, Claim, NewClaim and Reasons is set.
type PodVerdict struct {
	Pod ledger.PodRef
	// Node or Claim (not a node yet) that the pod waits for.
	Node, Claim string
	// NewClaim is 1 + the index in Round.Claims; its name follows from the record's sequence.
	NewClaim int
	Reasons  []ledger.Refusal
	// Changed: the Ledger has another verdict or none.
	Changed bool
	// NotOurs: the pod asked not to run on our nodes; it gets no KubeEvent.
	NotOurs bool
	// Buffer is the namespace/name of the CapacityBuffer that a virtual pod stands for; "" for a real one.
	Buffer string
}

// Plan decides where the pods go that need a place: those kube-scheduler found none for, and those on nodes
// that are going. If no verdict changed, it gives up a planned claim that no pod needs. The Decision is nil
// if there is nothing to record.
func Plan(s *planner.Snapshot) (*planner.Decision, Round) {
	sol := solve.WithinLimits(planInput(s))
	pack.Repack(sol)
	pack.Widen(sol)
	sol.Retry()
	sol.ShareLimits()
	why := refusal.New(sol)
	why.ExplainAll()
	d, round := decide(s, sol, why)
	if d == nil {
		d = withdrawal(sol, s)
	}
	return d, round
}

// PlanPlain is Plan for a cluster with a service that does not know ProvisioningWidened: no planned claim is
// widened, and none withdrawn.
func PlanPlain(s *planner.Snapshot) (*planner.Decision, Round) {
	sol := solve.WithinLimits(planInput(s))
	sol.Plain = true
	pack.Repack(sol)
	sol.Retry()
	sol.ShareLimits()
	why := refusal.New(sol)
	why.ExplainAll()
	return decide(s, sol, why)
}

// decision being put together.
type decision struct {
	snapshot *planner.Snapshot
	solver   *solve.Solver
	why      *refusal.Explainer
	payload  ledger.ProvisioningPlanned
	explain  Explanation
	round    Round
	// index of new claims, by bin.
	index      map[*place.Bin]int
	failed     map[*place.Bin][]ledger.Refusal
	placements map[place.Target][]ledger.PodRef
	refused    map[uint64]*ledger.Refused
	order      []uint64
	subjects   map[string]bool
	expects    map[string]bool
	advances   map[string]bool
}

func decide(snap *planner.Snapshot, s *solve.Solver, why *refusal.Explainer) (*planner.Decision, Round) {
	d := &decision{
		snapshot: snap, solver: s, why: why, index: map[*place.Bin]int{}, failed: map[*place.Bin][]ledger.Refusal{},
		placements: map[place.Target][]ledger.PodRef{}, refused: map[uint64]*ledger.Refused{},
		subjects: map[string]bool{}, expects: map[string]bool{}, advances: map[string]bool{},
	}
	d.addClaims()
	d.addWidened()
	changed := d.addVerdicts()
	changed = d.addStatic() || changed
	d.addGone()
	d.finishRound()
	if !changed && len(d.payload.Gone) < goneBatch {
		return nil, d.round
	}
	d.payload.Placements = d.sortedPlacements()
	d.payload.Excluded = d.solver.Exclusions()
	for _, digest := range d.order {
		d.payload.Refused = append(d.payload.Refused, *d.refused[digest])
	}
	d.payload.Plain = d.solver.Plain
	d.explain.Buffers = recorded(d.round.Buffers)
	d.explain.fit()
	kind := ledger.KindProvisioningPlanned
	if len(d.payload.Widened) > 0 {
		kind = ledger.KindProvisioningWidened
	}
	return &planner.Decision{
		Kind: kind, Payload: &d.payload, Explanation: d.explain,
		Subjects: slices.Sorted(maps.Keys(d.subjects)), Expects: snap.Expect(slices.Sorted(maps.Keys(d.expects))...), Advances: slices.Sorted(maps.Keys(d.advances)),
	}, d.round
}

// goneBatch is how many forgotten verdicts are worth a record of their own. Fewer go with the next one.
const goneBatch = 1000

// addClaims finishes the open claims; one that cannot be made refuses its pods.
func (d *decision) addClaims() {
	f := place.NewFinisher(&d.solver.In.Options)
	for b, o := range d.solver.Claims() {
		if o.Earlier != nil {
			continue
		}
		p, sh, err := f.Finish(b)
		if err != nil {
			d.failed[b] = []ledger.Refusal{{NodePool: o.Template.Name, Constraint: demand.ConstraintRequirements, Message: err.Error()}}
			continue
		}
		i := len(d.payload.Claims)
		d.index[b] = i
		d.payload.Claims = append(d.payload.Claims, p)
		d.explain.Claims = append(d.explain.Claims, d.explainClaim(i, b, &p, sh))
		d.explain.PricePerHour += p.Cheapest.MicroUSDPerHour
		pool := ledger.PoolAggregate(p.NodePool)
		d.expects[pool], d.advances[pool], d.subjects[pool] = true, true, true
	}
}

// addVerdicts compares each pod's place with what the Ledger says and collects what changed.
func (d *decision) addVerdicts() bool {
	changed := false
	d.round.Verdicts = make([]PodVerdict, 0, len(d.solver.Items))
	for _, it := range d.solver.Items {
		if it.Unseen {
			continue
		}
		v := d.verdict(it)
		d.count(it, &v)
		if v.Changed {
			changed = true
			d.record(it, &v)
		}
		d.round.Verdicts = append(d.round.Verdicts, v)
	}
	return changed
}

func (d *decision) verdict(it *solve.Item) PodVerdict {
	v := PodVerdict{Pod: place.PodRef(it.Pod), Reasons: it.Reasons, NotOurs: !it.Class.Ours, Buffer: planner.BufferOf(it.Pod.Class)}
	old := d.snapshot.Ledger.Verdict(it.Pod.UID)
	b := it.Bin
	if reasons := d.failed[b]; b != nil && reasons != nil && !slices.Contains(b.Added[:b.Open().Before], it.Pod) {
		v.Reasons, b = reasons, nil
	}
	if b == nil {
		v.Changed = old == nil || old.Digest != ledger.RefusalDigest(v.Reasons)
		return v
	}
	to := b.Place.Target()
	if to == (place.Target{}) {
		v.NewClaim, v.Changed = d.index[b]+1, true
		return v
	}
	v.Node, v.Claim = to.Node, to.Claim
	v.Changed = old == nil || d.solver.ByTarget[place.Target{Node: old.Node, Claim: old.Claim}] != b
	return v
}

func (d *decision) count(it *solve.Item, v *PodVerdict) {
	d.round.count(it, v)
	d.explain.Pods++
	switch {
	case len(v.Reasons) > 0:
		d.explain.Refused++
	case v.NewClaim > 0:
		d.explain.Planned++
	case v.Changed:
		d.explain.Placed++
	default:
		d.explain.Kept++
	}
}

func (r *Round) count(it *solve.Item, v *PodVerdict) {
	switch {
	case v.Buffer != "" && len(v.Reasons) > 0: // no pod waits
	case len(it.Class.Invalid) > 0:
		r.Ignored++
	case len(v.Reasons) > 0:
		r.Refused++
	case v.NewClaim > 0:
		r.Planned++
	case v.Changed:
		r.Placed++
	default:
		r.Kept++
	}
}

// record adds a changed verdict to the payload and says what it relies on.
func (d *decision) record(it *solve.Item, v *PodVerdict) {
	if v.Buffer != "" {
		d.subjects["capacitybuffer/"+v.Buffer] = true
	} else {
		d.subjects["pod/"+it.Pod.Key()] = true
	}
	switch {
	case len(v.Reasons) > 0:
		d.recordRefused(v)
		return
	case it.Bin.Open() != nil:
		return // stands in the claim
	}
	to := place.Target{Node: v.Node, Claim: v.Claim}
	d.placements[to] = append(d.placements[to], v.Pod)
	if c := it.Bin.Planned(); c != nil {
		d.expects[ledger.PoolAggregate(c.Claim.NodePool)] = true
		d.expects[ledger.ClaimAggregate(v.Claim)] = true
		d.subjects["claim/"+v.Claim] = true
		return
	}
	d.expects[ledger.PoolAggregate(it.Bin.Node().State.NodePool)] = true
	if v.Node != "" {
		d.subjects["node/"+v.Node] = true
	} else {
		d.subjects["claim/"+v.Claim] = true
	}
}

func (d *decision) recordRefused(v *PodVerdict) {
	digest := ledger.RefusalDigest(v.Reasons)
	r := d.refused[digest]
	if r == nil {
		r = &ledger.Refused{Reasons: v.Reasons}
		d.refused[digest] = r
		d.order = append(d.order, digest)
	}
	r.Pods = append(r.Pods, v.Pod)
}

func (d *decision) sortedPlacements() []ledger.Placement {
	var list []ledger.Placement
	for to, pods := range d.placements {
		list = append(list, ledger.Placement{Node: to.Node, Claim: to.Claim, Pods: pods})
	}
	slices.SortFunc(list, func(a, b ledger.Placement) int {
		return compareTargets(place.Target{Node: a.Node, Claim: a.Claim}, place.Target{Node: b.Node, Claim: b.Claim})
	})
	return list
}

// addGone lists the recorded pods that need no place any more.
func (d *decision) addGone() {
	still := make(map[types.UID]bool, len(d.solver.Items))
	for _, it := range d.solver.Items {
		still[it.Pod.UID] = true
	}
	for _, v := range d.snapshot.Ledger.Verdicts() {
		if !still[v.Pod.UID] {
			d.payload.Gone = append(d.payload.Gone, v.Pod.UID)
		}
	}
}

func (d *decision) finishRound() {
	d.round.Buffers = explainBuffers(d.snapshot, d.round.Verdicts)
	d.round.Problems, d.round.OverlayProblems = d.solver.Problems, d.solver.In.OverlayProblems
	d.explain.LowerBound = min(pack.LowerBound(d.solver, false), d.explain.PricePerHour)
	d.round.Claims, d.round.PricePerHour, d.round.LowerBound = d.payload.Claims, d.explain.PricePerHour, d.explain.LowerBound
	d.explain.Pools, d.explain.Unavailable = d.solver.Problems, d.solver.In.Unavailable
	d.explain.Unproven = d.solver.In.Unproven
	d.explain.Reservations, d.explain.FullSubnets = d.solver.FreeReserved, d.solver.In.FullSubnets
	d.explain.Nodes, d.explain.EarlierClaims = len(d.solver.In.Nodes), len(d.solver.In.Planned)
}
