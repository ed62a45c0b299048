package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"millwright/planner/ledger"
	"millwright/services/console"
	"millwright/services/export"
	"millwright/services/internal/process"
	"millwright/services/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "millwright:", err)
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "millwright",
		Short: "Give a Kubernetes cluster on AWS the nodes its pods need",
		Long: `Millwright gives a Kubernetes cluster on AWS the nodes its pods need, and takes them away again.

Run all services in one process:    millwright all --cluster-name NAME --data-dir DIR
or each by itself against an etcd and a NATS of your own:
                                    millwright provisioner --cluster-name NAME --etcd-endpoints URL,… --nats-url URL

Every flag can be set by an environment variable: its name in upper case, with underscores. A flag given on the
command line wins. AWS access is configured as for any AWS SDK: AWS_REGION, credentials, AWS_ENDPOINT_URL.`,
		SilenceUsage: true, SilenceErrors: true, Version: version.Version,
	}
	root.AddCommand(
		newService(ledger.ServiceWatcher, "Publish what is seen in the cluster and in EC2 as observations", true),
		newService(ledger.ServiceProvisioner, "Decide which NodeClaims to make for pending pods", false),
		newService(ledger.ServiceDisruptor, "Decide which nodes to take away, within the budgets", false),
		newService(ledger.ServiceTerminator, "Empty nodes that are going: taint, evict, wait for volumes", false),
		newService(ledger.ServiceLifecycle, "Make, launch, register and terminate NodeClaims; keep NodeClasses", true),
		newConsole(), newExport(), newAll(), newWebhook(), newCertificates(), newVersion(),
	)
	return root
}

// newService is the sub-command of one service against external etcd and NATS.
func newService(name, short string, aws bool) *cobra.Command {
	return newCommand(&cobra.Command{Use: name, Short: short, Long: short + `.

One instance is active, the others stand by: start two. It needs the etcd of the event log and the NATS of the
observation stream.`}, []string{name}, func(cmd *cobra.Command, s *process.Settings) {
		if aws {
			s.BindAWS(cmd.Flags())
		}
		if name == ledger.ServiceWatcher {
			s.BindStream(cmd.Flags())
		}
		if name == ledger.ServiceLifecycle {
			s.BindRetention(cmd.Flags())
		}
	})
}

// newAll is the sub-command of all services in one process.
func newAll() *cobra.Command {
	return newCommand(&cobra.Command{Use: "all", Short: "Run all services in one process, with embedded etcd and NATS",
		Long: `Run all five services, and the console for people, in one process that shares one picture of the cluster; and the export,
if there is a sink for it.

With --data-dir the event log and the observation stream are kept in embedded servers under that directory, which open
no TCP port; other processes of the same user (millctl) reach them through sockets there. Without it, the
etcd and NATS given are used.`}, allServices, func(cmd *cobra.Command, s *process.Settings) {
		s.BindAWS(cmd.Flags())
		s.BindStream(cmd.Flags())
		s.BindRetention(cmd.Flags())
		s.BindEmbedded(cmd.Flags())
	})
}

// allServices in the order in which they are started. Lifecycle comes before the disruptor, which counts in
// one of its metrics.
var allServices = []string{
	ledger.ServiceWatcher, ledger.ServiceLifecycle, ledger.ServiceProvisioner, ledger.ServiceDisruptor, ledger.ServiceTerminator,
}

func newCommand(cmd *cobra.Command, services []string, bind func(*cobra.Command, *process.Settings)) *cobra.Command {
	s, c, x := &process.Settings{}, &console.Settings{}, &export.Settings{}
	s.Bind(cmd.Flags())
	bind(cmd, s)
	if hasConsole(services) {
		c.Bind(cmd.Flags())
	}
	if exports(services) {
		x.Bind(cmd.Flags())
	}
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := process.FromEnvironment(cmd.Flags(), os.LookupEnv); err != nil {
			return err
		}
		if err := errors.Join(s.Validate(), c.Validate()); err != nil {
			return err
		}
		if x.Enabled() {
			if err := x.Validate(); err != nil {
				return err
			}
		}
		return run(cmd.Context(), s, c, x, services)
	}
	return cmd
}

func newVersion() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs, Run: func(cmd *cobra.Command, _ []string) {
		fmt.Fprintln(cmd.OutOrStdout(), version.Version)
	}}
}

func run(ctx context.Context, s *process.Settings, c *console.Settings, x *export.Settings, services []string) error {
	logger, err := process.NewLogger(os.Stdout, s.LogLevel)
	if err != nil {
		return err
	}
	process.QuietLibraries(logger)
	registry := prometheus.NewRegistry()
	err = process.Run(ctx, process.Config{
		Settings: *s, Version: version.Version, Logger: logger, Registry: registry, Kube: reviewing(s, registry),
		Build: func(ctx context.Context) (*process.Parts, error) {
			return build(ctx, s, c, x, services, registry, logger)
		},
	})
	logEnd(logger, err)
	return err
}

func logEnd(logger zerolog.Logger, err error) {
	if err != nil {
		logger.Error().Err(err).Msg("stopped")
		return
	}
	logger.Info().Msg("stopped")
}
