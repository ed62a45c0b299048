package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

const podListPage = 500

// PodsOnNode lists the pods bound to the node, by a consistent read of the API server.
func (c *Client) PodsOnNode(ctx context.Context, node string) ([]corev1.Pod, error) {
	opts := metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
		Limit:         podListPage,
	}
	var pods []corev1.Pod
	for {
		list, err := c.Core.CoreV1().Pods(metav1.NamespaceAll).List(ctx, opts)
		if err != nil {
			return nil, fmt.Errorf("list pods of node %s: %w", node, err)
		}
		pods = append(pods, list.Items...)
		if list.Continue == "" {
			return pods, nil
		}
		opts.Continue = list.Continue
	}
}

// EvictPod asks the Eviction API once to delete the pod with this UID, with the pod's own grace period. The
// client's own Evict would wait for as long as the API server asks it to, and ask again: ten times 10 s while
// a PodDisruptionBudget has changed and is not processed yet, in which no other pod could be evicted.
func (c *Client) EvictPod(ctx context.Context, namespace, name string, uid types.UID) error {
	return c.Core.PolicyV1().RESTClient().Post().AbsPath("/api/v1").Namespace(namespace).Resource("pods").Name(name).SubResource("eviction").
		Body(&policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: namespace, Name: name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: uidPrecondition(uid)},
		}).MaxRetries(0).Do(ctx).Error()
}

// DeletePod deletes the pod with this UID regardless of budgets; grace is in seconds.
func (c *Client) DeletePod(ctx context.Context, namespace, name string, uid types.UID, grace int64) error {
	return c.Core.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{
		GracePeriodSeconds: &grace, Preconditions: uidPrecondition(uid),
	})
}

// HintManager is the field manager of placement hints: it distinguishes them from kube-scheduler's
// nominations.
const HintManager = "millwright-placement"

// HintPod sets status.nominatedNodeName of the pod with this UID and resourceVersion; an empty node clears
// it. It returns the new resourceVersion. A pod that has changed since is a Conflict, so a nomination that
// the caller has not seen is never overwritten.
func (c *Client) HintPod(ctx context.Context, namespace, name string, uid types.UID, resourceVersion, node string) (string, error) {
	var value any // null removes
	if node != "" {
		value = node
	}
	patch := Patch{UID: uid, ResourceVersion: resourceVersion, Body: map[string]any{"status": map[string]any{"nominatedNodeName": value}}}
	data, err := patch.encode()
	if err != nil {
		return "", err
	}
	pod, err := c.Core.CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: HintManager}, "status")
	if err != nil {
		return "", err
	}
	return pod.ResourceVersion, nil
}

// IsHint reports that a pod's status.nominatedNodeName is a placement hint rather than kube-scheduler's.
func IsHint(p *corev1.Pod) bool {
	return p.Status.NominatedNodeName != "" && slices.ContainsFunc(p.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == HintManager && m.FieldsV1 != nil && strings.Contains(m.FieldsV1.GetRawString(), `"f:nominatedNodeName"`)
	})
}
