package process

import (
	"os"
	"strings"
)

// namespaceDefault is where Karpenter's chart puts it (reference: operations §5).
const namespaceDefault = "kube-system"

// namespaceFile tells every pod its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// LeaseNamespace is the namespace of the kube Lease: the flag's, the pod's, or Karpenter's default. The
// variable SYSTEM_NAMESPACE, which Karpenter 1.0 uses, overrides the pod's.
func (s *Settings) LeaseNamespace() string { return leaseNamespace(s, namespaceFile, os.Getenv) }

func leaseNamespace(s *Settings, file string, env func(string) string) string {
	if s.LeaderElectionNamespace != "" {
		return s.LeaderElectionNamespace
	}
	if ns := env("SYSTEM_NAMESPACE"); ns != "" {
		return ns
	}
	if data, err := os.ReadFile(file); err == nil && len(data) > 0 {
		return strings.TrimSpace(string(data))
	}
	return namespaceDefault
}
