package plan

import (
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/planner/requirement"
	"millwright/planner/world"
)

// carryOut changes the World as a command would in the end: its replacements are nodes, its pods run where
// they were planned to, its nodes are gone.
func (d *disruption) carryOut(s *ledger.CommandStarted, nameOf func(i int) string) {
	f := feederOn(d.world, d.config.Now)
	to := map[types.UID]string{}
	for i := range s.Replacements {
		name := nameOf(i)
		if d.world.Node(name) == nil {
			d.make(f, name, &s.Replacements[i])
		}
		for _, pod := range s.Replacements[i].Pods {
			to[pod.UID] = name
		}
	}
	for _, p := range s.Placements {
		for _, pod := range p.Pods {
			to[pod.UID] = p.Node
		}
	}
	for _, c := range s.Candidates {
		for _, p := range append([]*world.Pod(nil), d.world.PodsOn(c.Node)...) {
			node, moves := to[p.UID]
			if !moves && len(s.Replacements) > 0 && !p.Class.DaemonSetOwned() && !p.Class.Static() {
				node, moves = nameOf(0), true
			}
			if moves {
				f.upsert(events.KindPod, p.Key(), podOn(p, node, d.config.Now))
			} else {
				f.remove(events.KindPod, p.UID, p.Key())
			}
		}
		if n := d.world.Node(c.Node); n != nil {
			f.remove(events.KindNode, n.Object.UID, c.Node)
		}
		f.remove(events.KindNodeClaim, c.ClaimUID, c.Claim)
	}
	f.send(events.Observation{Op: events.OpHeartbeat, Object: &events.Heartbeat{}})
}

// end carries a command out, and records that.
func (d *disruption) end(r startedCommand) {
	d.carryOut(r.command, func(i int) string { return fmt.Sprintf("replacement/%d/%d", r.index, i) })
	d.close(r.seq, r.command)
}

// close records that a command succeeded. Its replacements go by other names here, so their claims are
// closed.
func (d *disruption) close(seq uint64, s *ledger.CommandStarted) {
	now, id := d.config.Now, ledger.CommandID(d.ledger.LogID(), seq)
	d.apply(now, ledger.KindCommandConfirmed, &ledger.CommandConfirmed{ID: id})
	d.apply(now, ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: id})
	for i := range s.Replacements {
		d.apply(now, ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: ledger.ClaimName(d.ledger.LogID(), s.Replacements[i].NodePool, seq, i)})
	}
}

// endRunning carries out what a running system has started already. Replacements that have joined are used.
func (d *disruption) endRunning() {
	for _, c := range d.ledger.Commands() {
		s := &c.Started
		d.addCommand(s)
		d.last().Running = true
		snap := d.snapshot()
		d.carryOut(s, func(i int) string {
			name := ledger.ClaimName(d.ledger.LogID(), s.Replacements[i].NodePool, c.Seq, i)
			if n := snap.StateNodeOfClaim(name); n != nil && n.Node != nil {
				return n.Name
			}
			return name
		})
		d.close(c.Seq, s)
	}
}

func (f *feeder) upsert(kind events.Kind, name string, o metav1.Object) {
	f.send(events.Observation{Op: events.OpUpsert, Kind: kind, UID: o.GetUID(), Name: name, Object: o})
}

func (f *feeder) remove(kind events.Kind, uid types.UID, name string) {
	f.send(events.Observation{Op: events.OpDelete, Kind: kind, UID: uid, Name: name})
}

// podOn is a pod as it will run on a node.
func podOn(p *world.Pod, node string, now time.Time) *corev1.Pod {
	c := p.Class
	o := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Labels: c.Labels, Annotations: c.Annotations,
			CreationTimestamp: metav1.NewTime(now)}, // a pod that is evicted is made anew
		Spec: *c.Spec.DeepCopy(),
	}
	if c.OwnerKind != "" {
		yes := true
		o.OwnerReferences = []metav1.OwnerReference{{APIVersion: c.OwnerAPIVersion, Kind: c.OwnerKind, Name: c.OwnerName, UID: c.OwnerUID, Controller: &yes}}
	}
	started := metav1.NewTime(now)
	o.Spec.NodeName, o.Status.Phase, o.Status.StartTime = node, corev1.PodRunning, &started
	o.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return o
}

// make shows a replacement as an initialized node of its cheapest offering.
func (d *disruption) make(f *feeder, name string, p *ledger.PlannedClaim) {
	labels := maps.Clone(p.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	snap := d.snapshot()
	offer := p.Cheapest
	set, _ := requirement.FromClaim(p.Requirements)
	var t *catalog.InstanceType
	if cat := provision.Catalog(snap, p.NodePool, p.NodeClassRef.Name); cat != nil {
		if offer.InstanceType == "" {
			offer = provision.CheapestOffering(cat, set)
		}
		t = cat.Type(offer.InstanceType)
	}
	if t != nil {
		maps.Copy(labels, t.Requirements.Labels())
	}
	maps.Copy(labels, set.Labels())
	maps.Copy(labels, map[string]string{
		corev1.LabelHostname: name, corev1.LabelInstanceTypeStable: offer.InstanceType, corev1.LabelTopologyZone: offer.Zone,
		karpv1.CapacityTypeLabelKey: offer.CapacityType, karpv1.NodePoolLabelKey: p.NodePool,
		karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true",
	})
	id := "aws:///" + offer.Zone + "/i-" + strings.ReplaceAll(name, "/", "-")
	now := metav1.NewTime(d.config.Now)
	claim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("NodeClaim/" + name), Labels: labels, Annotations: p.Annotations, CreationTimestamp: now},
		Spec: karpv1.NodeClaimSpec{Taints: p.Taints, StartupTaints: p.StartupTaints, Requirements: p.Requirements, NodeClassRef: &p.NodeClassRef,
			ExpireAfter: p.ExpireAfter},
		Status: karpv1.NodeClaimStatus{NodeName: name, ProviderID: id, LastPodEventTime: now},
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("Node/" + name), Labels: labels, Annotations: p.Annotations, CreationTimestamp: now},
		Spec:       corev1.NodeSpec{ProviderID: id, Taints: p.Taints},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	if p.TerminationGracePeriod != nil {
		claim.Spec.TerminationGracePeriod = &metav1.Duration{Duration: *p.TerminationGracePeriod}
	}
	if t != nil {
		node.Status.Capacity, node.Status.Allocatable = t.Capacity.List(), t.Allocatable.List()
		claim.Status.Capacity, claim.Status.Allocatable = node.Status.Capacity, node.Status.Allocatable
	}
	for _, kind := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized} {
		claim.Status.Conditions = append(claim.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, LastTransitionTime: now})
	}
	f.upsert(events.KindNodeClaim, name, claim)
	f.upsert(events.KindNode, name, node)
}
