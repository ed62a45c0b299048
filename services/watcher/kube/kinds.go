package kube

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
)

// kind that is watched.
type kind struct {
	kind     events.Kind
	group    schema.GroupVersion
	resource string
	// example is an empty object of the type.
	example runtime.Object
	// everyVersion publishes each new resourceVersion, also if nothing that is published has changed:
	// services patch these objects with the version they have seen.
	everyVersion bool
	// optional: its CRD, or the right to read it, came later than the others; without it there are no such
	// objects.
	optional bool
	// named: only objects that a CapacityBuffer names, or a DisruptionPolicy asks for, are published.
	named bool
	// emptyList stands for the list of an optional kind that cannot be had.
	emptyList func() runtime.Object
}

// kinds in the order in which they are started: what pods refer to comes first.
var kinds = []kind{
	{kind: events.KindEC2NodeClass, group: awsv1.SchemeGroupVersion, resource: "ec2nodeclasses", example: &awsv1.EC2NodeClass{}, everyVersion: true},
	{kind: events.KindNodePool, group: karpv1.SchemeGroupVersion, resource: "nodepools", example: &karpv1.NodePool{}, everyVersion: true},
	{kind: events.KindNodeOverlay, group: karpv1alpha1.SchemeGroupVersion, resource: "nodeoverlays", example: &karpv1alpha1.NodeOverlay{}, everyVersion: true,
		optional: true, emptyList: func() runtime.Object { return &karpv1alpha1.NodeOverlayList{} }},
	{kind: events.KindDisruptionPolicy, group: mwv1alpha1.SchemeGroupVersion, resource: "disruptionpolicies", example: &mwv1alpha1.DisruptionPolicy{}, everyVersion: true,
		optional: true, emptyList: func() runtime.Object { return &mwv1alpha1.DisruptionPolicyList{} }},
	{kind: events.KindNodeClaim, group: karpv1.SchemeGroupVersion, resource: "nodeclaims", example: &karpv1.NodeClaim{}, everyVersion: true},
	{kind: events.KindNode, group: corev1.SchemeGroupVersion, resource: "nodes", example: &corev1.Node{}, everyVersion: true},
	{kind: events.KindNamespace, group: corev1.SchemeGroupVersion, resource: "namespaces", example: &corev1.Namespace{}},
	{kind: events.KindPriorityClass, group: schedulingv1.SchemeGroupVersion, resource: "priorityclasses", example: &schedulingv1.PriorityClass{}},
	{kind: events.KindStorageClass, group: storagev1.SchemeGroupVersion, resource: "storageclasses", example: &storagev1.StorageClass{}},
	{kind: events.KindCSINode, group: storagev1.SchemeGroupVersion, resource: "csinodes", example: &storagev1.CSINode{}},
	{kind: events.KindPersistentVolume, group: corev1.SchemeGroupVersion, resource: "persistentvolumes", example: &corev1.PersistentVolume{}},
	{kind: events.KindPersistentVolumeClaim, group: corev1.SchemeGroupVersion, resource: "persistentvolumeclaims", example: &corev1.PersistentVolumeClaim{}},
	{kind: events.KindVolumeAttachment, group: storagev1.SchemeGroupVersion, resource: "volumeattachments", example: &storagev1.VolumeAttachment{}},
	{kind: events.KindDaemonSet, group: appsv1.SchemeGroupVersion, resource: "daemonsets", example: &appsv1.DaemonSet{}},
	{kind: events.KindPodDisruptionBudget, group: policyv1.SchemeGroupVersion, resource: "poddisruptionbudgets", example: &policyv1.PodDisruptionBudget{}},
	{kind: events.KindPod, group: corev1.SchemeGroupVersion, resource: "pods", example: &corev1.Pod{}},
}
