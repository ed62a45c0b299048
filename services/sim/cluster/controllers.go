package cluster

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"millwright/events"
)

// controllers hold what Kubernetes' controllers are to bring about.
type controllers struct {
	*Cluster
	// deployments by name, in the order they were made.
	deployments []*Deployment
	pods        int
	pending     map[string]bool
}

// Deployment keeps a number of equal pods.
type Deployment struct {
	Name     string
	Replicas int
	Labels   map[string]string
	// Annotations and Spec of its pods.
	Annotations map[string]string
	Spec        corev1.PodSpec
	// MaySurge: it creates a new pod before it removes an old one.
	MaySurge bool
	// surges are what its template was changed to, one after the other.
	surges []string
}

func (k *Cluster) startControllers() {
	k.scheduler = &scheduler{Cluster: k, nodes: map[string]*corev1.Node{}}
	k.controllers = &controllers{Cluster: k, pending: map[string]bool{}}
	k.Watch(func(kind events.Kind, before, after Object) {
		switch kind {
		case events.KindPod:
			k.scheduler.wake()
			k.controllers.soon("replicas", 50, 300, k.controllers.replicate)
			k.controllers.soon("budgets", 20, 250, k.controllers.countBudgets)
		case events.KindNode:
			k.scheduler.seeNode(before, after)
			k.controllers.soon("daemons", 100, 600, k.controllers.runDaemons)
		case events.KindDaemonSet:
			k.controllers.soon("daemons", 100, 600, k.controllers.runDaemons)
		case events.KindPodDisruptionBudget:
			k.controllers.soon("budgets", 20, 250, k.controllers.countBudgets)
		}
		if after == nil {
			k.collect(before)
		}
	})
}

// soon runs a controller once for all changes until then.
func (k *controllers) soon(name string, from, to int, run func()) {
	if k.pending[name] {
		return
	}
	k.pending[name] = true
	k.clock.After(k.between(from, to), func() {
		k.pending[name] = false
		run()
	})
}

// Deploy makes or replaces a Deployment.
func (k *Cluster) Deploy(d Deployment) {
	i := slices.IndexFunc(k.controllers.deployments, func(have *Deployment) bool { return have.Name == d.Name })
	if i < 0 {
		k.controllers.deployments = append(k.controllers.deployments, &d)
	} else {
		k.controllers.deployments[i] = &d
	}
	k.controllers.soon("replicas", 50, 300, k.controllers.replicate)
}

// Scale sets the number of pods of a Deployment.
func (k *Cluster) Scale(name string, replicas int) {
	for _, d := range k.controllers.deployments {
		if d.Name == name {
			d.Replicas = replicas
		}
	}
	k.controllers.soon("replicas", 50, 300, k.controllers.replicate)
}

// Deployments in the order they were made.
func (k *Cluster) Deployments() []*Deployment { return k.controllers.deployments }

// replicate makes and deletes pods until each Deployment has its number.
func (k *controllers) replicate() {
	for _, d := range k.deployments {
		var have []*corev1.Pod
		for _, p := range k.Pods() {
			if p.Labels["app"] == d.Name && p.DeletionTimestamp == nil && !isTerminal(p) {
				have = append(have, p)
			}
		}
		if old := slices.DeleteFunc(slices.Clone(have), func(p *corev1.Pod) bool { return templateOf(p) == d.template() }); len(old) > 0 {
			k.rollOut(d, have, old)
			continue
		}
		for range d.Replicas - len(have) {
			k.makePod(d)
		}
		// Pods without a node go first, as with a ReplicaSet.
		slices.SortStableFunc(have, func(a, b *corev1.Pod) int { return len(a.Spec.NodeName) - len(b.Spec.NodeName) })
		for i := range len(have) - d.Replicas {
			k.endPod(have[i], graceOf(have[i]))
		}
	}
}

func (k *controllers) makePod(d *Deployment) *corev1.Pod {
	k.pods++
	yes, set, labels := true, replicaSetName(d.Name, d.template()), maps.Clone(d.Labels)
	labels[appsv1.DefaultDeploymentUniqueLabelKey] = d.template()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("%s-%03d", d.Name, k.pods), Labels: labels, Annotations: d.Annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set, UID: types.UID("rs-" + set), Controller: &yes}},
		},
		Spec: *d.Spec.DeepCopy(), Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	k.put(events.KindPod, p)
	return p
}

// runDaemons makes the pods of DaemonSets on the Nodes they tolerate.
func (k *controllers) runDaemons() {
	for _, o := range k.all(events.KindDaemonSet) {
		ds := o.(*appsv1.DaemonSet)
		spec := daemonSpec(ds)
		for _, n := range k.Nodes() {
			if n.DeletionTimestamp == nil && tolerated(spec, n.Spec.Taints) && !k.hasDaemon(ds, n.Name) {
				k.makeDaemon(ds, spec, n.Name)
			}
		}
	}
}

// daemonSpec adds the tolerations every DaemonSet's pods get.
func daemonSpec(ds *appsv1.DaemonSet) *corev1.PodSpec {
	spec := ds.Spec.Template.Spec.DeepCopy()
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeUnschedulable} {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
	return spec
}

func (k *controllers) hasDaemon(ds *appsv1.DaemonSet, node string) bool {
	return slices.ContainsFunc(k.PodsOn(node), func(p *corev1.Pod) bool {
		c := metav1.GetControllerOf(p)
		return c != nil && c.UID == ds.UID
	})
}

func (k *controllers) makeDaemon(ds *appsv1.DaemonSet, spec *corev1.PodSpec, node string) {
	k.pods++
	yes := true
	spec = spec.DeepCopy()
	spec.NodeName = node
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ds.Namespace, Name: fmt.Sprintf("%s-%03d", ds.Name, k.pods), Labels: ds.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: ds.Name, UID: ds.UID, Controller: &yes}},
		},
		Spec: *spec, Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	k.put(events.KindPod, p)
	k.clock.After(k.between(200, 1500), func() { k.startPod(keyOf(p), p.UID, node) })
}

// budgetsOf lists the budgets that select a pod, by key. They select by labels, without expressions.
func (k *Cluster) budgetsOf(p *corev1.Pod) []*policyv1.PodDisruptionBudget {
	var list []*policyv1.PodDisruptionBudget
	for _, o := range k.all(events.KindPodDisruptionBudget) {
		b := o.(*policyv1.PodDisruptionBudget)
		if b.Namespace == p.Namespace && carries(p.Labels, b.Spec.Selector.MatchLabels) {
			list = append(list, b)
		}
	}
	return list
}

// countBudgets brings the status of all budgets up to date.
func (k *controllers) countBudgets() {
	for _, o := range k.all(events.KindPodDisruptionBudget) {
		b := o.(*policyv1.PodDisruptionBudget)
		after := b.DeepCopy()
		after.Status.ExpectedPods, after.Status.CurrentHealthy = 0, 0
		for _, p := range k.Pods() {
			if b.Namespace != p.Namespace || !carries(p.Labels, b.Spec.Selector.MatchLabels) || isTerminal(p) {
				continue
			}
			after.Status.ExpectedPods++
			if isReadyPod(p) && p.DeletionTimestamp == nil {
				after.Status.CurrentHealthy++
			}
		}
		after.Status.ExpectedPods = int32(k.replicasOf(b, int(after.Status.ExpectedPods)))
		after.Status.DesiredHealthy = desired(b, after.Status.ExpectedPods)
		after.Status.DisruptionsAllowed = max(0, after.Status.CurrentHealthy-after.Status.DesiredHealthy)
		if s, t := &b.Status, &after.Status; s.ExpectedPods != t.ExpectedPods || s.CurrentHealthy != t.CurrentHealthy ||
			s.DesiredHealthy != t.DesiredHealthy || s.DisruptionsAllowed != t.DisruptionsAllowed {
			k.put(events.KindPodDisruptionBudget, after)
		}
	}
}

// replicasOf is the scale of the Deployment behind the budget; counted pods where there is none.
func (k *controllers) replicasOf(b *policyv1.PodDisruptionBudget, counted int) int {
	for _, d := range k.deployments {
		if d.Name == b.Spec.Selector.MatchLabels["app"] {
			return d.Replicas
		}
	}
	return counted
}

func desired(b *policyv1.PodDisruptionBudget, expected int32) int32 {
	if m := b.Spec.MaxUnavailable; m != nil {
		n, _ := intstr.GetScaledValueFromIntOrPercent(m, int(expected), true)
		return max(0, expected-int32(n))
	}
	n, _ := intstr.GetScaledValueFromIntOrPercent(b.Spec.MinAvailable, int(expected), true)
	return int32(n)
}

// collect deletes what an object that is gone owned, and the pods of a Node.
func (k *Cluster) collect(gone Object) {
	if n, ok := gone.(*corev1.Node); ok {
		k.clock.After(k.between(5_000, 20_000), func() { k.dropPods(n.Name) })
		return
	}
	if _, isPod := gone.(*corev1.Pod); isPod {
		return
	}
	uid := gone.GetUID()
	k.clock.After(k.between(200, 2000), func() {
		for _, kind := range []events.Kind{events.KindNode, events.KindNodeClaim} {
			for _, o := range k.all(kind) {
				if slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == uid }) {
					k.markDeleted(kind, o)
				}
			}
		}
	})
}

// dropPods removes the pods of a Node that does not exist.
func (k *Cluster) dropPods(node string) {
	if k.Node(node) != nil {
		return
	}
	for _, p := range k.PodsOn(node) {
		k.remove(events.KindPod, keyOf(p))
	}
}
