// Package stage is what everything in a simulated run shares: its clock, faults, cluster, cloud, log and
// stream, the script, and what has happened so far. It decides nothing.
package stage

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/events/membus"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/services/sim/clock"
	"millwright/services/sim/cloud"
	"millwright/services/sim/cluster"
	"millwright/store/memlog"
)

// Stage is what everything in a run shares: the clock, the world that is simulated, the log and the stream,
// and what has happened so far.
type Stage struct {
	Seed   uint64
	tracer io.Writer
	Rng    *rand.Rand
	// Faults are those in force, Drawn those of the run.
	Faults Faults
	Drawn  Faults
	Clock  *clock.Clock
	Stats  Stats
	Failed *Violation

	Cluster *cluster.Cluster
	Cloud   *cloud.Cloud
	Options planner.Options
	Script  Script
	// Deeds are what users and hardware have done.
	Deeds Deeds

	Log *memlog.Log
	// Entries are the records decoded; Reference is their fold, always up to date.
	Entries      []ledger.Entry
	Reference    *ledger.Ledger
	Acknowledged map[uint64][32]byte

	Stream      *membus.Stream
	Incarnation string
	Messages    []events.Observation
	Operator    Operator
	// Queue is the interruption queue.
	Queue []*Notice
	// Calmed is when faults stopped.
	Calmed time.Time
}

// New draws the faults and sets up an empty cluster, cloud, log and stream.
func New(seed uint64, faults *Faults, tracer io.Writer) *Stage {
	rng := rand.New(rand.NewPCG(seed, 0x6d696c6c))
	s := &Stage{Seed: seed, tracer: tracer, Rng: rng, Clock: clock.New(Start), Acknowledged: map[uint64][32]byte{}, Deeds: newDeeds()}
	s.Drawn = DrawFaults(rng, rand.New(rand.NewPCG(seed, 0x6c617465)))
	s.Drawn.drawLater(s.Own)
	if faults != nil {
		s.Drawn = *faults
	}
	s.Faults = s.Drawn
	log, err := memlog.Open(memlog.Config{Cluster: ClusterName, LogID: fmt.Sprintf("%032x", seed+1), Clock: s.Clock.Now})
	if err != nil {
		panic(err)
	}
	s.Log = log
	s.Reference = ledger.New(log.ID())
	s.Stream = membus.NewBus().Connect(1 << 20)
	state, _ := s.Stream.State(context.Background())
	s.Incarnation = state.Incarnation
	s.Cluster, s.Cloud = cluster.New(s.Clock, rng), cloud.New(s.Clock, rng)
	s.Cloud.LagMax, s.Cloud.Short, s.Cluster.SchedulerLate = s.Faults.DescribeLag, s.Faults.FleetShort, s.Faults.SchedulerLate
	return s
}

// StopLag is the time within which every service has to obey an operator's stop.
const StopLag = time.Second

// Operator is what operators have asked for, from which record on and since when.
type Operator struct {
	Stop, Before ledger.Stop
	Seq          uint64
	Since        time.Time
}

// Deeds are what users and hardware did, so that checks expect no more than is possible.
type Deeds struct {
	// Ended are instances that ended without being asked to.
	Ended map[string]bool
	// Protected is when users protected an object, by UID; Edited are those that still are, by kind and UID.
	Protected map[string]time.Time
	Edited    map[string]bool
	// Untainted is when a user took the taint off a Node, by name; Stripped are objects that nobody can hold
	// back any more, since they have lost their finalizers, by UID.
	Untainted map[string]time.Time
	Stripped  map[string]bool
	// Noticed is when an instance is taken back that a notice was sent about, by id.
	Noticed map[string]time.Time
	// Recommended is when EC2 began to recommend to leave an instance, by id.
	Recommended map[string]time.Time
	// Reshaped: somebody has edited what nodes are made of, or labels of NodeClaims.
	Reshaped bool
}

func newDeeds() Deeds {
	return Deeds{Ended: map[string]bool{}, Protected: map[string]time.Time{}, Edited: map[string]bool{}, Untainted: map[string]time.Time{},
		Stripped: map[string]bool{}, Noticed: map[string]time.Time{}, Recommended: map[string]time.Time{}}
}

// Notice is a message on the interruption queue: AWS's clock is the true one.
type Notice struct {
	ID, Instance string
	// Kind is one of events.InterruptionKinds.
	Kind string
	At   time.Time
	// VisibleAt is when it can be received next.
	VisibleAt time.Time
}

// NoticeTime is how long before it takes an instance back EC2 says so.
const NoticeTime = 2 * time.Minute

// Start of every run.
var Start = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// Stats counts what happened.
type Stats struct {
	Events, Steps, Effects, Calls, Messages, Records, Conflicts, Crashes, Freezes, Renewals, StoodDown, KubeEvents int
	Interrupted                                                                                                    int
	// Reserved are the launch attempts that name a capacity reservation.
	Reserved int
	// Fleets counts requests for several claims, FleetsShort the claims that got no instance of one.
	Fleets, FleetsShort int
	// Consolidated counts commands that remove nodes with pods for their price, Replacing those that buy a
	// node for them.
	Consolidated, Replacing int
	// Repaired counts the nodes that were replaced because they ailed.
	Repaired int
	// Excluded counts the pods for which a node was excluded.
	Excluded int
	// Surged counts the Deployments that were to replace their pods before these were evicted.
	Surged                                                         int
	Pods, Claims, Widened, Confirmed, Instances, Replayed, Retired int
	Virtual                                                        time.Duration
}

func (s Stats) String() string {
	return fmt.Sprintf("%s virtual, %d events, %d steps, %d effects, %d calls, %d messages, %d records, %d conflicts, %d crashes, %d freezes, clocks off %d times, %d claims (widened %d times), %d instances, %d fleets (%d claims without an instance of theirs), %d consolidations (%d buy nodes), %d surges, %d launches into reservations, %d repairs, %d exclusions, %d decisions replayed (%d confirmed plans), %d aggregates retired",
		s.Virtual.Round(time.Second), s.Events, s.Steps, s.Effects, s.Calls, s.Messages, s.Records, s.Conflicts, s.Crashes, s.Freezes, s.StoodDown, s.Claims, s.Widened, s.Instances, s.Fleets, s.FleetsShort, s.Consolidated, s.Replacing, s.Surged, s.Reserved, s.Repaired, s.Excluded, s.Replayed, s.Confirmed, s.Retired)
}

// Violation is a check that failed.
type Violation struct {
	Check string
	Text  string
	// At is how far into the run it was.
	At time.Duration
}

func (v *Violation) Error() string { return fmt.Sprintf("%s (at %s): %s", v.Check, v.At, v.Text) }

// Happens decides by a probability per thousand; it draws nothing for 0.
func (s *Stage) Happens(perThousand int) bool {
	return perThousand > 0 && s.Rng.IntN(1000) < perThousand
}

// Own are random numbers of the seed that nothing else draws from, by the number of their stream.
func (s *Stage) Own(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(s.Seed, stream)) }

// Millis draws a duration between two numbers of milliseconds.
func (s *Stage) Millis(from, to int) time.Duration {
	return time.Duration(from)*time.Millisecond + time.Duration(s.Rng.Int64N(int64(to-from)*int64(time.Millisecond)+1))
}

// Trace writes a line about what happens, if tracing is on.
func (s *Stage) Trace(format string, args ...any) {
	if s.tracer != nil {
		fmt.Fprintf(s.tracer, "%10.3f "+format+"\n", append([]any{s.Clock.Now().Sub(Start).Seconds()}, args...)...)
	}
}

// Violate ends the run; only the first violation counts.
func (s *Stage) Violate(check, format string, args ...any) {
	if s.Failed == nil {
		s.Failed = &Violation{Check: check, Text: fmt.Sprintf(format, args...), At: s.Clock.Now().Sub(Start)}
		s.Trace("VIOLATION: %v", s.Failed)
	}
}

// OneOf draws one of several texts.
func (s *Stage) OneOf(texts ...string) string { return texts[s.Rng.IntN(len(texts))] }

// ClocksApart is how far a clock that is relied on may be from the truth: the tolerance, the truncation of a
// Date, and the age of a cached view of it.
const ClocksApart = ledger.ClockTolerance + 2*time.Second

// Names that are the same in each run.
const (
	ClusterName   = "sim"
	NodeClassName = "default"
)

// Script is what users do in one run: the demo's workload, varied by the seed.
type Script struct {
	// Length is until faults stop.
	Length time.Duration
	Pools  []*karpv1.NodePool
	// Budgets are how many pods may be unavailable, by PodDisruptionBudget.
	Budgets map[string]intstr.IntOrString
	// Pace is how many times faster than the demo it goes, with about as much fewer pods.
	Pace int
	// Expires: nodes expire again and again, so the cluster never comes to rest.
	Expires bool
	// Lingers: a cluster whose nodes expire is watched for all of patience, though it was settled before.
	Lingers bool
	Acts    []Act
}

// Act is one thing users do at a time.
type Act struct {
	At   time.Duration
	Name string
	Do   func()
}

// NeverFits is the app whose pods no instance type can run.
const NeverFits = "giant"

// NoteKey is a label or annotation that means nothing to us.
const NoteKey = "example.com/note"
