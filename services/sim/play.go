package sim

import (
	"cmp"
	"runtime/debug"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner/claim"
	"millwright/services/internal/ec2"
	"millwright/services/lifecycle/launch"
	"millwright/services/sim/cloud"
	"millwright/services/sim/cluster"
)

const (
	// convergeMax is how long the system may take to come to rest once nothing fails any more: nodes that never join
	// have to time out, dead ones to be noticed.
	convergeMax = 25 * time.Minute
	// secondLook is within which services see what calm has changed.
	secondLook = 10 * time.Second
	// restFor is how long it must then leave the log alone.
	restFor = 30 * time.Second
	// eventsMax ends a run that does not end by itself.
	eventsMax = 3_000_000
)

// play runs the script under faults, then without, then scales to zero.
func (s *Sim) play() {
	s.furnish()
	s.watcher = &publisher{sim: s, machine: s.newMachine(0)}
	s.watcher.machine.ask()
	s.watcher.begin()
	for _, name := range services {
		s.launch(name)
	}
	for _, a := range s.script.acts {
		s.clock.After(a.at, func() {
			s.trace("user: %s", a.name)
			a.do()
		})
	}
	s.clock.Every(time.Second/time.Duration(s.script.pace), s.chaos)
	s.runFor(s.script.length)
	s.calm()
	s.runFor(secondLook) // pods that a limit kept waiting are looked at again
	s.checkFolds()
	s.converge("the workload runs", s.unsettled)
	s.rest()
	s.trace("user: scales to zero")
	for _, d := range s.cluster.Deployments() {
		s.cluster.Scale(d.Name, 0)
	}
	s.converge("nothing is left", s.leftovers)
	s.finish()
}

// runFor runs everything due within d.
func (s *Sim) runFor(d time.Duration) {
	defer func() {
		if r := recover(); r != nil {
			s.violate("nothing panics", "%v\n%s", r, debug.Stack())
		}
	}()
	for end := s.clock.Now().Add(d); s.failed == nil && s.clock.Next(end); {
		if s.stats.Events++; s.stats.Events > eventsMax {
			s.violate("the run ends", "%d events", s.stats.Events)
		}
	}
}

// chaos is what users and hardware do, each second of the script until faults stop.
func (s *Sim) chaos() bool {
	x := &s.faults
	if s.happens(x.WatcherDies) && !s.watcher.dead {
		s.watcher.die(s.millis(200, 15_000))
	}
	if s.happens(x.ProcessFreezes) {
		if p := s.alive[services[s.rng.IntN(len(services))]]; p != nil {
			s.freeze(p, s.millis(3500, 15_000))
		}
	}
	if s.happens(x.StreamRenewed) {
		s.renewStream()
	}
	for to, perThousand := range []int{toKube: x.KubeAway, toEC2: x.EC2Away, toLog: x.LogAway} {
		if s.happens(perThousand) {
			s.goAway(target(to), s.millis(500, 20_000))
		}
	}
	if s.happens(x.OfferingEmpty) {
		s.emptyOfferings()
	}
	s.hurt(x.ClaimDeleted, events.KindNodeClaim)
	s.hurt(x.NodeDeleted, events.KindNode)
	s.hurt(x.PodDeleted, events.KindPod)
	if s.happens(x.InstanceEnds) {
		s.endInstance()
	}
	if s.happens(x.TemplatesDeleted) {
		s.trace("user: deletes the launch templates")
		s.cloud.DropTemplates()
	}
	if s.happens(x.PoolDeleted) {
		s.deletePool()
	}
	if s.happens(x.PoolEdited) {
		s.editPool()
	}
	if s.happens(x.Protected) {
		s.protect()
	}
	if s.happens(x.Stopped) {
		s.stopForAWhile()
	}
	if s.happens(x.ClockJumps) {
		s.jump()
	}
	if s.happens(x.ClockOff) {
		s.misset()
	}
	if s.happens(x.RecordAhead) {
		s.leap()
	}
	if s.happens(x.CatalogChanged) {
		s.changeMarket()
	}
	if s.happens(x.ClassUnready) {
		s.unreadyClass()
	}
	if s.happens(x.ClassDeleted) {
		s.deleteClass()
	}
	if s.happens(x.NodeEdited) {
		s.editNode()
	}
	if s.happens(x.ClaimEdited) {
		s.editClaim()
	}
	if s.happens(x.BudgetEdited) {
		s.editBudget()
	}
	if s.happens(x.FinalizersStripped) {
		s.stripFinalizers()
	}
	return s.faults != Faults{}
}

// deletePool deletes a NodePool, with all it has, and makes it again after a while.
func (s *Sim) deletePool() {
	p := s.script.pools[s.rng.IntN(len(s.script.pools))]
	s.trace("user: deletes NodePool %s", p.Name)
	s.cluster.Delete(events.KindNodePool, p.Name)
	s.clock.After(s.millis(500, 40_000), func() {
		if s.cluster.NodePool(p.Name) == nil {
			s.trace("user: makes NodePool %s again", p.Name)
			again := p.DeepCopy()
			again.ResourceVersion, again.Status = "", karpv1.NodePoolStatus{}
			s.cluster.Apply(events.KindNodePool, again)
		}
	})
}

// jump sets the clock of a process or of the watcher to another error.
func (s *Sim) jump() {
	skew := s.millis(-int(s.faults.Jump/time.Millisecond), int(s.faults.Jump/time.Millisecond))
	if i := s.rng.IntN(len(services) + 1); i == len(services) {
		s.trace("clock of the watcher: wrong by %s", skew)
		s.watcher.machine.wrong = skew
	} else if p := s.alive[services[i]]; p != nil {
		s.trace("clock of %s: wrong by %s", p, skew)
		p.machine.wrong = skew
	}
}

// changeMarket changes prices, and leaves an instance type out of the catalogue.
func (s *Sim) changeMarket() {
	all := cloud.InstanceTypes()
	s.market = &cloud.Market{Percent: int64(50 + s.rng.IntN(150)), Without: all[s.rng.IntN(len(all))]}
	s.trace("aws: prices are at %d %%, there is no %s", s.market.Percent, s.market.Without)
	s.watcher.publishMarket()
}

// unreadyClass has the EC2NodeClass not ready for a while.
func (s *Sim) unreadyClass() {
	nc := s.cluster.NodeClass(nodeClassName)
	if nc == nil || nc.Status.Conditions[0].Status != metav1.ConditionTrue {
		return
	}
	s.trace("user: breaks the EC2NodeClass")
	broken := nc.DeepCopy()
	c := &broken.Status.Conditions[0]
	c.Status, c.Reason, c.LastTransitionTime = metav1.ConditionFalse, "SubnetsNotFound", metav1.NewTime(s.clock.Now().Truncate(time.Second))
	s.cluster.Apply(events.KindEC2NodeClass, broken)
	s.clock.After(s.millis(1000, 30_000), s.restoreClass)
}

// restoreClass makes the EC2NodeClass as it was in the beginning.
func (s *Sim) restoreClass() {
	if nc := s.cluster.NodeClass(nodeClassName); nc == nil || nc.Status.Conditions[0].Status != metav1.ConditionTrue {
		s.trace("user: restores the EC2NodeClass")
		s.cluster.Apply(events.KindEC2NodeClass, nodeClass(s.clock.Now().Truncate(time.Second)))
	}
}

// deleteClass deletes the EC2NodeClass and makes it again after a while.
func (s *Sim) deleteClass() {
	s.trace("user: deletes the EC2NodeClass")
	s.cluster.Delete(events.KindEC2NodeClass, nodeClassName)
	s.clock.After(s.millis(500, 30_000), s.restoreClass)
}

// emptyOfferings has some offerings run out for a while.
func (s *Sim) emptyOfferings() {
	all := cloud.Offerings()
	for range 1 + s.rng.IntN(len(all)/2) {
		o := all[s.rng.IntN(len(all))]
		s.cloud.Exhaust(o, true)
		s.clock.After(s.millis(5000, 90_000), func() { s.cloud.Exhaust(o, false) })
	}
}

// hurt has a user delete an object of a kind.
func (s *Sim) hurt(perThousand int, kind events.Kind) {
	if !s.happens(perThousand) {
		return
	}
	var keys []string
	for _, c := range s.cluster.Present() {
		if c.Kind == kind {
			keys = append(keys, c.Key)
		}
	}
	if len(keys) > 0 {
		key := keys[s.rng.IntN(len(keys))]
		s.trace("user: deletes %s %s", kind, key)
		s.cluster.Delete(kind, key)
	}
}

// endInstance has an instance end by itself, as a spot instance does.
func (s *Sim) endInstance() {
	var running []*cloud.Instance
	for _, i := range s.cloud.Instances() {
		if !i.Ending() {
			running = append(running, i)
		}
	}
	if len(running) > 0 {
		i := running[s.rng.IntN(len(running))]
		s.trace("aws: %s ends by itself", i.ID)
		s.history.ended[i.ID] = true
		s.cloud.End(i)
	}
}

// calm stops all faults, takes back what users did for a while, and sets the clocks right.
func (s *Sim) calm() {
	s.trace("faults stop")
	s.calmed = s.clock.Now()
	s.faults = Faults{}
	s.cloud.LagMax, s.cluster.SchedulerLate = time.Second, 0
	s.undoEdits()
	s.resumeAll()
	s.cloud.Restock()
	s.setClock(watcherName, 0)
	for _, name := range services {
		s.setClock(name, 0)
	}
	s.market = nil
	s.watcher.publishMarket()
	for _, p := range s.all {
		p.machine.wrong = 0
		s.activate(p)
	}
}

// converge runs until nothing is missing, and says what is if that takes too long.
func (s *Sim) converge(what string, missing func() []string) {
	const look = 2 * time.Second
	limit := cmp.Or(s.cfg.ConvergeMax, convergeMax)
	for range int(limit / look) {
		if s.failed != nil || len(missing()) == 0 {
			return
		}
		s.runFor(look)
	}
	if s.failed == nil {
		s.violate("it converges: "+what, "after %s: %v", limit, missing())
	}
}

// rest demands that a cluster at rest appends nothing. It is not at rest while a pod waits of which more is to say as time
// passes.
func (s *Sim) rest() {
	if s.failed != nil || s.script.expires || s.anyHeld() {
		return
	}
	s.runFor(restFor) // what was settled may still be told
	if s.anyWaits() || s.rolls() {
		return
	}
	before := len(s.entries)
	s.runFor(restFor)
	if n := len(s.entries); n > before && s.failed == nil {
		s.violate("a cluster at rest appends nothing", "%d records, the first is %d %s", n-before, s.entries[before].Seq, s.entries[before].Kind)
	}
}

// rolls reports that nodes have drifted or are being replaced: what was settled a while ago may be under way again by now, as budgets
// allow it.
func (s *Sim) rolls() bool {
	return len(s.reference.Commands())+len(s.reference.Drains()) > 0 || slices.ContainsFunc(s.cluster.NodeClaims(), func(c *karpv1.NodeClaim) bool {
		return claim.IsTrue(c.Status.Conditions, karpv1.ConditionTypeDrifted)
	})
}

// instanceMoved boots and ends the machine behind an instance.
func (s *Sim) instanceMoved(i *cloud.Instance) {
	s.trace("aws: %s is %s", i.ID, i.State)
	id := launch.ProviderID(i.Zone, i.ID)
	switch i.State {
	case ec2.StatePending:
		s.checkLaunch(i)
	case ec2.StateRunning:
		s.clock.After(s.millis(3000/s.script.pace, 25_000/s.script.pace), func() { s.join(i, id) })
	case ec2.StateShuttingDown:
		s.cluster.Die(id)
	}
}

func (s *Sim) join(i *cloud.Instance, providerID string) {
	if i.Ending() {
		return
	}
	labels, taints, err := i.Boot()
	if err != nil {
		s.violate("user data boots", "instance %s: %v", i.ID, err)
		return
	}
	capacity, allocatable := cloud.Size(i.InstanceType)
	name := "ip-" + i.ID[2:]
	for key, value := range map[string]string{"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
		"node.kubernetes.io/instance-type": i.InstanceType, "topology.kubernetes.io/zone": i.Zone, "topology.kubernetes.io/region": "eu-1"} {
		labels[key] = value
	}
	s.cluster.Join(cluster.Machine{Name: name, ProviderID: providerID, Labels: labels, Taints: taints, Capacity: capacity, Allocatable: allocatable})
	s.trace("kubelet: node %s joins", name)
}
