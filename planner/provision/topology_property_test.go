package provision

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"millwright/planner/ledger"
)

// app is a workload whose pods all carry one constraint on each other.
type app struct {
	name, kind string
	skew       int32
	zones      []string // nodeSelector or affinity; all if empty
	count      int
	near       string // affinity to another app
}

func drawApp(t *rapid.T, i int, before []app) app {
	a := app{name: fmt.Sprintf("app-%d", i), skew: int32(rapid.IntRange(1, 2).Draw(t, "skew")), count: rapid.IntRange(1, 7).Draw(t, "count")}
	a.kind = rapid.SampledFrom([]string{"plain", "zone-spread", "host-spread", "zone-anti", "host-anti", "zone-affinity", "host-affinity", "soft-spread", "near"}).Draw(t, "kind")
	if a.kind == "near" {
		if len(before) == 0 {
			a.kind = "plain"
		} else {
			a.near = rapid.SampledFrom(before).Draw(t, "near").name
		}
	}
	if rapid.IntRange(0, 2).Draw(t, "zoned") == 0 {
		a.zones = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"zone-a", "zone-b", "zone-c"}), 1, 2, func(s string) string { return s }).Draw(t, "zones")
	}
	return a
}

func (a *app) pod(n int, cpu string) *corev1.Pod {
	p := newPod(fmt.Sprintf("%s-%02d", a.name, n), map[string]string{"cpu": cpu})
	p.Labels = map[string]string{"app": a.name}
	self := &metav1.LabelSelector{MatchLabels: map[string]string{"app": a.name}}
	p.Spec.Affinity = &corev1.Affinity{}
	if len(a.zones) > 0 {
		p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: "In", Values: a.zones}}}}}}
	}
	spread := func(key string, when corev1.UnsatisfiableConstraintAction) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: a.skew, TopologyKey: key, WhenUnsatisfiable: when, LabelSelector: self}}
	}
	term := func(key, of string) []corev1.PodAffinityTerm {
		return []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": of}}}}
	}
	switch a.kind {
	case "zone-spread":
		spread(corev1.LabelTopologyZone, corev1.DoNotSchedule)
	case "host-spread":
		spread(corev1.LabelHostname, corev1.DoNotSchedule)
	case "soft-spread":
		spread(corev1.LabelTopologyZone, corev1.ScheduleAnyway)
	case "zone-anti":
		p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(corev1.LabelTopologyZone, a.name)}
	case "host-anti":
		p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(corev1.LabelHostname, a.name)}
	case "zone-affinity":
		p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(corev1.LabelTopologyZone, a.name)}
	case "host-affinity":
		p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(corev1.LabelHostname, a.name)}
	case "near":
		p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(corev1.LabelTopologyZone, a.near)}
	}
	return p
}

func TestTopologyHoldsInEveryPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &scene{}
		s.pools = append(s.pools, newPool("default"))
		var apps []app
		for i := range rapid.IntRange(1, 4).Draw(t, "apps") {
			a := drawApp(t, i, apps)
			apps = append(apps, a)
			for n := range a.count {
				s.pods = append(s.pods, a.pod(n, rapid.SampledFrom([]string{"100m", "1", "6"}).Draw(t, "cpu")))
			}
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "nodes") {
			n := newNode(fmt.Sprintf("node-%d", i), map[string]string{"cpu": "4", "memory": "64Gi", "pods": "20"},
				map[string]string{corev1.LabelTopologyZone: rapid.SampledFrom([]string{"zone-a", "zone-b", "zone-c"}).Draw(t, "zone")})
			s.nodes = append(s.nodes, n)
		}
		c := s.cluster(nil)
		c.confirmsItself(t)
		d, _ := Plan(c.snapshot())
		other, _ := Plan(s.cluster(rand.New(rand.NewSource(int64(rapid.Int32().Draw(t, "order"))))).snapshot())
		if a, b := encode(d), encode(other); a != b {
			t.Fatalf("the order of the objects changed the plan:\n%s\n%s", a, b)
		}
		if d == nil {
			return
		}
		where := placesOf(t, s, d.Payload.(*ledger.ProvisioningPlanned))
		for i := range apps {
			checkApp(t, &apps[i], where)
		}
		if err := c.ledger.Apply(ledger.Entry{Seq: c.ledger.Seq() + 1, Time: c.now, Now: c.now, Service: "test", Mode: ledger.ModeActive, Kind: d.Kind, Payload: d.Payload}); err != nil {
			t.Fatal(err)
		}
		if again, _ := Plan(c.snapshot()); again != nil && len(again.Payload.(*ledger.ProvisioningPlanned).Placements) > 0 {
			for _, p := range again.Payload.(*ledger.ProvisioningPlanned).Placements {
				for _, ref := range p.Pods {
					if where[ref.Name].host != "" {
						t.Fatalf("pod %s moved to %+v: %s", ref.Name, p, encode(again))
					}
				}
			}
		}
	})
}

// spot is where a pod goes: a node or claim, and the zones that may be in.
type spot struct {
	host  string
	zones []string
}

func placesOf(t *rapid.T, s *scene, p *ledger.ProvisioningPlanned) map[string]spot {
	where := map[string]spot{}
	for i, c := range p.Claims {
		zones := []string{"zone-a", "zone-b", "zone-c"}
		for _, r := range c.Requirements {
			if r.Key == corev1.LabelTopologyZone {
				zones = r.Values
			}
		}
		for _, ref := range c.Pods {
			where[ref.Name] = spot{fmt.Sprintf("claim-%d", i), zones}
		}
	}
	for _, pl := range p.Placements {
		for _, n := range s.nodes {
			if n.Name == pl.Node {
				for _, ref := range pl.Pods {
					where[ref.Name] = spot{n.Name, []string{n.Labels[corev1.LabelTopologyZone]}}
				}
			}
		}
	}
	for _, r := range p.Refused {
		for _, ref := range r.Pods {
			if len(r.Reasons) != 1 || r.Reasons[0].Constraint != "topology" {
				t.Fatalf("pod %s is refused for %+v", ref.Name, r.Reasons)
			}
			where[ref.Name] = spot{}
		}
	}
	return where
}

// checkApp checks the constraint of one app on the finished plan.
func checkApp(t *rapid.T, a *app, where map[string]spot) {
	perZone, perHost, refused := map[string]int32{}, map[string]int32{}, 0
	for n := range a.count {
		w := where[fmt.Sprintf("%s-%02d", a.name, n)]
		if w.host == "" {
			refused++
			continue
		}
		perHost[w.host]++
		for _, z := range w.zones {
			perZone[z]++
			if len(a.zones) > 0 && !slices.Contains(a.zones, z) {
				t.Fatalf("%+v may be in %s", a, z)
			}
		}
		if len(w.zones) > 1 && (a.kind == "zone-spread" || a.kind == "zone-anti" || a.kind == "zone-affinity") {
			t.Fatalf("%+v: zone is open: %+v", a, w)
		}
	}
	zones := a.zones
	if len(zones) == 0 {
		zones = []string{"zone-a", "zone-b", "zone-c"}
	}
	least, most := perZone[zones[0]], int32(0)
	for _, z := range zones {
		least, most = min(least, perZone[z]), max(most, perZone[z])
	}
	switch a.kind {
	case "zone-spread":
		if most-least > a.skew || refused > 0 {
			t.Fatalf("%+v: %v, %d refused", a, perZone, refused)
		}
	case "host-spread":
		checkMost(t, a, perHost, a.skew, refused)
	case "host-anti":
		checkMost(t, a, perHost, 1, refused)
	case "zone-anti":
		checkMost(t, a, perZone, 1, 0)
		if refused > max(0, a.count-len(zones)) {
			t.Fatalf("%+v: %v, %d refused", a, perZone, refused)
		}
	case "zone-affinity":
		if len(perZone) != 1 || refused > 0 {
			t.Fatalf("%+v: %v, %d refused", a, perZone, refused)
		}
	case "host-affinity":
		if len(perHost) != 1 {
			t.Fatalf("%+v: %v", a, perHost)
		}
	case "near":
		for z := range perZone {
			if !anyIn(where, a.near, z) {
				t.Fatalf("%+v: nobody of %s in %s", a, a.near, z)
			}
		}
	default:
		if refused > 0 {
			t.Fatalf("%+v: %d refused", a, refused)
		}
	}
}

func checkMost(t *rapid.T, a *app, per map[string]int32, most int32, refused int) {
	for d, n := range per {
		if n > most || refused > 0 {
			t.Fatalf("%+v: %d in %s, %d refused", a, n, d, refused)
		}
	}
}

func anyIn(where map[string]spot, app, zone string) bool {
	for name, w := range where {
		if name[:len(app)] == app && slices.Contains(w.zones, zone) {
			return true
		}
	}
	return false
}
