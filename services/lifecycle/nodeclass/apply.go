package nodeclass

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
)

// Writer writes what differs between before and after, bound to before's UID and resourceVersion. kube.Client
// is one.
type Writer interface {
	UpdateNodeClaim(ctx context.Context, before, after *karpv1.NodeClaim) (*karpv1.NodeClaim, error)
	UpdateNodeClass(ctx context.Context, before, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error)
	UpdateNodeClassStatus(ctx context.Context, before, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error)
}

// Apply writes a Change: stamps of NodeClaims, then metadata, then status, each only if it differs. It ends
// at the first error of a stamp, so that the class never carries a version its NodeClaims lack. The status,
// for which launches wait, is written also where the metadata may not be.
func Apply(ctx context.Context, w Writer, before *awsv1.EC2NodeClass, c Change) error {
	for _, s := range c.Claims {
		if _, err := w.UpdateNodeClaim(ctx, s.Before, s.After); err != nil {
			return fmt.Errorf("stamp nodeclaim %s: %w", s.Before.Name, err)
		}
	}
	current, failed := before, error(nil)
	if !equality.Semantic.DeepEqual(before.ObjectMeta, c.Object.ObjectMeta) {
		after := c.Object.DeepCopy()
		after.Status = before.Status
		if updated, err := w.UpdateNodeClass(ctx, before, after); err != nil {
			failed = fmt.Errorf("update nodeclass %s: %w", before.Name, err)
		} else {
			current = updated
		}
	}
	if c.Object.DeletionTimestamp != nil || equality.Semantic.DeepEqual(current.Status, c.Object.Status) {
		return failed
	}
	after := current.DeepCopy()
	after.Status = c.Object.Status
	if _, err := w.UpdateNodeClassStatus(ctx, current, after); err != nil {
		return errors.Join(failed, fmt.Errorf("update status of nodeclass %s: %w", before.Name, err))
	}
	return failed
}
