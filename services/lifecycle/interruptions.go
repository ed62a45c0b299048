package lifecycle

import (
	"sync"
	"time"

	"millwright/events"
	"millwright/planner"
	"millwright/planner/claim"
	"millwright/planner/world"
	"millwright/services/internal/service"
)

// interruptions are what the World says of instances, by instance id. The whole of it is replaced when a
// message came.
type interruptions struct {
	mu sync.Mutex
	of map[string][]claim.Interruption
	// seen is the World's revision of messages that of was made from, and at is when.
	seen uint64
	at   time.Time
}

// interruptionsEvery is how often they are read although no message came: the World forgets those of
// instances that are gone, and counts anew when it was restored.
const interruptionsEvery = time.Minute

// Of implements claims.Interruptions.
func (i *interruptions) Of(instance string) []claim.Interruption {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.of[instance]
}

// read takes in the World's messages, and returns the instances of which something new is said.
func (i *interruptions) read(w *world.World, now time.Time) (fresh []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.of != nil && w.InterruptionRevision() == i.seen && now.Sub(i.at).Abs() < interruptionsEvery {
		return nil
	}
	was := i.of
	i.seen, i.at, i.of = w.InterruptionRevision(), now, map[string][]claim.Interruption{}
	for _, m := range w.Interruptions() {
		if _, done := i.of[m.InstanceID]; done {
			continue
		}
		list := factsOf(w.InterruptionsOf(m.InstanceID))
		i.of[m.InstanceID] = list
		if !equal(was[m.InstanceID], list) {
			fresh = append(fresh, m.InstanceID)
		}
	}
	return fresh
}

func factsOf(messages []*events.Interruption) []claim.Interruption {
	var list []claim.Interruption
	for _, m := range messages {
		list = append(list, claim.Interruption{Kind: m.MessageKind, At: m.At.UTC(), Deadline: m.Deadline.UTC(), NotBefore: m.NotBefore.UTC(), MessageID: m.MessageID, Detail: m.Detail})
	}
	return list
}

func equal(a, b []claim.Interruption) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Kind != b[i].Kind || !a[i].At.Equal(b[i].At) {
			return false
		}
	}
	return true
}

// hearInterruptions has the claims of interrupted instances looked at.
func (s *Service) hearInterruptions(now time.Time) {
	_ = s.host.Snapshot(service.ForEffects, func(snap *planner.Snapshot) error { // without one, none can have come
		s.agenda.hearOf(s.interruptions.read(snap.World, now)...)
		return nil
	})
}
