package script

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ebs is the driver of volumes that name no other.
const ebs = "ebs.csi.aws.com"

func pvc(c *Case, a *Args) {
	o := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: a.Next(), Namespace: "default"}}
	for a.More() {
		switch k, v := a.Option(); k {
		case "class":
			o.Spec.StorageClassName = &v
		case "bound":
			o.Spec.VolumeName, o.Annotations = v, map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		default:
			c.T.Fatalf("pvc %s: unknown option %s", o.Name, k)
		}
	}
	c.Put("pvc", Over(c, o, a.Block()))
}

func pv(c *Case, a *Args) {
	o := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: a.Next()}}
	csi := &corev1.CSIPersistentVolumeSource{Driver: ebs, VolumeHandle: "vol-" + o.Name}
	o.Spec.CSI = csi
	for a.More() {
		switch k, v := a.Option(); k {
		case "driver":
			csi.Driver = v
		case "require":
			o.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{a.selectorRequirement(v)}}}}}
		default:
			c.T.Fatalf("pv %s: unknown option %s", o.Name, k)
		}
	}
	c.Put("pv", Over(c, o, a.Block()))
}
