package main

import (
	"context"
	"errors"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"millwright/services/certificates"
	"millwright/services/internal/kube"
	"millwright/services/internal/process"
	"millwright/services/version"
)

// newCertificates is the sub-command that keeps the secrets of the chart's etcd and NATS.
func newCertificates() *cobra.Command {
	s, c := &process.Settings{}, &certificates.Settings{}
	var endpoints []string
	cmd := &cobra.Command{Use: "certificates", Short: "Make and renew certificates and users of the etcd and NATS that the chart brings", Args: cobra.NoArgs,
		Long: `Keep the Secrets of an etcd and a NATS that run as the StatefulSets of the chart: a CA, a certificate for the servers of each and one for
each service, and passwords of NATS's users. Certificates are renewed when a third of their life is left; pods that do not read
them again by themselves are restarted one by one. The services become users of etcd, who may touch the keys of one cluster.

It needs the API server and that etcd. Everything it does can be repeated; one replica is enough.`}
	f := cmd.Flags()
	s.BindProcess(f)
	f.StringVar(&c.Cluster, "cluster-name", "", "name of the cluster; required")
	f.StringVar(&c.Namespace, "system-namespace", podNamespace(), "namespace of the StatefulSets and Secrets")
	f.Lookup("system-namespace").DefValue = "the pod's, else kube-system" // as help shows it
	f.StringVar(&c.Prefix, "prefix", "millwright", "what the names of all objects begin with")
	f.IntVar(&c.EtcdMembers, "etcd-members", 3, "members of the StatefulSet of etcd; 0: it is not the chart's")
	f.IntVar(&c.NATSMembers, "nats-members", 3, "members of the StatefulSet of NATS; 0: it is not the chart's")
	f.BoolVar(&c.Issued, "issued", false, "certificates are issued by somebody else, such as cert-manager, into Secrets of the same names: keep passwords and users, and restart pods")
	f.StringSliceVar(&endpoints, "etcd-endpoints", nil, "endpoints of etcd (default: those of the members)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := process.FromEnvironment(f, os.LookupEnv); err != nil {
			return err
		}
		if err := errors.Join(s.ValidateProcess(), c.Validate()); err != nil {
			return err
		}
		return runCertificates(cmd.Context(), s, certificates.Config{Settings: *c, EtcdEndpoints: endpoints})
	}
	return cmd
}

func runCertificates(ctx context.Context, s *process.Settings, cfg certificates.Config) error {
	logger, err := process.NewLogger(os.Stdout, s.LogLevel)
	if err != nil {
		return err
	}
	logger = logger.With().Str("service", "certificates").Logger()
	process.QuietLibraries(logger)
	registry := prometheus.NewRegistry()
	err = process.Run(ctx, process.Config{
		Settings: *s, Version: version.Version, Logger: logger, Registry: registry, Kube: reviewing(s, registry),
		Build: func(context.Context) (*process.Parts, error) {
			rest, err := kubeConfig(s, registry)
			if err != nil {
				return nil, err
			}
			clock := witnessedClock(rest, registry)
			client, err := kube.New(rest)
			if err != nil {
				return nil, err
			}
			cfg.Core, cfg.Now, cfg.Reliable, cfg.Logger, cfg.Registerer = client.Core, clock.Now, clock.Check, logger, registry
			keeper, err := certificates.New(cfg)
			if err != nil {
				return nil, err
			}
			return &process.Parts{
				Background: []func(context.Context) error{keeper.Run, keepClock(clock, func() kubernetes.Interface { return client.Core }, logger)},
				Ready:      []process.Check{{Name: "certificates", Probe: keeper.Ready}},
			}, nil
		},
	})
	logEnd(logger, err)
	return err
}
