package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/events"
	"millwright/planner/resource"
)

// Machine is what boots and becomes a Node.
type Machine struct {
	Name, ProviderID string
	// Labels and Taints kubelet registers with.
	Labels                map[string]string
	Taints                []corev1.Taint
	Capacity, Allocatable resource.Vector
}

// machine is the kubelet's side of a Node.
type machine struct {
	Machine
	dead bool
}

var startingTaints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}

// Join registers the machine as a Node, not ready yet. A name that is taken means that it joined before.
func (k *Cluster) Join(m Machine) {
	if k.Node(m.Name) != nil {
		return
	}
	k.machines[m.Name] = &machine{Machine: m}
	k.put(events.KindNode, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name, Labels: m.Labels},
		Spec:       corev1.NodeSpec{ProviderID: m.ProviderID, Taints: slices.Concat(m.Taints, startingTaints)},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: k.now()}}},
	})
	k.clock.After(k.between(500, 4000), func() { k.nodeReady(m) })
	k.clock.After(k.between(300, 8000), func() { k.agentReady(m) })
}

// nodeReady has kubelet report what the machine has; the node controller takes its taint away.
func (k *Cluster) nodeReady(m Machine) {
	k.changeNode(m.Name, m.ProviderID, func(n *corev1.Node) {
		if k.machines[m.Name].dead {
			return
		}
		n.Status.Capacity, n.Status.Allocatable = m.Capacity.List(), m.Allocatable.List()
		setReady(n, corev1.ConditionTrue, k.now())
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
	})
}

// StartupTaintKey is of the taint that an agent takes off some time after the node is ready.
const StartupTaintKey = "example.com/agent-not-ready"

func (k *Cluster) agentReady(m Machine) {
	k.changeNode(m.Name, m.ProviderID, func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == StartupTaintKey })
	})
}

// changeNode stores what change makes of the Node, if it is still the machine's.
func (k *Cluster) changeNode(name, providerID string, change func(*corev1.Node)) {
	n := k.Node(name)
	if n == nil || n.Spec.ProviderID != providerID {
		return
	}
	o := n.DeepCopy()
	change(o)
	store(k, events.KindNode, n, o)
}

func setReady(n *corev1.Node, status corev1.ConditionStatus, now metav1.Time) {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady && c.Status != status {
			c.Status, c.LastTransitionTime = status, now
		}
	}
}

// Die ends the machine with this provider id: its kubelet is silent from now on. The node controller notices
// after 40 s, and the cloud's deletes the Node then.
func (k *Cluster) Die(providerID string) {
	for _, n := range k.Nodes() {
		m := k.machines[n.Name]
		if n.Spec.ProviderID != providerID || m == nil || m.dead {
			continue
		}
		m.dead = true
		k.clock.After(k.between(40_000, 45_000), func() { k.unreachable(n.Name, providerID) })
		k.clock.After(k.between(46_000, 60_000), func() {
			if have := k.Node(n.Name); have != nil && have.UID == n.UID {
				k.markDeleted(events.KindNode, have)
			}
		})
	}
}

func (k *Cluster) unreachable(name, providerID string) {
	k.changeNode(name, providerID, func(n *corev1.Node) {
		setReady(n, corev1.ConditionUnknown, k.now())
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule})
	})
}
