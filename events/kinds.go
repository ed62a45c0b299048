package events

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
)

// newObject returns an empty object of the type that messages of the kind carry; nil for an unknown kind.
func newObject(k Kind) any {
	if k < KindCatalog {
		return newKubeObject(k)
	}
	switch k {
	case KindCatalog:
		return &CatalogRef{}
	case KindPrices:
		return &Prices{}
	case KindInstanceState:
		return &InstanceState{}
	case KindInterruption:
		return &Interruption{}
	}
	return nil
}

// NewObject returns an empty object of a kind of Kubernetes objects, or what comes from AWS; nil for others.
func NewObject(k Kind) any { return newObject(k) }

func newKubeObject(k Kind) any {
	switch k {
	case KindNone:
		return &Heartbeat{}
	case KindPod:
		return &corev1.Pod{}
	case KindNode:
		return &corev1.Node{}
	case KindNodeClaim:
		return &karpv1.NodeClaim{}
	case KindNodePool:
		return &karpv1.NodePool{}
	case KindEC2NodeClass:
		return &awsv1.EC2NodeClass{}
	case KindDaemonSet:
		return &appsv1.DaemonSet{}
	case KindPodDisruptionBudget:
		return &policyv1.PodDisruptionBudget{}
	case KindPersistentVolumeClaim:
		return &corev1.PersistentVolumeClaim{}
	case KindPersistentVolume:
		return &corev1.PersistentVolume{}
	case KindStorageClass:
		return &storagev1.StorageClass{}
	case KindCSINode:
		return &storagev1.CSINode{}
	case KindVolumeAttachment:
		return &storagev1.VolumeAttachment{}
	case KindNamespace:
		return &corev1.Namespace{}
	case KindPriorityClass:
		return &schedulingv1.PriorityClass{}
	case KindNodeOverlay:
		return &karpv1alpha1.NodeOverlay{}
	case KindDisruptionPolicy:
		return &mwv1alpha1.DisruptionPolicy{}
	}
	return newBufferObject(k)
}

// newBufferObject serves CapacityBuffers and what they refer to.
func newBufferObject(k Kind) any {
	switch k {
	case KindCapacityBuffer:
		return &bufferv1beta1.CapacityBuffer{}
	case KindPodTemplate:
		return &corev1.PodTemplate{}
	case KindDeployment:
		return &appsv1.Deployment{}
	case KindStatefulSet:
		return &appsv1.StatefulSet{}
	case KindReplicaSet:
		return &appsv1.ReplicaSet{}
	}
	return nil
}

// kindOf is the inverse of newObject.
func kindOf(object any) (Kind, bool) {
	switch object.(type) {
	case *Heartbeat:
		return KindNone, true
	case *corev1.Pod:
		return KindPod, true
	case *corev1.Node:
		return KindNode, true
	case *karpv1.NodeClaim:
		return KindNodeClaim, true
	case *karpv1.NodePool:
		return KindNodePool, true
	case *awsv1.EC2NodeClass:
		return KindEC2NodeClass, true
	case *appsv1.DaemonSet:
		return KindDaemonSet, true
	case *policyv1.PodDisruptionBudget:
		return KindPodDisruptionBudget, true
	case *corev1.PersistentVolumeClaim:
		return KindPersistentVolumeClaim, true
	case *corev1.PersistentVolume:
		return KindPersistentVolume, true
	case *storagev1.StorageClass:
		return KindStorageClass, true
	case *storagev1.CSINode:
		return KindCSINode, true
	case *storagev1.VolumeAttachment:
		return KindVolumeAttachment, true
	case *corev1.Namespace:
		return KindNamespace, true
	case *schedulingv1.PriorityClass:
		return KindPriorityClass, true
	case *karpv1alpha1.NodeOverlay:
		return KindNodeOverlay, true
	case *mwv1alpha1.DisruptionPolicy:
		return KindDisruptionPolicy, true
	}
	if k, ok := kindOfBuffer(object); ok {
		return k, true
	}
	return kindOfAWS(object)
}

func kindOfBuffer(object any) (Kind, bool) {
	switch object.(type) {
	case *bufferv1beta1.CapacityBuffer:
		return KindCapacityBuffer, true
	case *corev1.PodTemplate:
		return KindPodTemplate, true
	case *appsv1.Deployment:
		return KindDeployment, true
	case *appsv1.StatefulSet:
		return KindStatefulSet, true
	case *appsv1.ReplicaSet:
		return KindReplicaSet, true
	}
	return KindNone, false
}

func kindOfAWS(object any) (Kind, bool) {
	switch object.(type) {
	case *CatalogRef:
		return KindCatalog, true
	case *Prices:
		return KindPrices, true
	case *InstanceState:
		return KindInstanceState, true
	case *Interruption:
		return KindInterruption, true
	}
	return KindNone, false
}

// KubeKinds returns the kinds that the watcher watches in Kubernetes, by number.
func KubeKinds() []Kind {
	kinds := make([]Kind, 0, KindReplicaSet)
	for k := KindPod; k <= KindReplicaSet; k++ {
		kinds = append(kinds, k)
	}
	return kinds
}

// AWSKinds returns the kinds that come from AWS, by number.
func AWSKinds() []Kind {
	return []Kind{KindCatalog, KindPrices, KindInstanceState, KindInterruption}
}

var opNames = map[Op]string{
	OpUpsert: "upsert", OpDelete: "delete", OpResyncBegin: "resync begin", OpResyncEnd: "resync end",
	OpHeartbeat: "heartbeat", OpUnreadable: "unreadable",
}

func (op Op) String() string {
	if s, ok := opNames[op]; ok {
		return s
	}
	return fmt.Sprintf("Op(%d)", uint8(op))
}

// aboutObject: the op names an object of a kind; otherwise its kind is KindNone.
func (op Op) aboutObject() bool {
	return op == OpUpsert || op == OpDelete || op == OpUnreadable
}

func (op Op) carriesObject() bool { return op == OpUpsert || op == OpHeartbeat }
