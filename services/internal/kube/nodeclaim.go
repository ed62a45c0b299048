package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
)

// CreateNodeClaim creates the object. AlreadyExists does not say whose the existing one is.
func (c *Client) CreateNodeClaim(ctx context.Context, claim *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	return c.NodeClaims.Create(ctx, claim)
}

// GetNodeClaim reads from the API server, not from a cache.
func (c *Client) GetNodeClaim(ctx context.Context, name string) (*karpv1.NodeClaim, error) {
	return c.NodeClaims.Get(ctx, name)
}

// ListNodeClaims reads all from the API server by a consistent read, by name.
func (c *Client) ListNodeClaims(ctx context.Context) ([]*karpv1.NodeClaim, error) {
	list, err := c.NodeClaims.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodeclaims: %w", err)
	}
	return pointers(list.Items, (*karpv1.NodeClaim).GetName), nil
}

// DeleteNodeClaim asks for deletion of the NodeClaim with this UID.
func (c *Client) DeleteNodeClaim(ctx context.Context, name string, uid types.UID) error {
	return c.NodeClaims.Delete(ctx, name, uid)
}

// UpdateNodeClaim writes labels, annotations and finalizers that differ; a concurrent change is a Conflict.
func (c *Client) UpdateNodeClaim(ctx context.Context, before, after *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	return c.NodeClaims.Update(ctx, before, after)
}

// UpdateNodeClaimStatus writes the status fields that differ; a concurrent change is a Conflict.
func (c *Client) UpdateNodeClaimStatus(ctx context.Context, before, after *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	return c.NodeClaims.UpdateStatus(ctx, before, after)
}

// UpdateNode writes what differs outside the status in one patch; a concurrent change is a Conflict.
func (c *Client) UpdateNode(ctx context.Context, before, after *corev1.Node) (*corev1.Node, error) {
	p, err := difference(before, after, outsideStatus)
	if err != nil || p == nil {
		return after, err
	}
	return c.PatchNode(ctx, before.Name, *p)
}

// pointers returns the items by name.
func pointers[T any](items []T, name func(*T) string) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	slices.SortFunc(out, func(a, b *T) int { return strings.Compare(name(a), name(b)) })
	return out
}
