package stage

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"
)

// Faults is the fault model of one run: probabilities per thousand of what they name, drawn for each seed, so
// that one seed has much of one fault and nothing of another. All zero: nothing ever fails.
type Faults struct {
	// The process dies before or after a call has taken place.
	CrashBefore, CrashAfter int
	// An API call is refused, takes seconds, is lost in transit, or its answer is.
	KubeRefused, KubeSlow, KubeLost, KubeUnanswered int
	EC2Throttled, EC2Slow, EC2Lost, EC2Unanswered   int
	// A fleet for several instances launches fewer.
	FleetShort int
	// An append fails before or after it was stored, is refused as if others had been faster, or arrives
	// seconds after the writer has given up on it.
	AppendLost, AppendUnanswered, AppendConflict, AppendSlow int
	// A process reads log, stream or informers seconds late.
	LogLate, StreamLate, InformersLate int
	// A process that starts knows for seconds only what the checkpoint of the stream holds. The disruptor
	// dies soon after it has started or confirmed a command.
	StaleStart, CommandCrash int
	// A message is lost, stored twice, or stored after its successors; the watcher dies inside a resync, at
	// any message.
	MessageLost, MessageDoubled, MessageLate, ResyncBroken int
	// kube-scheduler learns seconds late about changes of a Node, and binds to one that is about to be
	// removed.
	SchedulerLate int
	// At the worst moment, when a Node has just been tainted, its pods listed, or a command or drain
	// advanced: a new pod is bound to that Node, unless kube-scheduler already knows.
	WorstTime int
	// A process starts in shadow mode; it is made active later.
	Shadowed int
	// Per second of the script: the watcher dies, a process freezes for longer than its lease, the stream is
	// lost as a whole, API server, EC2 or log are away for a while.
	WatcherDies, ProcessFreezes, StreamRenewed, KubeAway, EC2Away, LogAway int
	// Per second of the script: the clock of one service's machine or of the watcher's is off by seconds to a
	// month, forwards or backwards, for a while; a record from the future is appended.
	ClockOff, RecordAhead int
	// Per second of the script: the clock of a process jumps; prices and catalogue change; an EC2NodeClass is
	// not ready for a while, or is deleted and comes back; a user edits a Node, NodeClaim or
	// PodDisruptionBudget, or strips finalizers.
	ClockJumps, CatalogChanged, ClassUnready, ClassDeleted, NodeEdited, ClaimEdited, BudgetEdited, FinalizersStripped int
	// Per second of the script: an offering runs out, a user deletes a NodeClaim, Node or pod, an instance
	// ends by itself, a user deletes the launch templates, a NodePool is deleted and comes back later, its
	// budgets, limits or quiet time are edited, a pod or Node is protected for a while; an operator stops the
	// services for a while.
	OfferingEmpty, ClaimDeleted, NodeDeleted, PodDeleted, InstanceEnds, TemplatesDeleted, PoolDeleted, PoolEdited, Protected, Stopped int
	// Per second of the script: a spot instance is taken back, with a notice on the queue. Per notice: it
	// never comes, comes twice or late; and per second, one comes that is about no instance, or about one
	// that is not taken back.
	Interrupted, NoticeLost, NoticeDoubled, NoticeLate, NoticeForged int
	// The account has a capacity reservation without an end, and a capacity block that ends. They are drawn
	// from numbers of their own.
	Reservations, Blocks int
	// Per second of the script: a node, or all of a NodePool, get a condition by which nodes are repaired. It
	// is drawn from numbers of its own.
	Ailing int
	// The cluster has a DisruptionPolicy that ignores pods, which come and go. It is drawn from numbers of
	// its own.
	Ignored int
	// Per second of the script: EC2 recommends to leave a spot instance, and options and a DisruptionPolicy
	// say what follows. It is drawn from numbers of its own.
	Recommended int
	// Per second of the script, for up to a minute, one kind of call is refused, and no other: by the API
	// server for want of time or of a right, by EC2 for the same. Each is drawn from numbers of its own.
	Starved, Denied, EC2Starved, EC2Denied int
	// Per second of the script: the log takes no records for up to a minute, but may be read.
	LogFull int
	// Per second of the script: kube-scheduler stands still for up to a minute. It is drawn from numbers of
	// its own.
	SchedulerAway int
	// The cluster has CapacityBuffers. They are drawn from numbers of their own.
	Buffers int
	// The cluster has a DisruptionPolicy about all NodePools, and one about one of them.
	Policies int
	// The cluster has a further DisruptionPolicy about all NodePools.
	Further int
	// Clocks are wrong by up to so much, and by up to so much once they have jumped; describe calls show a
	// past so old at most.
	Skew, Jump, DescribeLag time.Duration
}

// DrawFaults draws a fault model: each fault is absent, rare or frequent. What came later is drawn from
// random numbers of its own, so that seeds which have nothing of it keep their histories.
func DrawFaults(rng, later *rand.Rand) Faults {
	draw := func(rng *rand.Rand, rare, frequent int) int { return []int{0, 0, rare, frequent}[rng.IntN(4)] }
	rate := func(rare, frequent int) int { return draw(rng, rare, frequent) }
	return Faults{
		FleetShort: rate(100, 500), CrashBefore: rate(2, 25), CrashAfter: rate(2, 25),
		KubeRefused: rate(10, 60), KubeSlow: rate(5, 30), KubeLost: rate(10, 60), KubeUnanswered: rate(10, 60),
		EC2Throttled: rate(20, 200), EC2Slow: rate(10, 60), EC2Lost: rate(20, 100), EC2Unanswered: rate(20, 150),
		AppendLost: rate(10, 60), AppendUnanswered: rate(10, 60), AppendConflict: rate(10, 100), AppendSlow: rate(5, 40),
		LogLate: rate(5, 50), StreamLate: rate(5, 50), InformersLate: rate(5, 50), StaleStart: rate(200, 900), CommandCrash: rate(100, 400),
		MessageLost: rate(1, 8), MessageDoubled: rate(10, 50), MessageLate: rate(1, 8), ResyncBroken: rate(5, 40), SchedulerLate: rate(50, 400),
		WorstTime: rate(200, 900), Shadowed: rate(0, 200),
		ClockOff: rate(5, 25), RecordAhead: rate(0, 15), ClockJumps: rate(10, 60), CatalogChanged: rate(5, 30), ClassUnready: rate(0, 15), ClassDeleted: rate(0, 8),
		NodeEdited: rate(10, 60), ClaimEdited: rate(10, 60), BudgetEdited: rate(10, 60), FinalizersStripped: rate(0, 10),
		WatcherDies: rate(6, 24), ProcessFreezes: rate(8, 40), StreamRenewed: rate(0, 8),
		KubeAway: rate(0, 20), EC2Away: rate(0, 20), LogAway: rate(0, 20),
		OfferingEmpty: rate(40, 240), ClaimDeleted: rate(6, 30), NodeDeleted: rate(6, 30), PodDeleted: rate(10, 60),
		InstanceEnds: rate(4, 20), TemplatesDeleted: rate(2, 16), PoolDeleted: rate(0, 10), PoolEdited: rate(10, 50), Protected: rate(10, 50), Stopped: rate(5, 30),
		Interrupted: rate(6, 30), NoticeLost: rate(50, 300), NoticeDoubled: rate(50, 500), NoticeLate: rate(100, 500), NoticeForged: rate(5, 30),
		Skew: time.Duration(rate(100, 600)) * time.Millisecond, Jump: time.Duration(rate(1000, 4500)) * time.Millisecond, DescribeLag: time.Duration(rate(2000, 10_000)) * time.Millisecond,
		Policies: rate(300, 1000), Further: draw(later, 500, 1000),
	}
}

// drawLater draws the faults that came later, from numbers of their own: what a seed drew before stays.
func (f *Faults) drawLater(own func(stream uint64) *rand.Rand) {
	rng := own(0x6661756c7473)
	rate := func(rare, frequent int) int { return []int{0, 0, rare, frequent}[rng.IntN(4)] }
	f.Reservations, f.Blocks = rate(300, 1000), rate(300, 1000)
	f.Ailing = rate(20, 80)
	f.Ignored = rate(150, 400)
	f.Recommended = rate(10, 40)
	f.Buffers = rate(200, 600)
	f.Starved, f.SchedulerAway = rate(5, 25), rate(5, 20)
	f.Denied, f.EC2Starved, f.EC2Denied = rate(5, 20), rate(5, 25), rate(5, 20)
	f.LogFull = rate(5, 20)
}

// String names what is not zero.
func (f Faults) String() string {
	var parts []string
	v := reflect.ValueOf(f)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			parts = append(parts, fmt.Sprintf("%s=%v", v.Type().Field(i).Name, v.Field(i).Interface()))
		}
	}
	return strings.Join(parts, " ")
}
