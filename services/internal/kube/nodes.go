package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Node reads a Node from the API server, not from a cache.
func (c *Client) Node(ctx context.Context, name string) (*corev1.Node, error) {
	return c.Core.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
}

// PatchNode applies a merge patch to a Node.
func (c *Client) PatchNode(ctx context.Context, name string, p Patch) (*corev1.Node, error) {
	data, err := p.encode()
	if err != nil {
		return nil, err
	}
	return c.Core.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{})
}

// DeleteNode asks for deletion of the Node with this UID.
func (c *Client) DeleteNode(ctx context.Context, name string, uid types.UID) error {
	return c.Core.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{Preconditions: uidPrecondition(uid)})
}
