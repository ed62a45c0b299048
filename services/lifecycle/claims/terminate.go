package claims

import (
	"context"
	"fmt"
	"slices"
	"time"

	"millwright/planner/condition"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/planner/providerid"
	"millwright/services/internal/kube"
)

// stamp fixes the deadline of the drain. One that is there already is changed only to an earlier one, when
// the Node is repaired.
func (s *Stepper) stamp(ctx context.Context, v *claimView, _ claim.Action) (bool, error) {
	grace := time.Duration(0)
	if g := v.object.Spec.TerminationGracePeriod; g != nil {
		grace = g.Duration
	}
	deadline := claim.Deadline(v.input, grace).Format(time.RFC3339)
	if err := s.annotate(ctx, v, map[string]string{karpv1.TerminationTimestampAnnotationKey: deadline}); err != nil {
		return false, err
	}
	s.report.tellDeadline(v, deadline)
	return true, nil
}

// deleteNodes asks for the drain: the terminator empties Nodes that are being deleted.
func (s *Stepper) deleteNodes(ctx context.Context, v *claimView, _ claim.Action) (bool, error) {
	for _, n := range v.nodes {
		if !n.DeletionTimestamp.IsZero() || !claim.IsDrained(n) {
			continue
		}
		if err := deleteNode(ctx, s, n); err != nil {
			return false, err
		}
	}
	s.effects.Hold(claimKey(v.name), showPause) // until the cache shows it
	return false, nil
}

// deleteNode asks for the deletion of a Node. One whose finalizer somebody has taken off gets it again, or it
// would go at once, with its pods; one that joined without the unregistered taint gets it for the same
// reason. It looks at the Node itself: the cache may still show a finalizer that is gone.
func deleteNode(ctx context.Context, s *Stepper, seen *corev1.Node) error {
	n, err := s.deps.Kube.Node(ctx, seen.Name)
	if kube.IsNotFound(err) || err == nil && n.UID != seen.UID {
		s.deps.Nodes.Gone(seen.Name, seen.UID, s.host.Now())
		return nil
	}
	if err != nil || !n.DeletionTimestamp.IsZero() {
		return err
	}
	if !slices.Contains(n.Finalizers, karpv1.TerminationFinalizer) {
		after := n.DeepCopy()
		after.Finalizers = append(after.Finalizers, karpv1.TerminationFinalizer)
		if _, err := s.deps.Kube.UpdateNode(ctx, n, after); err != nil && !kube.IsNotFound(err) {
			return err
		}
	}
	if err := s.deps.Kube.DeleteNode(ctx, n.Name, n.UID); err != nil && !kube.IsNotFound(err) {
		return err
	}
	return nil
}

// terminate asks EC2 to end the instance. That it has ended is found by the poll.
func (s *Stepper) terminate(ctx context.Context, v *claimView, _ claim.Action) (bool, error) {
	id := v.instanceID()
	if hidden, err := hasHiddenNode(ctx, s, v); hidden || err != nil {
		s.effects.Hold(claimKey(v.name), showPause) // until the cache shows it
		return false, err
	}
	if err := s.deps.EC2.TerminateInstances(ctx, []string{id}); err != nil {
		s.metrics.notTerminated(v, err)
		return false, fmt.Errorf("terminate instance %s: %w", id, err)
	}
	s.deps.Findings.Asked(id, s.host.Now())
	return false, s.tellTerminating(ctx, v)
}

// hasHiddenNode: the API server has a Node of the claim in use that the cache lacks, or shows as it was
// before it registered. Nobody has drained it then: a cache may be far behind the log, and the leader before
// may have registered the Node.
func hasHiddenNode(ctx context.Context, s *Stepper, v *claimView) (bool, error) {
	for _, name := range v.nodeNames() {
		i := slices.IndexFunc(v.nodes, func(n *corev1.Node) bool { return n.Name == name })
		if i >= 0 && claim.IsHeld(v.nodes[i]) {
			continue // its drain was waited for
		}
		n, err := s.deps.Kube.Node(ctx, name)
		if kube.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, err
		}
		_, id := providerid.Split(n.Spec.ProviderID)
		if id == v.instanceID() && !s.deps.Nodes.IsGone(n.UID) && (i < 0 || claim.IsHeld(n)) {
			return true, nil
		}
	}
	return false, nil
}

// nodeNames are what the log, the NodeClaim and the cache call the Nodes of the claim.
func (v *claimView) nodeNames() []string {
	var names []string
	if v.ledger != nil && v.ledger.Node != "" {
		names = append(names, v.ledger.Node)
	}
	if o := v.own(); o != nil && o.Status.NodeName != "" {
		names = append(names, o.Status.NodeName)
	}
	for _, n := range v.nodes {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// tellTerminating sets the condition InstanceTerminating, from which on budgets do not count the node. It
// looks at the object itself, and again after a conflict: the terminator is writing to it.
func (s *Stepper) tellTerminating(ctx context.Context, v *claimView) error {
	for try := 1; ; try++ {
		o, err := live(ctx, s, v)
		if err != nil || o == nil || condition.IsTrue(o.Status.Conditions, karpv1.ConditionTypeInstanceTerminating) {
			return err
		}
		c := claim.ConditionsOf(o, v.input.Now)
		c.True(karpv1.ConditionTypeInstanceTerminating)
		status := o.Status
		status.Conditions = c.Finish()
		if err := s.writeStatus(ctx, o, o, status); try == terminatingTriesMax || !kube.IsConflict(err) {
			return err
		}
	}
}

// live is the claim's NodeClaim as the API server has it; nil if it is gone, or another one by its name is
// there.
func live(ctx context.Context, s *Stepper, v *claimView) (*karpv1.NodeClaim, error) {
	if v.own() == nil {
		return nil, nil
	}
	o, err := s.deps.Kube.GetNodeClaim(ctx, v.name)
	switch {
	case kube.IsNotFound(err), err == nil && o.UID != v.uid():
		s.deps.Claims.Gone(v.name, v.uid(), s.host.Now())
		return nil, nil
	}
	return o, err
}

// confirm records that the instance is gone.
func (s *Stepper) confirm(ctx context.Context, v *claimView, _ claim.Action) (bool, error) {
	payload := &ledger.InstanceTerminated{Claim: v.name, InstanceID: v.instanceID()}
	if err := s.record(ctx, v, ledger.KindInstanceTerminated, payload, nil, false); err != nil {
		return false, err
	}
	if !s.host.LogAway() {
		s.metrics.instanceTerminated(v)
	}
	return true, nil
}

// release lets the Nodes and the NodeClaim go, but not while it is being launched. Nodes go first: while
// somebody else's finalizer keeps a Node, its NodeClaim says that the instance is gone (reference: lifecycle
// §7).
func (s *Stepper) release(ctx context.Context, v *claimView, _ claim.Action) (bool, error) {
	if v.gathered { // it may have an instance by now
		s.gathering.drop(v.name)
		s.effects.Hold(claimKey(v.name), showPause)
		return false, nil
	}
	kept := false
	for _, n := range v.nodes {
		stays, err := s.releaseNode(ctx, n)
		if err != nil {
			return false, err
		}
		kept = kept || stays
	}
	if kept {
		s.effects.Hold(claimKey(v.name), keptPause)
		return false, s.tellTerminating(ctx, v) // if nobody did when the instance was ended
	}
	o, err := live(ctx, s, v) // what the drain and the end of the instance wrote may not be in the cache yet
	if err != nil {
		return false, err
	}
	if o == nil || !slices.Contains(o.Finalizers, karpv1.TerminationFinalizer) {
		s.effects.Hold(claimKey(v.name), showPause) // until the cache has lost the Nodes
		return false, nil
	}
	after := o.DeepCopy()
	after.Finalizers = slices.DeleteFunc(after.Finalizers, func(f string) bool { return f == karpv1.TerminationFinalizer })
	if _, err := s.deps.Kube.UpdateNodeClaim(ctx, o, after); err != nil && !kube.IsNotFound(err) {
		return false, err
	}
	s.metrics.released(v)
	s.report.tellFinalized(v)
	return s.reread(ctx, v)
}

// releaseNode takes our finalizer off a Node and has it deleted. It looks at the Node itself: while its
// kubelet stops, others keep writing its status, and no cache is as new. stays: others have finalizers on it.
func (s *Stepper) releaseNode(ctx context.Context, seen *corev1.Node) (stays bool, err error) {
	if !claim.IsHeld(seen) {
		return false, nil
	}
	n, err := s.deps.Kube.Node(ctx, seen.Name)
	if kube.IsNotFound(err) || err == nil && n.UID != seen.UID {
		s.deps.Nodes.Gone(seen.Name, seen.UID, s.host.Now())
		return false, nil
	}
	if err != nil || !claim.IsHeld(n) {
		return false, err
	}
	after := n.DeepCopy()
	after.Finalizers = slices.DeleteFunc(after.Finalizers, func(f string) bool { return f == karpv1.TerminationFinalizer })
	if len(after.Finalizers) < len(n.Finalizers) {
		if _, err := s.deps.Kube.UpdateNode(ctx, n, after); err != nil && !kube.IsNotFound(err) {
			return false, fmt.Errorf("release node %s: %w", n.Name, err)
		}
		s.metrics.nodeTerminated(n, s.host.Now())
		s.report.logNode(n).Msg("deleted node")
	}
	stays = len(after.Finalizers) > 0
	if !n.DeletionTimestamp.IsZero() {
		return stays, nil
	}
	if err := s.deps.Kube.DeleteNode(ctx, n.Name, n.UID); err != nil && !kube.IsNotFound(err) {
		return false, fmt.Errorf("delete node %s: %w", n.Name, err)
	}
	return stays, nil
}

// close asks the API server itself; only then does the claim leave the Ledger.
func (s *Stepper) close(ctx context.Context, v *claimView, _ claim.Action) (bool, error) {
	o, err := s.deps.Kube.GetNodeClaim(ctx, v.name)
	if err != nil && !kube.IsNotFound(err) {
		return false, err
	}
	if err == nil && o.UID == v.ledger.UID {
		return true, nil
	}
	payload := &ledger.ClaimClosed{Claim: v.name, UID: v.ledger.UID, Reason: "deleted"}
	if v.ledger.Doomed != nil {
		payload.Reason = v.ledger.Doomed.Reason
	}
	if err := s.record(ctx, v, ledger.KindClaimClosed, payload, nil, true); err != nil {
		return false, err
	}
	s.mem.forget(v.name, v.ledger.UID)
	s.deps.Findings.Forget(v.instanceID())
	return false, nil
}
