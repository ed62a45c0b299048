package claim_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/claim"
	"millwright/planner/ledger"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func planned() claim.Input {
	return claim.Input{
		Name: "default-a", Now: t0, LaunchTimeout: 5 * time.Minute, RegistrationTimeout: 15 * time.Minute,
		Ledger: &claim.LedgerFacts{State: ledger.ClaimPlanned}, NodeClass: &claim.NodeClassFacts{Ready: "True"},
	}
}

func created() claim.Input {
	in := planned()
	in.Ledger = &claim.LedgerFacts{State: ledger.ClaimCreatedOnce, UID: "u1"}
	in.Object = &claim.ObjectFacts{UID: "u1", Created: t0, LaunchedSince: t0, RegisteredSince: t0, Finalizer: true, Ours: true}
	return in
}

// inherited was in the hands of another controller, which may have launched for it.
func inherited() claim.Input {
	in := created()
	in.Ledger.Inherited, in.Object.Ours, in.Object.Inherited = true, false, true
	return in
}

func launched() claim.Input {
	in := created()
	in.Ledger.State, in.Ledger.InstanceID = ledger.ClaimLaunched, "i-1"
	in.Object.ProviderID = "aws:///a/i-1"
	return in
}

func registered() claim.Input {
	in := launched()
	in.Ledger.State = ledger.ClaimRegisteredState
	in.Object.Registered, in.Object.NodeName, in.Object.Tagged = true, "n1", true
	in.Nodes = []claim.NodeFacts{{Name: "n1", UID: "n", Finalizer: true, Registered: true, Ready: true}}
	return in
}

func initialized() claim.Input {
	in := registered()
	in.Ledger.State = ledger.ClaimInitializedState
	return in
}

func deleting() claim.Input {
	in := initialized()
	in.Object.Deleting = t0
	return in
}

func with(in claim.Input, change func(*claim.Input)) claim.Input {
	change(&in)
	return in
}

// TestWhatIsAnnotatedCanBeRecorded: the year 10000 has no encoding.
func TestWhatIsAnnotatedCanBeRecorded(t *testing.T) {
	o := &karpv1.NodeClaim{}
	o.Annotations = map[string]string{karpv1.TerminationTimestampAnnotationKey: "9999-12-31T23:59:59-01:00"}
	in := deleting()
	in.Object = claim.FactsOfObject(o, nil, "")
	if _, err := json.Marshal(in); err != nil || !in.Object.Stamped {
		t.Errorf("stamped: %v, %v", in.Object.Stamped, err)
	}
}

// The rules: lifecycle §3 and §7, DESIGN §5.
func TestNext(t *testing.T) {
	long := 720 * time.Hour
	cases := map[string]struct {
		in    claim.Input
		state claim.State
		want  claim.Action
	}{
		"nothing known needs nothing": {in: claim.Input{Now: t0}, state: claim.Closed, want: claim.Action{Move: claim.Wait}},
		"an object the log does not know is adopted": {
			in: with(created(), func(in *claim.Input) { in.Ledger = nil }), state: claim.Unknown, want: claim.Action{Move: claim.Adopt}},
		"a planned claim is made": {in: planned(), state: claim.Planned, want: claim.Action{Move: claim.Create}},
		"a planned claim whose object exists already is recorded": {
			in: with(created(), func(in *claim.Input) { in.Ledger = planned().Ledger }), state: claim.Planned, want: claim.Action{Move: claim.RecordCreated}},
		"a planned claim whose name another object has is withdrawn": {
			in:    with(created(), func(in *claim.Input) { in.Ledger = planned().Ledger; in.Object.Ours = false }),
			state: claim.Planned, want: claim.Action{Move: claim.Withdraw, Reason: "name_taken"}},
		"a planned claim of a pool that is surely gone is withdrawn": {
			in:    with(planned(), func(in *claim.Input) { in.PoolMissing, in.PoolGone = true, true }),
			state: claim.Planned, want: claim.Action{Move: claim.Withdraw, Reason: "nodepool_deleted"}},
		"a planned claim that the API server does not take is withdrawn": {
			in:    with(planned(), func(in *claim.Input) { in.Refused = true }),
			state: claim.Planned, want: claim.Action{Move: claim.Withdraw, Reason: "nodeclaim_refused"}},
		"a planned claim that the API server refused, and then took, is recorded": {
			in:    with(created(), func(in *claim.Input) { in.Ledger = planned().Ledger; in.Refused = true }),
			state: claim.Planned, want: claim.Action{Move: claim.RecordCreated}},
		"a claim that expires at once is doomed before it is launched": { // so that such a NodePool is not valid
			in: with(created(), func(in *claim.Input) { in.Object.ExpireAfter = new(time.Duration) }), state: claim.Created,
			want: claim.Action{Move: claim.Doom, Reason: claim.ReasonExpired, Message: "expired after 0s"}},
		"a planned claim of a pool the cache lacks waits": {
			in: with(planned(), func(in *claim.Input) { in.PoolMissing = true }), state: claim.Planned, want: claim.Action{Move: claim.Wait}},
		"a created claim is launched": {in: created(), state: claim.Created, want: claim.Action{Move: claim.Launch}},
		"without our finalizer nothing is launched": {
			in: with(created(), func(in *claim.Input) { in.Object.Finalizer = false }), state: claim.Created, want: claim.Action{Move: claim.Guard}},
		"an unready NodeClass that may become ready is waited for until the launch timeout": {
			in:    with(created(), func(in *claim.Input) { in.NodeClass.Ready = "Unknown"; in.Now = t0.Add(11 * time.Second) }),
			state: claim.Created, want: claim.Action{Move: claim.Wait, At: t0.Add(5 * time.Minute)}},
		"a NodeClass that is not ready dooms": {
			in:    with(created(), func(in *claim.Input) { in.NodeClass = &claim.NodeClassFacts{Ready: "False", Message: "no subnets"} }),
			state: claim.Created, want: claim.Action{Move: claim.Doom, Reason: "nodeclass_not_ready", Message: "no subnets"}},
		"a missing NodeClass is given time to show up": {
			in:    with(created(), func(in *claim.Input) { in.NodeClass = nil }),
			state: claim.Created, want: claim.Action{Move: claim.Wait, At: t0.Add(10 * time.Second)}},
		"a NodeClass that stays missing dooms": {
			in:    with(created(), func(in *claim.Input) { in.NodeClass = nil; in.Now = t0.Add(10 * time.Second) }),
			state: claim.Created, want: claim.Action{Move: claim.Doom, Reason: "insufficient_capacity", Message: "NodeClass not found"}},
		"a Node whose partition EC2 does not tell is not waited for": {
			in: with(launched(), func(in *claim.Input) {
				in.Nodes, in.Object.AwaitsPartition = []claim.NodeFacts{{Name: "n1", UID: "n", Ready: true}}, true
				in.Now = t0.Add(15 * time.Minute)
			}), state: claim.Launched, want: claim.Action{Move: claim.Doom, Reason: "registration_timeout"}},
		"no capacity dooms": {
			in:    with(created(), func(in *claim.Input) { in.Failure = &claim.Failure{Class: "no-capacity", Message: "none left"} }),
			state: claim.Created, want: claim.Action{Move: claim.Doom, Reason: "insufficient_capacity", Message: "none left"}},
		"a failed launch is retried after its backoff, not before": {
			in: with(created(), func(in *claim.Input) {
				in.Failure, in.RetryAt = &claim.Failure{Class: "transient"}, t0.Add(2*time.Second)
			}), state: claim.Created, want: claim.Action{Move: claim.Wait, At: t0.Add(2 * time.Second)}},
		"a claim without instance for five minutes is doomed though a retry is pending": {
			in: with(created(), func(in *claim.Input) {
				in.Now, in.RetryAt, in.Failure = t0.Add(5*time.Minute), t0.Add(time.Hour), &claim.Failure{Class: "transient", Message: "throttled"}
			}), state: claim.Created, want: claim.Action{Move: claim.Doom, Reason: "launch_timeout", Message: "throttled"}},
		"an open attempt is resolved": {
			in: with(created(), func(in *claim.Input) { in.Ledger.Open, in.Ledger.State = true, ledger.ClaimLaunching }), state: claim.Launching, want: claim.Action{Move: claim.Resolve}},
		"an open attempt is resolved also when the object is being deleted": {
			in: with(created(), func(in *claim.Input) {
				in.Ledger.Open, in.Ledger.State, in.Object.Deleting = true, ledger.ClaimLaunching, t0
			}), state: claim.Launching, want: claim.Action{Move: claim.Resolve}},
		"an open attempt is resolved also when the object is gone": {
			in: with(created(), func(in *claim.Input) {
				in.Ledger.Open, in.Ledger.State, in.Object = true, ledger.ClaimLaunching, nil
			}), state: claim.Launching, want: claim.Action{Move: claim.Resolve}},
		"a launched claim waits for its node until the registration timeout": {
			in: launched(), state: claim.Launched, want: claim.Action{Move: claim.Wait, At: t0.Add(15 * time.Minute)}},
		"the registration timeout dooms": {
			in:    with(launched(), func(in *claim.Input) { in.Now = t0.Add(15 * time.Minute) }),
			state: claim.Launched, want: claim.Action{Move: claim.Doom, Reason: "registration_timeout"}},
		"a node that came late is registered, not doomed": {
			in: with(launched(), func(in *claim.Input) {
				in.Now, in.Nodes = t0.Add(time.Hour), []claim.NodeFacts{{Name: "n1"}}
			}), state: claim.Launched, want: claim.Action{Move: claim.Register}},
		"one node registers": {
			in: with(launched(), func(in *claim.Input) { in.Nodes = []claim.NodeFacts{{Name: "n1"}} }), state: claim.Launched, want: claim.Action{Move: claim.Register}},
		"two nodes do not": {
			in: with(launched(), func(in *claim.Input) {
				in.Nodes = []claim.NodeFacts{{Name: "n1"}, {Name: "n2"}}
			}), state: claim.Launched, want: claim.Action{Move: claim.Wait, At: t0.Add(15 * time.Minute)}},
		"a node that is still starting is waited for": {
			in:    with(registered(), func(in *claim.Input) { in.Nodes[0].Pending = &claim.Pending{Reason: "NodeNotReady"} }),
			state: claim.Registered, want: claim.Action{Move: claim.Wait}},
		"a node that is ready is initialized": {in: registered(), state: claim.Registered, want: claim.Action{Move: claim.Initialize}},
		"an initialized claim needs nothing":  {in: initialized(), state: claim.Initialized, want: claim.Action{Move: claim.Wait}},
		"tags are written once the node is known": {
			in: with(initialized(), func(in *claim.Input) { in.Object.Tagged = false }), state: claim.Initialized, want: claim.Action{Move: claim.Tag}},
		"expiry dooms whatever the state": {
			in:    with(initialized(), func(in *claim.Input) { in.Object.ExpireAfter = &long; in.Now = t0.Add(long) }),
			state: claim.Initialized, want: claim.Action{Move: claim.Doom, Reason: "expired", Message: "expired after 720h0m0s"}},
		"a claim that expires later says when": {
			in:    with(initialized(), func(in *claim.Input) { in.Object.ExpireAfter = &long }),
			state: claim.Initialized, want: claim.Action{Move: claim.Wait, At: t0.Add(long)}},
		"a doomed claim is deleted": {
			in: with(initialized(), func(in *claim.Input) { in.Ledger.Doomed = "expired" }), state: claim.Initialized, want: claim.Action{Move: claim.Delete}},
		"a node deleted by the user takes its claim along": {
			in: with(initialized(), func(in *claim.Input) { in.Nodes[0].Deleting = true }), state: claim.Initialized, want: claim.Action{Move: claim.Delete}},
		"a terminated instance dooms before registration": {
			in:    with(launched(), func(in *claim.Input) { in.Instance.Terminated = true }),
			state: claim.Launched, want: claim.Action{Move: claim.Doom, Reason: "garbage_collected"}},
		"an instance EC2 does not know yet does not doom before registration": {
			in:    with(launched(), func(in *claim.Input) { in.Instance.Missing = true }),
			state: claim.Launched, want: claim.Action{Move: claim.Wait, At: t0.Add(15 * time.Minute)}},
		"a missing instance dooms a registered claim whose node is not ready": {
			in:    with(initialized(), func(in *claim.Input) { in.Instance.Missing, in.Nodes[0].Ready = true, false }),
			state: claim.Initialized, want: claim.Action{Move: claim.Doom, Reason: "garbage_collected"}},
		"a kubelet that answers contradicts EC2": {
			in: with(initialized(), func(in *claim.Input) { in.Instance.Missing = true }), state: claim.Initialized, want: claim.Action{Move: claim.Wait}},
		"the breaker holds garbage collection": {
			in: with(initialized(), func(in *claim.Input) {
				in.Instance.Terminated, in.Nodes[0].Ready, in.CollectionHeld = true, false, true
			}), state: claim.Initialized, want: claim.Action{Move: claim.Wait}},
		"the claim of a deleted pool is doomed": {
			in: with(initialized(), func(in *claim.Input) { in.PoolGone = true }), state: claim.Initialized, want: claim.Action{Move: claim.Doom, Reason: "nodepool_deleted"}},
		"an object whose plan was given up is doomed": {
			in:    with(created(), func(in *claim.Input) { in.Object.Ours, in.Object.Stray = false, true }),
			state: claim.Created, want: claim.Action{Move: claim.Doom, Reason: "withdrawn"}},
		"an inherited claim's instance is sought before anything else is concluded": {
			in: with(inherited(), func(in *claim.Input) { in.Now = t0.Add(time.Hour) }), state: claim.Created, want: claim.Action{Move: claim.Seek}},
		"between two looks it waits": {
			in:    with(inherited(), func(in *claim.Input) { in.Now, in.RetryAt = t0.Add(time.Hour), t0.Add(2*time.Hour) }),
			state: claim.Created, want: claim.Action{Move: claim.Wait, At: t0.Add(2 * time.Hour)}},
		"an inherited claim without an instance is deleted, never launched": {
			in: with(inherited(), func(in *claim.Input) { in.Sought = true }), state: claim.Created,
			want: claim.Action{Move: claim.Doom, Reason: "garbage_collected", Message: "left without an instance by another controller"}},
		"an inherited claim whose instance was found lives on": {
			in: with(inherited(), func(in *claim.Input) { in.Ledger.State, in.Ledger.InstanceID = ledger.ClaimLaunched, "i-1" }), state: claim.Launched,
			want: claim.Action{Move: claim.Wait, At: t0.Add(15 * time.Minute)}},
		"an inherited claim is not let go before its instance was sought": {
			in: with(inherited(), func(in *claim.Input) { in.Object.Deleting = t0 }), state: claim.Terminated, want: claim.Action{Move: claim.Seek}},
		"then it is": {
			in: with(inherited(), func(in *claim.Input) { in.Object.Deleting, in.Sought = t0, true }), state: claim.Terminated, want: claim.Action{Move: claim.Release}},
		"deletion fixes the deadline first": {
			in: with(deleting(), func(in *claim.Input) { in.Object.GracePeriod = true }), state: claim.Deleting, want: claim.Action{Move: claim.Stamp}},
		"then it deletes the node": {in: deleting(), state: claim.Deleting, want: claim.Action{Move: claim.DeleteNodes}},
		"then it waits for the drain": {
			in: with(deleting(), func(in *claim.Input) { in.Nodes[0].Deleting = true }), state: claim.Deleting, want: claim.Action{Move: claim.Wait}},
		"then it terminates": {
			in: with(deleting(), func(in *claim.Input) { in.Nodes[0].Deleting, in.Nodes[0].Drained = true, true }), state: claim.Deleting, want: claim.Action{Move: claim.Terminate}},
		"it does not ask again while the instance is ending": {
			in: with(deleting(), func(in *claim.Input) {
				in.Nodes[0].Deleting, in.Nodes[0].Drained, in.Instance.Ending = true, true, true
			}), state: claim.Deleting, want: claim.Action{Move: claim.Wait}},
		"a node that never registered is not waited for": {
			in: with(launched(), func(in *claim.Input) {
				in.Object.Deleting, in.Nodes = t0, []claim.NodeFacts{{Name: "n1"}}
			}), state: claim.Deleting, want: claim.Action{Move: claim.Terminate}},
		"a terminated instance is recorded though the dead node was not drained": {
			in: with(deleting(), func(in *claim.Input) {
				in.Nodes[0].Deleting, in.Nodes[0].Ready, in.Instance.Terminated = true, false, true
			}), state: claim.Deleting, want: claim.Action{Move: claim.Confirm}},
		"but not while its kubelet answers": {
			in: with(deleting(), func(in *claim.Input) {
				in.Nodes[0].Deleting, in.Instance.Terminated = true, true
			}), state: claim.Deleting, want: claim.Action{Move: claim.Wait}},
		"finalizers go after the instance": {
			in: with(deleting(), func(in *claim.Input) { in.Ledger.Terminated = true }), state: claim.Terminated, want: claim.Action{Move: claim.Release}},
		"a claim that never had an instance is released at once": {
			in: with(created(), func(in *claim.Input) { in.Object.Deleting = t0 }), state: claim.Terminated, want: claim.Action{Move: claim.Release}},
		"another object of the name does not keep the claim": {
			in: with(created(), func(in *claim.Input) { in.Object.UID = "u2" }), state: claim.Terminated, want: claim.Action{Move: claim.Close}},
		"a claim whose object vanished still ends its instance": {
			in: with(launched(), func(in *claim.Input) { in.Object, in.ObjectGone = nil, true }), state: claim.Deleting, want: claim.Action{Move: claim.Terminate}},
		"an object that is not in sight is asked for": {
			in: with(initialized(), func(in *claim.Input) { in.Object = nil }), state: claim.Missing, want: claim.Action{Move: claim.Find}},
		"a claim is closed when nothing is left": {
			in: with(launched(), func(in *claim.Input) { in.Object, in.ObjectGone, in.Ledger.Terminated = nil, true, true }), state: claim.Terminated, want: claim.Action{Move: claim.Close}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := claim.StateOf(c.in); got != c.state {
				t.Errorf("state = %s, want %s", got, c.state)
			}
			if diff := cmp.Diff(c.want, claim.Next(c.in)); diff != "" {
				t.Errorf("next move (-want +got):\n%s", diff)
			}
		})
	}
}

func TestApplyKnowsOnlyTheTable(t *testing.T) {
	if got, err := claim.Apply(claim.Planned, claim.Create); got != claim.Created || err != nil {
		t.Errorf("create from Planned = %s, %v", got, err)
	}
	if got, err := claim.Apply(claim.Registered, claim.Tag); got != claim.Registered || err != nil {
		t.Errorf("tag stays: %s, %v", got, err)
	}
	if _, err := claim.Apply(claim.Launching, claim.Launch); !errors.Is(err, claim.ErrIllegal) {
		t.Errorf("a second attempt beside an open one: %v", err)
	}
	if _, err := claim.Apply(claim.Launching, claim.Release); !errors.Is(err, claim.ErrIllegal) {
		t.Errorf("release with an open attempt: %v", err)
	}
}

// drawInput draws facts in any combination, possible or not.
func drawInput(t *rapid.T) claim.Input {
	times := rapid.SampledFrom([]time.Time{{}, t0.Add(-time.Hour), t0, t0.Add(time.Hour)})
	bools := rapid.Bool()
	in := claim.Input{
		Name: "c", Now: t0, LaunchTimeout: 5 * time.Minute, RegistrationTimeout: 15 * time.Minute,
		PoolMissing: bools.Draw(t, "missing"), PoolGone: bools.Draw(t, "gone"), ObjectGone: bools.Draw(t, "objectGone"), CollectionHeld: bools.Draw(t, "held"), Sought: bools.Draw(t, "sought"),
		Instance: claim.InstanceFacts{Terminated: bools.Draw(t, "terminated"), Missing: bools.Draw(t, "unknown"), Ending: bools.Draw(t, "ending")},
		RetryAt:  times.Draw(t, "retryAt"),
	}
	if bools.Draw(t, "class") {
		in.NodeClass = &claim.NodeClassFacts{Ready: rapid.SampledFrom([]string{"True", "False", "Unknown"}).Draw(t, "ready")}
	}
	if bools.Draw(t, "failure") {
		in.Failure = &claim.Failure{Class: rapid.SampledFrom([]string{"no-capacity", "not-ready", "transient", "permanent"}).Draw(t, "class")}
	}
	if bools.Draw(t, "ledger") {
		in.Ledger = &claim.LedgerFacts{
			State: rapid.SampledFrom([]ledger.ClaimState{ledger.ClaimPlanned, ledger.ClaimCreatedOnce, ledger.ClaimLaunching,
				ledger.ClaimLaunchFailed, ledger.ClaimLaunched, ledger.ClaimRegisteredState, ledger.ClaimInitializedState}).Draw(t, "state"),
			UID: "u1", Open: bools.Draw(t, "open"), Doomed: rapid.SampledFrom([]string{"", "expired"}).Draw(t, "doomed"), Terminated: bools.Draw(t, "recorded"),
			InstanceID: rapid.SampledFrom([]string{"", "i-1"}).Draw(t, "instance"), Inherited: bools.Draw(t, "inherited"),
		}
	}
	if bools.Draw(t, "object") {
		hour := time.Hour
		in.Object = &claim.ObjectFacts{
			UID: "u1", Created: times.Draw(t, "created"), LaunchedSince: times.Draw(t, "since"), RegisteredSince: times.Draw(t, "rsince"),
			Ours: bools.Draw(t, "ours"), Stray: bools.Draw(t, "stray"), Finalizer: bools.Draw(t, "finalizer"), Deleting: times.Draw(t, "deleting"),
			ProviderID: rapid.SampledFrom([]string{"", "aws:///a/i-1"}).Draw(t, "provider"), Registered: bools.Draw(t, "registered"),
			GracePeriod: bools.Draw(t, "tgp"), Stamped: bools.Draw(t, "stamped"), NodeName: rapid.SampledFrom([]string{"", "n"}).Draw(t, "node"),
			Tagged: bools.Draw(t, "tagged"),
		}
		if bools.Draw(t, "expires") {
			in.Object.ExpireAfter = &hour
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "nodes") {
		in.Nodes = append(in.Nodes, claim.NodeFacts{Name: "n", Deleting: bools.Draw(t, "nd"), Finalizer: bools.Draw(t, "nf"),
			Registered: bools.Draw(t, "nr"), Bare: bools.Draw(t, "nb"), Ready: bools.Draw(t, "nready"), Drained: bools.Draw(t, "ndrained")})
	}
	return in
}

func TestNextIsTotalLegalAndReplayable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		state, a := claim.StateOf(in), claim.Next(in)
		if _, err := claim.Apply(state, a.Move); err != nil {
			t.Fatalf("next move is not in the table: %v", err)
		}
		data, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		var again claim.Input
		if err := json.Unmarshal(data, &again); err != nil {
			t.Fatal(err)
		}
		if got := claim.Next(again); got != a {
			t.Fatalf("replayed %+v, decided %+v", got, a)
		}
		if a.Move == claim.Wait && !a.At.IsZero() && !a.At.After(in.Now) {
			t.Fatalf("waits until %v, which has passed", a.At)
		}
	})
}

// The rules: DESIGN §8.
func TestSafetyOfTheTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		a := claim.Next(in)
		if in.Object == nil && !in.ObjectGone && in.Ledger != nil && !slices.Contains([]claim.Move{claim.Find, claim.Resolve, claim.Create, claim.Withdraw, claim.Wait}, a.Move) {
			t.Fatalf("%s although nobody asked whether the object exists: %+v", a.Move, in)
		}
		held := slices.ContainsFunc(in.Nodes, func(n claim.NodeFacts) bool { return (n.Finalizer || n.Registered) && !n.Drained })
		hasInstance := in.Ledger != nil && in.Ledger.InstanceID != "" || in.Object != nil && in.Object.ProviderID != ""
		switch a.Move {
		case claim.Launch:
			if in.Ledger.Inherited {
				t.Fatalf("launches what another controller may have launched: %+v", in)
			}
			if in.Ledger.Open || hasInstance || in.Ledger.Doomed != "" || !in.Object.Deleting.IsZero() || !in.Object.Finalizer {
				t.Fatalf("launches beside an attempt, an instance, a doom or without finalizer: %+v", in)
			}
		case claim.Release, claim.Close:
			if in.Ledger.Open {
				t.Fatalf("lets go with an open attempt: %+v", in)
			}
			if in.Ledger.Inherited && !in.Sought && !hasInstance && !in.Ledger.Terminated {
				t.Fatalf("lets go of a claim whose instance nobody looked for: %+v", in)
			}
			if hasInstance && !in.Ledger.Terminated {
				t.Fatalf("lets go of a claim whose instance was not recorded as gone: %+v", in)
			}
		case claim.Terminate:
			if held {
				t.Fatalf("terminates under an undrained node: %+v", in)
			}
			if in.Object != nil && in.Object.Deleting.IsZero() {
				t.Fatalf("terminates a claim that is not deleted: %+v", in)
			}
		case claim.Confirm:
			if !in.Instance.Gone() {
				t.Fatalf("records an end EC2 did not tell: %+v", in)
			}
		case claim.Doom:
			if in.Ledger.Doomed != "" || !in.Object.Deleting.IsZero() {
				t.Fatalf("dooms twice: %+v", in)
			}
		}
	})
}

func TestReplayOfADoom(t *testing.T) {
	in := with(created(), func(in *claim.Input) { in.Now = t0.Add(5 * time.Minute) })
	a := claim.Next(in)
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	d := &ledger.ClaimDoomed{Claim: in.Name, UID: "u1", Reason: a.Reason, Message: a.Message, Input: data}
	if _, err := claim.Replay(d); err != nil {
		t.Errorf("replay: %v", err)
	}
	d.Reason = claim.ReasonExpired
	if _, err := claim.Replay(d); !errors.Is(err, claim.ErrNotDoomed) {
		t.Errorf("a forged reason replays: %v", err)
	}
	d.Input = []byte("{")
	if _, err := claim.Replay(d); err == nil {
		t.Error("unreadable input replays")
	}
}
