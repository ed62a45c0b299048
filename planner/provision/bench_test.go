package provision

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/tools/workload"
)

// diverseTypes: the i-th of 400 has i CPU, 2i GiB and 10i pods, in three zones, at 0.1 per CPU and GB.
func (c *cluster) diverseTypes() {
	cat, prices := &events.Catalog{NodeClass: "default"}, &events.Prices{}
	for i := int64(1); i <= 400; i++ {
		name := fmt.Sprintf("type-%03d", i)
		t := events.CatalogInstanceType{
			Name:         name,
			Requirements: map[string][]string{corev1.LabelArchStable: {"amd64"}, corev1.LabelOSStable: {"linux"}},
			Capacity:     map[string]int64{"cpu": i * 1000, "memory": 2 * i << 30, "pods": 10 * i},
		}
		for _, zone := range []string{"zone-1", "zone-2", "zone-3"} {
			for _, ct := range []string{karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot} {
				t.Offerings = append(t.Offerings, events.CatalogOffering{Zone: zone, CapacityType: ct, Available: true})
			}
		}
		for _, ct := range []string{karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot} {
			prices.Entries = append(prices.Entries, events.Price{InstanceType: name, CapacityType: ct, MicroUSDPerHour: 300_000 * i})
		}
		cat.InstanceTypes = append(cat.InstanceTypes, t)
	}
	c.putCatalog(cat, prices)
}

// diversePods in fifths: plain, zone spread, hostname spread, zone self-affinity, hostname anti-affinity.
func (c *cluster) diversePods(n int, kinds ...string) {
	r := lcg(1)
	for i := range n {
		p := newPod(fmt.Sprintf("pod-%05d", i), map[string]string{
			"cpu":    []string{"100m", "250m", "500m", "1000m", "1500m"}[r.next(5)],
			"memory": []string{"100Mi", "256Mi", "512Mi", "1024Mi", "2048Mi", "4096Mi"}[r.next(6)],
		})
		value := string(rune('a' + r.next(7)))
		kind := kinds[i*len(kinds)/n]
		p.Labels = map[string]string{"my-label": value}
		self := &metav1.LabelSelector{MatchLabels: p.Labels}
		switch kind {
		case "zone-spread":
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: self}}
		case "hostname-spread":
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: self}}
		case "zone-affinity":
			p.Labels = map[string]string{"my-affinity": value}
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}}}}}
		case "hostname-anti":
			p.Labels = map[string]string{"app": "nginx"}
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}}}}}
		}
		c.put(p)
	}
}

// lcg is a small reproducible generator.
type lcg uint64

func (r *lcg) next(n int) int {
	*r = *r*6364136223846793005 + 1442695040888963407
	return int(uint64(*r)>>33) % n
}

func benchPlan(b *testing.B, c *cluster) {
	b.Helper()
	b.ReportAllocs()
	var round Round
	for b.Loop() {
		_, round = Plan(c.snapshot())
	}
	b.ReportMetric(float64(len(round.Claims)), "claims")
	b.ReportMetric(float64(round.Refused), "refused")
	b.ReportMetric(float64(round.PricePerHour)/1e6, "$/h")
}

func BenchmarkPlain(b *testing.B) {
	for _, n := range []int{1000, 5000, 20000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := newCluster()
			c.diverseTypes()
			c.put(newPool("default"))
			c.diversePods(n, "plain")
			benchPlan(b, c)
		})
	}
}

func BenchmarkDiverse(b *testing.B) {
	for _, n := range []int{1000, 5000, 20000, 100000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchPlan(b, problem(workload.Diverse(n))) })
	}
}

// BenchmarkSingle: one pending pod, 2,000 nodes that are nearly full, 60,000 running pods of 500 workloads.
func BenchmarkSingle(b *testing.B) {
	c := problem(workload.Single())
	runtime.GC()
	benchPlan(b, c)
}

// BenchmarkPreferences: 4,000 pods with a satisfiable zone preference, an unsatisfiable zone anti-preference
// and a satisfiable hostname anti-preference.
func BenchmarkPreferences(b *testing.B) { benchPlan(b, problem(workload.Preferences(4000))) }

// BenchmarkRealistic: 30,000 pending pods of 300 Deployments, 12 NodePools, 700 real instance types, 1,000
// nodes.
func BenchmarkRealistic(b *testing.B) { benchPlan(b, problem(workload.Realistic(30000))) }

// BenchmarkNodeCost prints, by node cost, how many nodes a plan has and what they cost without it: of 10,000
// pods of 300 Deployments, and of as many that demand nothing but room, on 700 real instance types.
func BenchmarkNodeCost(b *testing.B) {
	problems := map[string]func() *cluster{
		"realistic": func() *cluster { return problem(workload.Realistic(10000)) },
		"plain": func() *cluster {
			c := problem(&workload.Problem{Catalogue: workload.RealTypes(700)})
			c.put(newPool("default"))
			c.diversePods(10000, "plain")
			return c
		},
	}
	for _, name := range slices.Sorted(maps.Keys(problems)) {
		for _, cost := range []int64{0, 2500, 5000, 10_000, 20_000, 50_000} {
			b.Run(fmt.Sprintf("%s/$%.4f", name, float64(cost)/1e6), func(b *testing.B) {
				c := problems[name]()
				c.options.NodeCost = cost
				benchPlan(b, c)
			})
		}
	}
}

// BenchmarkOverlays is BenchmarkRealistic with 20 NodeOverlays of all forms, which change prices and capacity
// of most types. steady: as in a cluster, where catalogues and overlays stay between rounds; changed: one
// overlay changes before each round.
func BenchmarkOverlays(b *testing.B) {
	b.Run("steady", func(b *testing.B) {
		c := problem(workload.Realistic(30000))
		c.putOverlays(benchOverlays()...)
		benchPlan(b, c)
	})
	b.Run("changed", func(b *testing.B) {
		c := problem(workload.Realistic(30000))
		overlays := benchOverlays()
		c.putOverlays(overlays...)
		b.ReportAllocs()
		for b.Loop() {
			c.putOverlays(overlays[0])
			Plan(c.snapshot())
		}
	})
}

func (c *cluster) putOverlays(list ...*karpv1alpha1.NodeOverlay) {
	c.options.NodeOverlays = true
	for _, o := range list {
		c.observe(events.Observation{Op: events.OpUpsert, Kind: events.KindNodeOverlay, UID: o.UID, Name: o.Name, Object: o})
	}
}

func benchOverlays() []*karpv1alpha1.NodeOverlay {
	families := []string{"m5", "m6i", "m7i", "c5", "c6i", "c7i", "r5", "r6i", "r7i", "m6a"}
	var list []*karpv1alpha1.NodeOverlay
	for i := range 20 {
		o := &karpv1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("overlay-%02d", i), UID: types.UID(fmt.Sprintf("overlay-%02d", i))}}
		weight, adjustment := int32(i+1), fmt.Sprintf("-%d%%", i+1)
		o.Spec.Weight = &weight
		switch i % 4 {
		case 0: // all spot, or all on-demand
			o.Spec.Requirements = []corev1.NodeSelectorRequirement{{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{[]string{"spot", "on-demand"}[i/4%2]}}}
			o.Spec.PriceAdjustment = &adjustment
		case 1, 2:
			o.Spec.Requirements = []corev1.NodeSelectorRequirement{{Key: awsv1.LabelInstanceFamily, Operator: corev1.NodeSelectorOpIn, Values: families[i/2 : i/2+1]}}
			o.Spec.PriceAdjustment = &adjustment
		case 3:
			o.Spec.Requirements = []corev1.NodeSelectorRequirement{{Key: awsv1.LabelInstanceCategory, Operator: corev1.NodeSelectorOpIn, Values: []string{"c", "m"}}}
			o.Spec.Capacity = corev1.ResourceList{corev1.ResourceName(fmt.Sprintf("example.com/dongle-%d", i)): resource.MustParse("4")}
		}
		list = append(list, o)
	}
	return list
}

// BenchmarkWorst: rounds as bad as a cluster could make them.
func BenchmarkWorst(b *testing.B) {
	for _, w := range []struct {
		name string
		make func(int) *workload.Problem
		pods int
	}{{"Packed", workload.Packed, 5000}, {"Refused", workload.Refused, 20000}, {"Apart", workload.Apart, 50000}, {"Chain", workload.Chain, 5000}} {
		b.Run(fmt.Sprint(w.name, "/", w.pods), func(b *testing.B) { benchPlan(b, problem(w.make(w.pods))) })
	}
}
