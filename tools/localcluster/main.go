// Command localcluster runs a Kubernetes control plane on this machine: an embedded etcd, the real
// kube-apiserver, kube-controller-manager and kube-scheduler, and KWOK, which acts as the kubelet of Nodes
// that carry the annotation kwok.x-k8s.io/node=fake.
//
// Each component is a child process of this same binary, so that each can be killed separately and is
// restarted, as a kubelet would do.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	if run := componentFor(os.Args); run != nil {
		os.Args = append(os.Args[:1], os.Args[2:]...)
		os.Exit(run())
	}
	resetGlobalFlags()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "localcluster:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	cfg := Config{}
	cmd := &cobra.Command{
		Use:   "localcluster",
		Short: "Run a Kubernetes " + kubernetesVersion() + " control plane with simulated nodes on this machine",
		Long: `Runs an embedded etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK in the foreground
until SIGTERM or SIGINT. The kubeconfig (cluster admin) is written when the API server is ready and pods can
be created. Started again on the same data directory, it comes back with its objects, certificates and port.

A Node with the annotation kwok.x-k8s.io/node=fake is made Ready, heartbeats, and runs the pods bound to it.
The process id of each component is in DATA-DIR/pids; a component that ends is started again.`,
		Version:       kubernetesVersion(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return Run(cmd.Context(), cfg) },
	}
	f := cmd.Flags()
	f.StringVar(&cfg.DataDir, "data-dir", "", "directory for etcd, certificates and logs (required)")
	f.StringVar(&cfg.Kubeconfig, "kubeconfig", "", "file the admin kubeconfig is written to (default DATA-DIR/kubeconfig)")
	f.StringVar(&cfg.BindAddress, "bind-address", "127.0.0.1", "address the API server listens on")
	f.IntVar(&cfg.SecurePort, "secure-port", 0, "port of the API server (0: a free one, kept for the data directory)")
	f.StringVar(&cfg.AdvertiseHost, "advertise-host", "", "host name or address clients use, in the kubeconfig and the certificate (default: the bind address)")
	f.StringVar(&cfg.ServiceCIDR, "service-cidr", "10.100.0.0/16", "range of Service addresses")
	f.BoolVar(&cfg.Fsync, "fsync", false, "make etcd flush every write to disk")
	f.StringSliceVar(&cfg.APIServerArgs, "kube-apiserver-arg", nil, "extra argument for kube-apiserver (repeatable)")
	f.StringSliceVar(&cfg.SchedulerArgs, "kube-scheduler-arg", nil, "extra argument for kube-scheduler (repeatable)")
	f.StringSliceVar(&cfg.ControllerManagerArgs, "kube-controller-manager-arg", nil, "extra argument for kube-controller-manager (repeatable)")
	_ = cmd.MarkFlagRequired("data-dir")
	return cmd
}
