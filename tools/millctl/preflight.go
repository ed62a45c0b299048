package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"millwright/deploy/iam"
	"millwright/services/durability"
	"millwright/store/etcdlog"
	"millwright/tools/millctl/preflight"
)

// preflightTimeout bounds all checks together.
const preflightTimeout = 5 * time.Minute

// preflightFlags of the command.
type preflightFlags struct {
	o                                  output
	namespace, account, service, queue string
	etcdMetrics, natsMonitoring        []string
}

func preflightCommand(t *target) *cobra.Command {
	o := &preflightFlags{}
	cmd := &cobra.Command{
		Use: "preflight", Short: "Check a cluster and its AWS account before Millwright is installed, and after", Args: cobra.NoArgs,
		Long: `Preflight looks for what would keep Millwright from working, and says what to do about it: the version of Kubernetes, CRDs and their fields,
nodes to run on, another autoscaler that is active, the rights of the services' accounts (before the installation: yours to install),
the statements of the IAM policy as far as AWS can be asked without doing anything, the interruption queue, what EC2NodeClasses
select, the bucket of the archive, and settings of an external etcd and NATS that are unsafe. It changes nothing; what it cannot find out it lists as skipped.

Credentials are those of any AWS SDK: in a pod of Millwright those of its service (--service watcher or lifecycle, in mode distributed).

Exit status: 0 if nothing failed (warnings are listed all the same), 2 if a check failed, 1 on an error.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.o.check(); err != nil {
				return err
			}
			if o.service != iam.All && !slices.Contains(iam.Services, o.service) {
				return fmt.Errorf("--service is one of %s, or %s, not %q", strings.Join(iam.Services, ", "), iam.All, o.service)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), preflightTimeout)
			defer cancel()
			cfg, err := o.config(ctx, t)
			if err != nil {
				return err
			}
			results := preflight.Run(ctx, cfg)
			if err := o.o.write(cmd.OutOrStdout(), results, func(out io.Writer) error { return printResults(out, results) }); err != nil {
				return err
			}
			if slices.ContainsFunc(results, func(r preflight.Result) bool { return r.Verdict == preflight.Failed }) {
				return unclean
			}
			return nil
		},
	}
	f := cmd.Flags()
	o.o.register(f)
	f.StringVar(&o.namespace, "namespace", releaseNamespace(), "namespace that Millwright is, or will be, installed in")
	f.StringVar(&o.account, "service-account", "millwright", "name of the ServiceAccount, before the dash and the service's name in mode distributed")
	f.StringVar(&o.service, "service", iam.All, "whose IAM policy the credentials are to have: "+strings.Join(iam.Services, ", ")+", or "+iam.All)
	f.StringVar(&o.queue, "interruption-queue", os.Getenv("INTERRUPTION_QUEUE"), "name of the interruption queue")
	f.StringSliceVar(&o.etcdMetrics, "etcd-metrics-urls", nil, "metrics pages of etcd's members (default: where those of --etcd-endpoints have them)")
	f.StringSliceVar(&o.natsMonitoring, "nats-monitoring-urls", nil, "monitoring pages of NATS's servers (default: port 8222 of those of --nats-url)")
	return cmd
}

// config leaves out what is not known.
func (o *preflightFlags) config(ctx context.Context, t *target) (preflight.Config, error) {
	cfg := preflight.Config{Cluster: t.cluster, Namespace: o.namespace, Account: o.account, Service: o.service, Queue: o.queue, Archive: t.archiveDir,
		Servers: durability.Config{EtcdMetrics: o.etcdMetrics, NATSMonitoring: o.natsMonitoring}}
	kube, err := t.console.Loader().ClientConfig()
	switch {
	case err == nil:
		kube.QPS = -1 // a review for each right, one after the other
		cfg.Kube = kube
	case !clientcmd.IsEmptyConfig(err):
		return cfg, fmt.Errorf("read kubeconfig: %w", err)
	}
	sdk, err := config.LoadDefaultConfig(ctx)
	switch {
	case err != nil:
		cfg.AWSError = err
	case sdk.Region == "":
		cfg.AWSError = fmt.Errorf("no region: set AWS_REGION")
	default:
		cfg.AWS = &sdk
	}
	servers := &cfg.Servers
	if servers.EtcdClient, err = t.security.EtcdHTTP(); err != nil {
		return cfg, fmt.Errorf("etcd: %w", err)
	}
	if servers.NATSClient, err = t.security.NATSHTTP(); err != nil {
		return cfg, fmt.Errorf("NATS: %w", err)
	}
	if len(t.endpoints) > 0 {
		servers.EtcdMembers = t.etcdMembers
		if len(servers.EtcdMetrics) == 0 {
			servers.EtcdMetrics = durability.EtcdPages(t.endpoints)
		}
	}
	if len(servers.NATSMonitoring) == 0 {
		servers.NATSMonitoring = durability.NATSPages(t.natsURL, t.security.NATSCAFile != "")
	}
	return cfg, nil
}

func (t *target) etcdMembers(ctx context.Context) (int, error) {
	security, err := t.security.Etcd()
	if err != nil {
		return 0, err
	}
	client, err := etcdlog.Dial(etcdlog.DialConfig{Endpoints: t.endpoints, Security: security})
	if err != nil {
		return 0, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return etcdlog.Members(ctx, client)
}

func printResults(out io.Writer, results []preflight.Result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CHECK\tVERDICT\tOBJECT\tMESSAGE")
	count := map[preflight.Verdict]int{}
	for _, r := range results {
		count[r.Verdict]++
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Check, r.Verdict, r.Object, r.Message)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		if r.Remedy != "" && (r.Verdict == preflight.Failed || r.Verdict == preflight.Warning) {
			fmt.Fprintf(out, "\n%s %s: %s\n  %s\n", r.Verdict, strings.TrimSpace(r.Check+" "+r.Object), r.Message, r.Remedy)
		}
	}
	_, err := fmt.Fprintf(out, "\n%d ok, %d warnings, %d failed, %d skipped\n", count[preflight.OK], count[preflight.Warning], count[preflight.Failed], count[preflight.Skipped])
	return err
}

// releaseNamespace is, in a pod, its own.
func releaseNamespace() string {
	if name, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace"); err == nil {
		return strings.TrimSpace(string(name))
	}
	return metav1.NamespaceSystem
}
