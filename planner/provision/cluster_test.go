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
	"millwright/planner/plannertest"
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

// catalogue makes the EC2NodeClass offer plannertest's wide one.
func (c *cluster) catalogue() { c.putCatalog(plannertest.WideCatalogue("default")) }

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
