package provision

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
)

// probing is a cluster with types a and b (dearer), each pod of which needs a node of its own, and NodePools
// for them.
func probing(t *testing.T, on bool) *cluster {
	t.Helper()
	c := newCluster()
	c.options.ProbeOfferings = on
	ref, prices := plannertest.Catalogue("default", "m5.large 2 8 96000 amd64\nr5.large 2 16 126000 amd64")
	c.putCatalog(ref.Catalog, prices)
	c.put(onDemand("only", "m5.large"))
	return c
}

func onDemand(name string, types ...string) *karpv1.NodePool {
	p := newPool(name)
	p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: corev1.LabelInstanceTypeStable, Operator: "In", Values: types},
		{Key: karpv1.CapacityTypeLabelKey, Operator: "In", Values: []string{karpv1.CapacityTypeOnDemand}}}
	return p
}

var usWest2 = []string{"us-west-2a", "us-west-2b", "us-west-2c"}

func (c *cluster) dry(t *testing.T, instanceType string, zones ...string) {
	t.Helper()
	var failed []ledger.FailedOffering
	for _, z := range zones {
		failed = append(failed, ledger.FailedOffering{InstanceType: instanceType, Zone: z, CapacityType: karpv1.CapacityTypeOnDemand, Code: "InsufficientInstanceCapacity"})
	}
	c.record(t, ledger.KindLaunchFailed, &ledger.LaunchFailed{Claim: "other", Class: "no-capacity", Unavailable: failed})
}

func (c *cluster) bigPods(n int) {
	for i := range n {
		c.put(newPod(fmt.Sprintf("p%02d", i), map[string]string{"cpu": "1500m"}))
	}
}

func claimsOf(p *ledger.ProvisioningPlanned) int {
	if p == nil {
		return 0
	}
	return len(p.Claims)
}

// TestOneClaimTriesAnUnprovenOffering plays ec2 §2.4: after a mark one claim at a time, all once one has been
// launched, none while marked.
func TestOneClaimTriesAnUnprovenOffering(t *testing.T) {
	c := probing(t, true)
	c.dry(t, "m5.large", usWest2...)
	c.bigPods(10)
	if p, _ := c.plan(t); claimsOf(p) != 0 {
		t.Fatalf("marked: %d claims", claimsOf(p))
	}
	c.now = c.now.Add(3 * time.Minute)
	p, r := c.plan(t)
	if claimsOf(p) != 1 || r.Planned != 1 || r.Refused != 9 {
		t.Fatalf("the mark is over: %d claims for %d pods, %d refused", claimsOf(p), r.Planned, r.Refused)
	}
	if text := FailureMessage(p.Refused[0].Reasons); !strings.Contains(text, "another NodeClaim is trying it") {
		t.Errorf("the others wait because: %s", text)
	}
	name := ledger.ClaimName(c.ledger.LogID(), "only", c.ledger.Seq(), 0)
	if p, _ := c.plan(t); claimsOf(p) != 0 {
		t.Fatalf("it is being tried: %d claims", claimsOf(p))
	}
	failedAt := c.now
	c.dry(t, "m5.large", usWest2...)
	c.record(t, ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: name})
	c.now = failedAt.Add(5 * time.Minute)
	if p, _ := c.plan(t); claimsOf(p) != 0 {
		t.Fatalf("marked for twice as long: %d claims", claimsOf(p))
	}
	c.now = failedAt.Add(6 * time.Minute)
	if p, _ = c.plan(t); claimsOf(p) != 1 {
		t.Fatalf("the second mark is over: %d claims", claimsOf(p))
	}
	name = ledger.ClaimName(c.ledger.LogID(), "only", c.ledger.Seq(), 0)
	c.record(t, ledger.KindLaunched, &ledger.Launched{Claim: name, InstanceType: "m5.large", Zone: usWest2[1], CapacityType: karpv1.CapacityTypeOnDemand, ProviderID: "aws:///us-west-2b/i-1", InstanceID: "i-1"})
	if p, _ = c.plan(t); claimsOf(p) != 9 {
		t.Fatalf("one is launched: %d claims for the other nine", claimsOf(p))
	}
}

// A failure so long ago that the next one would count as the first holds nobody back, and without the option
// none does.
func TestOfferingsThatNeedNoTrial(t *testing.T) {
	for title, tc := range map[string]struct {
		on    bool
		after time.Duration
	}{"long ago": {true, 34 * time.Minute}, "not asked for": {false, 3 * time.Minute}} {
		c := probing(t, tc.on)
		c.dry(t, "m5.large", usWest2...)
		c.bigPods(10)
		c.now = c.now.Add(tc.after)
		if p, _ := c.plan(t); claimsOf(p) != 10 {
			t.Errorf("%s: %d claims for ten pods", title, claimsOf(p))
		}
	}
}

// Whoever can have something else is planned as ever: in another zone, of another type, of another NodePool.
func TestOthersAreNotHeldUpByATrial(t *testing.T) {
	for title, change := range map[string]func(c *cluster){
		"another zone":     func(c *cluster) { c.dry(t, "m5.large", usWest2[0], usWest2[1]) },
		"another type":     func(c *cluster) { c.dry(t, "m5.large", usWest2...); c.put(onDemand("only", "m5.large", "r5.large")) },
		"another NodePool": func(c *cluster) { c.dry(t, "m5.large", usWest2...); c.put(onDemand("last", "r5.large")) },
	} {
		c := probing(t, true)
		change(c)
		c.bigPods(10)
		c.now = c.now.Add(3 * time.Minute)
		if p, r := c.plan(t); claimsOf(p) != 10 || r.Refused > 0 {
			t.Errorf("%s: %d claims, %d pods refused", title, claimsOf(p), r.Refused)
		}
	}
}

// Pods that can only go where the trial is not are tried for beside it.
func TestTrialsOfDifferentOfferings(t *testing.T) {
	c := probing(t, true)
	c.dry(t, "m5.large", usWest2...)
	for i := range 9 {
		p := newPod(fmt.Sprintf("p%d", i), map[string]string{"cpu": "1500m"})
		p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: usWest2[i%3]}
		c.put(p)
	}
	c.now = c.now.Add(3 * time.Minute)
	p, _ := c.plan(t)
	var zones []string
	for i := range p.Claims {
		zones = append(zones, p.Claims[i].Cheapest.Zone)
	}
	if slices.Sort(zones); !slices.Equal(zones, usWest2) {
		t.Errorf("claims in %v, want one for each zone", zones)
	}
}

// TestStaticPoolsInAStorm: a static NodePool makes no claim while nothing it could have is unmarked, and one
// at a time after the mark.
func TestStaticPoolsInAStorm(t *testing.T) {
	c := probing(t, true)
	p := onDemand("fixed", "r5.large")
	n := int64(5)
	p.Spec.Replicas = &n
	c.put(p)
	c.dry(t, "r5.large", usWest2...)
	if p, _ := c.plan(t); claimsOf(p) != 0 {
		t.Fatalf("marked: %d claims", claimsOf(p))
	}
	c.now = c.now.Add(3 * time.Minute)
	plan, _ := c.plan(t)
	if claimsOf(plan) != 1 {
		t.Fatalf("the mark is over: %d claims", claimsOf(plan))
	}
	name := ledger.ClaimName(c.ledger.LogID(), "fixed", c.ledger.Seq(), 0)
	if p, _ := c.plan(t); claimsOf(p) != 0 {
		t.Fatalf("it is being tried: %d claims", claimsOf(p))
	}
	c.record(t, ledger.KindLaunched, &ledger.Launched{Claim: name, InstanceType: "r5.large", Zone: usWest2[1], CapacityType: karpv1.CapacityTypeOnDemand, ProviderID: "aws:///us-west-2b/i-1", InstanceID: "i-1"})
	if p, _ := c.plan(t); claimsOf(p) != 4 {
		t.Fatalf("one is launched: %d claims", claimsOf(p))
	}
}
