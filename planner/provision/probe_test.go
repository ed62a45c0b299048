package provision

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
	"millwright/planner/options"
	"millwright/planner/plannertest"
)

// probing is a cluster with types a and b (dearer), each pod of which needs a node of its own, and NodePools
// for them. Like a region's, its catalogue has many other types, before and after them.
func probing(t *testing.T, on bool) *cluster {
	t.Helper()
	c := newCluster()
	c.options.ProbeOfferings = on
	types := []string{"m5.large 2 8 96000 amd64", "r5.large 2 16 126000 amd64"}
	for i := range 100 {
		types = append(types, fmt.Sprintf("a%d.large 2 8 96000 amd64", i), fmt.Sprintf("z%d.large 2 8 96000 amd64", i))
	}
	ref, prices := plannertest.Catalogue("default", strings.Join(types, "\n"))
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

// accelerated makes m5.large a type with an accelerator, and waves of at most four.
func accelerated(t *testing.T) *cluster {
	t.Helper()
	c := newCluster()
	c.options.ProbeOfferings, c.options.AcceleratedWave = true, 4
	ref, prices := plannertest.Catalogue("default", "m5.large 2 8 96000 amd64\nr5.large 2 16 126000 amd64")
	for i := range ref.Catalog.InstanceTypes {
		if x := &ref.Catalog.InstanceTypes[i]; x.Name == "m5.large" {
			x.Requirements[awsv1.LabelInstanceGPUCount] = []string{"1"}
		}
	}
	c.putCatalog(ref.Catalog, prices)
	c.put(onDemand("only", "m5.large"))
	return c
}

// TestWavesOfAcceleratedClaims: four are in flight at most, or as many as were launched lately; what was
// launched long ago is no reason to expect more.
func TestWavesOfAcceleratedClaims(t *testing.T) {
	c := accelerated(t)
	c.bigPods(30)
	launched := 0
	next := func(want int) {
		t.Helper()
		p, r := c.plan(t)
		if claimsOf(p) != want {
			t.Fatalf("after %d launches %d claims, want %d", launched, claimsOf(p), want)
		}
		if want == 0 {
			return
		}
		if launched == 0 { // later they wait for the same reason
			if text := FailureMessage(p.Refused[0].Reasons); !strings.Contains(text, "being launched as may be at once") || r.Refused == 0 {
				t.Errorf("the others wait because: %s", text)
			}
		}
		if again, _ := c.plan(t); claimsOf(again) != 0 {
			t.Fatalf("they are in flight: %d claims", claimsOf(again))
		}
		seq := c.ledger.Seq()
		for i := range want {
			name := ledger.ClaimName(c.ledger.LogID(), "only", seq, i)
			c.record(t, ledger.KindLaunchRequested, &ledger.LaunchRequested{Claim: name, Attempt: 1})
			launched++
			c.record(t, ledger.KindLaunched, &ledger.Launched{Claim: name, Attempt: 1, InstanceType: "m5.large", Zone: usWest2[0], CapacityType: karpv1.CapacityTypeOnDemand,
				ProviderID: fmt.Sprintf("aws:///us-west-2a/i-%d", launched), InstanceID: fmt.Sprintf("i-%d", launched)})
		}
	}
	next(4)
	next(4)
	next(8)
	c.now = c.now.Add(time.Hour)
	next(4)
}

// Claims that may not have reserved capacity, or not all of it, are bounded like any other. By earlier rules
// they did not count once they were planned.
func TestWavesCountClaimsThatExcludeReservations(t *testing.T) {
	for title, x := range map[string]struct {
		operator corev1.NodeSelectorOperator
		values   []string
		revision int
		want     int
	}{
		"none":             {corev1.NodeSelectorOpDoesNotExist, nil, options.Revision8, 4},
		"not all":          {corev1.NodeSelectorOpNotIn, []string{"cr-1"}, options.Revision8, 4},
		"by earlier rules": {corev1.NodeSelectorOpDoesNotExist, nil, options.Revision7, 20},
	} {
		c := accelerated(t)
		c.options.Revision = x.revision
		p := onDemand("only", "m5.large")
		p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements,
			karpv1.NodeSelectorRequirementWithMinValues{Key: awsv1.LabelCapacityReservationID, Operator: x.operator, Values: x.values})
		c.put(p)
		c.bigPods(30)
		sum := 0
		for range 5 {
			p, _ := c.plan(t)
			sum += claimsOf(p)
		}
		if sum != x.want {
			t.Errorf("%s: %d claims are in flight, want %d", title, sum, x.want)
		}
	}
}

// Whoever can have another type, in this NodePool or another, is not held up.
func TestWavesHoldUpNobodyElse(t *testing.T) {
	for title, change := range map[string]func(c *cluster){
		"another type":     func(c *cluster) { c.put(onDemand("only", "m5.large", "r5.large")) },
		"another NodePool": func(c *cluster) { c.put(onDemand("last", "r5.large")) },
		"without a bound":  func(c *cluster) { c.options.AcceleratedWave = 0 },
	} {
		c := accelerated(t)
		change(c)
		c.bigPods(30)
		if p, r := c.plan(t); claimsOf(p) != 30 || r.Refused > 0 {
			t.Errorf("%s: %d claims, %d pods refused", title, claimsOf(p), r.Refused)
		}
	}
}

// TestStaticPoolsLaunchInWaves too.
func TestStaticPoolsLaunchInWaves(t *testing.T) {
	c := accelerated(t)
	p := onDemand("fixed", "m5.large")
	n := int64(30)
	p.Spec.Replicas = &n
	c.put(p)
	if p, _ := c.plan(t); claimsOf(p) != 4 {
		t.Errorf("%d claims, want 4", claimsOf(p))
	}
	if p, _ := c.plan(t); claimsOf(p) != 0 {
		t.Errorf("four are in flight: %d claims", claimsOf(p))
	}
}

// TestWhatLacksAsSpotIsTriedOnDemand by one claim, since both run on the same machines; the next follow
// once it was launched. A quota of one says nothing about the other.
func TestWhatLacksAsSpotIsTriedOnDemand(t *testing.T) {
	for code, want := range map[string]int{"InsufficientInstanceCapacity": 1, "MaxSpotInstanceCountExceeded": 10} {
		c := probing(t, true)
		c.options.AcceleratedWave = 50
		both := onDemand("only", "m5.large")
		both.Spec.Template.Spec.Requirements[1].Values = []string{karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot}
		c.put(both)
		var failed []ledger.FailedOffering
		for _, z := range usWest2 {
			failed = append(failed, ledger.FailedOffering{InstanceType: "m5.large", Zone: z, CapacityType: karpv1.CapacityTypeSpot, Code: code})
		}
		c.record(t, ledger.KindLaunchFailed, &ledger.LaunchFailed{Claim: "other", Class: "no-capacity", Unavailable: failed})
		c.bigPods(10)
		if p, _ := c.plan(t); claimsOf(p) != want {
			t.Errorf("%s: %d claims, want %d", code, claimsOf(p), want)
			continue
		}
		if want > 1 {
			continue
		}
		name := ledger.ClaimName(c.ledger.LogID(), "only", c.ledger.Seq(), 0)
		c.record(t, ledger.KindLaunchRequested, &ledger.LaunchRequested{Claim: name, Attempt: 1})
		c.record(t, ledger.KindLaunched, &ledger.Launched{Claim: name, Attempt: 1, InstanceType: "m5.large", Zone: usWest2[1], CapacityType: karpv1.CapacityTypeOnDemand, ProviderID: "aws:///us-west-2b/i-1", InstanceID: "i-1"})
		if p, _ := c.plan(t); claimsOf(p) != 9 {
			t.Errorf("one is launched: %d claims for the other nine", claimsOf(p))
		}
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
