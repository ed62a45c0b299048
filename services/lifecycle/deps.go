package lifecycle

import (
	"context"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/ec2"
	"millwright/services/internal/kube"
	"millwright/services/lifecycle/claims"
	"millwright/services/lifecycle/garbage"
	"millwright/services/lifecycle/nodeclass"
	"millwright/services/lifecycle/status"
)

// Cache is the cluster as informers have it. Objects are shared; lists are by name. kube.Informers is one.
type Cache interface {
	Synced() bool
	// Version rises with every change.
	Version() uint64
	// Since returns what changed after a version; complete is false if some of it is forgotten.
	Since(version uint64) (changes []kube.Change, now uint64, complete bool)
	NodeClaims() []*karpv1.NodeClaim
	NodeClaim(name string) *karpv1.NodeClaim
	NodeClaimsByProviderID(id string) []*karpv1.NodeClaim
	Nodes() []*corev1.Node
	// DeletingNodes have a deletionTimestamp.
	DeletingNodes() []*corev1.Node
	NodesByProviderID(id string) []*corev1.Node
	NodePools() []*karpv1.NodePool
	NodePool(name string) *karpv1.NodePool
	NodeClasses() []*awsv1.EC2NodeClass
	NodeClass(name string) *awsv1.EC2NodeClass
}

// Kube is what is asked of the API server itself. Updates write what differs between before and after, bound
// to before's UID and resourceVersion. kube.Client is one; errors are those kube.Classify knows.
type Kube interface {
	CreateNodeClaim(ctx context.Context, claim *karpv1.NodeClaim) (*karpv1.NodeClaim, error)
	GetNodeClaim(ctx context.Context, name string) (*karpv1.NodeClaim, error)
	ListNodeClaims(ctx context.Context) ([]*karpv1.NodeClaim, error)
	DeleteNodeClaim(ctx context.Context, name string, uid types.UID) error
	UpdateNodeClaim(ctx context.Context, before, after *karpv1.NodeClaim) (*karpv1.NodeClaim, error)
	UpdateNodeClaimStatus(ctx context.Context, before, after *karpv1.NodeClaim) (*karpv1.NodeClaim, error)
	Node(ctx context.Context, name string) (*corev1.Node, error)
	UpdateNode(ctx context.Context, before, after *corev1.Node) (*corev1.Node, error)
	DeleteNode(ctx context.Context, name string, uid types.UID) error
	ListNodePools(ctx context.Context) ([]*karpv1.NodePool, error)
	UpdateNodePool(ctx context.Context, before, after *karpv1.NodePool) (*karpv1.NodePool, error)
	UpdateNodePoolStatus(ctx context.Context, before, after *karpv1.NodePool) (*karpv1.NodePool, error)
	UpdateNodeOverlayStatus(ctx context.Context, before, after *karpv1alpha1.NodeOverlay) (*karpv1alpha1.NodeOverlay, error)
	UpdateBufferStatus(ctx context.Context, before, after *bufferv1beta1.CapacityBuffer) (*bufferv1beta1.CapacityBuffer, error)
	InstallBufferCRD(ctx context.Context) error
	UpdateNodeClass(ctx context.Context, before, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error)
	UpdateNodeClassStatus(ctx context.Context, before, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error)
}

// EC2 is what is asked of EC2. ec2.Client is one; errors are those ec2.Classify knows.
type EC2 interface {
	// CreateFleet sends the request once.
	CreateFleet(ctx context.Context, in *awsec2.CreateFleetInput) (ec2.FleetResult, error)
	// DescribeInstances leaves out ids EC2 does not know and includes terminated instances.
	DescribeInstances(ctx context.Context, ids []string) ([]ec2.Instance, error)
	// DescribeInstancesByTags leaves out terminated instances unless states are named.
	DescribeInstancesByTags(ctx context.Context, tags map[string]string, states ...string) ([]ec2.Instance, error)
	TerminateInstances(ctx context.Context, ids []string) error
	CreateTags(ctx context.Context, resource string, tags map[string]string) error
}

// Deps of the service. Classes may be nil: then nobody keeps EC2NodeClasses.
type Deps struct {
	Cluster  string
	Cache    Cache
	Kube     Kube
	EC2      EC2
	Launcher claims.Launcher
	Classes  status.Classes
	// Templates and Profiles may be nil: then nobody tidies them up.
	Templates garbage.Templates
	Profiles  garbage.Profiles
	// Boots may be nil: then nobody asks why a Node does not come.
	Boots claims.Boots
	// Hasher of EC2NodeClasses; the same as that of Classes.
	Hasher nodeclass.Hasher
	Logger zerolog.Logger
	// Registerer of the metrics; nil: none.
	Registerer prometheus.Registerer
}
