package kube

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
)

// ListNodePools reads all from the API server by a consistent read, by name.
func (c *Client) ListNodePools(ctx context.Context) ([]*karpv1.NodePool, error) {
	list, err := c.NodePools.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodepools: %w", err)
	}
	return pointers(list.Items, (*karpv1.NodePool).GetName), nil
}

// UpdateNodePool writes metadata that differs; a concurrent change is a Conflict.
func (c *Client) UpdateNodePool(ctx context.Context, before, after *karpv1.NodePool) (*karpv1.NodePool, error) {
	return c.NodePools.Update(ctx, before, after)
}

// UpdateNodePoolStatus writes the status fields that differ; a concurrent change is a Conflict.
func (c *Client) UpdateNodePoolStatus(ctx context.Context, before, after *karpv1.NodePool) (*karpv1.NodePool, error) {
	return c.NodePools.UpdateStatus(ctx, before, after)
}

// UpdateNodeOverlayStatus writes the status fields that differ; a concurrent change is a Conflict.
func (c *Client) UpdateNodeOverlayStatus(ctx context.Context, before, after *karpv1alpha1.NodeOverlay) (*karpv1alpha1.NodeOverlay, error) {
	return c.NodeOverlays.UpdateStatus(ctx, before, after)
}

// GetPolicy reads a DisruptionPolicy from the API server.
func (c *Client) GetPolicy(ctx context.Context, name string) (*mwv1alpha1.DisruptionPolicy, error) {
	return c.Policies.Get(ctx, name)
}

// UpdatePolicyStatus writes the status fields that differ; a concurrent change is a Conflict.
func (c *Client) UpdatePolicyStatus(ctx context.Context, before, after *mwv1alpha1.DisruptionPolicy) (*mwv1alpha1.DisruptionPolicy, error) {
	return c.Policies.UpdateStatus(ctx, before, after)
}

// UpdateNodeClass writes metadata that differs; a concurrent change is a Conflict.
func (c *Client) UpdateNodeClass(ctx context.Context, before, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	return c.NodeClasses.Update(ctx, before, after)
}

// UpdateNodeClassStatus writes the status fields that differ; a concurrent change is a Conflict.
func (c *Client) UpdateNodeClassStatus(ctx context.Context, before, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	return c.NodeClasses.UpdateStatus(ctx, before, after)
}
