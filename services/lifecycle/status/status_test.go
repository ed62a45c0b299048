package status

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
)

// poolCache has NodePools only.
type poolCache struct {
	Cache
	pools []*karpv1.NodePool
}

func (c *poolCache) NodePools() []*karpv1.NodePool { return c.pools }

// Hash and validation cost as much as everything else about a NodePool: they are made once for each state of
// it.
func TestNodePoolsAreReadWhenTheyChange(t *testing.T) {
	cache := &poolCache{pools: []*karpv1.NodePool{{ObjectMeta: metav1.ObjectMeta{Name: "default"}}}}
	k := &Keeper{deps: Deps{Cache: cache}}
	read := func() (annotations uintptr, invalid error) {
		k.readPools()
		p := k.pools["default"]
		return reflect.ValueOf(p.annotations).Pointer(), p.invalid
	}
	before, invalid := read()
	if invalid != nil {
		t.Fatal(invalid)
	}
	if after, _ := read(); after != before {
		t.Error("an unchanged NodePool was read again")
	}
	changed := cache.pools[0].DeepCopy()
	changed.Spec.Template.Labels = map[string]string{"karpenter.sh/one": "x"}
	cache.pools[0] = changed
	if after, invalid := read(); after == before || invalid == nil {
		t.Errorf("a changed NodePool was not read again: %v", invalid)
	}
	cache.pools = nil
	if k.readPools(); len(k.pools) != 0 {
		t.Error("what is gone is kept")
	}
}

func TestNothingIsRememberedOfObjectsThatAreGone(t *testing.T) {
	k := New(nil, nil, NewRegistrations(), Deps{})
	k.classDone("class", "v", time.Unix(1, 0))
	k.registrations.Succeeded("pool")
	k.judged["claim"] = "AMIDrift"
	if k.Len() != 3 {
		t.Fatalf("%d things are remembered", k.Len())
	}
	k.Prune(nil, nil, nil)
	if k.Len() != 0 {
		t.Errorf("%d things are remembered", k.Len())
	}
}
