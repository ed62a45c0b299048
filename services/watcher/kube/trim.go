package kube

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
)

// Trim returns a copy of an object of a watched kind with only what planners read. It shares maps and slices
// with the original, which must not be changed any more. Trimming twice changes nothing.
func Trim(object runtime.Object) (metav1.Object, error) {
	switch o := object.(type) {
	case *corev1.Pod:
		return trimPod(o), nil
	case *corev1.Node:
		return trimNode(o), nil
	case *karpv1.NodeClaim:
		return &karpv1.NodeClaim{ObjectMeta: ownMeta(o.ObjectMeta), Spec: o.Spec, Status: o.Status}, nil
	case *karpv1.NodePool:
		kept := &karpv1.NodePool{ObjectMeta: ownMeta(o.ObjectMeta), Spec: o.Spec, Status: o.Status}
		kept.Status.NodeClassObservedGeneration = 0
		return kept, nil
	case *karpv1alpha1.NodeOverlay:
		return &karpv1alpha1.NodeOverlay{ObjectMeta: ownMeta(o.ObjectMeta), Spec: o.Spec, Status: o.Status}, nil
	case *mwv1alpha1.DisruptionPolicy:
		return trimPolicy(o), nil
	case *awsv1.EC2NodeClass:
		return trimNodeClass(o), nil
	case *appsv1.DaemonSet:
		return trimDaemonSet(o), nil
	case *policyv1.PodDisruptionBudget:
		return trimBudget(o), nil
	case *corev1.Namespace:
		return &corev1.Namespace{ObjectMeta: meta(o.ObjectMeta), Status: corev1.NamespaceStatus{Phase: o.Status.Phase}}, nil
	case *schedulingv1.PriorityClass:
		return &schedulingv1.PriorityClass{ObjectMeta: meta(o.ObjectMeta), Value: o.Value, PreemptionPolicy: o.PreemptionPolicy}, nil
	}
	return trimStorage(object)
}

func trimStorage(object runtime.Object) (metav1.Object, error) {
	switch o := object.(type) {
	case *corev1.PersistentVolumeClaim:
		return trimVolumeClaim(o), nil
	case *corev1.PersistentVolume:
		return trimVolume(o), nil
	case *storagev1.StorageClass:
		return trimStorageClass(o), nil
	case *storagev1.CSINode:
		return trimCSINode(o), nil
	case *storagev1.VolumeAttachment:
		return trimAttachment(o), nil
	}
	if kept := trimReferred(object); kept != nil {
		return kept, nil
	}
	return nil, fmt.Errorf("trim %T: no watched kind", object)
}

// meta keeps identity, age, labels, owners, and our annotations.
func meta(m metav1.ObjectMeta, more ...string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
		DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds, Labels: m.Labels,
		Annotations: annotations(m.Annotations, more...), OwnerReferences: m.OwnerReferences,
	}
}

// ownMeta also keeps what lifecycles hang on: generation and finalizers.
func ownMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	kept := meta(m)
	kept.Generation, kept.Finalizers = m.Generation, m.Finalizers
	return kept
}

// ownDomains of annotations; their sub-domains are ours too.
var ownDomains = []string{"karpenter.sh", "karpenter.k8s.aws", "millwright.sh"}

// annotations returns those of our domains and the named ones; nil if there are none.
func annotations(all map[string]string, more ...string) map[string]string {
	var kept map[string]string
	keep := func(k, v string) {
		if kept == nil {
			kept = map[string]string{}
		}
		kept[k] = v
	}
	for k, v := range all {
		if isOwn(k) {
			keep(k, v)
		}
	}
	for _, k := range more {
		if v, ok := all[k]; ok {
			keep(k, v)
		}
	}
	return kept
}

func isOwn(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	for _, own := range ownDomains {
		if domain == own || strings.HasSuffix(domain, "."+own) {
			return true
		}
	}
	return false
}

func trimNode(n *corev1.Node) *corev1.Node {
	kept := &corev1.Node{ObjectMeta: ownMeta(n.ObjectMeta)}
	kept.Spec = corev1.NodeSpec{ProviderID: n.Spec.ProviderID, Unschedulable: n.Spec.Unschedulable, Taints: n.Spec.Taints}
	kept.Status = corev1.NodeStatus{Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable}
	for _, c := range n.Status.Conditions {
		c.LastHeartbeatTime = metav1.Time{} // changes although nothing happened
		kept.Status.Conditions = append(kept.Status.Conditions, c)
	}
	return kept
}

// endOfTime is the last that can be written as RFC 3339 has it, with a year of four digits in UTC.
var endOfTime = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

// trimPolicy leaves out the status. A pause until the end of the year 9999 west of Greenwich, which is how
// people say "for ever" there, could not be read back: in UTC that is the year 10000.
func trimPolicy(p *mwv1alpha1.DisruptionPolicy) *mwv1alpha1.DisruptionPolicy {
	kept := &mwv1alpha1.DisruptionPolicy{ObjectMeta: ownMeta(p.ObjectMeta), Spec: p.Spec}
	if pause := p.Spec.Pause; pause != nil && pause.Until.After(endOfTime) {
		kept.Spec.Pause = &mwv1alpha1.Pause{Until: metav1.NewTime(endOfTime), Reason: pause.Reason}
	}
	return kept
}

// trimNodeClass keeps whether it is ready and which zones its subnets are in, by id: their order follows free
// addresses. The ids of its images and security groups tell one roll-out from the next. What nodes are made
// of, user data above all, is no planner's: lifecycle reads it from the API server, and drift is told by the
// hash among the annotations.
func trimNodeClass(c *awsv1.EC2NodeClass) *awsv1.EC2NodeClass {
	subnets := slices.SortedFunc(slices.Values(c.Status.Subnets), func(a, b awsv1.Subnet) int { return strings.Compare(a.ID, b.ID) })
	for i := range subnets {
		subnets[i].ZoneID = ""
	}
	kept := &awsv1.EC2NodeClass{ObjectMeta: ownMeta(c.ObjectMeta), Status: awsv1.EC2NodeClassStatus{Conditions: c.Status.Conditions, Subnets: subnets}}
	for _, x := range c.Status.AMIs {
		kept.Status.AMIs = append(kept.Status.AMIs, awsv1.AMI{ID: x.ID})
	}
	for _, x := range c.Status.SecurityGroups {
		kept.Status.SecurityGroups = append(kept.Status.SecurityGroups, awsv1.SecurityGroup{ID: x.ID})
	}
	return kept
}

func trimDaemonSet(d *appsv1.DaemonSet) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: meta(d.ObjectMeta),
		Spec:       appsv1.DaemonSetSpec{Selector: d.Spec.Selector, Template: trimTemplate(d.Spec.Template)},
	}
}

func trimTemplate(t corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: t.Labels, Annotations: annotations(t.Annotations, corev1.PodDeletionCost)},
		Spec:       trimPodSpec(&t.Spec),
	}
}

func trimBudget(b *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
	kept := &policyv1.PodDisruptionBudget{ObjectMeta: meta(b.ObjectMeta), Spec: b.Spec}
	kept.Generation = b.Generation
	kept.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: b.Status.ObservedGeneration, DisruptionsAllowed: b.Status.DisruptionsAllowed,
		DesiredHealthy: b.Status.DesiredHealthy, ExpectedPods: b.Status.ExpectedPods,
	}
	return kept
}
