package sim

import (
	"cmp"
	"runtime/debug"
	"slices"
	"time"

	"millwright/events"
	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	"millwright/planner/providerid"
	"millwright/planner/provision"
	"millwright/services/internal/ec2"
	"millwright/services/sim/cloud"
	"millwright/services/sim/cluster"
	"millwright/services/sim/judge"
	"millwright/services/sim/stage"
	"millwright/services/sim/users"
)

const (
	// convergeMax is how long the system may take to come to rest once nothing fails any more: nodes that
	// never join have to time out, dead ones to be noticed.
	convergeMax = 25 * time.Minute
	// restFor is how long it must then not append anything.
	restFor = 30 * time.Second
	// eventsMax ends a run that does not end by itself.
	eventsMax = 3_000_000
)

// start creates what the script begins with, and starts the watcher and the services.
func (s *Sim) start() {
	s.users.Furnish()
	s.Cloud.Watch(func(i *cloud.Instance) {
		if i.State == ec2.StateShuttingDown {
			s.judge.Reservations.Ended(i)
		}
	})
	s.watcher = &publisher{sim: s, machine: s.newMachine(0)}
	s.watcher.machine.ask()
	s.watcher.begin()
	for _, name := range services {
		s.launch(name)
	}
}

// play runs the script under faults, then without, then scales to zero.
func (s *Sim) play() {
	s.start()
	for _, a := range s.Script.Acts {
		s.Clock.After(a.At, func() {
			s.Trace("user: %s", a.Name)
			a.Do()
		})
	}
	s.Clock.Every(time.Second/time.Duration(s.Script.Pace), s.chaos)
	s.Clock.Every(answerEvery, s.answerProposals)
	s.keepVigil()
	s.runFor(s.Script.Length)
	s.calm()
	s.runFor(judge.SecondLook) // pods that a limit kept waiting are looked at again
	s.checkFolds()
	s.converge("the workload runs", s.judge.Unsettled)
	s.interrupt()
	s.recommend()
	s.repair()
	s.visit()
	s.buffer()
	s.rest()
	s.shrink()
	s.Trace("user: scales to zero")
	for _, d := range s.Cluster.Deployments() {
		s.Cluster.Scale(d.Name, 0)
	}
	s.converge("nothing is left", s.judge.Leftovers)
	s.finish()
}

// interrupt has a spot instance taken back while nothing fails: by then its pods have left it.
func (s *Sim) interrupt() {
	if s.Failed != nil {
		return
	}
	if s.users.Interrupt() {
		s.Stats.Interrupted++
	}
	last := s.Clock.Now()
	for _, end := range s.Deeds.Noticed { // those of the script too
		last = planner.Latest(last, end)
	}
	s.runFor(last.Sub(s.Clock.Now()) + judge.SecondLook)
	s.converge("the workload runs without what was taken back", s.judge.Unsettled)
}

// recommend has EC2 recommend to leave a spot instance while nothing fails: it is replaced if that is wanted.
func (s *Sim) recommend() {
	if s.Failed != nil || !s.users.Recommendations.Make() {
		return
	}
	s.runFor(judge.SecondLook)
	if judge.IsPostponed(s.Cluster) {
		return
	}
	s.converge("what EC2 recommends to leave is replaced", s.judge.Recommended.Left)
	s.converge("the workload runs without what EC2 recommended to leave", s.judge.Unsettled)
}

// repair has all nodes of each NodePool ail while nothing fails, and then one node: that one is replaced. For
// a NodePool of one node one is no fifth too many.
func (s *Sim) repair() {
	if s.Failed != nil || s.Drawn.Ailing == 0 {
		return
	}
	ail := func(whom func()) {
		whom()
		s.runFor(s.judge.Repairs.Time())
		s.users.Heal()
		s.runFor(judge.SecondLook)
		s.converge("the workload runs without what ailed", s.judge.Unsettled)
	}
	ail(func() {
		for _, p := range s.Script.Pools {
			s.users.AilAll(p.Name)
		}
	})
	ail(func() { s.users.AilOne() })
}

// visit has pods come and go all the time while nothing fails that a DisruptionPolicy ignores: nodes become
// consolidatable with them.
func (s *Sim) visit() {
	long := s.judge.Quiet.Time()
	if s.Failed != nil || s.users.Visits == nil {
		return
	}
	for end := s.Clock.Now().Add(long); s.Failed == nil && s.Clock.Now().Before(end); s.runFor(visitEvery) {
		s.users.Visits.All()
	}
	s.runFor(judge.SecondLook)
	s.converge("the workload runs after the visits", s.judge.Unsettled)
}

// buffer has pods consume the room of a CapacityBuffer while nothing fails, and then deletes all of them.
func (s *Sim) buffer() {
	if s.Failed != nil || s.users.Buffers == nil {
		return
	}
	b := s.judge.Buffers
	if !b.Limited() {
		s.awaitRoom()
		n := s.users.Buffers.Consume()
		s.runFor(judge.ServedTime)
		b.CheckServed(users.Consumer, n)
		s.awaitRoom()
		s.converge("the workload runs beside CapacityBuffers", s.judge.Unsettled)
	}
	b.Deleted(s.users.Buffers.Delete())
	s.runFor(judge.SecondLook)
	s.converge("the workload runs without CapacityBuffers", s.judge.Unsettled)
}

// awaitRoom demands that CapacityBuffers have their room in time.
func (s *Sim) awaitRoom() {
	end := s.Clock.Now().Add(judge.BufferTime)
	for s.Failed == nil && len(s.judge.Buffers.Missing()) > 0 {
		if s.Clock.Now().After(end) {
			s.Violate(judge.CheckBufferFilled, "after %s: %v", judge.BufferTime, s.judge.Buffers.Missing())
		}
		s.runFor(time.Second)
	}
}

// visitEvery is less than the consolidateAfter of nodes that are visited.
const visitEvery = 10 * time.Second

const (
	// quietFor is how long no node is removed for its price once consolidation has come to rest, as it must
	// within quietMax.
	quietFor = 3 * time.Minute
	quietMax = 40 * time.Minute
)

// shrink leaves half of the pods: consolidation then has to come to rest.
func (s *Sim) shrink() {
	if s.Failed != nil || s.Script.Expires {
		return
	}
	s.Trace("user: scales to half")
	for _, d := range s.Cluster.Deployments() {
		s.Cluster.Scale(d.Name, (d.Replicas+1)/2)
	}
	s.converge("half of the workload runs", s.judge.Unsettled)
	began := s.Clock.Now()
	for before := -1; before != s.Stats.Consolidated && s.Failed == nil; s.runFor(quietFor) {
		if s.Clock.Now().Sub(began) > quietMax {
			s.Violate("consolidation comes to rest", "%d commands, the last one less than %s ago", s.Stats.Consolidated, quietFor)
		}
		before = s.Stats.Consolidated
	}
	s.converge("what is left of the workload runs", s.judge.Unsettled)
}

// runFor runs everything due within d.
func (s *Sim) runFor(d time.Duration) {
	defer func() {
		if r := recover(); r != nil {
			s.Violate("nothing panics", "%v\n%s", r, debug.Stack())
		}
	}()
	for end := s.Clock.Now().Add(d); s.Failed == nil && s.Clock.Next(end); {
		if s.Stats.Events++; s.Stats.Events > eventsMax {
			s.Violate("the run ends", "%d events", s.Stats.Events)
		}
	}
}

// chaos is what users and hardware do, each second of the script until faults stop.
func (s *Sim) chaos() bool {
	x := &s.Faults
	for _, d := range []struct {
		perThousand int
		do          func()
	}{
		{x.WatcherDies, s.killWatcher},
		{x.ProcessFreezes, s.freezeOne},
		{x.StreamRenewed, s.renewStream},
		{x.KubeAway, func() { s.goAway(toKube, s.Millis(500, 20_000)) }},
		{x.EC2Away, func() { s.goAway(toEC2, s.Millis(500, 20_000)) }},
		{x.LogAway, func() { s.goAway(toLog, s.Millis(500, 20_000)) }},
		{x.OfferingEmpty, s.users.EmptyOfferings},
		{x.ClaimDeleted, func() { s.users.DeleteAny(events.KindNodeClaim) }},
		{x.NodeDeleted, func() { s.users.DeleteAny(events.KindNode) }},
		{x.PodDeleted, func() { s.users.DeleteAny(events.KindPod) }},
		{x.InstanceEnds, s.users.EndInstance},
		{x.Interrupted, func() { s.users.Interrupt() }},
		{x.NoticeForged, s.users.Forge},
		{x.TemplatesDeleted, s.users.DropTemplates},
		{x.PoolDeleted, s.users.DeletePool},
		{x.PoolEdited, s.users.EditPool},
		{x.Protected, s.users.Protect},
		{x.Stopped, s.stopForAWhile},
		{x.ClockJumps, s.jump},
		{x.ClockOff, s.misset},
		{x.RecordAhead, s.leap},
		{x.CatalogChanged, s.changeMarket},
		{x.ClassUnready, s.users.UnreadyClass},
		{x.ClassDeleted, s.users.DeleteClass},
		{x.NodeEdited, s.users.EditNode},
		{x.ClaimEdited, s.users.EditClaim},
		{x.BudgetEdited, s.users.EditBudget},
		{x.FinalizersStripped, s.users.StripFinalizers},
	} {
		if s.Happens(d.perThousand) {
			d.do()
		}
	}
	s.starved.nowAndThen(s)
	s.users.Ail()
	s.users.Visits.NowAndThen()
	s.users.Recommendations.NowAndThen()
	return s.Calmed.IsZero()
}

// killWatcher has the watcher die for a while, unless it is dead.
func (s *Sim) killWatcher() {
	if !s.watcher.dead {
		s.watcher.die(s.Millis(200, 15_000))
	}
}

// freezeOne freezes the process of one service, if it has one.
func (s *Sim) freezeOne() {
	if p := s.alive[services[s.Rng.IntN(len(services))]]; p != nil {
		s.freeze(p, s.Millis(3500, 15_000))
	}
}

// jump sets the clock of a process or of the watcher to another error.
func (s *Sim) jump() {
	skew := s.Millis(-int(s.Faults.Jump/time.Millisecond), int(s.Faults.Jump/time.Millisecond))
	if i := s.Rng.IntN(len(services) + 1); i == len(services) {
		s.Trace("clock of the watcher: wrong by %s", skew)
		s.watcher.machine.wrong = skew
	} else if p := s.alive[services[i]]; p != nil {
		s.Trace("clock of %s: wrong by %s", p, skew)
		p.machine.wrong = skew
	}
}

// changeMarket changes prices, and leaves an instance type out of the catalogue.
func (s *Sim) changeMarket() {
	all := cloud.InstanceTypes()
	s.market = &cloud.Market{Percent: int64(50 + s.Rng.IntN(150)), Without: all[s.Rng.IntN(len(all))]}
	s.Trace("aws: prices are at %d %%, there is no %s", s.market.Percent, s.market.Without)
	s.priceMarket()
}

// priceMarket publishes what EC2 offers at which price from now on.
func (s *Sim) priceMarket() {
	if s.witness != nil {
		s.witness.Priced(s.market)
	}
	s.watcher.publishMarket()
}

// calm stops all faults, but for a disruptor that dies in the middle of commands, undoes temporary actions of
// users, and sets the clocks right.
func (s *Sim) calm() {
	s.Trace("faults stop")
	s.Calmed = s.Clock.Now()
	s.Faults = stage.Faults{CommandCrash: s.Drawn.CommandCrash, StaleStart: s.Drawn.StaleStart}
	s.Cloud.LagMax, s.Cloud.Short, s.Cluster.SchedulerLate = time.Second, 0, 0
	s.users.UndoEdits()
	s.resumeAll()
	s.Cloud.Restock()
	s.setClock(watcherName, 0)
	for _, name := range services {
		s.setClock(name, 0)
	}
	s.market = nil
	s.priceMarket()
	for _, p := range s.all {
		p.machine.wrong = 0
		s.activate(p)
	}
}

// converge runs until nothing is missing, and reports what is if that takes too long.
func (s *Sim) converge(what string, missing func() []string) {
	const look = 2 * time.Second
	limit := cmp.Or(s.cfg.ConvergeMax, convergeMax)
	for range int(limit / look) {
		if s.Failed != nil || len(missing()) == 0 {
			return
		}
		s.runFor(look)
	}
	if s.Failed == nil {
		s.Violate("it converges: "+what, "after %s: %v", limit, missing())
	}
}

// rest requires that a cluster at rest appends nothing. It is not at rest while a pod waits about which there
// is more to report as time passes, a new pod is awaited in place of one that was evicted, or a
// DisruptionPolicy keeps what will be allowed later.
func (s *Sim) rest() {
	if s.Failed != nil || s.Script.Expires || s.judge.AnyHeld() {
		return
	}
	s.runFor(restFor) // what was settled may still be reported
	if s.judge.AnyWaits() || s.judge.Rolls() || judge.IsPostponed(s.Cluster) {
		return
	}
	p := s.alive[ledger.ServiceDisruptor]
	if p == nil || len(provision.Missing(planner.NewSnapshot(p.world, p.ledger, p.Now()))) > 0 {
		return
	}
	snap := planner.NewSnapshot(p.world, p.ledger, p.Now())
	d, report := disrupt.Plan(snap)
	if d != nil && patience(s.cfg.Seed) > 0 {
		return // it waits whether the saving lasts
	}
	if node := heldForNothing(snap, report); d == nil && node != "" {
		s.Violate("no node waits for others that stay", "%s does, for what a PodDisruptionBudget allows", node)
	}
	before := len(s.Entries)
	s.runFor(restFor)
	if n := len(s.Entries); n > before && s.Failed == nil {
		s.Violate("a cluster at rest appends nothing", "%d records, the first is %d %s", n-before, s.Entries[before].Seq, s.Entries[before].Kind)
	}
}

// heldForNothing is a node that stays because what a PodDisruptionBudget allows is used up by others,
// although none goes; "" if there is none.
func heldForNothing(s *planner.Snapshot, r disrupt.Report) string {
	if slices.ContainsFunc(s.StateNodes(), func(n *planner.StateNode) bool { return n.MarkedForDeletion }) {
		return ""
	}
	for i := range r.Nodes {
		if b := r.Nodes[i].Blocked; b != nil && b.Cause == disrupt.CausePDBSum {
			return r.Nodes[i].Node
		}
	}
	return ""
}

// instanceMoved boots and ends the machine behind an instance.
func (s *Sim) instanceMoved(i *cloud.Instance) {
	s.Trace("aws: %s is %s", i.ID, i.State)
	id := providerid.Of(i.Zone, i.ID)
	switch i.State {
	case ec2.StatePending:
		s.judge.CheckLaunch(i)
	case ec2.StateRunning:
		s.Clock.After(s.Millis(3000/s.Script.Pace, 25_000/s.Script.Pace), func() { s.join(i, id) })
	case ec2.StateShuttingDown:
		s.Cluster.Die(id)
	}
}

func (s *Sim) join(i *cloud.Instance, providerID string) {
	if i.Ending() {
		return
	}
	labels, taints, err := i.Boot()
	if err != nil {
		s.Violate("user data boots", "instance %s: %v", i.ID, err)
		return
	}
	capacity, allocatable := cloud.Size(i.InstanceType)
	name := "ip-" + i.ID[2:]
	for key, value := range map[string]string{"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
		"node.kubernetes.io/instance-type": i.InstanceType, "topology.kubernetes.io/zone": i.Zone, "topology.kubernetes.io/region": "eu-1"} {
		labels[key] = value
	}
	s.Cluster.Join(cluster.Machine{Name: name, ProviderID: providerID, Labels: labels, Taints: taints, Capacity: capacity, Allocatable: allocatable})
	s.Trace("kubelet: node %s joins", name)
}

// finish checks the log as a whole, the folds of it, and replays it.
func (s *Sim) finish() {
	if s.Failed != nil {
		return
	}
	s.judge.CheckLog()
	s.checkFolds()
	s.judge.Replay()
}

// checkFolds demands that the Ledgers which services used are what the log says.
func (s *Sim) checkFolds() {
	want, ok := s.judge.Refold()
	if !ok {
		return
	}
	for _, name := range services {
		p := s.alive[name]
		if p == nil {
			continue
		}
		p.foldLog(uint64(len(s.Entries)))
		if got := p.ledger.Digest(); got != want {
			s.Violate(judge.CheckFold, "the one of %s differs", p)
		}
	}
}
