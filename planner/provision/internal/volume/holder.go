package volume

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/world"
)

// Holders is a Source that also knows which pods use claims.
type Holders interface {
	Source
	// Holder is a pod on a node that uses a claim and is neither being deleted nor has ended; nil if there is
	// none.
	Holder(claim string) *world.Pod
}

// Held says, in words that users know, that a claim of a pod without a node is for one pod at a time, and in
// use by another: kube-scheduler puts the pod on no node before that one has ended. One that is being deleted
// holds nothing back, for a node can be made meanwhile. nil if no claim is held.
func Held(src Holders, p *world.Pod) error {
	if p.NodeName != "" {
		return nil
	}
	for i := range p.Class.Spec.Volumes {
		v := p.Class.Spec.Volumes[i].PersistentVolumeClaim
		if v == nil {
			continue // an ephemeral volume is the pod's own
		}
		key := p.Namespace + "/" + v.ClaimName
		pvc := src.PersistentVolumeClaim(key)
		if pvc == nil || !slices.Contains(pvc.Spec.AccessModes, corev1.ReadWriteOncePod) {
			continue
		}
		if h := src.Holder(key); h != nil {
			return fmt.Errorf("persistentvolumeclaim %q is ReadWriteOncePod and in use by pod %q", v.ClaimName, h.Name)
		}
	}
	return nil
}
