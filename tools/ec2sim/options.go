package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/sim"
	"millwright/tools/ec2sim/simclient"
)

// options are the command's flags.
type options struct {
	listen, endpointFile, kubeconfig, dataDir         string
	cluster, region, version, endpoint, cidr, account string
	zones, zoneGroups, roles                          []string
	seed                                              int64
	deleteNodes                                       bool
	memoryOverhead                                    float64
	logLevel, logFormat, policies                     string

	pending, shuttingDown, consistency, iam, spotNotice, boot, ready, devices time.Duration
}

const longHelp = `ec2sim simulates an AWS account for node autoscalers on one local port: EC2, SSM, EKS, IAM, Pricing, SQS and
STS as the AWS SDK speaks them. Point a program at it with

  export AWS_ENDPOINT_URL=http://127.0.0.1:PORT AWS_REGION=us-west-2 AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any

A new account holds, for a cluster named NAME:
  - a VPC with one private subnet per zone (tags karpenter.sh/discovery=NAME, Name=NAME-private-ZONE) and one public one
  - security groups eks-cluster-sg-NAME and NAME-node (tag karpenter.sh/discovery=NAME), and default
  - role KarpenterNodeRole-NAME, instance profile KarpenterNodeInstanceProfile-NAME, queue NAME
  - AL2023 and Bottlerocket images for the Kubernetes version and its neighbours (AL2 up to 1.32), with SSM parameters
  - over a thousand instance types with their prices and zones

With --kubeconfig, running instances decode their user data and register as Nodes with the annotation
kwok.x-k8s.io/node=fake; run KWOK with that selector to make them Ready.

Controls for tests (capacity, faults, throttling, delays, prices, interruptions, the ledger of launches) are under
/_control/; GET /_control/ lists them. GET /healthz answers ok.`

func command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use: "ec2sim", Short: "Simulate an AWS account for node autoscalers", Long: longHelp, Args: cobra.NoArgs,
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o) },
	}
	o.accountFlags(cmd)
	o.delayFlags(cmd)
	return cmd
}

func (o *options) accountFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:0", "address to serve on; port 0 chooses a free one, printed at start")
	f.StringVar(&o.endpointFile, "endpoint-file", "", "write the URL to this file once serving")
	f.StringVar(&o.dataDir, "data-dir", "", "keep the account in this directory, so that a restart keeps its instances (default: in memory only)")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "boot instances into this cluster; waits for the file to appear (default: boot no nodes)")
	f.StringVar(&o.cluster, "cluster-name", "millwright", "EKS cluster name, also of the queue and in the discovery tags")
	f.StringVar(&o.endpoint, "cluster-endpoint", "", "API server URL that EKS reports and user data must name (default: the kubeconfig's server)")
	f.StringVar(&o.cidr, "service-cidr", "10.100.0.0/16", "service CIDR that EKS reports")
	f.StringVar(&o.version, "kubernetes-version", "1.36", "Kubernetes minor version of the cluster and its images")
	f.StringVar(&o.region, "region", "us-west-2", "AWS region")
	f.StringSliceVar(&o.zones, "zones", nil, "zones by name or letter, such as a,b (default: all of the region)")
	f.StringSliceVar(&o.zoneGroups, "zone-groups", nil, "groups of local and Wavelength zones that the account has opted in to, such as us-west-2-lax-1,us-west-2-wl1: a subnet without the discovery tag in each zone")
	f.StringVar(&o.account, "account-id", "111122223333", "AWS account id")
	f.StringSliceVar(&o.roles, "role", nil, "further IAM roles that exist")
	f.StringVar(&o.policies, "policies", "", "enforce IAM policies: a JSON file with a policy document per access key; other keys may do everything")
	f.Int64Var(&o.seed, "seed", 1, "seed of spot prices and of fault rates")
	f.BoolVar(&o.deleteNodes, "delete-nodes-of-terminated-instances", false, "delete the Node of each terminated instance, as a cloud controller does after a while; else only of those that Millwright had not registered")
	f.Float64Var(&o.memoryOverhead, "vm-memory-overhead-percent", 0.075, "share of a type's memory that the guest does not see")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "json", "json or console")
}

func (o *options) delayFlags(cmd *cobra.Command) {
	f, d := cmd.Flags(), sim.DefaultSettings()
	f.DurationVar(&o.pending, "pending-delay", time.Duration(d.Pending), "how long a launched instance stays pending")
	f.DurationVar(&o.shuttingDown, "shutting-down-delay", time.Duration(d.ShuttingDown), "how long a terminated instance shuts down")
	f.DurationVar(&o.consistency, "consistency-delay", 0, "how old the answers of Describe* calls are")
	f.DurationVar(&o.iam, "iam-delay", 0, "how long EC2 refuses a new instance profile")
	f.DurationVar(&o.spotNotice, "spot-notice", time.Duration(d.SpotNotice), "time from a spot interruption warning to the end of the instance")
	f.DurationVar(&o.boot, "boot-delay", time.Duration(d.Boot), "from running to the registration of the Node")
	f.DurationVar(&o.ready, "ready-delay", 0, "from registration until KWOK may make the Node Ready")
	f.DurationVar(&o.devices, "device-plugin-delay", 0, "from registration until GPUs and other devices are in the Node's capacity")
}

func (o *options) settings() simclient.Settings {
	return simclient.Settings{
		Pending: simclient.Duration(o.pending), ShuttingDown: simclient.Duration(o.shuttingDown),
		Consistency: simclient.Duration(o.consistency), IAM: simclient.Duration(o.iam),
		Retention: sim.DefaultSettings().Retention, SpotNotice: simclient.Duration(o.spotNotice),
		Boot: simclient.Duration(o.boot), Ready: simclient.Duration(o.ready), DevicePlugins: simclient.Duration(o.devices),
	}
}

func (o *options) logger() zerolog.Logger {
	level, err := zerolog.ParseLevel(o.logLevel)
	if err != nil {
		level = zerolog.InfoLevel
	}
	log := zerolog.New(os.Stderr)
	if o.logFormat == "console" {
		log = log.Output(zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: time.TimeOnly})
	}
	return log.Level(level).With().Timestamp().Str("service", "ec2sim").Logger()
}

// kubeConfig waits for the kubeconfig to appear; nil without the flag.
func (o *options) kubeConfig(ctx context.Context, log zerolog.Logger) (*rest.Config, error) {
	if o.kubeconfig == "" {
		return nil, nil
	}
	for waited := false; ; waited = true {
		config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
		if err == nil {
			return config, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read kubeconfig: %w", err)
		}
		if !waited {
			log.Info().Str("kubeconfig", o.kubeconfig).Msg("waiting for kubeconfig")
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for kubeconfig: %w", ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// enforce has the account enforce the policies of the file, if one is given.
func (o *options) enforce(server *sim.Server) error {
	if o.policies == "" {
		return nil
	}
	data, err := os.ReadFile(o.policies)
	if err != nil {
		return fmt.Errorf("read policies: %w", err)
	}
	documents := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &documents); err != nil {
		return fmt.Errorf("read policies: %w", err)
	}
	return server.Enforce(documents)
}

func (o *options) simConfig(config *rest.Config, log zerolog.Logger) (sim.Config, error) {
	c := sim.Config{
		ClusterName: o.cluster, Region: o.region, Zones: o.zones, ZoneGroups: o.zoneGroups, KubernetesVersion: strings.TrimPrefix(o.version, "v"),
		ClusterEndpoint: o.endpoint, ServiceCIDR: o.cidr, AccountID: o.account, Roles: o.roles, Seed: o.seed,
		Settings: o.settings(), Log: log,
	}
	if err := catalogue.NewRegion(cmp.Or(o.region, "us-west-2"), "").OptIn(o.zoneGroups); err != nil {
		return c, err
	}
	if config == nil {
		return c, nil
	}
	if c.ClusterEndpoint == "" {
		c.ClusterEndpoint = config.Host
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return c, fmt.Errorf("load the kubeconfig's certificates: %w", err)
	}
	c.ClusterCA = config.CAData
	return c, nil
}

// announce prints the URL and writes the endpoint file atomically.
func (o *options) announce(url string) error {
	fmt.Println(url)
	if o.endpointFile == "" {
		return nil
	}
	temporary := filepath.Join(filepath.Dir(o.endpointFile), "."+filepath.Base(o.endpointFile)+".new")
	if err := os.WriteFile(temporary, []byte(url+"\n"), 0o644); err != nil {
		return fmt.Errorf("write endpoint file: %w", err)
	}
	if err := os.Rename(temporary, o.endpointFile); err != nil {
		return fmt.Errorf("write endpoint file: %w", err)
	}
	return nil
}
