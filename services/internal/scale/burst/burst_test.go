package burst

import (
	"maps"
	"slices"
	"testing"
	"time"

	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
	"millwright/tools/ec2sim/simclient"
)

// burst is how many nodes are asked for at once: a fifth of a thousand in a short run, as the race detector's
// is.
func burst() int {
	if testing.Short() {
		return 200
	}
	return 1000
}

var (
	asked   = []string{"m5.large", "c5.large", "m5a.large"}
	instead = []string{"m6i.large", "c6i.large", "m6a.large"}
)

// A thousand equal claims at once, in an account that enforces the limits EC2 publishes: few calls launch
// all of them, and none is refused.
func TestAThousandNodesInOneBurst(t *testing.T) {
	nodes := burst()
	// Eight times as many requests as they need with 40 to each: how many are ready at a time depends on the
	// machine.
	requestsMax := nodes / 5
	r := newRig(t)
	r.start("first")
	r.prepare()
	r.must(r.control.SetPublishedLimits(t.Context()))
	began := time.Now()
	r.plan(nodes, asked...)
	r.eventually("all are launched", func() bool { return r.claims(launched) == nodes })
	r.print("all launched", began)
	r.eventually("all are registered", func() bool { return r.claims(registered) == nodes })
	r.print("all registered", began)
	records := r.records()
	requests := records[ledger.KindFleetRequested] + records[ledger.KindLaunchRequested]
	t.Logf("%d requests for %d nodes; records: %v", requests, nodes, records)
	r.printCalls()
	if requests > requestsMax {
		t.Errorf("%d requests launched %d nodes", requests, nodes)
	}
	if calls := r.sim.Calls()["CreateFleet"]["ok"]; calls > requests {
		t.Errorf("%d requests were sent %d times, with no answer lost", requests, calls)
	}
	r.eachHasItsOwn(nodes)
}

// The same burst while EC2 runs out of what is asked for, answers get lost, and another process takes the
// lead: what was refused is planned again, and in the end there are a thousand instances, of a claim each.
func TestABurstThatGoesWrong(t *testing.T) {
	nodes := burst()
	r := newRig(t)
	r.start("first")
	r.prepare()
	r.start("second")
	r.must(r.control.SetPublishedLimits(t.Context()))
	var scarce []simclient.Capacity
	for _, name := range asked {
		scarce = append(scarce, simclient.Capacity{InstanceType: name, Limit: nodes/5 + 10})
	}
	r.must(r.control.SetCapacity(t.Context(), scarce...))
	for _, f := range []simclient.Fault{{Action: "CreateFleet", Rate: 0.2, Count: 4, Drop: true, After: true}, {Action: "CreateFleet", Rate: 0.2, Count: 4, Drop: true}} {
		_, err := r.control.AddFault(t.Context(), f)
		r.must(err)
	}
	began := time.Now()
	r.plan(nodes, asked...)
	r.eventually("some are launched", func() bool { return r.claims(launched) > nodes/4 })
	r.must(r.elector.Depose(t.Context()))
	r.print("leader deposed", began)
	r.eventually("all are launched", func() bool {
		if missing := nodes - r.claims(func(c *ledger.Claim) bool { return c.Doomed == nil }); missing > 0 {
			r.plan(missing, instead...)
			r.must(r.state.CatchUp(t.Context()))
		}
		return r.claims(launched) == nodes && r.claims(func(*ledger.Claim) bool { return true }) == nodes
	})
	r.print("all launched", began)
	r.eventually("nothing else runs", func() bool { return len(r.running()) == nodes })
	r.print("nothing else runs", began)
	records := r.records()
	t.Logf("led %d times; records: %v", r.terms.Load(), records)
	r.printCalls()
	if r.terms.Load() < 2 || records[ledger.KindLaunchFailed] == 0 && records[ledger.KindClaimDoomed] == 0 {
		t.Error("nothing went wrong")
	}
	r.eachHasItsOwn(nodes)
}

// running are the instances that have not ended, by id.
func (r *rig) running() map[string]bool {
	ids := map[string]bool{}
	for _, i := range r.sim.Instances() {
		if i.State == ec2.StatePending || i.State == ec2.StateRunning {
			ids[i.ID] = true
		}
	}
	return ids
}

// eachHasItsOwn demands n claims with an instance each that runs, and no other instance.
func (r *rig) eachHasItsOwn(n int) {
	r.t.Helper()
	owners, running := map[string]string{}, r.running()
	for _, c := range r.state.Ledger().Claims() {
		id := c.Instance.InstanceID
		if owners[id] != "" || !running[id] {
			r.t.Errorf("%s of %s runs: %t, and is %s's", id, c.Name, running[id], owners[id])
		}
		owners[id] = c.Name
	}
	if len(owners) != n || len(running) != n {
		r.t.Errorf("%d claims have instances, %d instances run", len(owners), len(running))
	}
}

// printCalls prints all calls by action and outcome; none may be refused for its rate.
func (r *rig) printCalls() {
	r.t.Helper()
	calls := r.sim.Calls()
	for _, action := range slices.Sorted(maps.Keys(calls)) {
		r.t.Logf("%s: %v", action, calls[action])
		if n := calls[action]["RequestLimitExceeded"]; n > 0 {
			r.t.Errorf("%d calls of %s were refused", n, action)
		}
	}
}
