package planner

import (
	"cmp"
	"slices"
	"time"

	"millwright/planner/condition"
	"millwright/planner/providerid"
	"millwright/planner/taint"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner/ledger"
	"millwright/planner/resource"
	"millwright/planner/world"
)

// StateNodes returns the nodes by name, then claim. It is computed once per Snapshot.
//
// A claim is among them from the moment the World shows its providerID, for then its capacity is known too;
// until then an open claim of the Ledger is in InFlight. So no capacity is missed and none counted twice.
func (s *Snapshot) StateNodes() []*StateNode {
	if s.cache.nodes != nil {
		return s.cache.nodes
	}
	joined := map[string]bool{}
	nodes := make([]*StateNode, 0, len(s.World.Nodes()))
	for _, c := range s.World.NodeClaims() {
		if c.Status.ProviderID == "" {
			continue
		}
		n := s.World.NodeByProviderID(c.Status.ProviderID)
		if n != nil && joined[n.Object.Name] {
			n = nil
		}
		if n != nil {
			joined[n.Object.Name] = true
		}
		nodes = append(nodes, s.stateNode(n, c))
	}
	for _, n := range s.World.Nodes() {
		if !joined[n.Object.Name] {
			nodes = append(nodes, s.stateNode(n, nil))
		}
	}
	slices.SortFunc(nodes, compareStateNodes)
	s.cache.nodes = nodes
	return nodes
}

func compareStateNodes(a, b *StateNode) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ClaimName(), b.ClaimName()))
}

// StateNode returns the first node of a name; nil if there is none.
func (s *Snapshot) StateNode(name string) *StateNode {
	if s.cache.byName == nil {
		s.cache.byName = map[string]*StateNode{}
		for _, n := range slices.Backward(s.StateNodes()) {
			s.cache.byName[n.Name] = n
		}
	}
	return s.cache.byName[name]
}

// StateNodeOfClaim returns the node of a NodeClaim; nil while the World shows no instance of it.
func (s *Snapshot) StateNodeOfClaim(claim string) *StateNode {
	if s.cache.byClaim == nil {
		s.cache.byClaim = map[string]*StateNode{}
		for _, n := range s.StateNodes() {
			if n.Claim != nil {
				s.cache.byClaim[n.Claim.Name] = n
			}
		}
	}
	return s.cache.byClaim[claim]
}

// InFlight returns the open claims of the Ledger, by name, whose capacity is still to come: planned, made or
// launched, not doomed, and not among StateNodes.
func (s *Snapshot) InFlight() []*ledger.Claim {
	if s.cache.inFlight == nil {
		s.cache.inFlight = []*ledger.Claim{}
		for _, c := range s.Ledger.Claims() {
			if s.toCome(c) {
				s.cache.inFlight = append(s.cache.inFlight, c)
			}
		}
	}
	return s.cache.inFlight
}

func (s *Snapshot) toCome(c *ledger.Claim) bool {
	if c.Doomed != nil || c.Terminated || s.StateNodeOfClaim(c.Name) != nil {
		return false
	}
	if obj := s.World.NodeClaim(c.Name); obj != nil {
		return obj.DeletionTimestamp == nil && !condition.IsTrue(obj.Status.Conditions, karpv1.ConditionTypeInstanceTerminating)
	}
	if c.Instance != nil && s.World.NodeByProviderID(c.Instance.ProviderID) != nil && !s.World.AsOf().Before(c.OpenedAt.Add(clockSkewMax)) {
		// The NodeClaim was there before its instance was asked for, so the World, in which Nodes may come
		// earlier, would show it by now: users took it away by its finalizers, and its Node counts for
		// itself.
		return false
	}
	// Not in the World: not yet, or, once the World is past the time at which its node joined, no more.
	// Lifecycle sees the cluster by itself, so its records may be ahead of the World.
	joined := c.State == ledger.ClaimRegisteredState || c.State == ledger.ClaimInitializedState
	return !joined || s.World.AsOf().Before(c.RegisteredAt.Add(clockSkewMax))
}

// clockSkewMax is how far the clocks of watcher and lifecycle may be apart for their times to be compared:
// each may be off by what is tolerated, the one ahead and the other behind.
const clockSkewMax = 2 * ledger.ClockTolerance

// Shows reports that the World surely is of later than a time by another service's clock. One that was
// restored from a checkpoint may be far behind the log: what it lacks may have come meanwhile.
func (s *Snapshot) Shows(at time.Time) bool { return !s.World.AsOf().Before(at.Add(clockSkewMax)) }

// ClaimName is the NodeClaim's name; "" for a node without one.
func (n *StateNode) ClaimName() string {
	if n.Claim == nil {
		return ""
	}
	return n.Claim.Name
}

func (s *Snapshot) stateNode(n *world.Node, c *karpv1.NodeClaim) *StateNode {
	sn := &StateNode{Node: n, Claim: c, Managed: c != nil}
	if c != nil {
		sn.Name, sn.ProviderID, sn.Ledger = c.Name, c.Status.ProviderID, s.Ledger.Claim(c.Name)
		sn.Labels, sn.Annotations = c.Labels, c.Annotations
	}
	if n != nil {
		sn.joinNode(s, n)
	}
	sn.NodePool = sn.Labels[karpv1.NodePoolLabelKey]
	if !sn.Managed {
		sn.Registered, sn.Initialized = true, true
	}
	sn.DrainsOut = n != nil && (slices.ContainsFunc(n.Object.Spec.Taints, IsDrainOut) || s.DrainsOut(sn))
	sn.setTaints()
	sn.setAmounts()
	sn.MarkedForDeletion = s.marked(sn)
	return sn
}

// joinNode takes over the Node's name and pods, and from registration on its labels.
func (sn *StateNode) joinNode(s *Snapshot, n *world.Node) {
	labels := n.Object.Labels
	sn.Name, sn.ProviderID = n.Object.Name, cmp.Or(n.Object.Spec.ProviderID, sn.ProviderID)
	sn.Registered = labels[karpv1.NodeRegisteredLabelKey] == "true"
	sn.Initialized = labels[karpv1.NodeInitializedLabelKey] == "true"
	sn.Managed = sn.Managed || labels[karpv1.NodePoolLabelKey] != ""
	if sn.Claim == nil || sn.Registered {
		sn.Labels, sn.Annotations = labels, n.Object.Annotations
	}
	sn.Pods = s.World.PodsOn(n.Object.Name)
}

func (sn *StateNode) setTaints() {
	switch {
	case sn.Node != nil && (sn.Registered || sn.Claim == nil):
		sn.Taints = sn.Node.Object.Spec.Taints
	case sn.Claim != nil:
		sn.Taints = sn.Claim.Spec.Taints
	}
	if sn.DrainsOut {
		sn.Taints = slices.DeleteFunc(slices.Clone(sn.Taints), IsDrainOut)
	}
	if !sn.Initialized {
		sn.Taints = slices.DeleteFunc(slices.Clone(sn.Taints), sn.passing)
	}
}

// DrainOutTaint is the taint of nodes that are to run empty by themselves.
func DrainOutTaint() corev1.Taint {
	return corev1.Taint{Key: mwv1alpha1.DrainOutTaintKey, Effect: corev1.TaintEffectPreferNoSchedule}
}

// IsDrainOut reports that a taint is millwright.sh/drain-out:PreferNoSchedule.
func IsDrainOut(t corev1.Taint) bool {
	return t.Key == mwv1alpha1.DrainOutTaintKey && t.Effect == corev1.TaintEffectPreferNoSchedule
}

// DrainsOut reports that the Ledger wants a node to run empty by itself.
func (s *Snapshot) DrainsOut(n *StateNode) bool {
	d, ok := s.Ledger.DrainOut(n.Name)
	return ok && d.Ended.IsZero() && n.Claim != nil && n.Claim.UID == d.ClaimUID
}

// passing reports a taint that goes away by itself before the node is initialized.
func (sn *StateNode) passing(t corev1.Taint) bool {
	if sn.Claim != nil && slices.ContainsFunc(sn.Claim.Spec.StartupTaints, func(s corev1.Taint) bool { return s.MatchTaint(&t) }) {
		return true
	}
	return taint.Ephemeral(t)
}

func (sn *StateNode) setAmounts() {
	var used resource.Vector
	if sn.Node != nil {
		sn.Capacity, sn.Allocatable, used = sn.Node.Capacity, sn.Node.Allocatable, sn.Node.Used
	}
	if sn.Claim != nil && !sn.Initialized {
		sn.Capacity = sn.Capacity.Filled(resource.From(sn.Claim.Status.Capacity))
		sn.Allocatable = sn.Allocatable.Filled(resource.From(sn.Claim.Status.Allocatable))
		sn.setPlannedAmounts()
	}
	sn.Available = sn.Allocatable.Sub(used)
}

// setPlannedAmounts fills in what was planned if the claim does not say what its instance has, because the
// catalogue was not at hand when it was launched: it counts for limits, and the pods planned for it fit.
func (sn *StateNode) setPlannedAmounts() {
	if sn.Ledger == nil || len(sn.Claim.Status.Capacity) > 0 {
		return
	}
	sn.Capacity = sn.Capacity.Filled(sn.Ledger.Capacity)
	if sn.Ledger.Planned != nil {
		sn.Allocatable = sn.Allocatable.Filled(sn.Ledger.Planned.Requests)
	}
}

func (s *Snapshot) marked(sn *StateNode) bool {
	return s.nodeEnds(sn) || sn.Claim != nil && s.CommandOf(sn.Claim.Name) != ""
}

// nodeEnds reports that a node goes whatever becomes of a command that takes it.
func (s *Snapshot) nodeEnds(sn *StateNode) bool {
	if sn.Claim == nil && sn.Node.Object.DeletionTimestamp != nil {
		return true // with a NodeClaim it is that one's deletion that counts (reference: scheduling §2.3)
	}
	if i := s.World.Instance(providerid.InstanceID(sn.ProviderID)); i != nil && (i.State == "shutting-down" || i.State == "terminated") {
		return true
	}
	c := sn.Claim
	if c == nil {
		return false
	}
	return c.DeletionTimestamp != nil || condition.IsTrue(c.Status.Conditions, karpv1.ConditionTypeInstanceTerminating) ||
		sn.Ledger != nil && (sn.Ledger.Doomed != nil || sn.Ledger.Terminated)
}

// StaysAfterAll reports that nothing but a command takes a node, and that this command is about to be given
// up, because one of its replacements will not come: the node's pods stay where they are.
func (s *Snapshot) StaysAfterAll(n *StateNode) bool {
	cmd := s.Ledger.Command(s.CommandOf(n.ClaimName()))
	if cmd == nil || s.nodeEnds(n) {
		return false
	}
	lost, _ := s.LostReplacement(cmd)
	return lost != ""
}

// LostReplacement is the claim of the first replacement of a command that will not come, with its NodePool:
// the Ledger has closed or doomed it, its NodeClaim is being deleted, or its instance ends. It is "" while
// all still may come.
func (s *Snapshot) LostReplacement(cmd *ledger.Command) (name, pool string) {
	for i, r := range cmd.Started.Replacements {
		name := s.Ledger.ClaimName(r.NodePool, cmd.Seq, i)
		c := s.Ledger.Claim(name)
		if c == nil || c.Doomed != nil {
			return name, r.NodePool
		}
		if o := s.World.NodeClaim(name); o != nil && o.DeletionTimestamp != nil {
			return name, r.NodePool
		}
		if n := s.StateNodeOfClaim(name); n != nil && s.nodeEnds(n) {
			return name, r.NodePool
		}
	}
	return "", ""
}

// Ready reports that the Node's condition Ready is True.
func (n *StateNode) Ready() bool {
	if n.Node == nil {
		return false
	}
	for _, c := range n.Node.Object.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// InstanceTypeName, Zone and CapacityType are of the labels; "" if missing.
func (n *StateNode) InstanceTypeName() string { return n.Labels[corev1.LabelInstanceTypeStable] }
func (n *StateNode) Zone() string             { return n.Labels[corev1.LabelTopologyZone] }
func (n *StateNode) CapacityType() string     { return n.Labels[karpv1.CapacityTypeLabelKey] }
