package ec2

import (
	"testing"
	"testing/synctest"
	"time"

	"millwright/events"
	"millwright/tools/ec2sim/simclient"
)

// What fails for two minutes is emitted once, and its end too; scheduled events at once, unless they are
// over; nothing of foreign instances.
func TestInstanceStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		id, foreign := r.launch("blue"), r.launch("green")
		time.Sleep(time.Minute)
		r.poll("instances")
		step := func(what string, want ...string) {
			t.Helper()
			r.poll("instance_status")
			got := r.out.take(events.KindInterruption)
			if len(got) != len(want) {
				t.Fatalf("%s: emitted %+v, want %v", what, got, want)
			}
			for i := range want {
				op := "end of "
				if got[i].Op == events.OpUpsert {
					op = ""
				}
				if op+got[i].Name != want[i] {
					t.Errorf("%s: emitted %s%s, want %s", what, op, got[i].Name, want[i])
				}
			}
		}
		instance, system, event := events.InterruptionName(id, events.InstanceStatus), events.InterruptionName(id, events.SystemStatus), events.InterruptionName(id, events.EventStatus)
		step("all are well")
		r.control("POST", "instances/"+id+"/fail", nil)
		r.control("POST", "instances/"+foreign+"/fail", nil)
		time.Sleep(time.Minute)
		step("failing for a minute")
		time.Sleep(time.Minute + time.Second)
		step("failing for two", instance, system)
		step("still failing")
		r.Resync()
		step("for a new epoch", instance, system)
		r.control("POST", "instances/"+id+"/recover", nil)
		step("recovered", "end of "+instance, "end of "+system)
		in := simclient.Duration(48 * time.Hour)
		schedule := func(description string) {
			r.control("POST", "instances/"+id+"/interrupt", simclient.Interruption{Kind: "scheduled", In: &in, Description: description})
		}
		schedule("The instance is running on degraded hardware")
		r.control("POST", "instances/"+foreign+"/interrupt", simclient.Interruption{Kind: "scheduled", In: &in})
		step("an event", event)
		step("the same event")
		schedule("[Canceled] The instance is running on degraded hardware")
		step("the event is cancelled", "end of "+event)
		schedule("[Completed] The instance is running on degraded hardware")
		step("one that is completed when it is first seen")
		schedule("The instance is running on degraded hardware")
		step("another event", event)
		schedule("[Completed] The instance is running on degraded hardware")
		step("it is completed", "end of "+event)
	})
}
