package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/condition"
	"millwright/planner/ledger"
)

func (r *rig) ready(name string) func() bool {
	return func() bool {
		o := r.kube.claims[name]
		return o != nil && condition.IsTrue(o.Status.Conditions, karpv1.ConditionTypeReady) && o.Annotations[awsv1.TaggedAnnotationKey] == "true"
	}
}

// readyClaims plans n claims, and returns their names once all are ready.
func (r *rig) readyClaims(n int) (names []string) {
	r.t.Helper()
	for range n {
		names = append(names, r.plan())
	}
	r.run("all claims are ready", func() bool {
		return !slices.ContainsFunc(names, func(name string) bool { return !r.ready(name)() })
	})
	return names
}

func (r *rig) closed(name string) func() bool {
	return func() bool { return r.led.Claim(name) == nil && r.kube.claims[name] == nil }
}

func (r *rig) lifecycleKinds() []string {
	var kinds []string
	for _, rec := range r.records {
		if rec.Service == ledger.ServiceLifecycle {
			kinds = append(kinds, ledger.Kind(rec.Kind).String())
		}
	}
	return kinds
}

func TestAClaimsWholeLife(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("node ready", r.ready(name))
	o := r.kube.claims[name]
	if o.Status.NodeName != "node-i-0001" || o.Status.ImageID != "ami-1" || o.Status.Capacity.Cpu().MilliValue() != 2000 ||
		o.Status.Allocatable.Cpu().MilliValue() != 1930 || o.Labels[corev1.LabelInstanceTypeStable] != "c5.large" {
		t.Errorf("status = %+v\nlabels = %v", o.Status, o.Labels)
	}
	n := r.kube.nodes["node-i-0001"]
	if len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "team" || n.Labels[karpv1.NodeInitializedLabelKey] != "true" ||
		n.Labels[karpv1.NodePoolLabelKey] != "default" || n.Labels[corev1.LabelTopologyZone] != "eu-1a" {
		t.Errorf("node taints %v labels %v", n.Spec.Taints, n.Labels)
	}
	if tags := r.ec2.instances["i-0001"].Tags; tags["Name"] != "node-i-0001" {
		t.Errorf("tags = %v", tags)
	}
	r.kube.deleteClaim(name)
	r.run("claim closed", r.closed(name))
	want := []string{"ClaimCreated", "LaunchRequested", "Launched", "ClaimRegistered", "ClaimInitialized", "InstanceTerminated", "ClaimClosed"}
	if diff := cmp.Diff(want, r.lifecycleKinds()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if len(r.kube.nodes) != 0 || r.ec2.running() != 0 {
		t.Errorf("left over: %v %v", r.kube.describe(), r.ec2.describe())
	}
	for _, reason := range []string{"Launched", "Registered", "Initialized", "Ready", "InstanceTerminating", "Finalized"} {
		if !r.hasEvent(reason) {
			t.Errorf("no event %s", reason)
		}
	}
}

func TestAfterItsLifeNothingIsWritten(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("node ready", r.ready(name))
	r.wait(5 * time.Second)
	acts := r.acts
	r.wait(2 * time.Minute)
	if r.acts != acts {
		t.Errorf("a settled claim was written %d times: %v", r.acts-acts, r.trail[acts:])
	}
}

// TestExactlyOnceWhateverFails meets every append and every call of a claim's life with every fault.
func TestExactlyOnceWhateverFails(t *testing.T) {
	clean := newRig(t)
	name := clean.plan()
	clean.run("node ready", clean.ready(name))
	clean.kube.deleteClaim(name)
	clean.run("claim closed", clean.closed(name))
	t.Logf("%d acts: %v", clean.acts, clean.trail)
	for _, f := range []fault{crashBefore, crashAfter, errorBefore, loseAnswer} {
		for at := 1; at <= clean.acts; at++ {
			t.Run(fmt.Sprintf("%s act %d %s", f, at, strings.ReplaceAll(clean.trail[at-1], " ", "-")), func(t *testing.T) {
				r := newRig(t)
				r.at, r.fault = at, f
				name := r.plan()
				r.run("node ready", r.ready(name))
				if r.ec2.running() != 1 {
					t.Fatalf("%d instances run: %v", r.ec2.running(), r.ec2.describe())
				}
				r.kube.deleteClaim(name)
				r.run("claim closed", r.closed(name))
				r.wait(2 * time.Minute) // garbage collection has had its turn
				if n := len(r.ec2.instances); n != 1 {
					t.Errorf("%d instances were launched: %v", n, r.ec2.describe())
				}
				if r.count(ledger.KindOrphanFound) != 0 || r.ec2.running() != 0 || len(r.kube.nodes) != 0 {
					t.Errorf("left over or orphaned: %v %v %v", r.kinds(), r.ec2.describe(), r.kube.describe())
				}
			})
		}
	}
}

func TestEveryCrashWithReadLag(t *testing.T) {
	for at := 1; at <= 20; at++ {
		r := newRig(t)
		r.ec2.lag = 20 * time.Second
		r.at, r.fault = at, crashAfter
		name := r.plan()
		r.run("launched", func() bool { c := r.led.Claim(name); return c != nil && c.Instance != nil })
		r.kube.deleteClaim(name) // while EC2 does not show the instance yet
		r.run("claim closed", r.closed(name))
		r.wait(2 * time.Minute)
		if r.ec2.running() != 0 || len(r.ec2.instances) != 1 {
			t.Errorf("act %d: instance leaked: %v %v", at, r.ec2.describe(), r.kinds())
		}
	}
}

func TestNameTaken(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.kube.put(&r.kube.claims, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}})
	r.run("withdrawn", func() bool { return r.count(ledger.KindClaimWithdrawn) == 1 })
	if len(r.ec2.sent) != 0 {
		t.Error("launched for another's object")
	}
}

func TestPlannedClaimOfADeletedPoolIsWithdrawn(t *testing.T) {
	r := newRig(t)
	delete(r.kube.pools, "default")
	name := r.plan()
	r.run("withdrawn", func() bool { return r.led.Claim(name) == nil })
	if len(r.kube.claims) != 0 || r.count(ledger.KindClaimWithdrawn) != 1 {
		t.Errorf("%v %v", r.kube.describe(), r.kinds())
	}
}

// A NodeClaim that the API server does not take as it is planned never comes: its pods are planned for anew.
func TestAPlannedClaimThatTheAPIServerRefusesIsWithdrawn(t *testing.T) {
	r := newRig(t)
	r.kube.invalid = "a lowercase RFC 1123 label must consist of"
	name := r.plan()
	r.wait(10 * time.Second)
	if r.led.Claim(name) == nil {
		t.Fatalf("withdrawn after one answer: %v", r.kinds())
	}
	r.run("withdrawn", func() bool { return r.led.Claim(name) == nil })
	if len(r.kube.claims) != 0 || r.count(ledger.KindClaimWithdrawn) != 1 || !r.hasEvent("NodeClaimRefused") {
		t.Errorf("%v %v %+v", r.kube.describe(), r.kinds(), r.events)
	}
	r.kube.invalid = ""
	again := r.plan()
	r.run("launched", func() bool { c := r.led.Claim(again); return c != nil && c.Instance != nil })
}

// Policies of admission, and the webhooks of policy engines, refuse as if a right were missing.
func TestAPlannedClaimThatAPolicyDeniesIsWithdrawn(t *testing.T) {
	for _, message := range []string{
		`admission webhook "validation.gatekeeper.sh" denied the request: [owner] every object needs an owner`,
		`nodeclaims.karpenter.sh "x" is forbidden: ValidatingAdmissionPolicy 'owners' with binding 'owners' denied request: every object needs an owner`,
	} {
		testDenied(t, &metav1.Status{Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden, Message: message})
	}
}

func testDenied(t *testing.T, status *metav1.Status) {
	r := newRig(t)
	r.kube.denied = status
	name := r.plan()
	r.run("withdrawn", func() bool { return r.led.Claim(name) == nil })
	if len(r.kube.claims) != 0 || r.count(ledger.KindClaimWithdrawn) != 1 || !r.hasEvent("NodeClaimRefused") {
		t.Errorf("%v %v %+v", r.kube.describe(), r.kinds(), r.events)
	}
	r.kube.denied = nil
	again := r.plan()
	r.run("launched", func() bool { c := r.led.Claim(again); return c != nil && c.Instance != nil })
}

// Without a right, or a webhook that has to be asked, no NodeClaim is made: that is said of the NodePool, and
// what was planned is made once somebody has mended it.
func TestAPlannedClaimThatCannotBeMadeForNowIsMadeLater(t *testing.T) {
	for _, status := range []metav1.Status{
		{Code: 403, Reason: metav1.StatusReasonForbidden, Message: `nodeclaims.karpenter.sh is forbidden: User "x" cannot create resource "nodeclaims" in API group "karpenter.sh" at the cluster scope`},
		{Code: 500, Reason: metav1.StatusReasonInternalError, Message: `Internal error occurred: failed calling webhook "owners.example.com": context deadline exceeded`},
	} {
		r := newRig(t)
		status.Status = metav1.StatusFailure
		r.kube.denied = &status
		name := r.plan()
		r.wait(2 * time.Minute)
		if r.led.Claim(name) == nil || !r.hasEvent("NodeClaimRefused") {
			t.Errorf("%d: %v %+v", status.Code, r.kinds(), r.events)
		}
		r.kube.denied = nil
		r.run("launched", func() bool { c := r.led.Claim(name); return c != nil && c.Instance != nil })
	}
}

// Each withdrawal is recorded, and so is the plan that follows: they get rarer, until the NodePool is
// changed.
func TestClaimsThatAreAllRefusedAreWithdrawnEverMoreRarely(t *testing.T) {
	r := newRig(t)
	r.kube.invalid = "no such label"
	withdrawnAfter := func(change func()) time.Duration {
		name := r.plan()
		began := r.now
		r.wait(2 * time.Second)
		change()
		r.run("withdrawn", func() bool { return r.led.Claim(name) == nil })
		return r.now.Sub(began)
	}
	last := time.Duration(0)
	for n := range 3 {
		took := withdrawnAfter(func() {})
		if took < last*3/2 {
			t.Errorf("withdrawal %d after %s, the one before after %s", n+1, took, last)
		}
		last = took
	}
	took := withdrawnAfter(func() {
		changed := r.kube.pools["default"].DeepCopy()
		changed.Generation++
		r.kube.pools["default"] = changed
	})
	if took > refusedSoon {
		t.Errorf("%s after the NodePool was changed", took)
	}
}

// refusedSoon is how soon what was refused is planned anew, by a NodePool that has changed.
const refusedSoon = 15 * time.Second

func TestAPlannedClaimThatTheAPIServerRefusedForAMomentIsMade(t *testing.T) {
	r := newRig(t)
	r.kube.invalid = "not now"
	name := r.plan()
	r.wait(10 * time.Second)
	r.kube.invalid = ""
	r.run("launched", func() bool { c := r.led.Claim(name); return c != nil && c.Instance != nil })
	if r.count(ledger.KindClaimWithdrawn) != 0 {
		t.Error(r.kinds())
	}
}

func TestTheCacheMayLag(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.kube.hidden[name] = true
	r.run("launched", func() bool { c := r.led.Claim(name); return c != nil && c.Instance != nil })
	r.wait(90 * time.Second) // the watch hangs: scans still see the object
	if c := r.led.Claim(name); c == nil || r.ec2.running() != 1 || !r.kube.nodes["node-i-0001"].DeletionTimestamp.IsZero() {
		t.Fatalf("closed a claim whose object exists: %v", r.kinds())
	}
	r.kube.hidden[name] = false
	r.run("node ready", r.ready(name))
	if len(r.ec2.instances) != 1 {
		t.Errorf("%v", r.ec2.describe())
	}
}

func TestShadowModeDecidesOnceAndDoesNothing(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("node ready", r.ready(name))
	o := r.kube.claims[name].DeepCopy()
	o.Spec.ExpireAfter = karpv1.NewDuration(time.Second)
	r.kube.put(&r.kube.claims, o)
	r.mode = ledger.ModeShadow
	r.restart()
	acts := r.acts
	r.wait(time.Minute)
	if got := r.acts - acts; got != 1 {
		t.Errorf("%d acts in shadow mode: %v", got, r.trail[acts:])
	}
	if r.led.Claim(name).Doomed != nil {
		t.Error("a shadow doom counts")
	}
}
