package lifecycle

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/kube"
	"millwright/services/lifecycle/recent"
)

// freshKube remembers what the API server answers, for the cache lags behind, and sends no write that starts
// from a version known to be outdated: that is a conflict already, and would be one again until the cache has
// caught up.
type freshKube struct {
	Kube
	claims   *recent.Objects[*karpv1.NodeClaim]
	nodes    *recent.Objects[*corev1.Node]
	outdated *recent.Outdated
	now      func() time.Time
}

var errOutdated = errors.New("a newer version is known to exist")

func (k freshKube) CreateNodeClaim(ctx context.Context, claim *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	o, err := k.Kube.CreateNodeClaim(ctx, claim)
	if err == nil {
		k.claims.Saw(o, k.now())
	}
	return o, err
}

func (k freshKube) GetNodeClaim(ctx context.Context, name string) (*karpv1.NodeClaim, error) {
	asked := k.now()
	o, err := k.Kube.GetNodeClaim(ctx, name)
	if err == nil {
		k.claims.Saw(o, k.now())
		k.outdated.Newest(o, asked)
	}
	return o, err
}

func (k freshKube) Node(ctx context.Context, name string) (*corev1.Node, error) {
	asked := k.now()
	n, err := k.Kube.Node(ctx, name)
	if err == nil {
		k.nodes.Saw(n, k.now())
		k.outdated.Newest(n, asked)
	}
	return n, err
}

func (k freshKube) UpdateNodeClaim(ctx context.Context, before, after *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	o, err := update(ctx, k, before, after, k.Kube.UpdateNodeClaim)
	if err == nil && o.ResourceVersion != before.ResourceVersion {
		k.claims.Saw(o, k.now())
	}
	return o, err
}

func (k freshKube) UpdateNodeClaimStatus(ctx context.Context, before, after *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	o, err := update(ctx, k, before, after, k.Kube.UpdateNodeClaimStatus)
	if err == nil && o.ResourceVersion != before.ResourceVersion {
		k.claims.Saw(o, k.now())
	}
	return o, err
}

// UpdateNode also learns of a Node that is not there, or goes with this very write.
func (k freshKube) UpdateNode(ctx context.Context, before, after *corev1.Node) (*corev1.Node, error) {
	n, err := update(ctx, k, before, after, k.Kube.UpdateNode)
	switch {
	case kube.IsNotFound(err), err == nil && !n.DeletionTimestamp.IsZero() && len(n.Finalizers) == 0:
		k.nodes.Gone(before.Name, before.UID, k.now())
	case err == nil && n.ResourceVersion != before.ResourceVersion:
		k.nodes.Saw(n, k.now())
	}
	return n, err
}

// DeleteNode looks at what is left of the Node: the cache may go on showing it for long as if nobody had
// asked.
func (k freshKube) DeleteNode(ctx context.Context, name string, uid types.UID) error {
	err := k.Kube.DeleteNode(ctx, name, uid)
	if err == nil {
		var n *corev1.Node
		if n, err = k.Node(ctx, name); err == nil && n.UID == uid {
			return nil
		}
	}
	if err == nil || kube.IsNotFound(err) { // none of the name, or another one
		k.nodes.Gone(name, uid, k.now())
		return nil
	}
	return err
}

func (k freshKube) UpdateNodePool(ctx context.Context, before, after *karpv1.NodePool) (*karpv1.NodePool, error) {
	return update(ctx, k, before, after, k.Kube.UpdateNodePool)
}

func (k freshKube) UpdateNodePoolStatus(ctx context.Context, before, after *karpv1.NodePool) (*karpv1.NodePool, error) {
	return update(ctx, k, before, after, k.Kube.UpdateNodePoolStatus)
}

func (k freshKube) UpdateNodeOverlayStatus(ctx context.Context, before, after *karpv1alpha1.NodeOverlay) (*karpv1alpha1.NodeOverlay, error) {
	return update(ctx, k, before, after, k.Kube.UpdateNodeOverlayStatus)
}

func (k freshKube) UpdateBufferStatus(ctx context.Context, before, after *bufferv1beta1.CapacityBuffer) (*bufferv1beta1.CapacityBuffer, error) {
	return update(ctx, k, before, after, k.Kube.UpdateBufferStatus)
}

func (k freshKube) UpdateNodeClass(ctx context.Context, before, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	return update(ctx, k, before, after, k.Kube.UpdateNodeClass)
}

func (k freshKube) UpdateNodeClassStatus(ctx context.Context, before, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	return update(ctx, k, before, after, k.Kube.UpdateNodeClassStatus)
}

// update makes a write unless it starts from an outdated version, and learns of versions that are.
func update[T metav1.Object](ctx context.Context, k freshKube, before, after T, write func(context.Context, T, T) (T, error)) (T, error) {
	if k.outdated.Has(before, k.now()) {
		var none T
		return none, apierrors.NewConflict(schema.GroupResource{}, before.GetName(), errOutdated)
	}
	o, err := write(ctx, before, after)
	if kube.IsConflict(err) || err == nil && o.GetResourceVersion() != before.GetResourceVersion() {
		k.outdated.Add(before, k.now())
	}
	return o, err
}
