package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
	"millwright/services/internal/service"
	"millwright/store"
)

// newFleetRig is a rig whose launcher asks for the same for all claims; n of them are planned.
func newFleetRig(t *testing.T, n int) (r *rig, names []string) {
	t.Helper()
	r = newRig(t)
	r.together = true
	for range n {
		names = append(names, r.plan())
	}
	slices.Sort(names)
	return r, names
}

func (r *rig) all(names []string, done func(name string) func() bool) func() bool {
	return func() bool {
		return !slices.ContainsFunc(names, func(name string) bool { return !done(name)() })
	}
}

// launchedOnce demands that each claim has an instance of its own, and that nobody has any other.
func (r *rig) launchedOnce(names []string) {
	r.t.Helper()
	owners := map[string]string{}
	for _, name := range names {
		c := r.led.Claim(name)
		if c == nil || c.Instance == nil {
			r.t.Fatalf("%s has no instance: %v", name, r.kinds())
		}
		if other := owners[c.Instance.InstanceID]; other != "" {
			r.t.Errorf("%s and %s have %s", other, name, c.Instance.InstanceID)
		}
		owners[c.Instance.InstanceID] = name
	}
	for id, i := range r.ec2.instances {
		if owners[id] == "" && !i.Ending() {
			r.t.Errorf("nobody has %s: %v", id, r.ec2.describe())
		}
	}
}

// Claims of which equal things are asked go out with one request and one record, and each instance then bears
// the name of its claim (DESIGN §5).
func TestEqualClaimsAreLaunchedByOneRequest(t *testing.T) {
	r, names := newFleetRig(t, 5)
	r.run("launched", r.all(names, func(name string) func() bool {
		return func() bool { c := r.led.Claim(name); return c != nil && c.Instance != nil }
	}))
	if len(r.ec2.fleets) != 1 || r.count(ledger.KindFleetRequested) != 1 || r.count(ledger.KindFleetAnswered) != 1 || r.count(ledger.KindLaunchRequested) != 0 {
		t.Errorf("%d fleets: %v", len(r.ec2.fleets), r.kinds())
	}
	r.launchedOnce(names)
	for i, name := range names { // dealt out in the order of both
		if id := r.led.Claim(name).Instance.InstanceID; id != fmt.Sprintf("i-%04d", i+1) {
			t.Errorf("%s has %s", name, id)
		}
	}
	r.wait(5 * time.Second)
	for _, name := range names {
		if i := r.ec2.instances[r.led.Claim(name).Instance.InstanceID]; i.Tags[awsv1.TagNodeClaim] != name {
			t.Errorf("%s of %s bears %v", i.ID, name, i.Tags)
		}
	}
	r.run("nodes ready", r.all(names, r.ready))
}

// TestAFleetIsLaunchedExactlyOnceWhateverFails meets every append and every call until the nodes are ready
// with every fault.
func TestAFleetIsLaunchedExactlyOnceWhateverFails(t *testing.T) {
	clean, names := newFleetRig(t, 3)
	clean.run("nodes ready", clean.all(names, clean.ready))
	for _, f := range []fault{crashBefore, crashAfter, errorBefore, loseAnswer} {
		for at := 1; at <= clean.acts; at++ {
			t.Run(fmt.Sprintf("%s act %d %s", f, at, strings.ReplaceAll(clean.trail[at-1], " ", "-")), func(t *testing.T) {
				r, names := newFleetRig(t, 3)
				r.at, r.fault = at, f
				r.run("nodes ready", r.all(names, r.ready))
				r.launchedOnce(names)
				r.wait(time.Minute) // garbage collection has had its turn
				if len(r.ec2.instances) != 3 || r.count(ledger.KindOrphanFound) != 0 {
					t.Errorf("%v %v", r.ec2.describe(), r.kinds())
				}
			})
		}
	}
}

// Of a fleet with fewer instances than claims the first claims have them, and the others go.
func TestAFleetThatLaunchesFewer(t *testing.T) {
	r, names := newFleetRig(t, 3)
	r.ec2.exhausted["c5.large"], r.ec2.exhausted["m5.large"] = false, true
	r.ec2.stock = 2
	r.run("answered", func() bool { return r.count(ledger.KindFleetAnswered) == 1 })
	r.run("the last one closed", r.closed(names[2]))
	r.launchedOnce(names[:2])
	if len(r.ec2.instances) != 2 || r.count(ledger.KindClaimDoomed) != 1 {
		t.Errorf("%v %v", r.ec2.describe(), r.kinds())
	}
	for _, kind := range []string{"c5.large", "m5.large"} {
		if !r.led.Unavailable(ledger.OfferingKey{InstanceType: kind, Zone: "eu-1a", CapacityType: "on-demand"}, r.now) {
			t.Errorf("%s is not marked", kind)
		}
	}
}

// A claim that is deleted while its fleet is under way still gets its instance, which then ends with it.
func TestAClaimOfAFleetThatIsDeletedInFlight(t *testing.T) {
	r, names := newFleetRig(t, 3)
	r.ec2.refuse = []error{lostFleet, lostFleet}
	r.run("attempt open", func() bool { c := r.led.Claim(names[1]); return c != nil && c.Open != nil })
	r.kube.deleteClaim(names[1])
	r.run("it is closed", r.closed(names[1]))
	others := []string{names[0], names[2]}
	r.run("the others are ready", r.all(others, r.ready))
	r.launchedOnce(others)
	if len(r.ec2.instances) != 3 || r.count(ledger.KindFleetRequested) != 1 {
		t.Errorf("%v %v", r.ec2.describe(), r.kinds())
	}
}

// A fleet whose answer was lost is asked about again as soon as one of its claims is due: one that has failed
// often before must not hold up the others, nor have them look all the time.
func TestAFleetDoesNotWaitForTheSlowestOfItsClaims(t *testing.T) {
	r, names := newFleetRig(t, 3)
	r.ec2.refuse = []error{lostFleet}
	r.run("attempt open", func() bool { c := r.led.Claim(names[1]); return c != nil && c.Open != nil })
	r.svc.effects.Hold("claim/"+names[1], 5*time.Minute)
	began := r.now
	r.run("answered", func() bool { return r.count(ledger.KindFleetAnswered) == 1 })
	if took := r.now.Sub(began); took > time.Minute {
		t.Errorf("answered after %s", took)
	}
}

// What EC2 does not remember by its token is found by its tag, with the instances that have ended meanwhile:
// they were their claims'.
func TestAFleetOfAnotherTokenIsFoundByItsTag(t *testing.T) {
	r, names := newFleetRig(t, 3)
	r.recorded = map[ledger.Kind]func(){ledger.KindFleetRequested: func() { r.at, r.fault = r.acts+1, loseAnswer }}
	r.run("attempt open", func() bool { c := r.led.Claim(names[0]); return c != nil && c.Open != nil && len(r.ec2.instances) == 3 })
	r.ec2.mismatch, r.ec2.lag = true, 15*time.Second
	r.run("nodes ready", r.all(names, r.ready))
	r.launchedOnce(names)
	if len(r.ec2.instances) != 3 {
		t.Error(r.ec2.describe())
	}
}

// heldBack is a host among services of which one does not know some kinds.
type heldBack struct {
	*rig
	kinds []ledger.Kind
}

func (h *heldBack) Outcome(ctx context.Context, o service.Outcome) (rec store.Record, err error) {
	if slices.Contains(h.kinds, o.Kind) {
		return rec, fmt.Errorf("append %s: %w", o.Kind, service.ErrHeldBack)
	}
	return h.rig.Outcome(ctx, o)
}

// While a service of an older version is there, which would not know that one record opens several attempts,
// claims are launched one by one; one that comes while a fleet is under way has its answer recorded one by
// one.
func TestFleetsAmongOlderVersions(t *testing.T) {
	for name, kinds := range map[string][]ledger.Kind{
		"from the beginning": {ledger.KindFleetRequested, ledger.KindFleetAnswered}, "in flight": {ledger.KindFleetAnswered},
	} {
		t.Run(name, func(t *testing.T) {
			r, names := newFleetRig(t, 3)
			r.svc = New(&heldBack{r, kinds}, Deps{Cluster: "test", Cache: r.kube, Kube: r.kube, EC2: r.ec2, Launcher: fakeLauncher{r}})
			r.run("nodes ready", r.all(names, r.ready))
			r.launchedOnce(names)
			if len(r.ec2.instances) != 3 || r.count(ledger.KindLaunched) != 3 || r.count(ledger.KindFleetAnswered) != 0 {
				t.Errorf("%v %v", r.ec2.describe(), r.kinds())
			}
		})
	}
}

// An instance of a fleet that no claim is given is ended at sight once the fleet is answered.
func TestAnInstanceOfAFleetThatNobodyOwns(t *testing.T) {
	r, names := newFleetRig(t, 2)
	r.run("answered", func() bool { return r.count(ledger.KindFleetAnswered) == 1 })
	extra := *r.ec2.instances["i-0001"]
	extra.ID, extra.State = "i-0003", "running"
	r.ec2.instances[extra.ID] = &extra
	r.run("it ends", func() bool { return r.ec2.instances["i-0003"].Ending() })
	r.run("nodes ready", r.all(names, r.ready))
	r.launchedOnce(names)
}
