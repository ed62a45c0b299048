package kube

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Annotations of the volume controllers that planners read.
const (
	annotationBindCompleted     = "pv.kubernetes.io/bind-completed"
	annotationBoundByController = "pv.kubernetes.io/bound-by-controller"
	annotationProvisionedBy     = "pv.kubernetes.io/provisioned-by"
	annotationMigratedTo        = "pv.kubernetes.io/migrated-to"
	annotationSelectedNode      = "volume.kubernetes.io/selected-node"
	annotationProvisioner       = "volume.kubernetes.io/storage-provisioner"
	annotationProvisionerBeta   = "volume.beta.kubernetes.io/storage-provisioner"
	annotationStorageClassBeta  = "volume.beta.kubernetes.io/storage-class"
	annotationDefaultClass      = "storageclass.kubernetes.io/is-default-class"
	annotationDefaultClassBeta  = "storageclass.beta.kubernetes.io/is-default-class"
	annotationMigratedPlugins   = "storage.alpha.kubernetes.io/migrated-plugins"
)

func trimVolumeClaim(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: meta(c.ObjectMeta, annotationBindCompleted, annotationBoundByController, annotationSelectedNode,
			annotationProvisioner, annotationProvisionerBeta, annotationStorageClassBeta),
		Spec:   trimVolumeClaimSpec(c.Spec),
		Status: corev1.PersistentVolumeClaimStatus{Phase: c.Status.Phase},
	}
}

func trimVolumeClaimSpec(s corev1.PersistentVolumeClaimSpec) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		Resources: s.Resources, VolumeName: s.VolumeName, StorageClassName: s.StorageClassName, AccessModes: s.AccessModes,
	}
}

// trimVolume keeps the parts of the source that say which driver serves it and whether it is bound to one
// node.
func trimVolume(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	kept := &corev1.PersistentVolume{
		ObjectMeta: meta(v.ObjectMeta, annotationProvisionedBy, annotationMigratedTo, annotationBoundByController),
		Spec: corev1.PersistentVolumeSpec{
			Capacity: v.Spec.Capacity, StorageClassName: v.Spec.StorageClassName, NodeAffinity: v.Spec.NodeAffinity,
		},
		Status: corev1.PersistentVolumeStatus{Phase: v.Status.Phase},
	}
	switch s := v.Spec.PersistentVolumeSource; {
	case s.CSI != nil:
		kept.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: s.CSI.Driver}
	case s.AWSElasticBlockStore != nil:
		kept.Spec.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{}
	case s.Local != nil:
		kept.Spec.Local = &corev1.LocalVolumeSource{}
	case s.HostPath != nil:
		kept.Spec.HostPath = &corev1.HostPathVolumeSource{}
	}
	return kept
}

func trimStorageClass(c *storagev1.StorageClass) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta:  meta(c.ObjectMeta, annotationDefaultClass, annotationDefaultClassBeta),
		Provisioner: c.Provisioner, VolumeBindingMode: c.VolumeBindingMode, AllowedTopologies: c.AllowedTopologies,
	}
}

func trimCSINode(n *storagev1.CSINode) *storagev1.CSINode {
	kept := &storagev1.CSINode{ObjectMeta: meta(n.ObjectMeta, annotationMigratedPlugins)}
	for _, d := range n.Spec.Drivers {
		kept.Spec.Drivers = append(kept.Spec.Drivers, storagev1.CSINodeDriver{Name: d.Name, Allocatable: d.Allocatable})
	}
	return kept
}

func trimAttachment(a *storagev1.VolumeAttachment) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: meta(a.ObjectMeta),
		Spec: storagev1.VolumeAttachmentSpec{
			NodeName: a.Spec.NodeName, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: a.Spec.Source.PersistentVolumeName},
		},
	}
}
