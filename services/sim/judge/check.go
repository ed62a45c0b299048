package judge

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner/ledger"
	"millwright/services/sim/cluster"
	"millwright/services/sim/stage"
)

// Names of the checks, by the invariant of DESIGN §8 they are of.
const (
	CheckOneInstance   = "1: a NodeClaim launches at most one instance"
	CheckRecorded      = "1: nothing is launched or made that is not recorded"
	CheckContent       = "1: a NodeClaim is as the Ledger has it"
	CheckLivingClaim   = "2: an instance is launched only for a NodeClaim that exists"
	CheckEviction      = "3: a protected pod is not evicted"
	CheckUndrained     = "3: no pod dies undrained with its node"
	CheckBudgets       = "4: commands stay within the budgets"
	CheckCheaper       = "4: consolidation does not buy dearer than what it removes"
	CheckReplaced      = "4: replacements are initialized before what they replace goes"
	CheckTainted       = "4: commands are confirmed on tainted nodes"
	CheckLimits        = "5: plans stay within the limits"
	CheckRoom          = "5: planned claims have room for their pods"
	CheckRegistration  = "6: registration is one write"
	CheckInstanceFirst = "7: Node and NodeClaim go after their instance"
	CheckLog           = "8: acknowledged records are kept and chained"
	CheckVerdicts      = "9: every pending pod has a verdict"
	CheckReplay        = "10: replay yields the recorded decisions"
	CheckJudged        = "10: drift is shown only where it is recorded"
	CheckStopped       = "nothing is begun that operators have stopped"
	CheckShadow        = "nothing is done in shadow mode"
	CheckFold          = "ledgers are the fold of the log"
	CheckTime          = "nothing is done by time before its time"
	CheckForged        = "nothing is done by a notice that is not about the instance"
	CheckTaken         = "pods that can be moved have left what EC2 takes back"
	CheckDrift         = "nobody edits what nodes are made of, so none drifts"
)

// Checks are all of them but those of convergence.
var Checks = []string{CheckOneInstance, CheckRecorded, CheckContent, CheckLivingClaim, CheckEviction, CheckUndrained, CheckBudgets, CheckCheaper, CheckReplaced, CheckTainted, CheckLimits, CheckRoom,
	CheckReserved, CheckBlockAsked, CheckBlockLeft,
	CheckRegistration, CheckInstanceFirst, CheckLog, CheckVerdicts, CheckReplay, CheckJudged, CheckStopped, CheckShadow, CheckFold, CheckTime, CheckDrift, CheckForged, CheckTaken,
	CheckSavings, CheckAge, CheckRate, CheckWindows, CheckPause, CheckApproval, CheckDrainOut, CheckSurge, CheckMarked, CheckLeft,
	CheckPayBack, CheckDestination, CheckWaves, CheckSpot, CheckReturns, CheckAiling, CheckEpidemic, CheckRepaired,
	CheckQuiet, CheckIgnored, CheckHeeded, CheckRecommended,
	CheckBufferKept, CheckBufferFilled, CheckBufferGone, CheckExcluded}

// Judge makes the checks: when something is written, recorded, decided or called, and at the end.
type Judge struct {
	*stage.Stage
	history history
	rules   *rules
	// Marks of offerings, by which requests are judged.
	Marks *Marks
	// Departures of pods from what EC2 takes back.
	Departures *Departures
	// Reservations of capacity, and what is launched into them.
	Reservations *Reservations
	// Repairs of nodes that ail.
	Repairs *Repairs
	// Quiet are nodes on which nothing has happened.
	Quiet *Quiet
	// Recommended are the instances that EC2 recommends to leave.
	Recommended *Recommended
	// Buffers of capacity.
	Buffers *Buffers
	// Exclusions of nodes for pods that do not come to them.
	Exclusions *Exclusions
	book       *book
	// views are what the processes have seen.
	views    map[Process]*seen
	refolded refolded
	// Moved is called when a Node has just been tainted, or a command of it moved on.
	Moved func(node string)
}

// Process is who decides and acts, as far as it is judged.
type Process interface {
	fmt.Stringer
	// Name of its service.
	Name() string
	Mode() ledger.Mode
	// Folded is up to which message and which record it knows.
	Folded() (messages, records uint64)
}

// New returns a judge of what happens on a stage.
func New(stage *stage.Stage) *Judge {
	s := &Judge{Stage: stage, history: newHistory(), book: newBook(stage.Log.ID()), views: map[Process]*seen{}}
	s.rules, s.Marks, s.Departures = newRules(s), newMarks(s), newDepartures(s)
	s.Reservations, s.Repairs, s.Quiet = newReservations(s), newRepairs(s), &Quiet{Judge: s}
	s.Recommended, s.Buffers = newRecommended(s), newBuffers(s)
	s.Exclusions = newExclusions(s)
	return s
}

// history is what checks remember.
type history struct {
	// launched instance by claim UID, and owner, the name of the claim, by instance; tokens that were
	// recorded; planned claim names.
	launched map[string]string
	owner    map[string]string
	// fleets are the claims that requests for several are for, those first that get no instance yet, by
	// launch tag.
	fleets  map[string][]ledger.FleetMember
	tokens  map[string]bool
	planned map[string]bool
	// drifted are the verdicts on record, as UID/reason.
	drifted map[string]bool
	// commands ever started, by id.
	commands map[string]*ledger.CommandStarted
	// swaps are the commands that buy nodes for a lower price, by id.
	swaps map[string]swap
	// pools are earlier states of NodePools, by name.
	pools map[string][]pastPool
	// deadlines are the termination timestamps of NodeClaims, by provider id.
	deadlines map[string]time.Time
	// bound is when a pod got its node, by UID; listed is when the pods of a node were last asked for.
	bound, listed map[string]time.Time
	// initialized are the NodeClaims that ever were, by name.
	initialized map[string]bool
}

// pastPool is a NodePool as it was until a time.
type pastPool struct {
	until time.Time
	pool  *karpv1.NodePool
}

// lookback is how old what a decision relied on may be when it is stored; protection must be older to count.
const lookback = 45 * time.Second

func newHistory() history {
	return history{launched: map[string]string{}, owner: map[string]string{}, fleets: map[string][]ledger.FleetMember{}, tokens: map[string]bool{}, planned: map[string]bool{}, drifted: map[string]bool{},
		commands: map[string]*ledger.CommandStarted{}, swaps: map[string]swap{},
		pools: map[string][]pastPool{}, deadlines: map[string]time.Time{}, bound: map[string]time.Time{}, listed: map[string]time.Time{},
		initialized: map[string]bool{}}
}

// CheckRecord notes what was recorded.
func (s *Judge) CheckRecord(e ledger.Entry) {
	s.book.enter(e)
	s.rules.enter(e)
	s.Marks.enter(e)
	s.Reservations.enter(e)
	s.Repairs.enter(e)
	s.Buffers.enter(e)
	s.Exclusions.enter(e)
	switch p := e.Payload.(type) {
	case *ledger.LaunchRequested:
		s.history.tokens[p.Token] = true
		if len(p.Others) > 0 {
			s.Stats.Fleets++
			s.history.openFleet(s.Log.ID(), p)
		}
	case *ledger.FleetAnswered:
		s.checkAnswered(p)
	case *ledger.CommandStarted:
		s.history.commands[ledger.CommandID(s.Log.ID(), e.Seq)] = p
		s.commandStarted(e.Seq, p)
	case *ledger.CommandReduced:
		s.history.commands[p.ID] = reduced(s.history.commands[p.ID], p)
	case *ledger.ClaimInitialized:
		s.history.initialized[p.Claim] = true
	case *ledger.CommandSucceeded:
		s.checkCheaper(p.ID)
	case *ledger.CommandConfirmed:
		s.checkConfirmed(s.history.commands[p.ID])
		s.Moved(s.history.commands[p.ID].Candidates[0].Node)
	case *ledger.ClaimDoomed:
		s.checkTime(p)
		s.checkNoticed(p)
	case *ledger.ClaimCreated:
		s.checkContent(p)
	case *ledger.DriftJudged:
		for _, c := range p.Claims {
			s.history.drifted[string(c.UID)+"/"+c.Reason] = true
		}
	case *ledger.AggregatesRetired:
		s.Stats.Retired += len(p.Aggregates)
	case *ledger.ProvisioningPlanned:
		s.Stats.Widened += len(p.Widened)
		if p.Search != nil {
			s.Stats.Confirmed++
		}
		for i := range p.Claims {
			s.Stats.Claims++
			s.history.planned[ledger.ClaimName(s.Log.ID(), p.Claims[i].NodePool, e.Seq, i)] = true
		}
	}
}

// isDoomed reports that a claim is recorded as going, or as gone.
func (s *Judge) isDoomed(name string) bool {
	c := s.book.claims[name]
	return c == nil || c.doomed > 0
}

// CheckWrite looks at every write of the cluster, by a service or by others.
func (s *Judge) CheckWrite(kind events.Kind, before, after cluster.Object, byService bool) {
	switch kind {
	case events.KindPod:
		if p, ok := after.(*corev1.Pod); ok && p.Spec.NodeName != "" && s.history.bound[string(p.UID)].IsZero() {
			s.history.bound[string(p.UID)] = s.Clock.Now()
		}
		for _, o := range []cluster.Object{before, after} {
			if p, ok := o.(*corev1.Pod); ok {
				s.rules.noteReady(p.Labels["app"])
			}
		}
	case events.KindNodePool:
		if p, ok := before.(*karpv1.NodePool); ok {
			s.history.pools[p.Name] = append(s.history.pools[p.Name], pastPool{s.Clock.Now(), p})
		}
	case events.KindNode:
		s.checkNode(before, after)
		s.Repairs.wrote(after)
		s.Exclusions.wrote(before, after)
	case events.KindNodeClaim:
		s.Exclusions.wrote(before, after)
		if before == nil && byService && !s.history.planned[after.GetName()] {
			s.Violate(CheckRecorded, "NodeClaim %s was not planned", after.GetName())
		}
		if after == nil && !s.Deeds.Stripped[string(before.GetUID())] {
			s.checkGone("NodeClaim "+before.GetName(), s.history.launched[string(before.GetUID())])
		}
		if c, ok := after.(*karpv1.NodeClaim); ok {
			if t, err := time.Parse(time.RFC3339, c.Annotations[karpv1.TerminationTimestampAnnotationKey]); err == nil {
				s.history.deadlines[c.Status.ProviderID] = t
			}
		}
		if c, ok := after.(*karpv1.NodeClaim); ok && isTrue(c.Status.Conditions, karpv1.ConditionTypeDrifted) {
			s.checkDrifted(c, reasonOf(c.Status.Conditions, karpv1.ConditionTypeDrifted))
		}
	}
}

// InstanceOf is the instance id of a provider id aws:///ZONE/ID, by the judge's own reading.
func InstanceOf(providerID string) string { return providerID[strings.LastIndex(providerID, "/")+1:] }
