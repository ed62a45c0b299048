package provision

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/world"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// cluster is a World and a Ledger that a test writes to.
type cluster struct {
	world   *world.World
	ledger  *ledger.Ledger
	counter uint64
	options planner.Options
	now     time.Time
}

func newCluster() *cluster {
	c := &cluster{world: world.New(), ledger: ledger.New("0123456789abcdef0123456789abcdef"), options: planner.DefaultOptions(), now: noon}
	c.options.InstanceTypesMax = 60
	c.world.SetIncarnation("test")
	c.observe(events.Observation{Op: events.OpResyncBegin})
	c.observe(events.Observation{Op: events.OpResyncEnd})
	return c
}

func (c *cluster) observe(o events.Observation) {
	c.counter++
	o.Epoch, o.Counter, o.ObservedAt = 1, c.counter, c.now
	c.world.Apply(c.counter, o)
}

// put folds objects; those without UID get one from their name.
func (c *cluster) put(objects ...metav1.Object) {
	for _, obj := range objects {
		if obj.GetUID() == "" {
			obj.SetUID(types.UID("uid-" + obj.GetName()))
		}
		name := obj.GetName()
		if obj.GetNamespace() != "" {
			name = obj.GetNamespace() + "/" + name
		}
		c.observe(events.Observation{Op: events.OpUpsert, Kind: kindOf(obj), UID: obj.GetUID(), Name: name, Object: obj})
	}
}

func (c *cluster) remove(obj metav1.Object) {
	name := obj.GetName()
	if obj.GetNamespace() != "" {
		name = obj.GetNamespace() + "/" + name
	}
	c.observe(events.Observation{Op: events.OpDelete, Kind: kindOf(obj), Name: name})
}

func kindOf(obj metav1.Object) events.Kind {
	name := strings.TrimPrefix(fmt.Sprintf("%T", obj), "*v1.")
	for k := events.Kind(0); k < 64; k++ {
		if k.String() == name {
			return k
		}
	}
	panic("no kind for " + name)
}

func (c *cluster) snapshot() *planner.Snapshot {
	s := planner.SnapshotAt(c.world, c.ledger, c.now)
	s.Options = c.options
	return s
}

// plan plans and folds the decision.
func (c *cluster) plan(t testing.TB) (*ledger.ProvisioningPlanned, Round) {
	t.Helper()
	d, r := Plan(c.snapshot())
	if d == nil {
		return nil, r
	}
	c.record(t, d.Kind, d.Payload, d.Advances...)
	return d.Payload.(*ledger.ProvisioningPlanned), r
}

func (c *cluster) record(t testing.TB, kind ledger.Kind, payload any, advances ...string) {
	t.Helper()
	err := c.ledger.Apply(ledger.Entry{Seq: c.ledger.Seq() + 1, Time: c.now, Now: c.now, Service: "test", Mode: ledger.ModeActive, Kind: kind, Payload: payload, Advances: advances})
	if err != nil {
		t.Fatal(err)
	}
}

// catalogue of c5, m5 and r5 in four sizes and three zones. Spot costs 30 % in zone a, 33 % in b, 36 % in c.
func (c *cluster) catalogue() {
	cat := &events.Catalog{NodeClass: "default", Generation: 1}
	prices := &events.Prices{}
	for _, family := range []struct {
		name     string
		memory   int64
		microUSD int64
	}{{"c5", 2, 42_500}, {"m5", 4, 48_000}, {"r5", 8, 63_000}} {
		for _, size := range []struct {
			name string
			cpu  int64
		}{{"large", 2}, {"xlarge", 4}, {"2xlarge", 8}, {"4xlarge", 16}} {
			name := family.name + "." + size.name
			t := events.CatalogInstanceType{
				Name: name,
				Requirements: map[string][]string{
					corev1.LabelInstanceTypeStable: {name}, corev1.LabelArchStable: {"amd64"}, corev1.LabelOSStable: {"linux"},
					awsv1.LabelInstanceFamily: {family.name}, awsv1.LabelInstanceSize: {size.name},
					awsv1.LabelInstanceCPU: {fmt.Sprint(size.cpu)}, awsv1.LabelInstanceGPUCount: {},
				},
				Capacity: map[string]int64{"cpu": size.cpu * 1000, "memory": size.cpu * family.memory << 30, "pods": 29 * size.cpu / 2, "ephemeral-storage": 20 << 30},
				Overhead: map[string]int64{"cpu": 100, "memory": 512 << 20},
			}
			for i, zone := range []string{"zone-a", "zone-b", "zone-c"} {
				for _, ct := range []string{karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot} {
					t.Offerings = append(t.Offerings, events.CatalogOffering{Zone: zone, ZoneID: "id-" + zone, CapacityType: ct, Available: true})
				}
				prices.Entries = append(prices.Entries, events.Price{InstanceType: name, CapacityType: karpv1.CapacityTypeSpot, Zone: zone, MicroUSDPerHour: family.microUSD * size.cpu / 100 * int64(30+3*i)})
			}
			prices.Entries = append(prices.Entries, events.Price{InstanceType: name, CapacityType: karpv1.CapacityTypeOnDemand, MicroUSDPerHour: family.microUSD * size.cpu})
			cat.InstanceTypes = append(cat.InstanceTypes, t)
		}
	}
	c.putCatalog(cat, prices)
}

func (c *cluster) putCatalog(cat *events.Catalog, prices *events.Prices) {
	c.observe(events.Observation{Op: events.OpUpsert, Kind: events.KindCatalog, UID: types.UID(cat.NodeClass), Name: cat.NodeClass, Object: &events.CatalogRef{NodeClass: cat.NodeClass, Hash: "hash", Catalog: cat}})
	c.observe(events.Observation{Op: events.OpUpsert, Kind: events.KindPrices, Object: prices})
}

func newPool(name string) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"}
	p.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionTypeReady, Status: metav1.ConditionTrue}}
	return p
}

func newPod(name string, requests map[string]string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: amounts(requests)}}}},
	}
	return pending(p)
}

func pending(p *corev1.Pod) *corev1.Pod {
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	return p
}

func bound(p *corev1.Pod, node string) *corev1.Pod {
	p.Spec.NodeName = node
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning}
	return p
}

func amounts(m map[string]string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for k, v := range m {
		list[corev1.ResourceName(k)] = resource.MustParse(v)
	}
	return list
}

func newNode(name string, capacity map[string]string, labels map[string]string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	for k, v := range labels {
		n.Labels[k] = v
	}
	n.Spec.ProviderID = "aws:///zone-a/i-" + name
	n.Status.Capacity, n.Status.Allocatable = amounts(capacity), amounts(capacity)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

func newDaemonSet(name string, requests map[string]string) *appsv1.DaemonSet {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
	ds.Spec.Template.Spec = newPod(name, requests).Spec
	return ds
}
