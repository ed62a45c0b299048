package plannertest

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner/ledger"
)

// Start is the time at which test worlds begin.
var Start = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// Resources parses quantities: Resources("cpu", "1", "memory", "2Gi").
func Resources(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i+1 < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

// Pod is a running pod "default/name" requesting 100m CPU and 128Mi, changed by the options.
func Pod(name string, options ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("pod-" + name), ResourceVersion: "1",
			CreationTimestamp: metav1.NewTime(Start), Labels: map[string]string{"app": "web"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Resources: corev1.ResourceRequirements{Requests: Resources("cpu", "100m", "memory", "128Mi")},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, o := range options {
		o(p)
	}
	return p
}

// Requests sets the requests of the pod's container.
func Requests(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = Resources(pairs...) }
}

// Labels replaces the pod's labels.
func Labels(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = Map(pairs...) }
}

// Annotation adds an annotation.
func Annotation(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[key] = value
	}
}

// Map builds a map from keys and values.
func Map(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// Unschedulable says that kube-scheduler found no node.
func Unschedulable() func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "0/0 nodes are available", LastTransitionTime: metav1.NewTime(Start),
		})
	}
}

// On binds the pod to a node, running and ready.
func On(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		started := metav1.NewTime(Start)
		p.Spec.NodeName, p.Status.Phase, p.Status.StartTime = node, corev1.PodRunning, &started
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
}

// Deleting says that the pod ends at a time, its grace period included.
func Deleting(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: at} }
}

// OwnedBy sets the controlling owner.
func OwnedBy(apiVersion, kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(kind + "-" + name), Controller: &yes}}
	}
}

// DaemonPod is a pod of a DaemonSet on a node.
func DaemonPod(name, node string, options ...func(*corev1.Pod)) *corev1.Pod {
	return Pod(name, append([]func(*corev1.Pod){On(node), OwnedBy("apps/v1", "DaemonSet", "ds")}, options...)...)
}

// Namespace moves the pod.
func Namespace(ns string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Namespace = ns } }

// Selector sets the node selector.
func Selector(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = Map(pairs...) }
}

// Toleration adds a toleration of a taint key with Exists.
func Toleration(key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
}

// Node is a ready Node with 4 CPU and 16Gi, providerID "aws:///us-west-2a/i-<name>".
func Node(name string, options ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("node-" + name), ResourceVersion: "1", CreationTimestamp: metav1.NewTime(Start),
			Labels: Map(corev1.LabelHostname, name, corev1.LabelInstanceTypeStable, "m5.xlarge", corev1.LabelTopologyZone, "us-west-2a",
				karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeOnDemand, corev1.LabelArchStable, "amd64", corev1.LabelOSStable, "linux"),
		},
		Spec: corev1.NodeSpec{ProviderID: ProviderID(name)},
		Status: corev1.NodeStatus{
			Capacity: Resources("cpu", "4", "memory", "16Gi", "pods", "58"), Allocatable: Resources("cpu", "3920m", "memory", "15Gi", "pods", "58"),
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, o := range options {
		o(n)
	}
	return n
}

// ProviderID of the instance of a node or claim.
func ProviderID(name string) string { return "aws:///us-west-2a/i-" + name }

// InPool labels the Node as registered and initialized in a NodePool.
func InPool(pool string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Labels[karpv1.NodePoolLabelKey] = pool
		n.Labels[karpv1.NodeRegisteredLabelKey] = "true"
		n.Labels[karpv1.NodeInitializedLabelKey] = "true"
	}
}

// Tainted adds taints.
func Tainted(taints ...corev1.Taint) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, taints...) }
}

// Marked puts on a Node the mark of the command that a record started.
func Marked(record uint64) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, karpv1.DisruptedTaint())
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[karpv1.RecordAnnotationKey] = ledger.RecordAnnotation(LogID, record)
	}
}

// NotReady sets the Node's condition Ready to False.
func NotReady(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }

// Claim is a NodeClaim of a pool whose instance has joined as the Node of that name, initialized at Start.
func Claim(name, node, pool string, options ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("claim-" + name), ResourceVersion: "1", CreationTimestamp: metav1.NewTime(Start),
			Labels:     Map(karpv1.NodePoolLabelKey, pool, corev1.LabelInstanceTypeStable, "m5.xlarge", corev1.LabelTopologyZone, "us-west-2a", karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeOnDemand),
			Finalizers: []string{karpv1.TerminationFinalizer},
		},
		Spec: karpv1.NodeClaimSpec{NodeClassRef: ClassRef("default")},
		Status: karpv1.NodeClaimStatus{
			NodeName: node, ProviderID: ProviderID(node),
			Capacity: Resources("cpu", "4", "memory", "16Gi", "pods", "58"), Allocatable: Resources("cpu", "3900m", "memory", "14Gi", "pods", "58"),
		},
	}
	for _, t := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized} {
		c.Status.Conditions = append(c.Status.Conditions, True(t, Start))
	}
	for _, o := range options {
		o(c)
	}
	return c
}

// True is a condition that is True since a time.
func True(kind string, since time.Time) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, LastTransitionTime: metav1.NewTime(since)}
}

// ClassRef refers to an EC2NodeClass.
func ClassRef(name string) *karpv1.NodeClassReference {
	return &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: name}
}

// Pool is a ready NodePool of EC2NodeClass default without requirements or limits, its budget 100 %,
// consolidateAfter 0.
func Pool(name string, options ...func(*karpv1.NodePool)) *karpv1.NodePool {
	p := &karpv1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("pool-" + name), ResourceVersion: "1", Generation: 1, CreationTimestamp: metav1.NewTime(Start)},
		Spec: karpv1.NodePoolSpec{
			Template: karpv1.NodeClaimTemplate{Spec: karpv1.NodeClaimTemplateSpec{NodeClassRef: ClassRef("default")}},
			Disruption: karpv1.Disruption{
				ConsolidateAfter: karpv1.NewDuration(0), ConsolidationPolicy: karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized,
				Budgets: []karpv1.Budget{{Nodes: "100%"}},
			},
		},
		Status: karpv1.NodePoolStatus{Conditions: []metav1.Condition{True(karpv1.ConditionTypeReady, Start)}},
	}
	for _, o := range options {
		o(p)
	}
	return p
}

// ConsolidateAfter sets the quiet time, "Never" included.
func ConsolidateAfter(text string) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) {
		if text == karpv1.Never {
			p.Spec.Disruption.ConsolidateAfter = karpv1.NillableDuration{Raw: karpv1.Never}
			return
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			panic(err)
		}
		p.Spec.Disruption.ConsolidateAfter = karpv1.NewDuration(d)
	}
}

// Budgets replaces the pool's budgets.
func Budgets(budgets ...karpv1.Budget) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) { p.Spec.Disruption.Budgets = budgets }
}

// NodeClass is a ready EC2NodeClass.
func NodeClass(name string) *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("class-" + name), ResourceVersion: "1", Generation: 1},
		Status:     awsv1.EC2NodeClassStatus{Conditions: []metav1.Condition{True(karpv1.ConditionTypeReady, Start)}},
	}
}

// PDB is a budget over pods with labels in a namespace, with the number of disruptions it allows now.
func PDB(namespace, name string, allowed int32, selector ...string) *policyv1.PodDisruptionBudget {
	one := intstr.FromInt32(1)
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("pdb-" + name)},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: Map(selector...)}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
}

// DaemonSet requests resources on every node it tolerates.
func DaemonSet(name string, requests corev1.ResourceList, options ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, UID: types.UID("ds-" + name)},
		Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "agent", Resources: corev1.ResourceRequirements{Requests: requests},
		}}}}},
	}
	for _, o := range options {
		o(d)
	}
	return d
}

// Policy is a DisruptionPolicy with a spec in YAML.
func Policy(name, spec string) *mwv1alpha1.DisruptionPolicy {
	p := &mwv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("policy-" + name), ResourceVersion: "1"}}
	must(yaml.UnmarshalStrict([]byte(spec), &p.Spec))
	return p
}
