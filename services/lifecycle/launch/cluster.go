package launch

import (
	"context"
	"sync"
	"time"

	"millwright/services/internal/ec2"
)

// Cluster is what nodes must know of the cluster they join.
type Cluster struct {
	Name, Endpoint string
	// CABundle is base64.
	CABundle string
	// CIDR of services; empty if not known (only AL2023 needs it).
	CIDR string
	// DNS is the address of the cluster's DNS service; empty if not known.
	DNS string
	// Version of Kubernetes, major.minor.
	Version string
}

// ClusterConfig of a ClusterSource: what is set here is not asked for.
type ClusterConfig struct {
	// Given holds the values set by flags. Name is required.
	Given Cluster
	// Describe asks EKS; nil: never.
	Describe func(ctx context.Context) (ec2.Cluster, error)
	// DNS reads the cluster IP of Service kube-system/kube-dns, Version the API server's; nil: not known.
	DNS     func(ctx context.Context) (string, error)
	Version func(ctx context.Context) (string, error)
	Now     func() time.Time
}

// clusterTTL is how long answers are kept, so that a new CA or DNS address needs no restart.
const clusterTTL = 5 * time.Minute

// ClusterSource finds out about the cluster and keeps what it found. It is safe for concurrent use.
type ClusterSource struct {
	cfg ClusterConfig

	mu   sync.Mutex
	last Cluster
	at   time.Time
	have bool
}

// NewClusterSource asks nothing yet.
func NewClusterSource(cfg ClusterConfig) *ClusterSource { return &ClusterSource{cfg: cfg} }

// Get returns the cluster. Its endpoint is always known; DNS, CIDR and version may be missing. When asking
// again fails, the last answer serves on.
func (s *ClusterSource) Get(ctx context.Context) (Cluster, error) {
	s.mu.Lock()
	last, fresh, have := s.last, s.have && s.cfg.Now().Sub(s.at) < clusterTTL, s.have
	s.mu.Unlock()
	if fresh {
		return last, nil
	}
	c, err := s.discover(ctx, last)
	if err != nil && !have {
		return Cluster{}, err
	}
	if err != nil {
		return last, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.at, s.have = c, s.cfg.Now(), true
	return c, nil
}

// CIDR is the cluster's service CIDR, an error if it cannot be known.
func (s *ClusterSource) CIDR(ctx context.Context) (string, error) {
	c, err := s.Get(ctx)
	if err != nil {
		return "", err
	}
	if c.CIDR == "" {
		return "", &ec2.Failure{Class: ec2.NotReady, Reason: "ClusterCIDRResolutionFailed", Message: "Failed to detect the cluster CIDR"}
	}
	return c.CIDR, nil
}

// Version is Kubernetes' major.minor.
func (s *ClusterSource) Version(ctx context.Context) (string, error) {
	c, err := s.Get(ctx)
	if err != nil {
		return "", err
	}
	if c.Version == "" {
		return "", &ec2.Failure{Class: ec2.Transient, Reason: "KubernetesVersionUnknown", Message: "the cluster's Kubernetes version is not known"}
	}
	return c.Version, nil
}

func (s *ClusterSource) discover(ctx context.Context, last Cluster) (Cluster, error) {
	c := s.cfg.Given
	if s.cfg.Describe != nil && (c.Endpoint == "" || c.CABundle == "" || c.CIDR == "" || c.Version == "") {
		eks, err := s.cfg.Describe(ctx)
		if err != nil && c.Endpoint == "" {
			return Cluster{}, err
		}
		fill(&c.Endpoint, eks.Endpoint)
		fill(&c.CABundle, eks.CA)
		fill(&c.CIDR, eks.CIDR)
		fill(&c.CIDR, last.CIDR)
	}
	fillFrom(ctx, &c.DNS, s.cfg.DNS, last.DNS)
	fillFrom(ctx, &c.Version, s.cfg.Version, last.Version)
	return c, nil
}

func fill(field *string, v string) {
	if *field == "" {
		*field = v
	}
}

// fillFrom asks for a field that is not given; if that fails the last answer stays.
func fillFrom(ctx context.Context, field *string, ask func(context.Context) (string, error), last string) {
	if *field != "" || ask == nil {
		return
	}
	v, err := ask(ctx)
	if err != nil {
		v = last
	}
	*field = v
}
