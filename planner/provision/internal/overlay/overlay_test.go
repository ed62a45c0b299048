package overlay_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/catalog"
	"millwright/planner/plannertest"
	"millwright/planner/provision/internal/overlay"
)

// TestOverlaidCatalogueFollowsTheWorld: what is remembered of overlays moves with prices, pools and the
// overlays themselves.
func TestOverlaidCatalogueFollowsTheWorld(t *testing.T) {
	half := "-50%"
	nodeOverlay := &karpv1alpha1.NodeOverlay{
		ObjectMeta: metav1.ObjectMeta{Name: "half", UID: "half", ResourceVersion: "1"},
		Spec: karpv1alpha1.NodeOverlaySpec{
			Requirements:    []corev1.NodeSelectorRequirement{{Key: "node.kubernetes.io/instance-type", Operator: corev1.NodeSelectorOpIn, Values: []string{"m5.large"}}},
			PriceAdjustment: &half, Capacity: corev1.ResourceList{"example.com/dongle": resource.MustParse("2")},
		},
	}
	c := plannertest.New(append(plannertest.WithCatalogue(), plannertest.Pool("default"))...)
	see := func(op events.Op) {
		o := events.Observation{Kind: events.KindNodeOverlay, Op: op, UID: "half", Name: "half", ResourceVersion: "1"}
		if op == events.OpUpsert {
			o.Object = nodeOverlay
		}
		c.Send(o)
	}
	snapshot := func(on bool) *planner.Snapshot {
		s := c.Snapshot()
		s.Options.NodeOverlays = on
		return s
	}
	of := func(pool string) *catalog.Catalog { return overlay.Catalog(snapshot(true), pool, "default") }
	want := func(sentence, pool, instanceType string, price, dongles int64) {
		t.Helper()
		it := of(pool).Type(instanceType)
		got := int64(0)
		for _, o := range it.Offerings {
			if o.CapacityType == "on-demand" {
				got = o.Price
			}
		}
		if n := it.Allocatable.Get("example.com/dongle"); got != price || n != dongles {
			t.Errorf("%s: %s of pool %q costs %d and has %d dongles, want %d and %d", sentence, instanceType, pool, got, n, price, dongles)
		}
	}
	want("no overlay", "default", "m5.large", 96000, 0)
	see(events.OpUpsert)
	want("overlaid", "default", "m5.large", 48000, 2)
	if overlay.Catalog(snapshot(false), "default", "default") != c.World.Catalog("default") {
		t.Error("overlays are applied although their gate is off")
	}
	want("another type", "default", "c5.large", 85000, 0)
	want("no pool", "", "m5.large", 96000, 0)
	if first, again := of("default"), of("default"); first != again {
		t.Error("overlays are applied anew although nothing has changed")
	}
	c.See(&events.Prices{Entries: []events.Price{{InstanceType: "m5.large", CapacityType: "on-demand", MicroUSDPerHour: 60000}}})
	want("the price has changed", "default", "m5.large", 30000, 2)
	c.See(plannertest.Pool("second"))
	want("a pool has come", "second", "m5.large", 30000, 2)
	see(events.OpDelete)
	want("the overlay is gone", "default", "m5.large", 60000, 0)
	if p := overlay.Problems(snapshot(true)); len(p) != 0 {
		t.Errorf("problems without overlays: %v", p)
	}
}

// The spec of a NodeOverlay that Go cannot read is empty (reading.Decode).
func TestAnOverlayThatCannotBeReadIsAProblem(t *testing.T) {
	o := &karpv1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: "odd", UID: "odd", ResourceVersion: "1"}}
	c := plannertest.New(append(plannertest.WithCatalogue(), plannertest.Pool("default"))...)
	c.Send(events.Observation{Kind: events.KindNodeOverlay, Op: events.OpUpsert, UID: "odd", Name: "odd", ResourceVersion: "1", Object: o})
	s := c.Snapshot()
	s.Options.NodeOverlays = true
	if problems := overlay.Problems(s); len(problems) != 1 || problems[0].Message != "the spec cannot be read" {
		t.Errorf("problems: %v", problems)
	}
}
