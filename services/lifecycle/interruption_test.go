package lifecycle

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"millwright/events"
	"millwright/planner/claim"
	"millwright/planner/ledger"
)

// message folds a message about an instance into the World.
func (r *rig) message(kind, instance string, deadline time.Time) {
	r.observe(r.messages+1, events.Observation{Kind: events.KindInterruption, Op: events.OpUpsert, Name: instance, Object: &events.Interruption{
		MessageKind: kind, InstanceID: instance, At: r.now.Add(-time.Second), ReceivedAt: r.now, Deadline: deadline, MessageID: "m-1", Detail: "terminate"}})
}

func (r *rig) doomsOf(name string) (list []ledger.ClaimDoomed) {
	for _, rec := range r.records {
		if ledger.Kind(rec.Kind) != ledger.KindClaimDoomed {
			continue
		}
		var d ledger.ClaimDoomed
		if err := json.Unmarshal(rec.Payload, &d); err != nil {
			r.t.Fatal(err)
		}
		if _, err := claim.Replay(&d); err != nil {
			r.t.Errorf("replay: %v", err)
		}
		if d.Claim == name {
			list = append(list, d)
		}
	}
	return list
}

func (r *rig) initialized() (name, instance string) {
	name = r.plan()
	r.run("initialized", func() bool {
		c := r.led.Claim(name)
		return c != nil && c.State == ledger.ClaimInitializedState
	})
	return name, r.led.Claim(name).Instance.InstanceID
}

// A notice ends the claim in the step that sees it, with its deadline; people are told once, and the offering
// is marked. The record replays.
func TestANoticeEndsTheClaim(t *testing.T) {
	r := newRig(t)
	name, instance := r.initialized()
	deadline := r.now.Add(2 * time.Minute)
	r.message(events.CapacityReservationInterrupted, instance, deadline) // of an on-demand instance: forged, or about something else
	r.message(events.RebalanceRecommendation, instance, time.Time{})
	r.message(events.SpotInterrupted, "i-0123456789abcdef0", deadline) // not ours
	r.wait(10 * time.Second)
	if n := len(r.doomsOf(name)); n != 0 || !r.hasEvent("SpotRebalanceRecommendation") {
		t.Fatalf("%d dooms, events %v", n, r.events)
	}
	r.message(events.ScheduledChange, instance, time.Time{})
	r.message(events.ScheduledChange, instance, time.Time{}) // at least once
	r.run("claim closed", r.closed(name))
	dooms := r.doomsOf(name)
	if len(dooms) != 1 || dooms[0].Reason != events.ScheduledChange || !strings.Contains(dooms[0].Message, "message m-1") {
		t.Errorf("dooms: %+v", dooms)
	}
	for _, reason := range []string{"InstanceUnhealthy", "TerminatingOnInterruption"} {
		if !r.hasEvent(reason) {
			t.Errorf("no event %s in %v", reason, r.events)
		}
	}
}

// A node that is already going, but slowly, must be gone by the deadline of a notice that comes then.
func TestANoticeForAClaimThatIsGoing(t *testing.T) {
	r := newRig(t)
	name, instance := r.initialized()
	r.noDrain = true
	r.kube.deleteClaim(name)
	r.wait(5 * time.Second)
	deadline := r.now.Add(2 * time.Minute)
	r.message(events.SpotInterrupted, instance, deadline)
	r.wait(5 * time.Second)
	if n := len(r.doomsOf(name)); n != 0 {
		t.Errorf("a spot notice for an on-demand instance ends it: %d dooms", n)
	}
	c := *r.led.Claim(name).Instance
	c.CapacityType, c.Claim, c.UID = "spot", name, r.led.Claim(name).UID
	r.other(ledger.ServiceLifecycle, ledger.KindLaunched, &c)
	r.message(events.SpotInterrupted, instance, deadline)
	r.wait(time.Minute + 5*time.Second)
	if d := r.led.Claim(name).Doomed; d == nil || !d.Deadline.Equal(deadline) {
		t.Fatalf("doomed: %+v", d)
	}
	if dooms := r.doomsOf(name); len(dooms) != 1 || len(dooms[0].Unavailable) != 1 {
		t.Errorf("dooms: %+v", dooms)
	}
	if key := (ledger.OfferingKey{InstanceType: c.InstanceType, Zone: c.Zone, CapacityType: "spot"}); !r.led.Unavailable(key, r.now) {
		t.Error("the offering is not marked")
	}
	r.noDrain = false
	r.run("claim closed", r.closed(name))
}
