package lifecycle

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/condition"
	"millwright/planner/nodepool"
	"millwright/planner/resource"
	"millwright/services/lifecycle/nodeclass"
)

// poolEvents are the messages of KubeEvents on NodePools, with their reason.
func (r *rig) poolEvents() []string {
	var out []string
	for _, e := range r.events {
		if e.Object.Kind == "NodePool" {
			out = append(out, e.Object.Name+" "+e.Type+" "+e.Reason+" "+e.Message)
		}
	}
	return out
}

func (r *rig) change(pool string, change func(*karpv1.NodePool)) {
	p := r.kube.pools[pool].DeepCopy()
	p.Generation++
	change(p)
	r.kube.put(&r.kube.pools, p)
	r.wait(3 * time.Second)
}

func TestEveryFaultOfANodePoolIsTold(t *testing.T) {
	r := newRig(t)
	r.wait(3 * time.Second)
	label := func(key string) func(*karpv1.NodePool) {
		return func(p *karpv1.NodePool) { p.Spec.Template.Labels = map[string]string{key: "x"} }
	}
	r.change("default", label("karpenter.sh/one"))
	r.change("default", label("karpenter.sh/two")) // False as before, but for another cause
	for _, key := range []string{"karpenter.sh/one", "karpenter.sh/two"} {
		if !slices.ContainsFunc(r.poolEvents(), func(e string) bool {
			return strings.HasPrefix(e, "default Warning ValidationSucceeded") && strings.Contains(e, key) && strings.Contains(e, "in labels")
		}) {
			t.Errorf("no event names %s: %q", key, r.poolEvents())
		}
	}
	n := len(r.poolEvents())
	r.wait(time.Minute)
	if got := len(r.poolEvents()); got != n {
		t.Errorf("%d more events without a change", got-n)
	}
}

func TestPoolsThatReferToNothingOfOurs(t *testing.T) {
	r := newRig(t)
	for name, ref := range map[string]karpv1.NodeClassReference{
		"kind":    {Group: "karpenter.k8s.aws", Kind: "EC2NodeClas", Name: "default"},
		"group":   {Group: "karpenter.aws", Kind: "EC2NodeClass", Name: "default"},
		"foreign": {Group: "karpenter.azure.com", Kind: "AKSNodeClass", Name: "default"},
	} {
		p := poolNamed(name, name)
		p.Spec.Template.Spec.NodeClassRef = &ref
		r.kube.put(&r.kube.pools, p)
	}
	r.wait(3 * time.Second)
	for _, name := range []string{"kind", "group"} {
		p := r.kube.pools[name]
		c := condition.Get(p.Status.Conditions, karpv1.ConditionTypeNodeClassReady)
		if c == nil || c.Status != "False" || c.Reason != "NodeClassNotSupported" || !strings.Contains(c.Message, "nodeClassRef") {
			t.Errorf("%s: %+v", name, c)
		}
		if len(p.Annotations) > 0 {
			t.Errorf("%s got a hash: %v", name, p.Annotations)
		}
	}
	if f := r.kube.pools["foreign"]; len(f.Status.Conditions) > 0 || len(f.Annotations) > 0 {
		t.Errorf("a pool of another provider was written to: %+v", f)
	}
}

func TestUnreadablePool(t *testing.T) {
	r := newRig(t)
	r.wait(3 * time.Second)
	before := r.kube.pools["default"].DeepCopy()
	r.change("default", func(p *karpv1.NodePool) {
		p.Spec, p.Unreadable = karpv1.NodePoolSpec{}, "spec.limits.cpu: quantities must match"
	})
	p := r.kube.pools["default"]
	c := condition.Get(p.Status.Conditions, karpv1.ConditionTypeValidationSucceeded)
	if c.Status != "False" || !strings.Contains(c.Message, "spec.limits.cpu") || condition.IsTrue(p.Status.Conditions, "Ready") {
		t.Errorf("conditions = %+v", p.Status.Conditions)
	}
	if p.Annotations[karpv1.NodePoolHashAnnotationKey] != before.Annotations[karpv1.NodePoolHashAnnotationKey] {
		t.Error("the hash of nothing was written")
	}
}

// A budget that can't be read is reported, and keeps nobody from making nodes; with another fault beside it
// the NodePool is not ready. The rules: api §1.6.
func TestABudgetThatCannotBeReadLeavesTheNodePoolReady(t *testing.T) {
	r := newRig(t)
	r.wait(3 * time.Second)
	cron := "whenever it suits"
	r.change("default", func(p *karpv1.NodePool) {
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "1", Schedule: &cron, Duration: &metav1.Duration{Duration: time.Hour}}}
	})
	conditions := func() []metav1.Condition { return r.kube.pools["default"].Status.Conditions }
	c := condition.Get(conditions(), karpv1.ConditionTypeValidationSucceeded)
	if c.Status != "False" || !strings.Contains(c.Message, "disruption.budgets[0].schedule") || !condition.IsTrue(conditions(), "Ready") {
		t.Errorf("with a bad budget: %+v", conditions())
	}
	r.change("default", func(p *karpv1.NodePool) { p.Spec.Template.Labels = map[string]string{"karpenter.sh/nodepool": "x"} })
	if condition.IsTrue(conditions(), "Ready") {
		t.Errorf("with a bad label too: %+v", conditions())
	}
	r.change("default", func(p *karpv1.NodePool) { p.Spec.Template.Labels, p.Spec.Disruption.Budgets = nil, nil })
	if !condition.IsTrue(conditions(), karpv1.ConditionTypeValidationSucceeded) || !condition.IsTrue(conditions(), "Ready") {
		t.Errorf("when all is well again: %+v", conditions())
	}
}

// restless is a Classes that always has something to write.
type restless struct{ r *rig }

func (x restless) Reconcile(_ context.Context, nc *awsv1.EC2NodeClass, _ []*karpv1.NodeClaim) (nodeclass.Change, time.Duration, error) {
	o := nc.DeepCopy()
	o.Status.InstanceProfile = x.r.now.Format(time.RFC3339Nano) + nc.ResourceVersion
	return nodeclass.Change{Object: o}, time.Minute, nil
}

func TestClassStatusIsWrittenAtABoundedRate(t *testing.T) {
	r := newRig(t)
	r.with(func(d *Deps) { d.Classes = restless{r} })
	r.wait(3 * time.Second)
	r.writtenOnceASecond(func() string { return r.kube.classes["default"].ResourceVersion }, func() {})
}

// writtenOnceASecond takes ten turns a second, with a change before each, and fails the test if an object of
// that resourceVersion is written never, or more than once a second.
func (r *rig) writtenOnceASecond(version func() string, change func()) {
	r.t.Helper()
	const seconds = 10
	writes := 0
	for range seconds {
		for range 10 {
			change()
			before := version()
			r.turn()
			if version() != before {
				writes++
			}
		}
		r.now = r.now.Add(time.Second)
	}
	if writes < 2 || writes > seconds+1 {
		r.t.Errorf("%d writes in %d seconds, want one a second at most", writes, seconds)
	}
}

func TestConditionsOfOthersStay(t *testing.T) {
	r := newRig(t)
	r.wait(3 * time.Second)
	foreign := metav1.Condition{Type: "example.com/Approved", Status: "True", Reason: "Asked", LastTransitionTime: metav1.NewTime(r.now.Truncate(time.Second))}
	r.change("default", func(p *karpv1.NodePool) {
		p.Status.Conditions = append(p.Status.Conditions, foreign)
		p.Spec.Weight = new(int32)
	})
	name := r.plan()
	r.run("node ready", r.ready(name))
	r.wait(3 * time.Second)
	p := r.kube.pools["default"]
	got := condition.Get(p.Status.Conditions, foreign.Type)
	if got == nil || *got != foreign || *p.Status.Nodes != 1 || !condition.IsTrue(p.Status.Conditions, "Ready") {
		t.Errorf("conditions = %+v", p.Status.Conditions)
	}
	if last := p.Status.Conditions[len(p.Status.Conditions)-1]; last.Type != "Ready" {
		t.Errorf("%s comes last, want Ready", last.Type)
	}
	for _, c := range p.Status.Conditions {
		if c.Type != foreign.Type && c.ObservedGeneration != p.Generation {
			t.Errorf("%s observed generation %d of %d", c.Type, c.ObservedGeneration, p.Generation)
		}
	}
}

func TestPoolStatusIsWrittenAtABoundedRate(t *testing.T) {
	r := newRig(t)
	r.wait(3 * time.Second)
	r.writtenOnceASecond(func() string { return r.kube.pools["default"].ResourceVersion }, func() {
		p := r.kube.pools["default"].DeepCopy()
		p.Generation++ // the status is to say which generation it is about
		r.kube.put(&r.kube.pools, p)
	})
}

func TestHashAndValidationFollowTheNodePool(t *testing.T) {
	r := newRig(t)
	r.wait(3 * time.Second)
	before := r.kube.pools["default"].Annotations[karpv1.NodePoolHashAnnotationKey]
	r.change("default", func(p *karpv1.NodePool) { p.Spec.Template.Labels = map[string]string{"karpenter.sh/one": "x"} })
	r.wait(3 * time.Second)
	p := r.kube.pools["default"]
	if c := condition.Get(p.Status.Conditions, karpv1.ConditionTypeValidationSucceeded); c.Status != metav1.ConditionFalse {
		t.Errorf("after a bad label: %+v", c)
	}
	if got, want := p.Annotations[karpv1.NodePoolHashAnnotationKey], nodepool.Hash(p); got != want || got == before {
		t.Errorf("hash is %s, of the new labels %s", got, want)
	}
}

// NodePool and NodeClass are often made together, in any order: that warns of nothing.
func TestAYoungNodePoolWarnsOfNothing(t *testing.T) {
	for age, want := range map[time.Duration]string{0: corev1.EventTypeNormal, time.Minute: corev1.EventTypeWarning} {
		r := newRig(t)
		p := poolNamed("new", "new-uid")
		p.Spec.Template.Spec.NodeClassRef.Name = "to-come"
		p.CreationTimestamp = metav1.NewTime(r.now.Add(-age))
		r.kube.put(&r.kube.pools, p)
		r.wait(5 * time.Second)
		var kinds []string
		for _, e := range r.events {
			if e.Object.Name == "new" && e.Reason == karpv1.ConditionTypeReady {
				kinds = append(kinds, e.Type)
			}
		}
		if !slices.Equal(kinds, []string{want}) {
			t.Errorf("a NodePool %s old: events %v, want one of type %s", age, kinds, want)
		}
	}
}

func TestNodePoolStatus(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("node ready", r.ready(name))
	r.wait(3 * time.Second)
	p := r.kube.pools["default"]
	if p.Annotations[karpv1.NodePoolHashAnnotationKey] != nodepool.Hash(p) {
		t.Errorf("annotations = %v", p.Annotations)
	}
	want := resource.Vector{MilliCPU: 2000, Memory: 8 << 30, Pods: 29}
	got := resource.From(p.Status.Resources)
	got.Set("nodes", 0)
	if d := got.Sub(want); !d.IsZero() {
		t.Errorf("resources = %+v", p.Status.Resources)
	}
	if p.Status.Nodes == nil || *p.Status.Nodes != 1 || !condition.IsTrue(p.Status.Conditions, "Ready") {
		t.Errorf("status = %+v", p.Status)
	}
	version := p.ResourceVersion
	r.wait(time.Minute)
	if r.kube.pools["default"].ResourceVersion != version {
		t.Error("written without a change")
	}
	bad := r.kube.pools["default"].DeepCopy()
	bad.Spec.Template.Labels = map[string]string{"karpenter.sh/custom": "x"}
	bad.Generation = 2
	r.kube.put(&r.kube.pools, bad)
	delete(r.kube.classes, "default")
	r.wait(3 * time.Second)
	p = r.kube.pools["default"]
	if c := condition.Get(p.Status.Conditions, "ValidationSucceeded"); c.Status != "False" || !strings.Contains(c.Message, "karpenter.sh/custom") {
		t.Errorf("validation = %+v", c)
	}
	if c := condition.Get(p.Status.Conditions, "NodeClassReady"); c.Reason != "NodeClassNotFound" {
		t.Errorf("class = %+v", c)
	}
	if c := condition.Get(p.Status.Conditions, "Ready"); c.Status != "False" {
		t.Errorf("ready = %+v", c)
	}
}
