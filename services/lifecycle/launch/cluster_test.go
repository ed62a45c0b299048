package launch

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"millwright/services/internal/ec2"
)

func TestClusterSource(t *testing.T) {
	now, asked := start, 0
	var eksErr, dnsErr error
	eks := ec2.Cluster{Endpoint: "https://eks", CA: "Y2E=", CIDR: "10.100.0.0/16", Version: "1.30"}
	s := NewClusterSource(ClusterConfig{
		Given:    Cluster{Name: "blue", Endpoint: "https://given"},
		Describe: func(context.Context) (ec2.Cluster, error) { asked++; return eks, eksErr },
		DNS:      func(context.Context) (string, error) { return "10.100.0.10", dnsErr },
		Version:  func(context.Context) (string, error) { return "1.36", nil },
		Now:      func() time.Time { return now },
	})
	want := Cluster{Name: "blue", Endpoint: "https://given", CABundle: "Y2E=", CIDR: "10.100.0.0/16", DNS: "10.100.0.10", Version: "1.36"}
	for range 3 {
		if got, err := s.Get(context.Background()); err != nil || got != want {
			t.Fatalf("%+v %v", got, err)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	now = now.Add(-30 * 24 * time.Hour) // the clock was ahead
	if _, err := s.Get(context.Background()); err != nil || asked != 2 {
		t.Errorf("asked %d times, %v", asked, err)
	}
	asked, now = 1, now.Add(6*time.Minute)
	eks.CA, dnsErr = "bmV3", errors.New("no service")
	want.CABundle = "bmV3"
	if got, err := s.Get(context.Background()); err != nil || got != want || asked != 2 {
		t.Errorf("a new CA must be seen, a known DNS address kept: %+v %v", got, err)
	}
	now, eksErr, eks = now.Add(6*time.Minute), errors.New("throttled"), ec2.Cluster{}
	if cidr, err := s.CIDR(context.Background()); err != nil || cidr != "10.100.0.0/16" {
		t.Errorf("the last CIDR serves on: %q %v", cidr, err)
	}
	if got, err := s.Get(context.Background()); err != nil || got != want {
		t.Errorf("the last CA serves on: %+v %v", got, err)
	}
}

// Kubelets do not start with a DNS address that is none.
func TestAHeadlessDNSServiceHasNoAddress(t *testing.T) {
	for ip, want := range map[string]string{"None": "", "": "", "fd00::a": "fd00::a", "10.100.0.10": "10.100.0.10"} {
		s := NewClusterSource(ClusterConfig{
			Given: Cluster{Name: "blue", Endpoint: "https://given"}, Now: func() time.Time { return start },
			DNS: func(context.Context) (string, error) { return ip, nil },
		})
		if c, err := s.Get(context.Background()); err != nil || c.DNS != want {
			t.Errorf("%q: %+v %v", ip, c, err)
		}
	}
}

// What a call that failed has not told is asked for soon, what only EKS knows if it is needed.
func TestAFailedFirstCallIsMadeAgainSoon(t *testing.T) {
	now, asked, failed := start, 0, errors.New("throttled")
	s := NewClusterSource(ClusterConfig{
		Given: Cluster{Name: "blue", Endpoint: "https://given", CABundle: "Y2E="}, Now: func() time.Time { return now },
		Describe: func(context.Context) (ec2.Cluster, error) {
			asked++
			if failed != nil {
				return ec2.Cluster{}, failed
			}
			return ec2.Cluster{CIDR: "fd00::/108"}, nil
		},
		DNS:     func(context.Context) (string, error) { return map[bool]string{true: "fd00::a"}[failed == nil], failed },
		Version: func(context.Context) (string, error) { return "1.36", nil },
	})
	if c, err := s.Get(context.Background()); err != nil || c.DNS != "" || c.CIDR != "" {
		t.Fatalf("%+v %v", c, err)
	}
	now, failed = now.Add(unknownTTL), nil
	if c, err := s.Get(context.Background()); err != nil || c.DNS != "fd00::a" {
		t.Errorf("until its DNS address is known, nodes of an IPv6 cluster boot as of an IPv4 one: %+v %v", c, err)
	}
	bare := NewClusterSource(ClusterConfig{
		Given: Cluster{Name: "blue", Endpoint: "https://given", CABundle: "Y2E=", DNS: "10.100.0.10", Version: "1.36"}, Now: s.cfg.Now, Describe: s.cfg.Describe,
	})
	asked, failed = 0, errors.New("throttled")
	if _, err := bare.CIDR(context.Background()); err == nil {
		t.Fatal("a CIDR nobody has told")
	}
	now, failed = now.Add(unknownTTL), nil
	if _, err := bare.Get(context.Background()); err != nil || asked != 1 {
		t.Errorf("a cluster outside EKS has no CIDR, and launches are not held up by asking: asked %d times, %v", asked, err)
	}
	if cidr, err := bare.CIDR(context.Background()); err != nil || cidr != "fd00::/108" || asked != 2 {
		t.Errorf("NodeClasses of AL2023 were not ready for minutes: %q, asked %d times, %v", cidr, asked, err)
	}
}

func TestClusterSourceWithoutEndpoint(t *testing.T) {
	s := NewClusterSource(ClusterConfig{
		Given: Cluster{Name: "blue"}, Now: func() time.Time { return start },
		Describe: func(context.Context) (ec2.Cluster, error) { return ec2.Cluster{}, errors.New("denied") },
	})
	if _, err := s.Get(context.Background()); err == nil {
		t.Error("nodes cannot join a cluster without endpoint")
	}
	bare := NewClusterSource(ClusterConfig{Given: Cluster{Name: "blue", Endpoint: "https://given"}, Now: func() time.Time { return start }})
	if _, err := bare.CIDR(context.Background()); ec2.Classify(err) != ec2.NotReady {
		t.Errorf("CIDR: %v", err)
	}
	if _, err := bare.Version(context.Background()); ec2.Classify(err) != ec2.Transient {
		t.Errorf("version: %v", err)
	}
}

func TestVersionOfEKS(t *testing.T) {
	now, refused := start, errors.New("AccessDeniedException: eks:DescribeCluster")
	eks := ec2.Cluster{}
	s := NewClusterSource(ClusterConfig{
		Given:    Cluster{Name: "blue", Endpoint: "https://given", CABundle: "Y2E=", CIDR: "10.100.0.0/16"},
		Describe: func(context.Context) (ec2.Cluster, error) { return eks, refused },
		Version: func(context.Context) (string, error) {
			t.Error("the API server is not asked: while a control plane is upgraded it says now the one, now the other")
			return "1.35", nil
		},
		VersionOfEKS: true, Now: func() time.Time { return now },
	})
	if _, err := s.Version(context.Background()); ec2.Classify(err) != ec2.Transient || !strings.Contains(err.Error(), "eks:DescribeCluster") {
		t.Errorf("an unknown version says why: %v", err)
	}
	if c, err := s.Get(context.Background()); err != nil || c.Endpoint != "https://given" {
		t.Errorf("nodes whose images are known boot without it: %+v %v", c, err)
	}
	now, refused, eks.Version = now.Add(unknownTTL), nil, "1.36"
	if v, err := s.Version(context.Background()); err != nil || v != "1.36" {
		t.Errorf("it is asked again soon: %q %v", v, err)
	}
	now, refused, eks.Version = now.Add(clusterTTL), errors.New("throttled"), ""
	if v, err := s.Version(context.Background()); err != nil || v != "1.36" {
		t.Errorf("the last version serves on: %q %v", v, err)
	}
}
