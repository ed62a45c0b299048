package claims

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/claim"
	"millwright/services/internal/lane"
)

// unreserveEvery is how often EC2 is asked about one instance at most: a scan may be older than its answer,
// and the cache than what was written.
const unreserveEvery = 10 * time.Second

// stepUnreserve relabels a claim and its Node once the capacity reservation of the instance has ended: it
// runs on as a plain on-demand one (ec2 §2.5). Scans see that; EC2 is asked once more before anything is
// written.
func stepUnreserve(s *Stepper, v *claimView) {
	id := v.instanceID()
	if !labelledReserved(v) || id == "" || !s.deps.Findings.OnDemand(id) {
		return
	}
	name, key := v.name, "unreserve/"+v.name
	if !s.effects.Retries.Due(key, s.host.Now()) {
		return
	}
	s.claimEffect(name, key, lane.Tag, func(ctx context.Context) error {
		s.effects.Hold(key, unreserveEvery)
		found, err := s.deps.EC2.DescribeInstances(ctx, []string{id})
		if err != nil || len(found) != 1 || found[0].CapacityType != karpv1.CapacityTypeOnDemand || found[0].Gone() {
			return err
		}
		v, err := s.lookAnew(ctx, name)
		if err != nil || v.instanceID() != id || !labelledReserved(v) {
			return err
		}
		return unreserve(ctx, s, v)
	})
}

// labelledReserved: the claim lives, and it or a Node of its instance is labelled as reserved capacity. The
// two are written one after the other, so that one alone may be.
func labelledReserved(v *claimView) bool {
	o := v.own()
	if o == nil || !o.DeletionTimestamp.IsZero() {
		return false
	}
	reserved := isReserved(o.Labels)
	for _, n := range v.nodes {
		reserved = reserved || isReserved(n.Labels)
	}
	return reserved
}

func isReserved(labels map[string]string) bool {
	return labels[karpv1.CapacityTypeLabelKey] == karpv1.CapacityTypeReserved
}

func unreserve(ctx context.Context, s *Stepper, v *claimView) error {
	for _, n := range v.nodes {
		if !isReserved(n.Labels) {
			continue
		}
		after := n.DeepCopy()
		after.Labels = claim.Unreserved(n.Labels)
		if _, err := s.deps.Kube.UpdateNode(ctx, n, after); err != nil {
			return err
		}
	}
	if !isReserved(v.object.Labels) {
		return nil
	}
	after := v.object.DeepCopy()
	after.Labels = claim.Unreserved(v.object.Labels)
	if _, err := s.deps.Kube.UpdateNodeClaim(ctx, v.object, after); err != nil {
		return err
	}
	s.deps.Logger.Info().Str("nodeclaim", v.name).Str("reservation", v.label(awsv1.LabelCapacityReservationID)).
		Str("zone", v.label(corev1.LabelTopologyZone)).Msg("capacity reservation has ended, the instance is on-demand now")
	return nil
}
