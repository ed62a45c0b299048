package garbage

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/ec2"
	"millwright/services/internal/service"
	"millwright/services/lifecycle/effects"
	"millwright/services/lifecycle/recent"
)

// Cache is the cluster as informers have it. Objects are shared; lists are by name.
type Cache interface {
	NodeClaims() []*karpv1.NodeClaim
	NodeClaim(name string) *karpv1.NodeClaim
	NodeClaimsByProviderID(id string) []*karpv1.NodeClaim
	Nodes() []*corev1.Node
	// DeletingNodes have a deletionTimestamp.
	DeletingNodes() []*corev1.Node
	NodesByProviderID(id string) []*corev1.Node
	NodeClasses() []*awsv1.EC2NodeClass
}

// Kube is what is asked of the API server itself.
type Kube interface {
	ListNodeClaims(ctx context.Context) ([]*karpv1.NodeClaim, error)
	ListNodePools(ctx context.Context) ([]*karpv1.NodePool, error)
	Node(ctx context.Context, name string) (*corev1.Node, error)
	DeleteNode(ctx context.Context, name string, uid types.UID) error
}

// EC2 is what is asked of EC2.
type EC2 interface {
	DescribeInstances(ctx context.Context, ids []string) ([]ec2.Instance, error)
	DescribeInstancesByTags(ctx context.Context, tags map[string]string, states ...string) ([]ec2.Instance, error)
	TerminateInstances(ctx context.Context, ids []string) error
}

// Listener carries on with what was found.
type Listener interface {
	// HearAll has everything looked at, HearOf the claims of these instances.
	HearAll()
	HearOf(instances ...string)
	// Prune forgets what is about objects that are gone.
	Prune(p Present, now time.Time)
	// ReleaseNode takes our finalizer off a Node and has it deleted.
	ReleaseNode(ctx context.Context, n *corev1.Node) error
}

// Deps of a Collector.
type Deps struct {
	Cluster string
	Cache   Cache
	Kube    Kube
	EC2     EC2
	// Reservations may be nil: then nobody asks about those that no class lists.
	Reservations Reservations
	// Templates and Profiles may be nil: then nobody tidies them up.
	Templates Templates
	Profiles  Profiles
	Listener  Listener
	Logger    zerolog.Logger
	// Registerer of the metrics; nil: none.
	Registerer prometheus.Registerer

	// Claims and Nodes in the newest form known, and which versions of any object are known not to be the
	// newest.
	Claims   *recent.Objects[*karpv1.NodeClaim]
	Nodes    *recent.Objects[*corev1.Node]
	Outdated *recent.Outdated
}

// Collector scans, polls and collects.
type Collector struct {
	host     service.Host
	effects  *effects.Effects
	alarms   *Alarms
	found    *Findings
	deps     Deps
	orphaned prometheus.Counter
	notEnded *ec2.TerminationFailures
	tidying  tidying
	// started is the time of the first step.
	started time.Time
}

// New returns a collector that writes what it finds to found.
func New(host service.Host, e *effects.Effects, alarms *Alarms, found *Findings, deps Deps) *Collector {
	g := &Collector{host: host, effects: e, alarms: alarms, found: found, deps: deps, orphaned: newOrphanCounter(),
		notEnded: ec2.NewTerminationFailures(deps.Registerer)}
	if deps.Registerer != nil {
		deps.Registerer.MustRegister(g.orphaned)
	}
	return g
}

// Begin says when the service took its first step. It is called before any other.
func (g *Collector) Begin(now time.Time) { g.started = now }
