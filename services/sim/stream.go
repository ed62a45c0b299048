package sim

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/services/internal/ec2"
	"millwright/services/sim/cloud"
	"millwright/services/sim/stage"
	watcherkube "millwright/services/watcher/kube"
)

const (
	heartbeatEvery = time.Second
	pollEvery      = 10 * time.Second
	// countEvery is how often EC2 is asked how many reserved instances are free, if any are reserved.
	countEvery = 30 * time.Second
	// checkpointEvery is in messages.
	checkpointEvery = 250
)

// publisher is the watcher: it publishes what it sees of cluster and cloud, in epochs.
type publisher struct {
	sim     *Sim
	machine *machine
	dead    bool
	// term numbers the epochs and deaths; what was scheduled in an earlier term does nothing.
	term           int
	epoch, counter uint64
	// at is the next write to publish.
	at      int
	pumping bool
	// resyncing: an epoch has begun and not everything that exists is published yet.
	resyncing bool
	late      []events.Observation
	instances map[string]string
	// notices are what was told of instances that are not terminated; a new epoch says it again.
	notices []events.Observation
	polled  time.Time
	// counted is when EC2 was last asked how many reserved instances are free.
	counted time.Time
}

func (w *publisher) after(d time.Duration, fn func()) {
	term := w.term
	w.sim.Clock.After(d, func() {
		if w.term == term && !w.dead {
			fn()
		}
	})
}

// begin starts an epoch: everything that exists, then changes.
func (w *publisher) begin() {
	s := w.sim
	if away := s.away[toKube].Sub(s.Clock.Now()); away > 0 {
		w.after(away, w.begin)
		return
	}
	w.term++
	w.epoch, w.counter, w.late, w.pumping = w.epoch+1, 0, nil, false
	w.instances = map[string]string{}
	s.Trace("watcher: epoch %d", w.epoch)
	w.resyncing = true
	w.send(events.Observation{Op: events.OpResyncBegin})
	w.publishMarket()
	w.poll()
	for _, n := range w.notices {
		w.send(n)
	}
	for _, c := range s.Cluster.Present() {
		w.publishChange(c.Kind, c.Op, c.Key, c.Object)
	}
	w.at = s.Cluster.Len()
	w.send(events.Observation{Op: events.OpResyncEnd})
	w.resyncing = false
	w.beat()
}

// publishMarket publishes catalogue and prices.
func (w *publisher) publishMarket() {
	s := w.sim
	w.counted = s.Clock.Now()
	catalogue, prices := cloud.Catalogue(stage.NodeClassName, s.market, s.reservedOfferings())
	ref, err := events.StoreCatalog(context.Background(), s.Stream.Blobs(), catalogue)
	if err != nil {
		panic(err)
	}
	if len(s.Cloud.Reservations()) > 0 {
		ref.ReservationsAt = w.machine.checked.Now().UTC()
	}
	w.send(events.Observation{Kind: events.KindCatalog, Op: events.OpUpsert, UID: stage.NodeClassName, Name: stage.NodeClassName, Object: ref})
	w.send(events.Observation{Kind: events.KindPrices, Op: events.OpUpsert, Object: prices})
}

func (w *publisher) beat() {
	if w.dead {
		return
	}
	if w.sim.Clock.Now().Sub(w.polled) >= pollEvery {
		w.poll()
	}
	if len(w.sim.Cloud.Reservations()) > 0 && w.sim.Clock.Now().Sub(w.counted) >= countEvery {
		w.publishMarket()
	}
	if !w.sim.isAway(toKube) { // otherwise the heartbeat is withheld
		w.machine.hearTime(toKube, w.machine.checked.Monotonic()-5*time.Millisecond, w.sim.Clock.Now())
		if w.machine.checked.Check() != nil {
			w.standDown()
			return
		}
		w.pump()
		w.receive()
		w.send(events.Observation{Op: events.OpHeartbeat, Object: &events.Heartbeat{}})
	}
	w.after(heartbeatEvery, w.beat)
}

// pump publishes the writes up to now.
func (w *publisher) pump() {
	if w.sim.isAway(toKube) {
		return
	}
	changes := w.sim.Cluster.Changes(w.at)
	w.at = w.sim.Cluster.Len()
	for _, c := range changes {
		w.publishChange(c.Kind, c.Op, c.Key, c.Object)
	}
}

// changed makes the watcher notice a write.
func (w *publisher) changed() {
	if w.pumping || w.dead {
		return
	}
	w.pumping = true
	w.after(w.sim.Millis(2, 20), func() {
		w.pumping = false
		w.pump()
	})
}

func (w *publisher) publishChange(kind events.Kind, op events.Op, key string, o interface {
	runtime.Object
	GetUID() types.UID
	GetResourceVersion() string
}) {
	obs := events.Observation{Kind: kind, Op: op, UID: o.GetUID(), Name: key, ResourceVersion: o.GetResourceVersion()}
	if op == events.OpUpsert {
		trimmed, err := watcherkube.Trim(o)
		if err != nil {
			panic(err)
		}
		obs.Object = trimmed
	}
	w.send(obs)
}

// poll publishes the states of instances that changed.
func (w *publisher) poll() {
	s := w.sim
	w.polled = s.Clock.Now()
	list, _ := s.Cloud.DescribeInstancesByTags(map[string]string{awsv1.TagNodePool: "*"},
		ec2.StatePending, ec2.StateRunning, ec2.StateShuttingDown, ec2.StateTerminated)
	slices.SortFunc(list, func(a, b ec2.Instance) int { return cmp.Compare(a.ID, b.ID) })
	for _, i := range list {
		if w.instances[i.ID] == i.State || w.instances[i.ID] == "" && i.Gone() {
			continue
		}
		w.instances[i.ID] = i.State
		if i.State == ec2.StateTerminated {
			w.notices = slices.DeleteFunc(w.notices, func(n events.Observation) bool { return n.Name == i.ID })
		}
		w.send(events.Observation{Kind: events.KindInstanceState, Op: events.OpUpsert, UID: types.UID(i.ID), Name: i.ID, Object: &events.InstanceState{
			ID: i.ID, State: i.State, InstanceType: i.InstanceType, Zone: i.Zone, CapacityType: i.CapacityType, LaunchTime: i.LaunchTime, Tags: i.Tags}})
	}
}

// send gives an observation its place, unless a fault has it lost, doubled or late.
// It reports whether the stream has acknowledged it.
func (w *publisher) send(o events.Observation) bool {
	s, x := w.sim, &w.sim.Faults
	if w.dead {
		return false
	}
	if w.resyncing && s.Happens(x.ResyncBroken) {
		w.die(s.Millis(200, 8000))
		return false
	}
	w.counter++
	o.Epoch, o.Counter, o.ObservedAt = w.epoch, w.counter, w.machine.checked.Now()
	switch {
	case s.Happens(x.MessageLost):
		s.Trace("watcher: message %d of epoch %d is lost", o.Counter, o.Epoch)
		w.resyncSoon()
		return false
	case s.Happens(x.MessageLate):
		w.late = append(w.late, o)
		w.resyncSoon()
		return false
	case s.Happens(x.MessageDoubled):
		w.store(o)
	}
	w.store(o)
	for _, l := range w.late {
		w.store(l)
	}
	w.late = nil
	return true
}

// visibility hides a notice that was received.
const visibility = 20 * time.Second

// receive publishes the notices on the queue. One is deleted once the stream has acknowledged it, if the call
// arrives.
func (w *publisher) receive() {
	s := w.sim
	now := s.Clock.Now()
	var left []*stage.Notice
	for _, n := range s.Queue {
		if n.VisibleAt.After(now) || w.dead {
			left = append(left, n)
			continue
		}
		received := w.machine.checked.Now()
		o := &events.Interruption{MessageKind: n.Kind, InstanceID: n.Instance, At: n.At, ReceivedAt: received, MessageID: n.ID}
		if rest := stage.NoticeTime - now.Sub(n.At); rest > 0 && n.Kind == events.SpotInterrupted {
			o.Deadline = received.Add(rest)
		}
		notice := events.Observation{Kind: events.KindInterruption, Op: events.OpUpsert, Name: n.Instance, UID: types.UID(n.Instance), Object: o}
		w.notices = append(w.notices, notice)
		acknowledged := w.send(notice)
		if n.VisibleAt = now.Add(visibility); !acknowledged || s.Happens(s.Faults.NoticeDoubled) {
			left = append(left, n)
		}
	}
	s.Queue = left
}

// resyncSoon begins another epoch, as the watcher does when it learns that a publish failed.
func (w *publisher) resyncSoon() { w.after(w.sim.Millis(100, 8000), w.begin) }

// store encodes a message, puts it into the stream, and keeps it decoded for its consumers.
func (w *publisher) store(o events.Observation) {
	s := w.sim
	data, err := events.Encode(o)
	if err == nil {
		err = s.Stream.Publish(context.Background(), data)
	}
	if err == nil {
		o, err = events.Decode(data)
	}
	if err == nil {
		err = events.ResolveCatalog(context.Background(), s.Stream.Blobs(), &o, nil)
	}
	if err != nil {
		s.Violate("what is seen can be published", "%v", err)
		return
	}
	s.Messages = append(s.Messages, o)
	s.Stats.Messages++
	s.streamMoved()
}

// standDown silences the watcher until its clock can be relied on; then it begins a new epoch.
func (w *publisher) standDown() {
	w.sim.Trace("watcher: stands down: %v", w.machine.checked.Check())
	w.sim.Stats.StoodDown++
	w.dead = true
	w.term++
	term := w.term
	w.sim.Clock.Every(lookEvery, func() bool {
		if !w.dead || w.term != term || !w.machine.ask() {
			return w.dead && w.term == term
		}
		w.dead = false
		w.begin()
		return false
	})
}

// die silences the watcher for a while; then another begins a new epoch.
func (w *publisher) die(d time.Duration) {
	w.sim.Trace("watcher: dies for %s", d)
	w.dead = true
	w.term++
	w.notices = nil // they die with the process
	w.sim.Clock.After(d, func() {
		w.dead = false
		w.begin()
	})
}

// renewStream abandons the stream, as when NATS lost it.
func (s *Sim) renewStream() {
	state, err := s.Stream.Renew(context.Background())
	if err != nil {
		panic(err)
	}
	s.Trace("stream: renewed as %s", state.Incarnation)
	s.Stats.Renewals++
	s.Incarnation, s.Messages, s.checkpointed = state.Incarnation, nil, 0
	if !s.watcher.dead {
		s.watcher.begin()
	}
}

// checkpoint stores the World of a process that has one worth storing.
func (s *Sim) checkpoint(p *process) {
	at := p.world.Position()
	if at.Incarnation != s.Incarnation || at.Sequence < s.checkpointed+checkpointEvery {
		return
	}
	if _, _, err := events.WriteCheckpoint(context.Background(), s.Stream.Blobs(), at, p.world.WriteCheckpoint); err != nil {
		s.Violate("checkpoints can be written", "%v", err)
	}
	s.checkpointed = at.Sequence
}
