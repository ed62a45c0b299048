package claims

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/claim"
)

// statusStale reports that the object does not say what it should, and may be written now.
func (s *Stepper) statusStale(v *claimView) bool {
	o := v.own()
	key := claimKey(v.name)
	if v.input.Failure != nil {
		key = statusKey(v.name)
	}
	if o == nil || v.ledger == nil || !s.effects.Retries.Due(key, s.host.Now()) {
		return false
	}
	versions := v.versions()
	if s.mem.isSettled(v.name, versions) {
		return false
	}
	n, want := s.unhydrated(v), s.wanted(v)
	if n == nil && claim.SameMetadata(o, want) && claim.SameStatus(o, want) {
		s.mem.settleVersions(v.name, versions)
		return false
	}
	return s.mayWrite(v.name, claim.Wait, stale(o, want, n))
}

// stale says what is to be written: on the NodeClaim, and on its Node, if that is to be written too.
func stale(have, want *karpv1.NodeClaim, n *corev1.Node) string {
	text := claim.Difference(have, want)
	if n != nil {
		text = "label of node " + n.Name + "; " + text
	}
	return text
}

// unhydrated is the claim's Node with the label it lacks; nil if it lacks none.
func (s *Stepper) unhydrated(v *claimView) *corev1.Node {
	if len(v.nodes) != 1 || !v.object.DeletionTimestamp.IsZero() {
		return nil
	}
	return claim.Hydrated(v.nodes[0], v.own())
}

func (s *Stepper) wanted(v *claimView) *karpv1.NodeClaim {
	o := claim.Desired(v.own(), claim.StatusFacts{
		Claim: v.ledger, Nodes: v.nodes, NodeClass: v.input.NodeClass, Failure: v.input.Failure, Boot: v.input.Boot,
	}, v.input.Now)
	return claim.Marked(o, v.marks, v.input.Now)
}

// syncStatus writes labels, annotations and status of the NodeClaim where they differ; more is true if it
// wrote.
func (s *Stepper) syncStatus(ctx context.Context, v *claimView) (bool, error) {
	if !s.statusStale(v) {
		return false, nil
	}
	n, want := s.unhydrated(v), s.wanted(v)
	what := stale(v.object, want, n)
	if n != nil {
		if _, err := s.deps.Kube.UpdateNode(ctx, v.nodes[0], n); err != nil {
			return false, err
		}
	}
	o, err := s.deps.Kube.UpdateNodeClaim(ctx, v.object, want)
	if err != nil {
		return false, err
	}
	if err := s.writeStatus(ctx, v.object, o, want.Status); err != nil {
		return false, err
	}
	s.effects.Retries.Succeeded(statusKey(v.name))
	return true, s.noteWrite(v.name, claim.Wait, what)
}

// writeStatus sets the status of o, which followed from before, and tells of each transition.
func (s *Stepper) writeStatus(ctx context.Context, before, o *karpv1.NodeClaim, status karpv1.NodeClaimStatus) error {
	// o may be a shared object with the status already applied: compare with what the API server has.
	have, after := o.DeepCopy(), o.DeepCopy()
	have.Status, after.Status = before.Status, status
	written, err := s.deps.Kube.UpdateNodeClaimStatus(ctx, have, after)
	if err != nil {
		return err
	}
	s.report.tellTransitions(before, written)
	return nil
}
