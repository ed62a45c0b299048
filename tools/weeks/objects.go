package weeks

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/tools/workload"
)

// podChanged shows a pod to the World as the watcher would.
func (m *millwright) podChanged(p *pod) {
	o := m.podObject(p)
	if !p.gone {
		m.see(events.KindPod, o)
		return
	}
	switch at := metav1.NewTime(m.time()); {
	case p.ended:
		o.Status.Phase = corev1.PodSucceeded
		m.see(events.KindPod, o)
	case p.node != nil:
		o.DeletionTimestamp = &at
		m.see(events.KindPod, o)
	}
	m.vanish(events.KindPod, o)
}

func (m *millwright) podObject(p *pod) *corev1.Pod {
	owner, kind, version := p.owner(), "ReplicaSet", "apps/v1"
	if p.app.job {
		kind, version = "Job", "batch/v1"
	}
	yes := true
	asks := resources(p.app.asks)
	delete(asks, corev1.ResourcePods)
	o := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: p.name, UID: types.UID(p.name), CreationTimestamp: metav1.NewTime(start.Add(p.created)),
			Labels:          map[string]string{"app": p.app.name, "pod-template-hash": fmt.Sprint(p.revision)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: owner, UID: types.UID(owner), Controller: &yes}}},
		Spec: corev1.PodSpec{NodeSelector: map[string]string{karpv1.CapacityTypeLabelKey: p.app.capacity},
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: asks}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if p.app.protected {
		o.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	}
	switch {
	case p.node != nil:
		at := metav1.NewTime(start.Add(p.bound))
		o.Spec.NodeName, o.Status.Phase, o.Status.StartTime = p.node.name, corev1.PodRunning, &at
		o.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at}}
	case p.refused:
		o.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	}
	return o
}

// nodeChanged shows NodeClaim and Node to the World, and records what lifecycle would.
func (m *millwright) nodeChanged(n *node) {
	nodeClaim, object := m.claimObject(n), m.nodeObject(n)
	switch {
	case n.gone:
		if n.ready {
			m.vanish(events.KindNode, object)
		}
		m.vanish(events.KindNodeClaim, nodeClaim)
		m.record(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: n.name, UID: nodeClaim.UID, Reason: "gone"})
		delete(m.claims, n.name)
		delete(m.records, n)
		return
	case n.going:
		if c := m.ledger.Claim(n.name); c != nil && c.Doomed == nil {
			m.doom(n, c, nodeClaim)
		}
	case n.ready && m.ledger.Claim(n.name).State != ledger.ClaimInitializedState:
		m.record(ledger.KindClaimRegistered, &ledger.ClaimRegistered{Claim: n.name, Node: n.name})
		m.record(ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: n.name, Node: n.name})
	}
	m.claims[n.name] = n
	m.see(events.KindNodeClaim, nodeClaim)
	if n.ready {
		m.see(events.KindNode, object)
		m.hint()
	}
}

// doom records why a node goes that no command takes, with the input from which lifecycle decides so.
func (m *millwright) doom(n *node, c *ledger.Claim, object *karpv1.NodeClaim) {
	before := object.DeepCopy()
	before.DeletionTimestamp = nil
	in := claim.Input{Name: n.name, Now: m.time(), AsOf: m.time(), Ledger: claim.FactsOfLedger(c), Object: claim.FactsOfObject(before, c, logID)}
	if n.cause != claim.ReasonExpired {
		in.Interruptions = []claim.Interruption{{Kind: n.cause, At: m.time()}}
	}
	a := claim.Next(in)
	doomed := claim.Payload(in, a)
	data, err := json.Marshal(in)
	if err != nil || a.Move != claim.Doom {
		panic(fmt.Sprintf("weeks: %s goes because of %q: %s %v", n.name, n.cause, a.Move, err))
	}
	doomed.UID, doomed.Input = object.UID, data
	m.record(ledger.KindClaimDoomed, doomed)
}

func (n *node) labels() map[string]string {
	l := map[string]string{karpv1.NodePoolLabelKey: n.offer.capacity, corev1.LabelInstanceTypeStable: n.offer.kind.name,
		corev1.LabelTopologyZone: n.offer.zone, karpv1.CapacityTypeLabelKey: n.offer.capacity, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
		corev1.LabelHostname: n.name}
	if n.ready {
		l[karpv1.NodeRegisteredLabelKey], l[karpv1.NodeInitializedLabelKey] = "true", "true"
	}
	return l
}

func (m *millwright) claimObject(n *node) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: n.name, UID: types.UID("claim-" + n.name), Labels: n.labels(), CreationTimestamp: metav1.NewTime(start.Add(n.launched)),
			Finalizers: []string{karpv1.TerminationFinalizer}},
		Spec: karpv1.NodeClaimSpec{NodeClassRef: workload.Pool("any").Spec.Template.Spec.NodeClassRef, ExpireAfter: karpv1.NewDuration(expireAfter)},
		Status: karpv1.NodeClaimStatus{ProviderID: providerID(n.name, n.offer.zone), Capacity: resources(n.offer.kind.capacity),
			Allocatable: resources(n.offer.kind.allocatable)},
	}
	reached := []string{karpv1.ConditionTypeLaunched}
	at := metav1.NewTime(start.Add(n.launched))
	if n.ready {
		reached = append(reached, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized)
		at = metav1.NewTime(start.Add(n.readyAt))
		c.Status.NodeName, c.Status.LastPodEventTime = n.name, at
	}
	for _, kind := range reached {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, LastTransitionTime: at})
	}
	if n.going {
		now := metav1.NewTime(m.time())
		c.DeletionTimestamp = &now
	}
	return c
}

func (m *millwright) nodeObject(n *node) *corev1.Node {
	o := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.name, UID: types.UID("node-" + n.name), Labels: n.labels(), CreationTimestamp: metav1.NewTime(start.Add(n.readyAt)),
			Annotations: map[string]string{}},
		Spec: corev1.NodeSpec{ProviderID: providerID(n.name, n.offer.zone)},
		Status: corev1.NodeStatus{Capacity: resources(n.offer.kind.capacity), Allocatable: resources(n.offer.kind.allocatable),
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	if n.tainted {
		o.Spec.Taints = []corev1.Taint{karpv1.DisruptedTaint()}
	}
	if seq := m.records[n]; seq > 0 {
		o.Annotations[karpv1.RecordAnnotationKey] = ledger.RecordAnnotation(logID, seq)
	}
	return o
}
