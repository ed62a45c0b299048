package launch

import (
	"context"
	"net/netip"
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
	// VersionOfEKS: the version is the one that Describe says, and Version is not asked.
	VersionOfEKS bool
	Now          func() time.Time
}

// clusterTTL is how long answers are kept, so that a new CA or DNS address needs no restart.
const clusterTTL = 5 * time.Minute

// unknownTTL is how long it stays unanswered which version, service CIDR and DNS address the cluster has.
const unknownTTL = 10 * time.Second

// ClusterSource finds out about the cluster and keeps what it found. It is safe for concurrent use.
type ClusterSource struct {
	cfg ClusterConfig

	mu      sync.Mutex
	last    Cluster
	at      time.Time
	have    bool
	unknown unknowns
}

// unknowns are why version, service CIDR and DNS address are not known; nil if they are, or there is none.
type unknowns struct{ version, cidr, dns error }

// NewClusterSource asks nothing yet.
func NewClusterSource(cfg ClusterConfig) *ClusterSource { return &ClusterSource{cfg: cfg} }

// Get returns the cluster. Its endpoint is always known; DNS, CIDR and version may be missing. When asking
// again fails, the last answer serves on.
func (s *ClusterSource) Get(ctx context.Context) (Cluster, error) { return s.get(ctx, false) }

// get asks again soon for what was not learnt; for the CIDR only if it is needed, since a cluster that is not
// EKS's never has one.
func (s *ClusterSource) get(ctx context.Context, needsCIDR bool) (Cluster, error) {
	s.mu.Lock()
	last, have, ttl := s.last, s.have, clusterTTL
	if s.unknown.version != nil || s.unknown.dns != nil || needsCIDR && s.unknown.cidr != nil {
		ttl = unknownTTL
	}
	fresh := have && s.cfg.Now().Sub(s.at).Abs() < ttl
	s.mu.Unlock()
	if fresh {
		return last, nil
	}
	c, unknown, err := s.discover(ctx, last)
	if err != nil && !have {
		return Cluster{}, err
	}
	if err != nil {
		return last, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.at, s.have, s.unknown = c, s.cfg.Now(), true, unknown
	return c, nil
}

// CIDR is the cluster's service CIDR, an error if it cannot be known.
func (s *ClusterSource) CIDR(ctx context.Context) (string, error) {
	c, err := s.get(ctx, true)
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
	if c.Version != "" {
		return c.Version, nil
	}
	message := "the cluster's Kubernetes version is not known"
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unknown.version != nil {
		message += ": " + ec2.Text(s.unknown.version)
	}
	return "", &ec2.Failure{Class: ec2.Transient, Reason: "KubernetesVersionUnknown", Message: message}
}

// discover asks for what is not given, and says why something could not be learnt. A last answer serves on.
func (s *ClusterSource) discover(ctx context.Context, last Cluster) (c Cluster, unknown unknowns, err error) {
	c = s.cfg.Given
	if s.cfg.Describe != nil && (c.Endpoint == "" || c.CABundle == "" || c.CIDR == "" || c.Version == "") {
		eks, err := s.cfg.Describe(ctx)
		if err != nil && c.Endpoint == "" {
			return Cluster{}, unknowns{}, err
		}
		fill(&c.Endpoint, eks.Endpoint)
		fill(&c.CABundle, eks.CA)
		fill(&c.CABundle, last.CABundle)
		fill(&c.CIDR, eks.CIDR)
		fill(&c.CIDR, last.CIDR)
		unknown.cidr = unless(c.CIDR, err)
		if s.cfg.VersionOfEKS {
			fill(&c.Version, eks.Version)
			fill(&c.Version, last.Version)
			unknown.version = unless(c.Version, err)
		}
	}
	unknown.dns = fillFrom(ctx, &c.DNS, s.cfg.DNS, last.DNS)
	if _, err := netip.ParseAddr(c.DNS); err != nil {
		c.DNS = "" // the Service is headless, "None"
	}
	if !s.cfg.VersionOfEKS {
		unknown.version = fillFrom(ctx, &c.Version, s.cfg.Version, last.Version)
	}
	return c, unknown, nil
}

// unless returns err if the field is not known.
func unless(field string, err error) error {
	if field != "" {
		return nil
	}
	return err
}

func fill(field *string, v string) {
	if *field == "" {
		*field = v
	}
}

// fillFrom asks for a field that is not given; if that fails the last answer stays, or without one the error
// is returned.
func fillFrom(ctx context.Context, field *string, ask func(context.Context) (string, error), last string) error {
	if *field != "" || ask == nil {
		return nil
	}
	v, err := ask(ctx)
	if err != nil {
		v = last
	}
	*field = v
	return unless(v, err)
}
