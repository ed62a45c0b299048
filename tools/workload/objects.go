package workload

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
)

// Problem is a catalogue and objects, each of which has a name and a UID.
type Problem struct {
	Catalogue Catalogue
	Objects   []metav1.Object
}

func (p *Problem) addObjects(objects ...metav1.Object) { p.Objects = append(p.Objects, objects...) }

// Pool returns a ready NodePool without requirements.
func Pool(name string) *karpv1.NodePool {
	p := &karpv1.NodePool{
		TypeMeta:   metav1.TypeMeta{APIVersion: karpv1.SchemeGroupVersion.String(), Kind: "NodePool"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("pool-" + name)},
	}
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: NodeClass}
	p.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionTypeReady, Status: metav1.ConditionTrue, Reason: karpv1.ConditionTypeReady}}
	return p
}

// Require adds a requirement to a pool.
func Require(p *karpv1.NodePool, key string, op corev1.NodeSelectorOperator, values ...string) {
	spec := &p.Spec.Template.Spec
	spec.Requirements = append(spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: op, Values: values})
}

// General is a pool as most users have it: c, m and r of generation 3 and later, Linux on amd64.
func General(name string) *karpv1.NodePool {
	p := Pool(name)
	Require(p, corev1.LabelArchStable, corev1.NodeSelectorOpIn, "amd64")
	Require(p, corev1.LabelOSStable, corev1.NodeSelectorOpIn, "linux")
	Require(p, awsv1.LabelInstanceCategory, corev1.NodeSelectorOpIn, "c", "m", "r")
	Require(p, awsv1.LabelInstanceGeneration, corev1.NodeSelectorOpGt, "2")
	return p
}

// Pod returns a pod that kube-scheduler found no node for.
func Pod(name, cpu, memory string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("pod-" + name)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}},
	}
}

// copyOf returns a pod equal to p under another name.
func copyOf(p *corev1.Pod, name string) *corev1.Pod {
	q := p.DeepCopy()
	q.Name, q.UID = name, types.UID("pod-"+name)
	return q
}

// on binds a pod.
func on(p *corev1.Pod, node string) *corev1.Pod {
	p.Spec.NodeName = node
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning}
	return p
}

// Node returns one that is ready, with amounts as capacity and allocatable.
func Node(name string, amounts, labels map[string]string) *corev1.Node {
	n := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name), Labels: map[string]string{corev1.LabelHostname: name}},
	}
	for k, v := range labels {
		n.Labels[k] = v
	}
	n.Spec.ProviderID = "aws:///zone-1/i-" + name
	list := corev1.ResourceList{}
	for k, v := range amounts {
		list[corev1.ResourceName(k)] = resource.MustParse(v)
	}
	n.Status.Capacity, n.Status.Allocatable = list, list
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

// draw is a small reproducible generator.
type draw uint64

func (d *draw) next(n int) int {
	*d = *d*6364136223846793005 + 1442695040888963407
	return int(uint64(*d)>>33) % n
}

func (d *draw) of(values ...string) string { return values[d.next(len(values))] }
