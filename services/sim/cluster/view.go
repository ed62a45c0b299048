package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/services/internal/kube"
)

// View is the cluster as an informer has it: how it was after some write. Objects are shared.
type View struct {
	*tables

	cluster *Cluster
	at      int
	seen    kube.Changes
}

// viewed are the kinds a View holds: those services drive effects by.
var viewed = []events.Kind{events.KindNode, events.KindNodeClaim, events.KindNodePool, events.KindEC2NodeClass, events.KindVolumeAttachment}

// IsViewed reports that a View holds objects of the kind.
func IsViewed(kind events.Kind) bool { return slices.Contains(viewed, kind) }

// View returns the present; Advance moves it.
func (k *Cluster) View() *View {
	return &View{tables: k.copied(viewed), cluster: k, at: len(k.changes)}
}

// Advance takes in the writes before the given one.
func (v *View) Advance(to int) {
	if to <= v.at {
		return
	}
	for _, c := range v.cluster.changes[v.at:to] {
		if !v.hasKind(c.Kind) {
			continue
		}
		v.seen.Add(kube.ChangeOf(c.Object))
		if c.Op == events.OpDelete {
			v.deleteObject(c.Kind, c.Key)
			continue
		}
		v.setObject(c.Kind, c.Key, c.Object)
	}
	v.at = to
}

// The methods below are those of kube.Informers.

// Synced is always true: a View begins with a list.
func (v *View) Synced() bool { return true }

// Version rises with every change.
func (v *View) Version() uint64 { return v.seen.Version() }

// Since returns which objects changed after a version.
func (v *View) Since(version uint64) ([]kube.Change, uint64, bool) { return v.seen.Since(version) }

// NodeClaims lists by name, as do the others.
func (v *View) NodeClaims() []*karpv1.NodeClaim {
	return listed[*karpv1.NodeClaim](v.tables, events.KindNodeClaim)
}

// NodeClaim returns nil if there is none, as do the others.
func (v *View) NodeClaim(name string) *karpv1.NodeClaim {
	return got[*karpv1.NodeClaim](v.tables, events.KindNodeClaim, name)
}

// Nodes lists by name.
func (v *View) Nodes() []*corev1.Node { return listed[*corev1.Node](v.tables, events.KindNode) }

// NodesByProviderID lists by name; none for an empty id.
func (v *View) NodesByProviderID(id string) []*corev1.Node {
	return slices.DeleteFunc(v.Nodes(), func(n *corev1.Node) bool { return id == "" || n.Spec.ProviderID != id })
}

// NodePools lists by name.
func (v *View) NodePools() []*karpv1.NodePool {
	return listed[*karpv1.NodePool](v.tables, events.KindNodePool)
}

// NodePool returns nil if there is none.
func (v *View) NodePool(name string) *karpv1.NodePool {
	return got[*karpv1.NodePool](v.tables, events.KindNodePool, name)
}

// NodeClasses lists by name.
func (v *View) NodeClasses() []*awsv1.EC2NodeClass {
	return listed[*awsv1.EC2NodeClass](v.tables, events.KindEC2NodeClass)
}

// NodeClass returns nil if there is none.
func (v *View) NodeClass(name string) *awsv1.EC2NodeClass {
	return got[*awsv1.EC2NodeClass](v.tables, events.KindEC2NodeClass, name)
}

// NodeClaimsByProviderID lists by name; none for an empty id.
func (v *View) NodeClaimsByProviderID(id string) []*karpv1.NodeClaim {
	return slices.DeleteFunc(v.NodeClaims(), func(o *karpv1.NodeClaim) bool { return id == "" || o.Status.ProviderID != id })
}

// DeletingNodes lists by name those with a deletionTimestamp.
func (v *View) DeletingNodes() []*corev1.Node {
	return slices.DeleteFunc(v.Nodes(), func(n *corev1.Node) bool { return n.DeletionTimestamp == nil })
}

// DeletingNodeClaims lists by name those with a deletionTimestamp.
func (v *View) DeletingNodeClaims() []*karpv1.NodeClaim {
	return slices.DeleteFunc(v.NodeClaims(), func(o *karpv1.NodeClaim) bool { return o.DeletionTimestamp == nil })
}

// VolumeAttachmentsOf lists by name the attachments to a Node.
func (v *View) VolumeAttachmentsOf(node string) []*storagev1.VolumeAttachment {
	return slices.DeleteFunc(listed[*storagev1.VolumeAttachment](v.tables, events.KindVolumeAttachment),
		func(a *storagev1.VolumeAttachment) bool { return a.Spec.NodeName != node })
}
