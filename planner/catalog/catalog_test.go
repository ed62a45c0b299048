package catalog

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner/bitset"
	"millwright/planner/requirement"
	"millwright/planner/resource"
)

func sample() *events.Catalog {
	offers := func(available bool) []events.CatalogOffering {
		var o []events.CatalogOffering
		for _, zone := range []string{"b", "a"} {
			for _, ct := range []string{"spot", "on-demand"} {
				o = append(o, events.CatalogOffering{Zone: zone, ZoneID: zone + "1", CapacityType: ct, Available: available})
			}
		}
		return o
	}
	return &events.Catalog{NodeClass: "default", Generation: 3, InstanceTypes: []events.CatalogInstanceType{
		{Name: "m5.large", Requirements: map[string][]string{"arch": {"amd64"}, "gpu": {}}, Capacity: map[string]int64{"cpu": 2000, "memory": 8 << 30, "pods": 29},
			Overhead: map[string]int64{"cpu": 70, "memory": 1 << 30}, Offerings: offers(true)},
		{Name: "g5.large", Requirements: map[string][]string{"arch": {"amd64", "arm64"}, "gpu": {"a10"}},
			Capacity: map[string]int64{"cpu": 4000, "memory": 16 << 30, "pods": 29, "nvidia.com/gpu": 1, "hugepages-2Mi": 1 << 30}, Offerings: offers(true)},
		{Name: "a1.large", Requirements: map[string][]string{"arch": {"arm64"}}, Capacity: map[string]int64{"cpu": 2000, "memory": 4 << 30, "pods": 29}, Offerings: offers(false)},
	}}
}

func samplePrices() Prices {
	return Prices{
		{"m5.large", "on-demand", ""}: 96000, {"m5.large", "spot", "a"}: 30000,
		{"g5.large", "on-demand", ""}: 900000, {"a1.large", "on-demand", ""}: 50000,
	}
}

func names(c *Catalog, b bitset.Set) []string {
	out := []string{}
	for i := range b.Members() {
		out = append(out, c.Types[i].Name)
	}
	return out
}

func TestNew(t *testing.T) {
	c := New(sample(), samplePrices())
	if got := names(c, c.All()); !slices.Equal(got, []string{"a1.large", "g5.large", "m5.large"}) {
		t.Fatalf("types %v", got)
	}
	m5 := c.Type("m5.large")
	if m5.Allocatable.MilliCPU != 1930 || m5.Allocatable.Memory != 7<<30 {
		t.Errorf("allocatable %+v", m5.Allocatable)
	}
	if g5 := c.Type("g5.large"); g5.Allocatable.Memory != 15<<30 {
		t.Errorf("huge pages are not taken off memory: %+v", g5.Allocatable)
	}
	var offered []string
	for _, o := range m5.Offerings {
		offered = append(offered, fmt.Sprintf("%s/%s %d %v", o.Zone, o.CapacityType, o.Price, o.Available))
	}
	want := []string{"a/on-demand 96000 true", "a/spot 30000 true", "b/on-demand 96000 true", "b/spot 0 false"}
	if !slices.Equal(offered, want) {
		t.Errorf("offerings %v, want %v", offered, want)
	}
	if got := m5.Requirements.Get(corev1.LabelTopologyZone).String(); got != "topology.kubernetes.io/zone In [a b]" {
		t.Errorf("zone: %s", got)
	}
	if len(c.Shapes) != 4 || !slices.Equal(names(c, c.Shapes[1].Offered), []string{"m5.large"}) {
		t.Errorf("shapes %+v", c.Shapes)
	}
	if c.Type("nope") != nil || New(nil, nil).All().Any() {
		t.Error("found what does not exist")
	}
}

func TestMatching(t *testing.T) {
	c := New(sample(), samplePrices())
	for name, x := range map[string]struct {
		r    requirement.Requirement
		want []string
	}{
		"a listed value":                   {requirement.In("arch", "arm64"), []string{"a1.large", "g5.large"}},
		"an unlisted value":                {requirement.In("arch", "s390x"), []string{}},
		"a type that says nothing passes":  {requirement.In("gpu", "a10"), []string{"a1.large", "g5.large"}},
		"what must not exist":              {requirement.DoesNotExist("gpu"), []string{"a1.large", "m5.large"}},
		"excluded value":                   {requirement.New("gpu", "NotIn", "a10"), []string{"a1.large", "m5.large"}},
		"a key no type has":                {requirement.In("team", "x"), []string{"a1.large", "g5.large", "m5.large"}},
		"capacity types span the offering": {requirement.In(karpv1.CapacityTypeLabelKey, "reserved"), []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := names(c, c.Matching(x.r)); !slices.Equal(got, x.want) {
				t.Errorf("got %v, want %v", got, x.want)
			}
		})
	}
}

func TestIndexAgreesWithLookingAtEachType(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := []string{"a", "b"}
		vals := []string{"1", "2", "5", "x"}
		n := rapid.IntRange(1, 70).Draw(t, "types")
		var types []*InstanceType
		for i := range n {
			it := &InstanceType{Hardware: &Hardware{Name: fmt.Sprintf("t%03d", i), Capacity: resource.Vector{MilliCPU: rapid.Int64Range(-1, 5).Draw(t, "cpu"), Memory: rapid.Int64Range(0, 5).Draw(t, "memory"), Pods: 3}}}
			it.Capacity.Set("gpu", rapid.Int64Range(0, 2).Draw(t, "gpu"))
			for _, k := range keys {
				op := rapid.SampledFrom([]corev1.NodeSelectorOperator{"In", "NotIn", "Gt", ""}).Draw(t, "op")
				switch op {
				case "In", "NotIn":
					it.Requirements = it.Requirements.Add(requirement.New(k, op, rapid.SliceOfN(rapid.SampledFrom(vals), 0, 3).Draw(t, "v")...))
				case "Gt":
					it.Requirements = it.Requirements.Add(requirement.New(k, op, "1"))
				}
			}
			types = append(types, it)
		}
		c := FromTypes("x", types...)
		op := rapid.SampledFrom([]corev1.NodeSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist", "Gt"}).Draw(t, "op")
		var values []string
		if op == "Gt" {
			values = []string{"1"}
		} else {
			values = rapid.SliceOfN(rapid.SampledFrom(vals), 0, 3).Draw(t, "values")
		}
		s := requirement.NewSet(requirement.New("a", op, values...), requirement.New("b", "In", "1", "x"))
		v := resource.Vector{MilliCPU: rapid.Int64Range(0, 6).Draw(t, "wantCPU"), Memory: rapid.Int64Range(0, 6).Draw(t, "wantMemory")}
		v.Set("gpu", rapid.Int64Range(0, 3).Draw(t, "wantGPU"))
		match, hold := c.MatchingSet(s), c.All()
		c.Narrow(hold, &v)
		for i, it := range c.Types {
			if match.Has(i) != it.Requirements.IntersectsSet(s) {
				t.Fatalf("%s against %s: %v", it.Requirements, s, match.Has(i))
			}
			if hold.Has(i) != v.Fits(it.Allocatable) {
				t.Fatalf("%+v in %+v: %v", v, it.Allocatable, hold.Has(i))
			}
		}
	})
}

func TestLargestIsWhatLookingAtEachTypeFinds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var types []*InstanceType
		for i := range rapid.IntRange(1, 90).Draw(rt, "types") {
			v := resource.Vector{
				MilliCPU: rapid.Int64Range(-2, 9).Draw(rt, "cpu"), Memory: rapid.Int64Range(0, 5).Draw(rt, "memory"),
				Pods: rapid.Int64Range(0, 3).Draw(rt, "pods"),
			}
			v.Set("gpu", rapid.Int64Range(0, 2).Draw(rt, "gpu"))
			types = append(types, &InstanceType{Hardware: &Hardware{Name: fmt.Sprintf("type-%02d", i), Capacity: v}})
		}
		c := FromTypes("default", types...)
		some := func(label string) bitset.Set {
			b := bitset.New(len(types))
			for i := range types {
				if rapid.Bool().Draw(rt, label) {
					b.Add(i)
				}
			}
			return b
		}
		b, within := some("in"), some("within")
		if rapid.Bool().Draw(rt, "no bound") {
			within = nil
		}
		var want resource.Vector
		for i, it := range c.Types {
			if b.Has(i) && (within == nil || within.Has(i)) {
				want = want.Max(it.Allocatable)
			}
		}
		if got := c.Largest(b, within, []corev1.ResourceName{"disk", "gpu"}); !got.Equal(want) {
			rt.Fatalf("largest %+v, want %+v", got, want)
		}
	})
}

// TestListsDifferByAllThatReservationsSay: what EC2 says of one replaces what it said before.
func TestListsDifferByAllThatReservationsSay(t *testing.T) {
	list := func(change func(*events.CatalogReservation), like ...*List) *List {
		free := int64(2)
		r := &events.CatalogReservation{ID: "cr-1", Type: "default", Free: &free}
		change(r)
		return NewList([]events.CatalogInstanceType{{Name: "m5.large", Capacity: map[string]int64{"cpu": 2000}, Offerings: []events.CatalogOffering{
			{Zone: "a", CapacityType: "reserved", Available: true, Reservation: r}}}}, like...)
	}
	before := list(func(*events.CatalogReservation) {})
	if list(func(*events.CatalogReservation) {}, before) != before {
		t.Error("nothing has changed, and the List is another")
	}
	for what, change := range map[string]func(*events.CatalogReservation){
		"id":            func(r *events.CatalogReservation) { r.ID = "cr-2" },
		"type":          func(r *events.CatalogReservation) { r.Type = "capacity-block" },
		"interruptible": func(r *events.CatalogReservation) { r.Interruptible = true },
		"free":          func(r *events.CatalogReservation) { *r.Free = 1 },
		"without limit": func(r *events.CatalogReservation) { r.Free = nil },
		"price":         func(r *events.CatalogReservation) { r.PicoUSDPerHour = 7 },
	} {
		var want events.CatalogReservation
		after := list(func(r *events.CatalogReservation) { change(r); want = *r }, before)
		if got := after.Published()[0].Offerings[0].Reservation; !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: %+v, want %+v", what, *got, want)
		}
	}
}
