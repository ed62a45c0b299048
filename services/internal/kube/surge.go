package kube

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	mwv1alpha1 "millwright/api/millwright/v1alpha1"
)

// SurgeManager is the field manager of the annotation by which Deployments replace pods.
const SurgeManager = "millwright-surge"

// ReplicaSet reads a ReplicaSet from the API server.
func (c *Client) ReplicaSet(ctx context.Context, namespace, name string) (*appsv1.ReplicaSet, error) {
	return c.Core.AppsV1().ReplicaSets(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Deployment reads a Deployment from the API server.
func (c *Client) Deployment(ctx context.Context, namespace, name string) (*appsv1.Deployment, error) {
	return c.Core.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
}

// SurgeDeployment sets the annotation millwright.sh/surge in the pod template of a Deployment, so that it
// replaces its pods. If the Deployment has changed since it was read, that is a Conflict.
func (c *Client) SurgeDeployment(ctx context.Context, d *appsv1.Deployment, value string) error {
	patch := SurgePatch(d, value)
	data, err := patch.encode()
	if err != nil {
		return err
	}
	if _, err := c.Core.AppsV1().Deployments(d.Namespace).Patch(ctx, d.Name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: SurgeManager}); err != nil {
		return fmt.Errorf("patch deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	return nil
}

// SurgePatch is the patch of SurgeDeployment.
func SurgePatch(d *appsv1.Deployment, value string) Patch {
	return Patch{UID: d.UID, ResourceVersion: d.ResourceVersion, Body: map[string]any{"spec": map[string]any{"template": map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{mwv1alpha1.SurgeAnnotationKey: value}}}}}}
}

// IsForbidden reports that the account lacks the right.
func IsForbidden(err error) bool { return apierrors.IsForbidden(err) }
