package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
	"millwright/services/disruptor"
	"millwright/services/internal/kube"
	"millwright/services/lifecycle"
	"millwright/services/sim/cluster"
	"millwright/services/terminator"
)

// Kube is what the services ask of the API server.
type Kube interface {
	disruptor.Kube
	terminator.Kube
	lifecycle.Kube
}

// apiClient is one process's way to the API server.
type apiClient struct{ p *process }

var _ Kube = apiClient{}

// errRefused is the API server's when it has too much to do.
var errRefused = apierrors.NewServerTimeout(corev1.Resource("any"), "any", 1)

// do makes a call; what it returns is what the API server said, or the network did not.
func (k apiClient) do(ctx context.Context, name string, act func() error) error {
	var err error
	arrives := func() {
		if err = k.p.sim.starved.refusal(k.p.sim, name); err == nil {
			err = act()
		}
	}
	if lost := k.p.call(ctx, toKube, name, errRefused, arrives); lost != nil {
		return fmt.Errorf("%s: %w", name, lost)
	}
	return err
}

// ask makes a call with a result.
func ask[T any](ctx context.Context, k apiClient, name string, act func() (T, error)) (out T, err error) {
	err = k.do(ctx, name, func() (e error) {
		out, e = act()
		return e
	})
	if err != nil {
		var none T
		return none, err
	}
	return out, nil
}

// write makes a call that starts from a version of an object. Once that version was refused, the process must
// look for a newer one: the same write would be refused again.
func write[T cluster.Object](ctx context.Context, k apiClient, before T, name string, act func() (T, error)) (T, error) {
	version := name + " at " + string(before.GetUID()) + "/" + before.GetResourceVersion()
	if k.p.refused[version] {
		k.p.sim.Violate("no stale write is repeated", "%s: %s", k.p, version)
	}
	o, err := ask(ctx, k, name, act)
	if kube.IsConflict(err) {
		k.p.refused[version] = true
	}
	return o, err
}

func (k apiClient) cluster() *cluster.Cluster { return k.p.sim.Cluster }

func (k apiClient) Node(ctx context.Context, name string) (*corev1.Node, error) {
	return ask(ctx, k, "get node "+name, func() (*corev1.Node, error) {
		return cluster.Get[*corev1.Node](k.cluster(), events.KindNode, name)
	})
}

func (k apiClient) PatchNode(ctx context.Context, name string, p kube.Patch) (*corev1.Node, error) {
	return ask(ctx, k, "patch node "+name, func() (*corev1.Node, error) { return k.cluster().PatchNode(name, p) })
}

func (k apiClient) UpdateNode(ctx context.Context, before, after *corev1.Node) (*corev1.Node, error) {
	return write(ctx, k, before, "update node "+before.Name, func() (*corev1.Node, error) {
		return cluster.Update(k.cluster(), events.KindNode, before, after)
	})
}

func (k apiClient) DeleteNode(ctx context.Context, name string, uid types.UID) error {
	return k.do(ctx, "delete node "+name, func() error { return k.cluster().Remove(events.KindNode, name, uid) })
}

func (k apiClient) CreateNodeClaim(ctx context.Context, claim *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	return ask(ctx, k, "create nodeclaim "+claim.Name, func() (*karpv1.NodeClaim, error) {
		return k.cluster().CreateNodeClaim(claim)
	})
}

func (k apiClient) GetNodeClaim(ctx context.Context, name string) (*karpv1.NodeClaim, error) {
	return ask(ctx, k, "get nodeclaim "+name, func() (*karpv1.NodeClaim, error) {
		return cluster.Get[*karpv1.NodeClaim](k.cluster(), events.KindNodeClaim, name)
	})
}

func (k apiClient) ListNodeClaims(ctx context.Context) ([]*karpv1.NodeClaim, error) {
	return ask(ctx, k, "list nodeclaims", func() ([]*karpv1.NodeClaim, error) { return k.cluster().NodeClaims(), nil })
}

func (k apiClient) DeleteNodeClaim(ctx context.Context, name string, uid types.UID) error {
	return k.do(ctx, "delete nodeclaim "+name, func() error {
		k.p.sim.judge.CheckReplaced(k.p, name, uid)
		return k.cluster().Remove(events.KindNodeClaim, name, uid)
	})
}

func (k apiClient) UpdateNodeClaim(ctx context.Context, before, after *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	return write(ctx, k, before, "update nodeclaim "+before.Name, func() (*karpv1.NodeClaim, error) {
		return cluster.Update(k.cluster(), events.KindNodeClaim, before, after)
	})
}

func (k apiClient) UpdateNodeClaimStatus(ctx context.Context, before, after *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	return write(ctx, k, before, "update status of nodeclaim "+before.Name, func() (*karpv1.NodeClaim, error) {
		return cluster.UpdateStatus(k.cluster(), events.KindNodeClaim, before, after)
	})
}

// SetClaimCondition reads the claim and then writes it, as the adapter does.
func (k apiClient) SetClaimCondition(ctx context.Context, name string, uid types.UID, want metav1.Condition, now time.Time) error {
	claim, err := k.GetNodeClaim(ctx, name)
	if err != nil || uid != "" && claim.UID != uid {
		return err
	}
	return k.do(ctx, "set condition "+want.Type+" of nodeclaim "+name, func() error {
		return k.cluster().SetClaimCondition(name, claim.UID, claim.ResourceVersion, want, now)
	})
}

func (k apiClient) PodsOnNode(ctx context.Context, node string) ([]corev1.Pod, error) {
	return ask(ctx, k, "list pods of node "+node, func() ([]corev1.Pod, error) {
		k.p.sim.judge.PodsListed(node)
		var list []corev1.Pod
		for _, p := range k.cluster().PodsOn(node) {
			list = append(list, *p.DeepCopy())
		}
		k.p.sim.users.Surprise(node)
		return list, nil
	})
}

func (k apiClient) EvictPod(ctx context.Context, namespace, name string, uid types.UID) error {
	return k.do(ctx, "evict pod "+name, func() error {
		k.p.sim.judge.CheckEviction(k.p, namespace+"/"+name, uid)
		return k.cluster().EvictPod(namespace, name, uid)
	})
}

func (k apiClient) DeletePod(ctx context.Context, namespace, name string, uid types.UID, grace int64) error {
	return k.do(ctx, "delete pod "+name, func() error {
		k.p.sim.judge.CheckDeletion(k.p, namespace+"/"+name, uid)
		return k.cluster().DeletePod(namespace, name, uid, grace)
	})
}

func (k apiClient) ReplicaSet(ctx context.Context, namespace, name string) (*appsv1.ReplicaSet, error) {
	return ask(ctx, k, "get replicaset "+name, func() (*appsv1.ReplicaSet, error) { return k.cluster().ReplicaSet(namespace, name) })
}

func (k apiClient) Deployment(ctx context.Context, namespace, name string) (*appsv1.Deployment, error) {
	return ask(ctx, k, "get deployment "+name, func() (*appsv1.Deployment, error) { return k.cluster().Deployment(namespace, name) })
}

func (k apiClient) SurgeDeployment(ctx context.Context, d *appsv1.Deployment, value string) error {
	return k.do(ctx, "surge deployment "+d.Name, func() error {
		k.p.sim.Stats.Surged++
		return k.cluster().SurgeDeployment(d, value)
	})
}

func (k apiClient) ListNodePools(ctx context.Context) ([]*karpv1.NodePool, error) {
	return ask(ctx, k, "list nodepools", func() ([]*karpv1.NodePool, error) { return k.cluster().NodePools(), nil })
}

func (k apiClient) UpdateNodePool(ctx context.Context, before, after *karpv1.NodePool) (*karpv1.NodePool, error) {
	return write(ctx, k, before, "update nodepool "+before.Name, func() (*karpv1.NodePool, error) {
		return cluster.Update(k.cluster(), events.KindNodePool, before, after)
	})
}

func (k apiClient) UpdateNodePoolStatus(ctx context.Context, before, after *karpv1.NodePool) (*karpv1.NodePool, error) {
	return write(ctx, k, before, "update status of nodepool "+before.Name, func() (*karpv1.NodePool, error) {
		return cluster.UpdateStatus(k.cluster(), events.KindNodePool, before, after)
	})
}

// EC2NodeClasses are ready from the start; nobody reconciles them here.
var errNodeClass = errors.New("nodeclasses are not simulated")

func (k apiClient) UpdateNodeClass(context.Context, *awsv1.EC2NodeClass, *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	return nil, errNodeClass
}

func (k apiClient) GetPolicy(ctx context.Context, name string) (*mwv1alpha1.DisruptionPolicy, error) {
	return ask(ctx, k, "get disruptionpolicy "+name, func() (*mwv1alpha1.DisruptionPolicy, error) {
		return cluster.Get[*mwv1alpha1.DisruptionPolicy](k.cluster(), events.KindDisruptionPolicy, name)
	})
}

func (k apiClient) UpdatePolicyStatus(ctx context.Context, before, after *mwv1alpha1.DisruptionPolicy) (*mwv1alpha1.DisruptionPolicy, error) {
	return write(ctx, k, before, "update status of disruptionpolicy "+before.Name, func() (*mwv1alpha1.DisruptionPolicy, error) {
		return cluster.UpdateStatus(k.cluster(), events.KindDisruptionPolicy, before, after)
	})
}

func (k apiClient) UpdateBufferStatus(ctx context.Context, before, after *bufferv1beta1.CapacityBuffer) (*bufferv1beta1.CapacityBuffer, error) {
	return write(ctx, k, before, "update status of capacitybuffer "+before.Name, func() (*bufferv1beta1.CapacityBuffer, error) {
		return cluster.UpdateStatus(k.cluster(), events.KindCapacityBuffer, before, after)
	})
}

func (k apiClient) InstallBufferCRD(context.Context) error { return nil }

func (k apiClient) UpdateNodeOverlayStatus(context.Context, *karpv1alpha1.NodeOverlay, *karpv1alpha1.NodeOverlay) (*karpv1alpha1.NodeOverlay, error) {
	return nil, errNodeClass
}
func (k apiClient) UpdateNodeClassStatus(context.Context, *awsv1.EC2NodeClass, *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	return nil, errNodeClass
}
