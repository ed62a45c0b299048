package claims

import (
	"context"
	"time"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
	"millwright/services/lifecycle/launch"
	"millwright/services/lifecycle/nodeclass"
	"millwright/services/lifecycle/recent"
)

// Cache is the cluster as informers have it. Objects are shared; lists are by name.
type Cache interface {
	NodeClaim(name string) *karpv1.NodeClaim
	Nodes() []*corev1.Node
	NodesByProviderID(id string) []*corev1.Node
	NodePool(name string) *karpv1.NodePool
	NodeClass(name string) *awsv1.EC2NodeClass
}

// Kube is what is asked of the API server itself. Updates write what differs between before and after, bound
// to before's UID and resourceVersion. Errors are those kube.Classify knows.
type Kube interface {
	CreateNodeClaim(ctx context.Context, claim *karpv1.NodeClaim) (*karpv1.NodeClaim, error)
	GetNodeClaim(ctx context.Context, name string) (*karpv1.NodeClaim, error)
	DeleteNodeClaim(ctx context.Context, name string, uid types.UID) error
	UpdateNodeClaim(ctx context.Context, before, after *karpv1.NodeClaim) (*karpv1.NodeClaim, error)
	UpdateNodeClaimStatus(ctx context.Context, before, after *karpv1.NodeClaim) (*karpv1.NodeClaim, error)
	Node(ctx context.Context, name string) (*corev1.Node, error)
	UpdateNode(ctx context.Context, before, after *corev1.Node) (*corev1.Node, error)
	DeleteNode(ctx context.Context, name string, uid types.UID) error
}

// EC2 is what is asked of EC2. Errors are those ec2.Classify knows.
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

// Launcher turns a NodeClaim into a request. launch.Builder is one.
type Launcher interface {
	// Build chooses what is asked for; whatever it does in EC2 does not have to be undone. Errors are
	// classified by ec2.Classify.
	Build(ctx context.Context, in launch.Input) (launch.Built, error)
	// Request is the request for the claims of an order, for all of which something with the same Key was
	// built; Room says for how many at once it may be made.
	Request(built launch.Built, o launch.Order) *awsec2.CreateFleetInput
	Room(built launch.Built, claims int) int
	// Forget drops what is remembered of templates that EC2 says are not there.
	Forget(refs []ledger.LaunchTemplateRef)
	// Settle says what became of the request with a token: subnets are where its instances are.
	Settle(token string, subnets ...string)
}

// Findings are what scans and polls said of instances and of objects that are not there. garbage.Findings is
// one.
type Findings interface {
	Instance(id string, now time.Time) (facts claim.InstanceFacts, collectionHeld bool)
	Launched(id string, now time.Time)
	Asked(id string, now time.Time)
	Forget(id string)
	ClaimGone(uid types.UID, at uint64) bool
	ClaimAbsent(o *karpv1.NodeClaim) bool
	PoolGone(uid types.UID, planned uint64) bool
	NodeGone(uid types.UID, now time.Time) bool
	// OnDemand: the last scan listed the instance as a plain on-demand one.
	OnDemand(id string) bool
}

// Interruptions are what messages say of instances, in the order of events.InterruptionKinds.
type Interruptions interface {
	Of(instance string) []claim.Interruption
}

// Breaker paces what follows from time alone. garbage.Breaker is one.
type Breaker interface {
	Pace(in *claim.Input, claims int)
	NotePaced(in claim.Input)
	Doomed(reason string, at time.Time)
}

// Registrations are told how NodeClaims of a NodePool ended. status.Registrations is one.
type Registrations interface {
	Succeeded(pool types.UID)
	Failed(pool types.UID, reason, message string)
}

// Agenda says which claims are looked at next.
type Agenda interface {
	// LookAt has the claim looked at.
	LookAt(name string)
	// Note says whose the instance is.
	NoteInstance(name, providerID string)
}

// Deps of a Stepper.
type Deps struct {
	Cluster  string
	Cache    Cache
	Kube     Kube
	EC2      EC2
	Launcher Launcher
	// TemplatesScarce is told that EC2 refused to make a launch template because the account has too many.
	TemplatesScarce func()
	// Boots may be nil: then nobody asks why a Node does not come.
	Boots         Boots
	Findings      Findings
	Interruptions Interruptions
	Breaker       Breaker
	Registrations Registrations
	Agenda        Agenda
	// Hasher of EC2NodeClasses.
	Hasher nodeclass.Hasher
	Logger zerolog.Logger
	// Registerer of the metrics; nil: none.
	Registerer prometheus.Registerer

	// Claims and Nodes in the newest form known, and which versions of any object are known not to be the
	// newest.
	Claims   *recent.Objects[*karpv1.NodeClaim]
	Nodes    *recent.Objects[*corev1.Node]
	Outdated *recent.Outdated
}
