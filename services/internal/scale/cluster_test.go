package scale

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/planner/providerid"
	"millwright/services/internal/ec2"
	"millwright/services/internal/kube"
	"millwright/services/lifecycle/launch"
	"millwright/tools/workload"
)

// cluster is the settled cluster as lifecycle sees it: the caches of its informers, the API server, and EC2.
// Objects are never changed, only replaced. writes counts what was written.
type cluster struct {
	mu        sync.Mutex
	changes   kube.Changes
	version   int
	writes    int
	claims    map[string]*karpv1.NodeClaim
	nodes     map[string]*corev1.Node
	pools     map[string]*karpv1.NodePool
	classes   map[string]*awsv1.EC2NodeClass
	nodesByID map[string][]string
	claimByID map[string]string
	instances []ec2.Instance
}

func newCluster(p *workload.Problem) *cluster {
	k := &cluster{
		claims: map[string]*karpv1.NodeClaim{}, nodes: map[string]*corev1.Node{}, pools: map[string]*karpv1.NodePool{},
		classes:   map[string]*awsv1.EC2NodeClass{workload.NodeClass: plannertest.NodeClass(workload.NodeClass)},
		nodesByID: map[string][]string{}, claimByID: map[string]string{},
	}
	for _, o := range p.Objects {
		switch o := o.(type) {
		case *karpv1.NodePool:
			k.pools[o.Name] = o
		case *corev1.Node:
			k.nodes[o.Name] = o
			k.nodesByID[o.Spec.ProviderID] = []string{o.Name}
		case *karpv1.NodeClaim:
			k.claims[o.Name] = o
			k.claimByID[o.Status.ProviderID] = o.Name
			_, id := providerid.Split(o.Status.ProviderID)
			k.instances = append(k.instances, ec2.Instance{
				ID: id, State: ec2.StateRunning, InstanceType: o.Labels[corev1.LabelInstanceTypeStable], Zone: o.Labels[corev1.LabelTopologyZone],
				CapacityType: "on-demand", ImageID: o.Status.ImageID, SubnetID: "subnet-0a1b2c3d4e5f60718", LaunchTime: o.CreationTimestamp.Time,
				Tags: map[string]string{"karpenter.sh/nodeclaim": o.Name, awsv1.TagNodePool: "default", awsv1.TagNodeClass: workload.NodeClass},
			})
		}
	}
	return k
}

func put[T metav1.Object](k *cluster, m map[string]T, o T) (T, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.version++
	k.writes++
	o.SetResourceVersion(fmt.Sprint(1000 + k.version))
	m[o.GetName()] = o
	k.changes.Add(kube.ChangeOf(o))
	return o, nil
}

func get[T any](k *cluster, m map[string]T, name string) T {
	k.mu.Lock()
	defer k.mu.Unlock()
	return m[name]
}

func list[T any](k *cluster, m map[string]T) (all []T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m)) {
		all = append(all, m[name])
	}
	return all
}

func (k *cluster) written() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.writes
}

// The caches.

func (k *cluster) Synced() bool                              { return true }
func (k *cluster) Version() uint64                           { return k.changes.Version() }
func (k *cluster) NodeClaim(name string) *karpv1.NodeClaim   { return get(k, k.claims, name) }
func (k *cluster) NodePool(name string) *karpv1.NodePool     { return get(k, k.pools, name) }
func (k *cluster) NodeClass(name string) *awsv1.EC2NodeClass { return get(k, k.classes, name) }
func (k *cluster) NodePools() []*karpv1.NodePool             { return list(k, k.pools) }
func (k *cluster) NodeClasses() []*awsv1.EC2NodeClass        { return list(k, k.classes) }
func (k *cluster) Nodes() []*corev1.Node                     { return list(k, k.nodes) }
func (k *cluster) DeletingNodes() []*corev1.Node             { return nil }
func (k *cluster) Since(version uint64) ([]kube.Change, uint64, bool) {
	return k.changes.Since(version)
}

func (k *cluster) NodeClaims() []*karpv1.NodeClaim { return list(k, k.claims) }

func (k *cluster) NodesByProviderID(id string) []*corev1.Node {
	var found []*corev1.Node
	for _, name := range get(k, k.nodesByID, id) {
		found = append(found, get(k, k.nodes, name))
	}
	return found
}

func (k *cluster) NodeClaimsByProviderID(id string) []*karpv1.NodeClaim {
	if c := k.NodeClaim(get(k, k.claimByID, id)); c != nil {
		return []*karpv1.NodeClaim{c}
	}
	return nil
}

// The API server.

func (k *cluster) CreateNodeClaim(context.Context, *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	return nil, errAsked
}
func (k *cluster) GetNodeClaim(_ context.Context, name string) (*karpv1.NodeClaim, error) {
	return k.NodeClaim(name), nil
}
func (k *cluster) ListNodeClaims(context.Context) ([]*karpv1.NodeClaim, error) {
	return k.NodeClaims(), nil
}
func (k *cluster) DeleteNodeClaim(context.Context, string, types.UID) error { return errAsked }
func (k *cluster) UpdateNodeClaim(_ context.Context, _, after *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	return put(k, k.claims, after.DeepCopy())
}
func (k *cluster) UpdateNodeClaimStatus(_ context.Context, _, after *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	return put(k, k.claims, after.DeepCopy())
}
func (k *cluster) Node(_ context.Context, name string) (*corev1.Node, error) {
	return get(k, k.nodes, name), nil
}
func (k *cluster) UpdateNode(_ context.Context, _, after *corev1.Node) (*corev1.Node, error) {
	return put(k, k.nodes, after.DeepCopy())
}
func (k *cluster) DeleteNode(context.Context, string, types.UID) error { return errAsked }
func (k *cluster) ListNodePools(context.Context) ([]*karpv1.NodePool, error) {
	return k.NodePools(), nil
}
func (k *cluster) UpdateNodePool(_ context.Context, _, after *karpv1.NodePool) (*karpv1.NodePool, error) {
	return put(k, k.pools, after.DeepCopy())
}
func (k *cluster) UpdateNodePoolStatus(_ context.Context, _, after *karpv1.NodePool) (*karpv1.NodePool, error) {
	return put(k, k.pools, after.DeepCopy())
}
func (k *cluster) UpdateBufferStatus(context.Context, *bufferv1beta1.CapacityBuffer, *bufferv1beta1.CapacityBuffer) (*bufferv1beta1.CapacityBuffer, error) {
	return nil, errAsked
}
func (k *cluster) InstallBufferCRD(context.Context) error { return errAsked }
func (k *cluster) UpdateNodeOverlayStatus(context.Context, *karpv1alpha1.NodeOverlay, *karpv1alpha1.NodeOverlay) (*karpv1alpha1.NodeOverlay, error) {
	return nil, errAsked
}
func (k *cluster) UpdateNodeClass(_ context.Context, _, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	return put(k, k.classes, after.DeepCopy())
}
func (k *cluster) UpdateNodeClassStatus(_ context.Context, _, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	return put(k, k.classes, after.DeepCopy())
}

// EC2, and what makes requests of it.

func (k *cluster) CreateFleet(context.Context, *awsec2.CreateFleetInput) (ec2.FleetResult, error) {
	return ec2.FleetResult{}, errAsked
}
func (k *cluster) DescribeInstances(_ context.Context, ids []string) ([]ec2.Instance, error) {
	var found []ec2.Instance
	for _, id := range ids {
		if i, ok := slices.BinarySearchFunc(k.instances, id, func(i ec2.Instance, id string) int { return strings.Compare(i.ID, id) }); ok {
			found = append(found, k.instances[i])
		}
	}
	return found, nil
}
func (k *cluster) DescribeInstancesByTags(context.Context, map[string]string, ...string) ([]ec2.Instance, error) {
	return slices.Clone(k.instances), nil
}
func (k *cluster) TerminateInstances(context.Context, []string) error          { return errAsked }
func (k *cluster) CreateTags(context.Context, string, map[string]string) error { return nil }
func (k *cluster) Build(context.Context, launch.Input) (launch.Built, error) {
	return launch.Built{}, errAsked
}
func (k *cluster) Forget([]ledger.LaunchTemplateRef) {}
func (k *cluster) Settle(string, ...string)          {}
func (k *cluster) Request(launch.Built, launch.Order) *awsec2.CreateFleetInput {
	return nil
}
func (k *cluster) Room(launch.Built, int) int { return 1 }
