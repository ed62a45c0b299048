package disrupt_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
)

// spot is a spot node of the type x.big in a catalogue with so many smaller and cheaper types.
func spot(types int, gate bool) *pt.Cluster {
	table := "x.big 16 64 900000 amd64\n"
	for i := range types {
		table += fmt.Sprintf("y%02d.small 2 8 %d amd64\n", i, 100000+i*1000)
	}
	catalogue, prices := pt.Catalogue("default", table)
	c := pt.New(pt.NodeClass("default"), catalogue, prices, pt.Pool("p"))
	o := planner.DefaultOptions()
	o.SpotToSpot = gate
	c.Options(o)
	labels := func(m map[string]string) {
		m[corev1.LabelInstanceTypeStable], m[karpv1.CapacityTypeLabelKey] = "x.big", karpv1.CapacityTypeSpot
	}
	c.AddNode("a", "p", func(n *corev1.Node) { labels(n.Labels) })
	c.See(pt.Claim("a-claim", "a", "p", func(k *karpv1.NodeClaim) { labels(k.Labels) }), sized("x", "a", "1", "4Gi"))
	c.Advance(time.Hour)
	return c
}

// The rules: disruption §5.
func TestSpotToSpot(t *testing.T) {
	for name, tc := range map[string]struct {
		types int
		gate  bool
		kept  int
		why   string
	}{
		"without the gate":    {types: 20, why: "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"},
		"with too few types":  {types: 10, gate: true, why: "SpotToSpotConsolidation requires 15 cheaper instance type options than the current candidate to consolidate, got 10"},
		"with types to spare": {types: 20, gate: true, kept: 15},
	} {
		t.Run(name, func(t *testing.T) {
			d, r := disrupt.Plan(spot(tc.types, tc.gate).Snapshot())
			if tc.kept == 0 {
				want(t, "command", told(d), "")
				want(t, "why", r.Nodes[0].Blocked.Message, tc.why)
				return
			}
			claim := d.Payload.(*ledger.CommandStarted).Replacements[0]
			want(t, "types", len(claim.InstanceTypes), tc.kept)
			want(t, "the cheapest", strings.HasPrefix(claim.InstanceTypes[0], "y00"), true)
			for _, q := range claim.Requirements {
				if q.Key == karpv1.CapacityTypeLabelKey {
					want(t, "capacity type", strings.Join(q.Values, " "), karpv1.CapacityTypeSpot)
				}
			}
		})
	}
}

// A replacement is not planned again and again with a type that has no capacity at the moment.
func TestAReplacementIsNotWishedForWhereThereIsNoCapacity(t *testing.T) {
	c := busy(pt.Pool("p", onDemand), []string{"a"}, sized("x", "a", "1", "6Gi"))
	d, _ := disrupt.Plan(c.Snapshot())
	want(t, "before", told(d), "single a; x to a new m5.large")
	var failed []ledger.FailedOffering
	for _, zone := range pt.Zones {
		for _, name := range []string{"m5.large", "r5.large"} {
			failed = append(failed, ledger.FailedOffering{InstanceType: name, Zone: zone, CapacityType: karpv1.CapacityTypeOnDemand, Code: "InsufficientInstanceCapacity"})
		}
	}
	c.Record(ledger.KindLaunchFailed, &ledger.LaunchFailed{Claim: "other", Class: "no-capacity", Unavailable: failed})
	d, _ = disrupt.Plan(c.Snapshot())
	got := told(d)
	want(t, "a type that has none", strings.Contains(got, "m5.large") || strings.Contains(got, "r5.large"), false)
}

// A Balanced NodePool lets a command pass that saves at least half as much as it disrupts.
// The rules: disruption §5.
func TestBalanced(t *testing.T) {
	objects := []any{}
	for i := range 12 {
		objects = append(objects, sized(fmt.Sprintf("small%d", i), "a", "100m", "128Mi"))
	}
	objects = append(objects, sized("y", "b", "1", "1Gi"), sized("z", "c", "2600m", "12Gi"))
	pool := pt.Pool("p", onDemand, policy(karpv1.ConsolidationPolicyBalanced))
	d, _ := disrupt.Plan(busy(pool, []string{"a", "b", "c"}, objects...).Snapshot())
	want(t, "the node with many pods stays", strings.Contains(taken(d), "a"), false)
	x := d.Explanation.(disrupt.Explanation)
	want(t, "scored", len(x.Scores) == 1 && x.Scores[0].Thousandths >= 500, true)
}
