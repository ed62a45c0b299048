package provision

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/provision/internal/volume"
)

// Reservations of a plan never take more than is free, and a pod that insists on reserved capacity is refused
// only if none is left for it.
func TestReservationsHoldInEveryPlan(t *testing.T) {
	types := []string{"m5.large", "m5.xlarge", "c5.2xlarge"}
	rapid.Check(t, func(t *rapid.T) {
		s := &scene{pools: []*karpv1.NodePool{newPool("default")}}
		for i := range rapid.IntRange(1, 8).Draw(t, "pods") {
			p := newPod(fmt.Sprintf("pod-%d", i), map[string]string{"cpu": rapid.SampledFrom([]string{"500m", "1500m", "3", "7"}).Draw(t, "cpu")})
			switch rapid.IntRange(0, 4).Draw(t, "wants") {
			case 0:
				p.Spec.NodeSelector = map[string]string{karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeReserved}
			case 1:
				p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: rapid.SampledFrom([]string{"zone-a", "zone-b"}).Draw(t, "zone")}
			}
			if rapid.Bool().Draw(t, "alone") {
				p.Labels = map[string]string{"alone": "yes"}
				p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
					{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}}}}}
			}
			s.pods = append(s.pods, p)
		}
		free := map[string]int64{}
		type offered struct {
			instanceType, zone, id string
			n                      int64
		}
		var reserved []offered
		for range rapid.IntRange(1, 3).Draw(t, "offerings") {
			o := offered{rapid.SampledFrom(types).Draw(t, "type"), rapid.SampledFrom([]string{"zone-a", "zone-b"}).Draw(t, "in"),
				rapid.SampledFrom([]string{"cr-1", "cr-2"}).Draw(t, "id"), int64(rapid.IntRange(0, 3).Draw(t, "free"))}
			if known, ok := free[o.id]; o.n > 0 && (!ok || o.n < known) {
				free[o.id] = o.n
			}
			reserved = append(reserved, o)
		}
		c := s.cluster(nil)
		cat := *c.world.RawCatalog("default")
		cat.InstanceTypes = slices.Clone(cat.InstanceTypes)
		for _, o := range reserved {
			for i := range cat.InstanceTypes {
				if it := &cat.InstanceTypes[i]; it.Name == o.instanceType {
					it.Offerings = append(slices.Clone(it.Offerings), events.CatalogOffering{Zone: o.zone, ZoneID: "id-" + o.zone, CapacityType: karpv1.CapacityTypeReserved,
						Available: true, Reservation: &events.CatalogReservation{ID: o.id, Free: &o.n}})
				}
			}
		}
		c.putCatalog(&cat, &events.Prices{})
		for range 3 { // later rounds must not take it again
			c.confirmsItself(t)
			d, _ := Plan(c.snapshot())
			if d == nil {
				return
			}
			p := d.Payload.(*ledger.ProvisioningPlanned)
			for _, claim := range p.Claims {
				ids := checkReserved(t, &claim)
				for _, id := range ids {
					free[id]--
					if free[id] < 0 {
						t.Fatalf("reservation %s is used too often: %s", id, encode(p))
					}
				}
			}
			for _, r := range p.Refused {
				for _, ref := range r.Pods {
					for _, pod := range s.pods {
						if pod.Name == ref.Name && pod.Spec.NodeSelector[karpv1.CapacityTypeLabelKey] == "" {
							t.Fatalf("%s need not be reserved and is refused: %s", ref.Name, encode(r.Reasons))
						}
					}
				}
			}
			c.follow(t, d)
		}
	})
}

// checkReserved returns the reservations a claim names. It names some if and only if it is reserved capacity.
func checkReserved(t *rapid.T, c *ledger.PlannedClaim) (ids []string) {
	reservedOnly := false
	for _, r := range c.Requirements {
		switch r.Key {
		case karpv1.CapacityTypeLabelKey:
			reservedOnly = slices.Equal(r.Values, []string{karpv1.CapacityTypeReserved})
			if !reservedOnly && slices.Contains(r.Values, karpv1.CapacityTypeReserved) {
				t.Fatalf("reserved capacity is mixed with other: %+v", c)
			}
		case awsv1.LabelCapacityReservationID:
			ids = r.Values
		}
	}
	if reservedOnly != (len(ids) > 0) || reservedOnly != (c.Cheapest.CapacityType == karpv1.CapacityTypeReserved) {
		t.Fatalf("reserved %v, reservations %v, cheapest %+v", reservedOnly, ids, c.Cheapest)
	}
	return ids
}

// follow folds a decision.
func (c *cluster) follow(t *rapid.T, d *planner.Decision) {
	err := c.ledger.Apply(ledger.Entry{Seq: c.ledger.Seq() + 1, Time: c.now, Now: c.now, Service: "test", Mode: ledger.ModeActive, Kind: d.Kind, Payload: d.Payload, Advances: d.Advances})
	if err != nil {
		t.Fatal(err)
	}
}

// Pods stay in the zones of their volumes, and no node gets more volumes than its CSINode says.
func TestVolumesHoldInEveryPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &scene{pools: []*karpv1.NodePool{newPool("default")}}
		zones, limit := map[string][]string{}, map[string]int{}
		var more []metav1.Object
		for i := range rapid.IntRange(0, 3).Draw(t, "nodes") {
			n := newNode(fmt.Sprintf("node-%d", i), map[string]string{"cpu": "4", "memory": "8Gi", "pods": "20"}, map[string]string{corev1.LabelTopologyZone: rapid.SampledFrom([]string{"zone-a", "zone-b"}).Draw(t, "zone")})
			count := int32(rapid.IntRange(0, 3).Draw(t, "limit"))
			limit[n.Name] = int(count)
			s.nodes = append(s.nodes, n)
			more = append(more, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
				{Name: volume.EbsDriver, NodeID: n.Name, Allocatable: &storagev1.VolumeNodeResources{Count: &count}}}}})
		}
		claims := map[string][]string{}
		for i := range rapid.IntRange(1, 8).Draw(t, "pods") {
			p := newPod(fmt.Sprintf("pod-%d", i), map[string]string{"cpu": "300m"})
			for j := range rapid.IntRange(0, 2).Draw(t, "volumes") {
				name := fmt.Sprintf("data-%d-%d", i, j)
				claims[p.Name] = append(claims[p.Name], name)
				zone := rapid.SampledFrom([][]string{{"zone-a"}, {"zone-b"}, {"zone-a", "zone-b"}}).Draw(t, "in")
				zones[name] = zone
				p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
				more = append(more, boundClaim(name), zonalVolume(name, zone))
			}
			s.pods = append(s.pods, p)
		}
		c := s.cluster(nil)
		c.put(more...)
		d, round := Plan(c.snapshot())
		if len(round.Verdicts) != len(s.pods) {
			t.Fatalf("%d verdicts on %d pods", len(round.Verdicts), len(s.pods))
		}
		p := d.Payload.(*ledger.ProvisioningPlanned)
		in := func(pod string, possible []string) {
			for _, name := range claims[pod] {
				for _, z := range possible {
					if !slices.Contains(zones[name], z) {
						t.Fatalf("%s may be in %s, its volume %s in %v", pod, z, name, zones[name])
					}
				}
			}
		}
		for _, pl := range p.Placements {
			attached := 0
			for _, n := range s.nodes {
				if n.Name == pl.Node {
					for _, ref := range pl.Pods {
						in(ref.Name, []string{n.Labels[corev1.LabelTopologyZone]})
						attached += len(claims[ref.Name])
					}
				}
			}
			if attached > limit[pl.Node] {
				t.Fatalf("%d volumes on %s, which takes %d", attached, pl.Node, limit[pl.Node])
			}
		}
		for _, claim := range p.Claims {
			possible := []string{"zone-a", "zone-b", "zone-c"}
			for _, r := range claim.Requirements {
				if r.Key == corev1.LabelTopologyZone {
					possible = r.Values
				}
			}
			for _, ref := range claim.Pods {
				in(ref.Name, possible)
			}
		}
		for _, r := range p.Refused {
			for _, ref := range r.Pods {
				if v := claims[ref.Name]; len(v) < 2 || len(zones[v[0]])+len(zones[v[1]]) != 2 || zones[v[0]][0] == zones[v[1]][0] {
					t.Fatalf("%s is refused: %s", ref.Name, encode(r.Reasons))
				}
			}
		}
	})
}

func boundClaim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid-pvc", Annotations: map[string]string{volume.AnnotationBindCompleted: "yes"}},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: name},
	}
}

func zonalVolume(name string, zones []string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: volume.EbsDriver, VolumeHandle: name}
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "topology.ebs.csi.aws.com/zone", Operator: "In", Values: zones}}}}}}
	return v
}

// Where new nodes are not scarce, pods that come one by one are placed exactly if they are in one batch, and
// what was decided for the earlier ones stays.
func TestOneByOneRefusesNoMoreThanABatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		s.nodes, s.bound = nil, nil
		for _, p := range s.pools {
			p.Spec.Limits = nil
		}
		for _, p := range s.pods {
			p.Spec.Containers[0].Ports = nil
		}
		refused := func(c *cluster) map[string]bool {
			names := map[string]bool{}
			_, r := Plan(c.snapshot())
			for _, v := range r.Verdicts {
				if len(v.Reasons) > 0 {
					names[v.Pod.Name] = true
				}
			}
			return names
		}
		batch := refused(s.cluster(nil))
		pods := s.pods
		s.pods = nil
		c := s.cluster(nil)
		placed := map[string]string{}
		for _, p := range pods {
			c.put(p)
			d, r := Plan(c.snapshot())
			if d != nil {
				c.follow(t, d)
			}
			for _, v := range r.Verdicts {
				to := v.Node + v.Claim
				if was := placed[v.Pod.Name]; was != "" && to != was {
					t.Fatalf("%s moved from %s to %s when %s came", v.Pod.Name, was, to, p.Name)
				}
				placed[v.Pod.Name] = to
			}
		}
		if single := refused(c); encode(single) != encode(batch) {
			t.Fatalf("refused one by one: %v, in a batch: %v", single, batch)
		}
	})
}

// No plan costs less than the cheapest partition of the pods onto nodes, found by trying all; a plan for one
// pod costs exactly that, and none costs more than twice as much.
func TestPricesAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &scene{pools: []*karpv1.NodePool{newPool("default")}}
		var cpu, memory []int64
		for i := range rapid.IntRange(1, 5).Draw(t, "pods") {
			m, g := rapid.SampledFrom([]int64{500, 1500, 2500, 3700, 7000}).Draw(t, "cpu"), int64(rapid.IntRange(1, 20).Draw(t, "GiB"))
			cpu, memory = append(cpu, m), append(memory, g<<30)
			s.pods = append(s.pods, newPod(fmt.Sprintf("pod-%d", i), map[string]string{"cpu": fmt.Sprintf("%dm", m), "memory": fmt.Sprintf("%dGi", g)}))
		}
		c := s.cluster(nil)
		_, round := Plan(c.snapshot())
		if round.Refused > 0 {
			t.Fatalf("refused: %+v", round.Verdicts)
		}
		best := cheapestPartition(cpu, memory)
		switch {
		case round.PricePerHour < best:
			t.Fatalf("%d is less than any partition costs: %d", round.PricePerHour, best)
		case len(s.pods) == 1 && round.PricePerHour != best, round.PricePerHour > best*2:
			t.Fatalf("%d pods cost %d, the cheapest partition %d", len(s.pods), round.PricePerHour, best)
		}
	})
}

// cheapestPartition tries every way to divide the pods among nodes of the test catalogue, at spot prices of
// zone a, with 150 millicores for the DaemonSet and 100 for the system.
func cheapestPartition(cpu, memory []int64) int64 {
	type bin struct{ cpu, memory int64 }
	var bins []bin
	best := int64(1) << 62
	price := func(b bin) int64 {
		least := int64(1) << 62
		for _, f := range []struct{ memory, micro int64 }{{2, 42_500}, {4, 48_000}, {8, 63_000}} {
			for _, n := range []int64{2, 4, 8, 16} {
				if b.cpu+250 <= n*1000 && b.memory <= n*f.memory<<30-512<<20 {
					least = min(least, f.micro*n/100*30)
				}
			}
		}
		return least
	}
	var try func(i int)
	try = func(i int) {
		if i == len(cpu) {
			sum := int64(0)
			for _, b := range bins {
				p := price(b)
				if p == 1<<62 {
					return
				}
				sum += p
			}
			best = min(best, sum)
			return
		}
		for j := range bins {
			bins[j].cpu, bins[j].memory = bins[j].cpu+cpu[i], bins[j].memory+memory[i]
			try(i + 1)
			bins[j].cpu, bins[j].memory = bins[j].cpu-cpu[i], bins[j].memory-memory[i]
		}
		bins = append(bins, bin{cpu[i], memory[i]})
		try(i + 1)
		bins = bins[:len(bins)-1]
	}
	try(0)
	return best
}

// FuzzSnapshots plans on clusters whose objects were damaged in ways that still decode: no panic, a verdict
// on every pod that waits, and the same plan whatever the order.
func FuzzSnapshots(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		s := drawScene(t)
		objects := s.objects()
		for range rapid.IntRange(1, 6).Draw(t, "damages") {
			i := rapid.IntRange(0, len(objects)-1).Draw(t, "object")
			objects[i] = damaged(t, objects[i])
		}
		build := func(objects []metav1.Object) *cluster {
			c := newCluster()
			c.catalogue()
			c.put(objects...)
			return c
		}
		c := build(objects)
		d, round := Plan(c.snapshot())
		waiting := 0
		for _, p := range c.snapshot().World.PendingPods() {
			if p.Unschedulable && p.NodeName == "" && p.NominatedNode == "" && p.Active() && !p.Class.DaemonSetOwned() && !p.Class.Static() {
				waiting++
			}
		}
		if len(round.Verdicts) < waiting {
			t.Fatalf("%d verdicts, %d pods wait", len(round.Verdicts), waiting)
		}
		shuffled := slices.Clone(objects)
		rand.New(rand.NewSource(int64(rapid.Int32().Draw(t, "order")))).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if other, _ := Plan(build(shuffled).snapshot()); encode(d) != encode(other) {
			t.Fatalf("the order of the objects changed the plan:\n%s\n%s", encode(d), encode(other))
		}
	}))
}

func TestDamagedSnapshots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		objects := s.objects()
		for range rapid.IntRange(1, 6).Draw(t, "damages") {
			i := rapid.IntRange(0, len(objects)-1).Draw(t, "object")
			objects[i] = damaged(t, objects[i])
		}
		c := newCluster()
		c.catalogue()
		c.put(objects...)
		if d, _ := Plan(c.snapshot()); d != nil {
			c.follow(t, d)
			if again, _ := Plan(c.snapshot()); again != nil {
				t.Fatalf("decided again with nothing new: %s", encode(again))
			}
		}
	})
}

// damaged replaces one value somewhere in an object's JSON by another of its kind, or drops it. What does not
// decode any more, or has lost its name, stays as it was.
func damaged(t *rapid.T, obj metav1.Object) metav1.Object {
	raw, err := json.Marshal(obj)
	if err != nil {
		return obj
	}
	var tree map[string]any
	_ = json.Unmarshal(raw, &tree)
	for _, part := range []string{"spec", "status"} {
		if m, ok := tree[part].(map[string]any); ok && rapid.Bool().Draw(t, "in "+part) {
			damage(t, m)
		}
	}
	raw, _ = json.Marshal(tree)
	other := newOf(obj)
	if json.Unmarshal(raw, other) != nil {
		return obj
	}
	return other
}

func newOf(obj metav1.Object) metav1.Object {
	switch obj.(type) {
	case *corev1.Pod:
		return &corev1.Pod{}
	case *corev1.Node:
		return &corev1.Node{}
	case *karpv1.NodePool:
		return &karpv1.NodePool{}
	}
	return obj
}

func damage(t *rapid.T, m map[string]any) {
	keys := sortedKeysOf(m)
	if len(keys) == 0 {
		return
	}
	k := rapid.SampledFrom(keys).Draw(t, "key")
	switch v := m[k].(type) {
	case map[string]any:
		if len(v) > 0 && rapid.IntRange(0, 3).Draw(t, "deeper") > 0 {
			damage(t, v)
			return
		}
		delete(m, k)
	case []any:
		if x, ok := first(v).(map[string]any); ok && rapid.IntRange(0, 3).Draw(t, "deeper") > 0 {
			damage(t, x)
			return
		}
		m[k] = append(v, v...)
	case string:
		m[k] = rapid.SampledFrom([]string{"", "0", "-1", "1e30", "NoSchedule", "Always", "x y", "9223372036854775807"}).Draw(t, "text")
	case float64:
		m[k] = rapid.SampledFrom([]float64{0, -1, 1 << 31, 3}).Draw(t, "number")
	default:
		delete(m, k)
	}
}

func first(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

func sortedKeysOf(m map[string]any) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
