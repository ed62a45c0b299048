package claims

import (
	"context"
	"fmt"
	"maps"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/claim"
	"millwright/planner/ledger"
)

// register writes everything registration asks for on the Node at once, then records it. That a Node was
// made anew is recorded first: whatever fails, it is registered and initialized from there.
func (s *Stepper) register(ctx context.Context, v *claimView, _ claim.Action) (bool, error) {
	n := v.nodes[0]
	if v.ledger.State == ledger.ClaimInitializedState {
		return true, s.record(ctx, v, ledger.KindClaimRegistered, &ledger.ClaimRegistered{Claim: v.name, Node: n.Name}, nil, false)
	}
	if claim.MissesUnregisteredTaint(n) {
		s.report.tellMissingTaint(v, n)
	}
	if want := claim.RegisteredNode(n, v.object); want != n {
		s.mem.registers(n, s.host.Now())
		if _, err := s.deps.Kube.UpdateNode(ctx, n, want); err != nil {
			return false, err
		}
	}
	if err := s.record(ctx, v, ledger.KindClaimRegistered, &ledger.ClaimRegistered{Claim: v.name, Node: n.Name}, nil, false); err != nil {
		return false, err
	}
	if s.host.LogAway() { // it is counted when it is recorded
		return true, nil
	}
	s.metrics.registered(v)
	s.startDiscovery(v, n)
	for _, pool := range v.owningPools() {
		s.deps.Registrations.Succeeded(pool)
	}
	return true, nil
}

// initialize labels the Node, then records it.
func (s *Stepper) initialize(ctx context.Context, v *claimView, _ claim.Action) (bool, error) {
	n := v.nodes[0]
	if n.Labels[karpv1.NodeInitializedLabelKey] != "true" {
		want := n.DeepCopy()
		want.Labels = merged(n.Labels, map[string]string{karpv1.NodeInitializedLabelKey: "true"})
		if _, err := s.deps.Kube.UpdateNode(ctx, n, want); err != nil {
			return false, err
		}
	}
	return true, s.record(ctx, v, ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: v.name, Node: n.Name}, nil, false)
}

// tag gives the instance the tags that are only known after registration; existing keys stay as they are.
func (s *Stepper) tag(ctx context.Context, v *claimView) error {
	id := v.instanceID()
	found, err := s.deps.EC2.DescribeInstances(ctx, []string{id})
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("describe instance %s: EC2 does not show it", id)
	}
	missing := map[string]string{
		awsv1.TagName: v.object.Status.NodeName, awsv1.TagNodeClaim: v.name, awsv1.TagEKSClusterName: s.deps.Cluster,
	}
	maps.DeleteFunc(missing, func(key, _ string) bool { _, has := found[0].Tags[key]; return has })
	if len(missing) > 0 {
		if err := s.deps.EC2.CreateTags(ctx, id, missing); err != nil {
			return err
		}
	}
	return s.annotate(ctx, v, map[string]string{awsv1.TaggedAnnotationKey: "true", awsv1.ClusterNameTaggedAnnotationKey: "true"})
}

// annotate writes annotations on the NodeClaim.
func (s *Stepper) annotate(ctx context.Context, v *claimView, annotations map[string]string) error {
	after := v.object.DeepCopy()
	after.Annotations = merged(v.object.Annotations, annotations)
	_, err := s.deps.Kube.UpdateNodeClaim(ctx, v.object, after)
	return err
}
