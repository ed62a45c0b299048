package world

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

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

// objects are the Kubernetes objects that the World keeps as they are, a table for each kind.
type objects struct {
	claims       table[*karpv1.NodeClaim]
	pools        table[*karpv1.NodePool]
	nodeClasses  table[*awsv1.EC2NodeClass]
	daemonSets   table[*appsv1.DaemonSet]
	budgets      table[*policyv1.PodDisruptionBudget]
	volumeClaims table[*corev1.PersistentVolumeClaim]
	volumes      table[*corev1.PersistentVolume]
	classesOfSC  table[*storagev1.StorageClass]
	csiNodes     table[*storagev1.CSINode]
	attachments  table[*storagev1.VolumeAttachment]
	namespaces   table[*corev1.Namespace]
	priorities   table[*schedulingv1.PriorityClass]
	overlays     table[*karpv1alpha1.NodeOverlay]
	policies     table[*mwv1alpha1.DisruptionPolicy]
	buffers      table[*bufferv1beta1.CapacityBuffer]
	podTemplates table[*corev1.PodTemplate]
	deployments  table[*appsv1.Deployment]
	statefulSets table[*appsv1.StatefulSet]
	replicaSets  table[*appsv1.ReplicaSet]
	unreadable   table[Unreadable]
}

// The accessors below return one object by name, nil if there is none, or all of a kind by name. Names of
// namespaced kinds are "namespace/name".

// NodeClaims by name.
func (o *objects) NodeClaims() []*karpv1.NodeClaim { return o.claims.list() }

// NodeClaim of a name.
func (o *objects) NodeClaim(name string) *karpv1.NodeClaim { return o.claims.get(name) }

// NodePools by name.
func (o *objects) NodePools() []*karpv1.NodePool { return o.pools.list() }

// NodePool of a name.
func (o *objects) NodePool(name string) *karpv1.NodePool { return o.pools.get(name) }

// NodeClasses by name.
func (o *objects) NodeClasses() []*awsv1.EC2NodeClass { return o.nodeClasses.list() }

// NodeClass of a name.
func (o *objects) NodeClass(name string) *awsv1.EC2NodeClass { return o.nodeClasses.get(name) }

// DaemonSets by namespace/name.
func (o *objects) DaemonSets() []*appsv1.DaemonSet { return o.daemonSets.list() }

// PodDisruptionBudgets by namespace/name.
func (o *objects) PodDisruptionBudgets() []*policyv1.PodDisruptionBudget { return o.budgets.list() }

// PersistentVolumeClaim of a namespace/name.
func (o *objects) PersistentVolumeClaim(key string) *corev1.PersistentVolumeClaim {
	return o.volumeClaims.get(key)
}

// PersistentVolume of a name.
func (o *objects) PersistentVolume(name string) *corev1.PersistentVolume { return o.volumes.get(name) }

// StorageClass of a name.
func (o *objects) StorageClass(name string) *storagev1.StorageClass { return o.classesOfSC.get(name) }

// CSINode of a node's name.
func (o *objects) CSINode(node string) *storagev1.CSINode { return o.csiNodes.get(node) }

// VolumeAttachments by name.
func (o *objects) VolumeAttachments() []*storagev1.VolumeAttachment { return o.attachments.list() }

// VolumeAttachmentsOf a node by name. Nobody may change the list.
func (w *World) VolumeAttachmentsOf(node string) []*storagev1.VolumeAttachment {
	if p := w.attached.Load(); p != nil {
		return (*p)[node]
	}
	byNode := map[string][]*storagev1.VolumeAttachment{}
	for _, a := range w.VolumeAttachments() {
		byNode[a.Spec.NodeName] = append(byNode[a.Spec.NodeName], a)
	}
	w.attached.Store(&byNode)
	return byNode[node]
}

// Namespace of a name.
func (o *objects) Namespace(name string) *corev1.Namespace { return o.namespaces.get(name) }

// Namespaces by name.
func (o *objects) Namespaces() []*corev1.Namespace { return o.namespaces.list() }

// PriorityClass of a name.
func (o *objects) PriorityClass(name string) *schedulingv1.PriorityClass {
	return o.priorities.get(name)
}

// NodeOverlays by name.
func (o *objects) NodeOverlays() []*karpv1alpha1.NodeOverlay { return o.overlays.list() }

// DisruptionPolicies by name.
func (o *objects) DisruptionPolicies() []*mwv1alpha1.DisruptionPolicy { return o.policies.list() }

// Unreadable lists the objects that exist but are unknown, by kind and name.
func (o *objects) Unreadable() []Unreadable { return o.unreadable.list() }

// Instances by id.
func (a *aws) Instances() []*Instance { return a.instances.list() }

// Instance of an id.
func (a *aws) Instance(id string) *Instance { return a.instances.get(id) }

// NamedRecords are the records of a log that annotations millwright.sh/record in the World name. A Ledger
// below the highest does not know all that was done.
type NamedRecords struct {
	// claims is the highest that NodeClaims name; nodes are all that Nodes name, in order, each once.
	claims uint64
	nodes  []uint64
}

// Highest of them; 0 if there is none. Those of refuted do not count on Nodes, whose annotations their
// kubelets can write.
func (r NamedRecords) Highest(refuted ...uint64) uint64 {
	for _, seq := range slices.Backward(r.nodes) {
		if !slices.Contains(refuted, seq) {
			return max(r.claims, seq)
		}
	}
	return r.claims
}

// OfNodesAfter are those that Nodes name after a record, in order.
func (r NamedRecords) OfNodesAfter(seq uint64) []uint64 {
	at, _ := slices.BinarySearch(r.nodes, seq+1)
	return r.nodes[at:]
}

// NamedRecords of a log.
func (w *World) NamedRecords(logID string) NamedRecords {
	if p := w.records.Load(); p != nil {
		return (*p)[logID]
	}
	named := map[string]NamedRecords{}
	for _, c := range w.NodeClaims() {
		if id, seq, ok := recordOf(c.Annotations); ok {
			of := named[id]
			of.claims = max(of.claims, seq)
			named[id] = of
		}
	}
	for _, n := range w.Nodes() {
		if id, seq, ok := recordOf(n.Object.Annotations); ok {
			of := named[id]
			of.nodes = append(of.nodes, seq)
			named[id] = of
		}
	}
	for id, of := range named {
		slices.Sort(of.nodes)
		of.nodes = slices.Compact(of.nodes)
		named[id] = of
	}
	w.records.Store(&named)
	return named[logID]
}

func (w *World) forgetAttached() {
	w.attached = &atomic.Pointer[map[string][]*storagev1.VolumeAttachment]{}
}
func (w *World) forgetRecords() { w.records = &atomic.Pointer[map[string]NamedRecords]{} }

// recordChanged forgets the highest record if an object names another than before.
func (w *World) recordChanged(before, after string) {
	if before != after {
		w.forgetRecords()
	}
}

func recordNamed(c *karpv1.NodeClaim) string {
	if c == nil {
		return ""
	}
	return c.Annotations[karpv1.RecordAnnotationKey]
}

func recordOf(annotations map[string]string) (logID string, seq uint64, ok bool) {
	id, text, ok := strings.Cut(annotations[karpv1.RecordAnnotationKey], "/")
	if !ok {
		return "", 0, false
	}
	seq, err := strconv.ParseUint(text, 10, 64)
	return id, seq, err == nil && seq < math.MaxUint64
}

func isNil(v any) bool {
	switch p := v.(type) {
	case *karpv1.NodeClaim:
		return p == nil
	case *karpv1.NodePool:
		return p == nil
	case *awsv1.EC2NodeClass:
		return p == nil
	case *appsv1.DaemonSet:
		return p == nil
	case *policyv1.PodDisruptionBudget:
		return p == nil
	}
	return false
}
