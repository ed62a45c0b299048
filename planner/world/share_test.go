package world_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner/world"
)

// plannedClaim is a NodeClaim as it is made from a plan: 600 instance types, in one of 40 lists, and the
// labels of a node.
func plannedClaim(i int) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("default-%05d", i), UID: types.UID(fmt.Sprint(i)), Labels: map[string]string{}}}
	var names []string
	for n := range 600 {
		names = append(names, fmt.Sprintf("m%d-flex.%dxlarge", i%40, n))
	}
	c.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: names}}
	for n := range 24 {
		c.Labels[fmt.Sprintf("karpenter.k8s.aws/instance-label-%02d", n)] = fmt.Sprint("value-", n)
	}
	return c
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestNodeClaimsShareTheirInstanceTypes: a World of many NodeClaims holds each list of types once, folded or
// restored, and the claims say what they said.
func TestNodeClaimsShareTheirInstanceTypes(t *testing.T) {
	const claims, bytesMax = 1000, 8 << 10
	w := world.New()
	before := heapBytes()
	for i := range claims {
		o := events.Observation{Epoch: 1, Counter: uint64(i + 1), Kind: events.KindNodeClaim, Op: events.OpUpsert, Object: plannedClaim(i)}
		o.Name = o.Object.(*karpv1.NodeClaim).Name
		data, err := events.Encode(o)
		if err != nil {
			t.Fatal(err)
		}
		if o, err = events.Decode(data); err != nil {
			t.Fatal(err)
		}
		w.Apply(uint64(i+1), o)
	}
	folded := (heapBytes() - before) / claims
	data := checkpoint(t, w)
	before = heapBytes()
	restored, err := world.Restore(data)
	if err != nil {
		t.Fatal(err)
	}
	again := (heapBytes() - before) / claims
	t.Logf("%d bytes for a NodeClaim, %d restored", folded, again)
	if folded > bytesMax || again > bytesMax {
		t.Errorf("%d bytes for a NodeClaim, %d restored, want at most %d", folded, again, bytesMax)
	}
	for _, i := range []int{0, 39, 40, 999} {
		want := plannedClaim(i)
		for _, from := range []*world.World{w, restored} {
			got := from.NodeClaim(want.Name)
			if !slices.Equal(got.Spec.Requirements[0].Values, want.Spec.Requirements[0].Values) || len(got.Labels) != 24 || got.Labels["karpenter.k8s.aws/instance-label-07"] != "value-7" {
				t.Errorf("NodeClaim %s is not as it was: %d types, labels %v", want.Name, len(got.Spec.Requirements[0].Values), got.Labels)
			}
		}
	}
}

// TestSharingLeavesTheObservationAlone: others hold the object too.
func TestSharingLeavesTheObservationAlone(t *testing.T) {
	first, second := plannedClaim(0), plannedClaim(40)
	values := second.Spec.Requirements[0].Values
	w := world.New()
	for i, c := range []*karpv1.NodeClaim{first, second} {
		w.Apply(uint64(i+1), events.Observation{Epoch: 1, Counter: uint64(i + 1), Kind: events.KindNodeClaim, Op: events.OpUpsert, Name: c.Name, Object: c})
	}
	if &second.Spec.Requirements[0].Values[0] != &values[0] {
		t.Error("the NodeClaim that was folded has other lists than before")
	}
	if a, b := w.NodeClaim(first.Name).Spec.Requirements[0].Values, w.NodeClaim(second.Name).Spec.Requirements[0].Values; &a[0] != &b[0] {
		t.Error("equal lists are held twice")
	}
}
