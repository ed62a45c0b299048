package claims

import (
	"context"
	"strconv"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/claim"
	"millwright/services/internal/lane"
)

// partitionEvery is how often EC2 is asked for the partition of one instance at most.
const partitionEvery = 2 * time.Second

// stepPartition labels a claim with the partition of the placement group that EC2 has put its instance in.
// Its Node is not registered before that, and gets the label then (ec2 §2.6).
func stepPartition(s *Stepper, v *claimView) {
	id := v.instanceID()
	if id == "" || !awaitsPartition(v.own()) {
		return
	}
	name, key := v.name, "partition/"+v.name
	if !s.effects.Retries.Due(key, s.host.Now()) {
		return
	}
	s.claimEffect(name, key, lane.Tag, func(ctx context.Context) error {
		s.effects.Hold(key, partitionEvery)
		found, err := s.deps.EC2.DescribeInstances(ctx, []string{id})
		if err != nil || len(found) != 1 || found[0].Partition == 0 {
			return err
		}
		v, err := s.lookAnew(ctx, name)
		if err != nil || v.instanceID() != id || !awaitsPartition(v.own()) {
			return err
		}
		after := v.object.DeepCopy()
		after.Labels = merged(v.object.Labels, map[string]string{awsv1.LabelPlacementGroupPartition: strconv.Itoa(int(found[0].Partition))})
		_, err = s.deps.Kube.UpdateNodeClaim(ctx, v.object, after)
		return err
	})
}

func awaitsPartition(o *karpv1.NodeClaim) bool {
	return o != nil && o.DeletionTimestamp.IsZero() && claim.AwaitsPartition(o.Labels)
}
