package cluster

import (
	"maps"
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
	cluster *Cluster
	at      int
	seen    kube.Changes
	objects map[events.Kind]map[string]Object
	sorted  map[events.Kind][]Object
}

// viewed are the kinds a View holds: those services drive effects by.
var viewed = []events.Kind{events.KindNode, events.KindNodeClaim, events.KindNodePool, events.KindEC2NodeClass, events.KindVolumeAttachment}

// IsViewed reports that a View holds objects of the kind.
func IsViewed(kind events.Kind) bool { return slices.Contains(viewed, kind) }

// View returns the present; Advance moves it.
func (k *Cluster) View() *View {
	v := &View{cluster: k, at: len(k.changes), objects: map[events.Kind]map[string]Object{}, sorted: map[events.Kind][]Object{}}
	for _, kind := range viewed {
		v.objects[kind] = maps.Clone(k.objects[kind])
	}
	return v
}

// Advance takes in the writes before the given one.
func (v *View) Advance(to int) {
	if to <= v.at {
		return
	}
	for _, c := range v.cluster.changes[v.at:to] {
		table, ok := v.objects[c.Kind]
		if !ok {
			continue
		}
		v.seen.Add(kube.ChangeOf(c.Object))
		delete(v.sorted, c.Kind)
		if c.Op == events.OpDelete {
			delete(table, c.Key)
			continue
		}
		table[c.Key] = c.Object
	}
	v.at = to
}

func (v *View) all(kind events.Kind) []Object {
	if list, ok := v.sorted[kind]; ok {
		return list
	}
	list := []Object{}
	for _, key := range slices.Sorted(maps.Keys(v.objects[kind])) {
		list = append(list, v.objects[kind][key])
	}
	v.sorted[kind] = list
	return list
}

func viewList[T Object](v *View, kind events.Kind) []T {
	all := v.all(kind)
	list := make([]T, len(all))
	for i, o := range all {
		list[i] = o.(T)
	}
	return list
}

func viewGet[T Object](v *View, kind events.Kind, key string) (none T) {
	if o := v.objects[kind][key]; o != nil {
		return o.(T)
	}
	return none
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
	return viewList[*karpv1.NodeClaim](v, events.KindNodeClaim)
}

// NodeClaim returns nil if there is none, as do the others.
func (v *View) NodeClaim(name string) *karpv1.NodeClaim {
	return viewGet[*karpv1.NodeClaim](v, events.KindNodeClaim, name)
}

// Nodes lists by name.
func (v *View) Nodes() []*corev1.Node { return viewList[*corev1.Node](v, events.KindNode) }

// NodesByProviderID lists by name; none for an empty id.
func (v *View) NodesByProviderID(id string) []*corev1.Node {
	return slices.DeleteFunc(v.Nodes(), func(n *corev1.Node) bool { return id == "" || n.Spec.ProviderID != id })
}

// NodePools lists by name.
func (v *View) NodePools() []*karpv1.NodePool {
	return viewList[*karpv1.NodePool](v, events.KindNodePool)
}

// NodePool returns nil if there is none.
func (v *View) NodePool(name string) *karpv1.NodePool {
	return viewGet[*karpv1.NodePool](v, events.KindNodePool, name)
}

// NodeClasses lists by name.
func (v *View) NodeClasses() []*awsv1.EC2NodeClass {
	return viewList[*awsv1.EC2NodeClass](v, events.KindEC2NodeClass)
}

// NodeClass returns nil if there is none.
func (v *View) NodeClass(name string) *awsv1.EC2NodeClass {
	return viewGet[*awsv1.EC2NodeClass](v, events.KindEC2NodeClass, name)
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
	return slices.DeleteFunc(viewList[*storagev1.VolumeAttachment](v, events.KindVolumeAttachment),
		func(a *storagev1.VolumeAttachment) bool { return a.Spec.NodeName != node })
}
