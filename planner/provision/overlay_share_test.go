package provision

import (
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner"
	"millwright/planner/catalog"
	"millwright/planner/plannertest"
	"millwright/planner/provision/internal/overlay"
	"millwright/tools/workload"
)

// TestOverlaysShareWhatTheyDoNotChange: of 700 instance types and 12 NodePools, only what an overlay changes
// is held a second time.
func TestOverlaysShareWhatTheyDoNotChange(t *testing.T) {
	adjustment := "-10%"
	family := &karpv1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: "family", UID: "family"}, Spec: karpv1alpha1.NodeOverlaySpec{
		PriceAdjustment: &adjustment,
		Requirements:    []corev1.NodeSelectorRequirement{{Key: awsv1.LabelInstanceFamily, Operator: corev1.NodeSelectorOpIn, Values: []string{"m5"}}},
	}}
	for name, list := range map[string][]*karpv1alpha1.NodeOverlay{"one family": {family}, "20 of all forms": benchOverlays()} {
		t.Run(name, func(t *testing.T) {
			c := problem(workload.Realistic(100))
			c.putOverlays(list...)
			s := c.snapshot()
			plain, types := map[*catalog.Catalog]bool{}, map[*catalog.InstanceType]bool{}
			for _, p := range s.World.NodePools() {
				of := overlay.CatalogOf(s.World, p)
				plain[of] = true
				for _, x := range of.Types {
					types[x] = true
				}
			}
			own, changed := map[*catalog.Catalog]bool{}, map[*catalog.InstanceType]bool{}
			before := heapBytes()
			overlay.Of(s)
			taken := heapBytes() - before
			for _, p := range s.World.NodePools() {
				pool, _ := overlay.Of(s).ByName(p.Name)
				if !plain[pool.Catalog] {
					own[pool.Catalog] = true
				}
				for _, x := range pool.Catalog.Types {
					if !types[x] {
						changed[x] = true
						if !pool.PriceOverlaid[x.Name] && !pool.CapacityOverlaid[x.Name] {
							t.Errorf("%s is held a second time although nothing changes it", x.Name)
						}
					}
				}
			}
			t.Logf("%d NodePools: %d changed catalogues, %d changed types of %d, %d KiB", len(s.World.NodePools()), len(own), len(changed), len(types), taken>>10)
			if len(own) != 1 || len(changed) == 0 || len(changed) > len(types) || taken > 1<<20 {
				t.Errorf("%d changed catalogues, %d changed types of %d, %d KiB; want one catalogue, no more types than there are, at most 1 MiB", len(own), len(changed), len(types), taken>>10)
			}
		})
	}
}

// TestOverlayAddsAResourceForEachNodeClass: EC2 offers the same to two NodeClasses, whose catalogues share
// what an overlay makes of a type.
func TestOverlayAddsAResourceForEachNodeClass(t *testing.T) {
	for _, wanted := range []string{"one", "two"} {
		c := newCluster()
		c.options = planner.PresentOptions()
		c.options.NodeOverlays = true
		for _, class := range []string{"default", "other"} {
			c.putCatalog(plannertest.WideCatalogue(class))
		}
		two := newPool("two")
		two.Spec.Template.Spec.NodeClassRef.Name = "other"
		c.put(newPool("one"), two)
		c.putOverlays(&karpv1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: "fuse", UID: "fuse"}, Spec: karpv1alpha1.NodeOverlaySpec{
			Requirements: []corev1.NodeSelectorRequirement{{Key: awsv1.LabelInstanceFamily, Operator: corev1.NodeSelectorOpIn, Values: []string{"m5"}}},
			Capacity:     corev1.ResourceList{"smarter-devices/fuse": resource.MustParse("1")},
		}})
		p := newPod("p", map[string]string{"cpu": "1", "smarter-devices/fuse": "1"})
		p.Spec.NodeSelector = map[string]string{karpv1.NodePoolLabelKey: wanted}
		c.put(p)
		if plan, _ := c.plan(t); claimsOf(plan) != 1 {
			t.Errorf("NodePool %s: %s", wanted, encode(plan))
		}
	}
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
