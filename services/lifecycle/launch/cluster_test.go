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
