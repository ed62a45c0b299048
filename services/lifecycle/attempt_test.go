package lifecycle

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
	"millwright/services/internal/service"
	"millwright/services/lifecycle/launch"
)

func TestInsufficientCapacity(t *testing.T) {
	r := newRig(t)
	r.ec2.exhausted["c5.large"], r.ec2.exhausted["m5.large"] = true, true
	name := r.plan()
	r.run("claim closed", r.closed(name))
	want := []string{"ClaimCreated", "LaunchRequested", "LaunchFailed", "ClaimDoomed", "ClaimClosed"}
	if diff := cmp.Diff(want, r.lifecycleKinds()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	key := ledger.OfferingKey{InstanceType: "c5.large", Zone: "eu-1a", CapacityType: "on-demand"}
	if !r.led.Unavailable(key, r.now) {
		t.Error("the offering is not marked")
	}
	if !r.hasEvent("InsufficientCapacityError") {
		t.Error("no event")
	}
	// Every doom replays from its own record.
	for _, rec := range r.records {
		if ledger.Kind(rec.Kind) == ledger.KindClaimDoomed {
			replayDoom(t, rec.Payload)
		}
	}
	// A second claim is not even sent: no offering is left.
	sent := len(r.ec2.sent)
	second := r.plan()
	r.run("second closed", r.closed(second))
	if len(r.ec2.sent) != sent {
		t.Error("sent although every offering is marked")
	}
}

func TestPartialFleetMarksWhatFailed(t *testing.T) {
	r := newRig(t)
	r.ec2.exhausted["c5.large"] = true
	name := r.plan()
	r.run("node ready", r.ready(name))
	if got := r.kube.claims[name].Labels[corev1.LabelInstanceTypeStable]; got != "m5.large" {
		t.Errorf("launched %s", got)
	}
	if !r.led.Unavailable(ledger.OfferingKey{InstanceType: "c5.large", Zone: "eu-1a", CapacityType: "on-demand"}, r.now) {
		t.Error("the offering that failed is not marked")
	}
}

// TestAFleetThatSaysLittle: where an answer names only the instance, EC2 is asked about it, also if it is not
// visible at once.
func TestAFleetThatSaysLittle(t *testing.T) {
	r := newRig(t)
	r.ec2.terse, r.ec2.lag = true, 5*time.Second
	name := r.plan()
	r.run("node ready", r.ready(name))
	c := r.kube.claims[name]
	if c.Labels[corev1.LabelInstanceTypeStable] != "c5.large" || c.Labels[corev1.LabelTopologyZone] != "eu-1a" || c.Status.ProviderID != "aws:///eu-1a/i-0001" || c.Status.ImageID != "ami-1" {
		t.Errorf("%v %s %s", c.Labels, c.Status.ProviderID, c.Status.ImageID)
	}
	if n := len(r.ec2.instances); n != 1 {
		t.Errorf("%d instances", n)
	}
}

func TestUnknownOutcomes(t *testing.T) {
	cases := map[string]struct {
		refuse   []error
		mismatch bool
		attempts int
	}{
		"two lost calls are resent with the same token":  {refuse: []error{lostFleet, lostFleet}, attempts: 1},
		"throttling closes the attempt, another follows": {refuse: []error{apiError("RequestLimitExceeded")}, attempts: 2},
		"throttling after a lost call proves nothing":    {refuse: []error{lostFleet, apiError("RequestLimitExceeded")}, attempts: 1},
		"a missing template is made again":               {refuse: []error{apiError("InvalidLaunchTemplateId.NotFound")}, attempts: 2},
		"nor does a template that is gone by then":       {refuse: []error{lostFleet, apiError("InvalidLaunchTemplateId.NotFound")}, attempts: 1},
		"a quota that is full for now dooms no claim":    {refuse: []error{apiError("VcpuLimitExceeded"), apiError("MaxFleetCountExceeded")}, attempts: 3},
		"a refusal after a lost call is checked by tag":  {refuse: []error{lostFleet, apiError("UnauthorizedOperation")}, attempts: 1},
		"so is a quota that is full by then":             {refuse: []error{lostFleet, apiError("VcpuLimitExceeded")}, attempts: 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.ec2.refuse = c.refuse
			claimName := r.plan()
			r.run("node ready", r.ready(claimName))
			if got := r.count(ledger.KindLaunchRequested); got != c.attempts {
				t.Errorf("%d attempts, want %d: %v", got, c.attempts, r.kinds())
			}
			if len(r.ec2.instances) != 1 {
				t.Errorf("instances: %v", r.ec2.describe())
			}
		})
	}
}

// TestATemplateThatAFleetLacksIsMadeAgain: for an instant fleet EC2 names an unknown template in an answer,
// be it beside instances.
func TestATemplateThatAFleetLacksIsMadeAgain(t *testing.T) {
	for claims := 1; claims <= 2; claims++ {
		r := newRig(t)
		r.together = true
		r.ec2.failures = [][]ec2.FleetError{{{Code: "InvalidLaunchTemplateId.NotFound", Message: "no lt-1", InstanceType: "c5.large", Zone: "eu-1a"}}}
		var names []string
		for range claims {
			names = append(names, r.plan())
		}
		r.run("nodes ready", func() bool {
			return !slices.ContainsFunc(names, func(name string) bool { return !r.ready(name)() })
		})
		if !slices.Equal(r.forgotten, []string{"lt-1"}) || len(r.ec2.instances) != claims {
			t.Errorf("%d claims: forgot %v, have %v", claims, r.forgotten, r.ec2.describe())
		}
	}
}

// A claim that EC2 refuses again and again is looked at only when the next try is due; it says why meanwhile.
func TestALaunchThatFailsAgainAndAgainSaysWhy(t *testing.T) {
	for sentence, fail := range map[string]func(*fakeEC2){
		"the call is refused": func(f *fakeEC2) { f.refuse = slices.Repeat([]error{apiError("InvalidAMIID.NotFound")}, 100) },
		"the fleet is refused": func(f *fakeEC2) {
			f.failures = slices.Repeat([][]ec2.FleetError{{{Code: "InvalidAMIID.NotFound", Message: "nothing there"}}}, 100)
		},
	} {
		r := newRig(t)
		fail(r.ec2)
		name := r.plan()
		r.run(sentence, func() bool {
			text := r.shown(name, "Launched")
			return strings.HasPrefix(text, "Unknown/AMINotFound/The AMI does not exist: ")
		})
	}
}

func TestSpotThatTheAccountMayNotHaveIsTold(t *testing.T) {
	const code = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
	for sentence, forbid := range map[string]func(*fakeEC2){
		"the call is refused":  func(f *fakeEC2) { f.refuse = []error{apiError(code)} },
		"the fleet is refused": func(f *fakeEC2) { f.failures = [][]ec2.FleetError{{{Code: code, Message: "no"}}} },
	} {
		r := newRig(t)
		forbid(r.ec2)
		r.run(sentence, r.closed(r.plan()))
		if !r.led.Unavailable(ledger.OfferingKey{InstanceType: "m5.large", Zone: "eu-1b", CapacityType: "spot"}, r.now) {
			t.Errorf("%s: spot is not marked: %v", sentence, r.led.UnavailableOfferings(r.now))
		}
		told := slices.ContainsFunc(r.events, func(e service.KubeEvent) bool {
			return e.Type == "Warning" && e.Object.Kind == "NodeClaim" && e.Message == "Attempted to launch a spot instance but failed due to \""+code+"\""
		})
		if !told {
			t.Errorf("%s: told only %v", sentence, r.events)
		}
	}
}

func TestMismatchFindsTheInstanceByTag(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.at, r.fault = actOf(t, r, "create fleet"), loseAnswer
	r.ec2.mismatch = false
	r.run("attempt open", func() bool { c := r.led.Claim(name); return c != nil && c.Open != nil && len(r.ec2.instances) == 1 })
	r.ec2.mismatch, r.ec2.lag = true, 15*time.Second // EC2 does not show it at once
	r.run("node ready", r.ready(name))
	if len(r.ec2.instances) != 1 || r.count(ledger.KindLaunchRequested) != 1 {
		t.Errorf("%v %v", r.ec2.describe(), r.kinds())
	}
}

// actOf is the number of the act of this name in a clean run up to ready.
func actOf(t *testing.T, like *rig, name string) int {
	t.Helper()
	clean := newRig(t)
	claimName := clean.plan()
	clean.run("node ready", clean.ready(claimName))
	for i, n := range clean.trail {
		if n == name {
			return i + 1 + like.acts
		}
	}
	t.Fatalf("no act %s in %v", name, clean.trail)
	return 0
}

// A NodeClaim launches at most one instance: one that ended before its launch was recorded ends the claim,
// and its pods get another.
func TestATerminatedInstanceInTheAnswerEndsTheClaim(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.at, r.fault = actOf(t, r, "create fleet"), loseAnswer
	r.run("attempt open", func() bool { c := r.led.Claim(name); return c != nil && c.Open != nil && len(r.ec2.instances) == 1 })
	r.ec2.instances["i-0001"].State = "terminated"
	r.run("claim closed", r.closed(name))
	if r.count(ledger.KindLaunchRequested) != 1 || len(r.ec2.instances) != 1 || r.count(ledger.KindLaunched) != 1 {
		t.Errorf("%v %v", r.kinds(), r.ec2.describe())
	}
}

func TestAnOldAttemptIsSearchedNotSent(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.at, r.fault = actOf(t, r, "create fleet"), crashAfter
	r.run("attempt open", func() bool { c := r.led.Claim(name); return c != nil && c.Open != nil && len(r.ec2.instances) == 1 })
	sent := r.ec2.sent[r.led.Claim(name).Open.Token]
	r.now = r.now.Add(13 * time.Hour)
	r.kube.deleteClaim(name)
	token := r.led.Claim(name).Open.Token
	r.run("claim closed", r.closed(name))
	if r.ec2.sent[token] != sent {
		t.Error("a token older than EC2's memory was sent again")
	}
	if r.ec2.running() != 0 || r.count(ledger.KindLaunched) != 1 {
		t.Errorf("%v %v", r.kinds(), r.ec2.describe())
	}
}

func TestDeletionWithAnOpenAttemptWaits(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	lost := make([]error, 5)
	for i := range lost {
		lost[i] = lostFleet
	}
	r.ec2.refuse = lost
	r.run("attempt open", func() bool { c := r.led.Claim(name); return c != nil && c.Open != nil })
	r.kube.deleteClaim(name)
	r.run("claim closed", func() bool {
		if c := r.led.Claim(name); c != nil && c.Open != nil && r.kube.claims[name] == nil {
			t.Fatal("finalized with an open attempt")
		}
		return r.closed(name)()
	})
	if r.ec2.running() != 0 {
		t.Errorf("leaked: %v", r.ec2.describe())
	}
}

// requestFor is a request as the fake launcher makes it, for instances that belong to nothing.
func requestFor(r *rig) *awsec2.CreateFleetInput {
	built, err := fakeLauncher{r}.Build(context.Background(), launch.Input{
		Claim: &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "lost"}}, Types: []*catalog.InstanceType{{Hardware: &catalog.Hardware{Name: "m5.large"}}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return fakeLauncher{r}.Request(built, launch.Order{Claims: []string{"lost"}, Token: "t", LaunchTag: "other/lost/1"})
}
